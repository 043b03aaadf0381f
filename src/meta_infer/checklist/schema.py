"""The checklist as data: its items, how a file of one's own extends it, and what is wrong with such a file."""

from __future__ import annotations

import difflib
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from meta_infer.checklist.probe import ALWAYS, Probe
from meta_infer.checklist.probes import PROBES
from meta_infer.hardware.schema import Name, Section
from meta_infer.support.errors import UsageError

Severity = Literal["blocker", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("blocker", "warning", "note")
HINT = "docs/checklist.md lists the fields, the probes and what their messages may use"
_WORDING = {"missing": "is missing", "model_type": "expected a mapping of keys", "tuple_type": "expected a list",
            "dict_type": "expected a mapping of keys"}
_REQUIRED = ("title", "severity", "probe", "message")


class ItemFields(Section):
    """One entry of a checklist file. Only `id` is needed to change an item that exists already."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")] = Field(description="name of the item")
    title: Name | None = Field(None, description="what is checked, in a few words")
    severity: Severity | None = Field(None, description="blocker, warning or note")
    probe: Name | None = Field(None, description="what computes it")
    params: dict[str, Any] | None = Field(None, description="parameters of the probe")
    message: Name | None = Field(None, description="what to say of a finding, with {placeholders}")
    hint: str | None = Field(None, description="what to do about it")
    when: Literal["always", "low_precision"] | None = Field(
        None, description="always, or low_precision: only when values have fewer than 32 bits")
    show: Annotated[int, Field(ge=1)] | None = Field(None, description="most findings that the table lists")
    enabled: bool | None = Field(None, description="false leaves the item out")


@dataclass(frozen=True)
class Item:
    """A complete, checked item. `params` is the model of its probe's parameters."""

    id: str
    title: str
    severity: Severity
    probe: Probe
    params: Section
    message: str
    hint: str
    when: str
    show: int


def load_checklist(extension: Path | None = None) -> tuple[Item, ...]:
    """The items that ship, changed and extended by those of a file. Raises UsageError naming item and field."""
    shipped = files("meta_infer.checklist") / "checklist.yaml"
    entries = _read(shipped.read_text(encoding="utf-8"), "checklist.yaml")
    if extension is not None:
        try:
            text = extension.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot be read: {error}", what=f"--checklist {extension}",
                             hint="give a YAML file") from error
        entries = _merged(entries, _read(text, str(extension)))
    return tuple(_complete(entry, str(extension or "checklist.yaml")) for entry in entries.values()
                 if entry.get("enabled", True))


Entries = dict[str, dict[str, Any]]


def _merged(base: Entries, more: Entries) -> Entries:
    """Fields of `more` win; parameters are given as a whole."""
    merged = dict(base)
    for name, entry in more.items():
        merged[name] = {**merged.get(name, {}), **entry}
    return merged


def _read(text: str, where: str) -> Entries:
    try:
        tree = YAML(typ="safe").load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        raise UsageError(f"{line}is not YAML: {getattr(error, 'problem', None) or error}", what=where,
                         hint=HINT) from error
    items = tree.get("items") if isinstance(tree, Mapping) else None
    if not isinstance(items, list) or len(tree) != 1:
        raise UsageError("expected one key, `items`, with a list", what=where, hint=HINT)
    found: Entries = {}
    for i, raw in enumerate(items):
        entry = _entry(raw, i, where)
        if entry["id"] in found:
            raise UsageError("stands twice", what=f"{where}: item {entry['id']!r}", hint="give each item its own id")
        found[entry["id"]] = entry
    return found


def _entry(raw: Any, i: int, where: str) -> dict[str, Any]:
    name = raw.get("id") if isinstance(raw, Mapping) else None
    what = f"{where}: item {name!r}" if isinstance(name, str) else f"{where}: item {i + 1}"
    try:
        return ItemFields.model_validate(raw).model_dump(exclude_none=True)
    except ValidationError as error:
        raise _wrong(error, what) from None


def _wrong(error: ValidationError, what: str, prefix: str = "") -> UsageError:
    """The first finding as an error that names the field."""
    found = error.errors()[0]
    path = [str(part) for part in found["loc"] if part != "[key]"]
    if found["type"] == "unknown_key":
        path.append(found["ctx"]["key"])
    field = prefix + ".".join(path)
    text = _WORDING.get(found["type"], found["msg"].replace("Input should be", "expected").replace(
        "String should", "text should"))
    got = f", got {found['input']!r}" if found["type"] not in ("missing", "unknown_key") and len(
        repr(found["input"])) < 60 else ""
    return UsageError(f"{text}{got}", what=f"{what}: {field}" if field else what, hint=HINT)


def _complete(entry: Mapping[str, Any], where: str) -> Item:
    what = f"{where}: item {entry['id']!r}"
    missing = [name for name in _REQUIRED if name not in entry]
    if missing:
        raise UsageError(f"{missing[0]} is missing: no item of that name ships, so it needs {', '.join(_REQUIRED)}",
                         what=what, hint=HINT)
    probe = PROBES.get(entry["probe"])
    if probe is None:
        near = difflib.get_close_matches(entry["probe"], PROBES, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"probes are {', '.join(PROBES)}"
        raise UsageError(f"there is no probe {entry['probe']!r}", what=f"{what}: probe", hint=hint)
    try:
        params = probe.params.model_validate(_tuples(entry.get("params", {})))
    except ValidationError as error:
        raise _wrong(error, what, "params.") from None
    hint = entry.get("hint", "")
    for field, text in (("message", entry["message"]), ("hint", hint)):
        _check_template(text, (*probe.values, *ALWAYS), f"{what}: {field}")
    return Item(entry["id"], entry["title"], entry["severity"], probe, params, entry["message"], hint,
                entry.get("when", "always"), entry.get("show", 5))


def _check_template(text: str, known: Iterable[str], what: str) -> None:
    names = list(known)
    try:
        used = [name for _, name, *_ in string.Formatter().parse(text) if name is not None]
        text.format(**dict.fromkeys(names, 0))
    except (ValueError, IndexError, KeyError, AttributeError, TypeError):
        used = [name for name in _placeholders(text) if name not in names]
        wrong = f"placeholder {used[0]!r} is unknown" if used else "braces do not match"
        raise UsageError(f"{wrong}; it may use {', '.join(f'{{{name}}}' for name in names)}", what=what,
                         hint="write {{ for a brace") from None
    if wild := [name for name in used if name not in names]:
        raise UsageError(f"placeholder {wild[0]!r} is unknown; it may use {', '.join(f'{{{n}}}' for n in names)}",
                         what=what, hint="write {{ for a brace")


def _placeholders(text: str) -> list[str]:
    try:
        return [name for _, name, *_ in string.Formatter().parse(text) if name is not None]
    except ValueError:
        return []


def _tuples(value: Any) -> Any:
    """Lists as the tuples that strict models want."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
