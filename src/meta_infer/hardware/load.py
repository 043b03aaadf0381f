"""Profiles by name or path: `native`, the ones that ship in catalog/, and files."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from meta_infer.hardware.left_out import left_out
from meta_infer.hardware.probe import probe
from meta_infer.hardware.problems import HINT, profile_error
from meta_infer.hardware.profile import Profile
from meta_infer.hardware.schema import Accelerator, Chip
from meta_infer.support.errors import ProfileError
from meta_infer.support.switches import read_switches

NATIVE = "native"
_MOST_VALUES = 10_000


def catalog_names() -> list[str]:
    """Names of the profiles that ship with the package, sorted; `native` is not among them."""
    folder = files("meta_infer.hardware") / "catalog"
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def load_profile(name_or_path: str | os.PathLike[str]) -> Profile:
    """The profile called 'native' (this machine), a catalog name, or a path to a YAML file.

    Raises ProfileError: not found (with the nearest name), not YAML, or not what the schema says.
    """
    name = os.fspath(name_or_path)
    if name == NATIVE:
        return _this_machine(frozenset(os.sched_getaffinity(0)), calibrated_file())
    if name in catalog_names():
        resource = files("meta_infer.hardware") / "catalog" / f"{name}.yaml"
        return parse_profile(resource.read_text(encoding="utf-8"), name)
    path = Path(name)
    if path.is_file():
        return parse_profile(_read(path), name)
    raise _not_found(name)


def calibrated_file() -> Path:
    """Where `meta-infer hardware calibrate` leaves the profile of this machine."""
    return read_switches().cache / "native.yaml"


@cache
def _this_machine(cpus: frozenset[int], calibrated: Path) -> Profile:
    """The machine as `cpus` of it show; it is read once a process, a build asks for it several times.

    What a calibration fitted on such a CPU is taken from the file `calibrated`; all else is as it is found now.
    """
    text, unread = probe(cpus=cpus)
    profile = parse_profile(text, NATIVE, warnings=unread)
    if not calibrated.is_file():
        return profile
    try:
        known = parse_profile(_read(calibrated), str(calibrated))
    except ProfileError as error:
        return replace(profile, warnings=(*unread, f"not calibrated: {error}"))
    if (known.chip.description, known.isa) != (profile.chip.description, profile.isa):
        return replace(profile, warnings=(*unread, f"not calibrated: {calibrated} is of another CPU"))
    return replace(profile, chip=profile.chip.model_copy(update={"cost": known.chip.cost}))


def parse_profile(text: str, where: str, warnings: tuple[str, ...] | None = None) -> Profile:
    """The profile that YAML `text` describes, in the minimal or the full form; `where` names it in errors.

    `warnings` replaces the list of what the text leaves out. Raises ProfileError.
    """
    tree = _parse_yaml(text, where)
    if not isinstance(tree, Mapping):
        raise ProfileError("expected a mapping of keys", what=where, hint=HINT)
    prefix = "accelerator" if "accelerator" in tree else ""
    if prefix and len(tree) > 1:
        others = ", ".join(repr(key) for key in tree if key != prefix)
        raise ProfileError(f"'accelerator' is the minimal form and stands alone, not beside {others}",
                           what=where, hint="use the full form alone, see docs/hardware-profiles.md")
    model = Accelerator if prefix else Chip
    values = _plain(tree[prefix] if prefix else tree, where)
    try:
        stated = model.model_validate(values)
    except ValidationError as error:
        raise profile_error(error, model, prefix, tree, where) from None
    chip = stated.expand() if isinstance(stated, Accelerator) else stated
    assert isinstance(chip, Chip)
    return Profile.from_chip(chip, text, left_out(chip) if warnings is None else warnings)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"cannot be read: {error}", what=str(path), hint="give a YAML file") from None


def _parse_yaml(text: str, where: str) -> Any:
    try:
        return YAML(typ="rt").load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ProfileError(f"{line}is not YAML: {reason}", what=where,
                           hint="check brackets, quotes and indentation there") from None
    except RecursionError:
        raise ProfileError("is nested too deep", what=where, hint=HINT) from None
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError, MemoryError) as error:
        # Texts that YAML's grammar allows and Python's types do not: numbers of 5000 digits, dates that do not exist.
        raise ProfileError(f"holds a value that cannot be read: {str(error).split(';')[0]}", what=where,
                           hint=HINT) from None


def _plain(tree: Any, where: str) -> Any:
    """Built-in values without ruamel.yaml's line numbers; lists become tuples.

    Raises ProfileError for a text whose anchors unfold into more values than any profile has, or into themselves.
    """
    count = 0

    def plain(node: Any) -> Any:
        nonlocal count
        count += 1
        if count > _MOST_VALUES:
            raise ProfileError(f"holds more than {_MOST_VALUES} values once its anchors are unfolded", what=where,
                               hint="write the values out, without & and *")
        if isinstance(node, Mapping):
            return {key: plain(value) for key, value in node.items()}
        if isinstance(node, list):
            return tuple(plain(value) for value in node)
        for kind in (bool, int, float, str):
            if isinstance(node, kind):
                return kind(node)
        return node

    try:
        return plain(tree)
    except RecursionError:
        raise ProfileError("is nested too deep", what=where, hint=HINT) from None


def _not_found(name: str) -> ProfileError:
    names = [NATIVE, *catalog_names()]
    if os.sep in name or name.endswith((".yaml", ".yml")):
        problem = "is a folder, expected a YAML file" if Path(name).is_dir() else "no such file"
        near = difflib.get_close_matches(Path(name).stem, names, n=1)
    else:
        problem = "is neither a profile's name nor a file"
        near = difflib.get_close_matches(name, names, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return ProfileError(problem, what=repr(name), hint=f"{guess}profiles that ship: {', '.join(names)}")
