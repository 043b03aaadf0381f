"""Turn what pydantic found wrong with a profile into one error a user can act on."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from meta_infer.hardware.schema import Section
from meta_infer.support.errors import ProfileError

HINT = "`meta-infer hardware show edge_npu_v2` prints an example; docs/hardware-profiles.md lists the fields"
_WORDING = {
    "missing": "is missing",
    "tuple_type": "expected a list",
    "dict_type": "expected a mapping of keys",
    "model_type": "expected a mapping of keys",
}


def profile_error(
        error: ValidationError, root: type[Section], prefix: str, tree: Any, where: str) -> ProfileError:
    """All findings of `error` as one ProfileError with line, path of the field, and what is expected there.

    `root` is the model that was validated, `prefix` the key it stands under in the file ('' for the top),
    `tree` the file as ruamel.yaml read it, with line numbers; `where` names the file.
    """
    lines = []
    for item in error.errors():
        path = _path(item)
        full = (prefix, *path) if prefix else path
        line = _line(tree, full)
        parts = (f"line {line}" if line else "", _dotted(full), _explain(item, root, path))
        lines.append(": ".join(part for part in parts if part))
    problem = lines[0] if len(lines) == 1 else f"{len(lines)} problems\n  " + "\n  ".join(lines)
    return ProfileError(problem, what=where, hint=HINT)


def _path(item: ErrorDetails) -> tuple[int | str, ...]:
    path = tuple(part for part in item["loc"] if part != "[key]")
    return (*path, item["ctx"]["key"]) if item["type"] == "unknown_key" else path


def _explain(item: ErrorDetails, root: type[Section], path: Sequence[int | str]) -> str:
    """'expected a valid integer, got 'four' (units that work in parallel)'."""
    if item["type"] == "unknown_key":
        return item["msg"]
    if item["type"] == "value_error":
        text = str(item["ctx"]["error"])
    else:
        text = _WORDING.get(item["type"]) or item["msg"].replace("Input should be", "expected").replace(
            "String should", "text should")
    shown = repr(item["input"])
    got = f", got {shown}" if item["type"] != "missing" and len(shown) < 60 else ""
    about = _description(root, path)
    return f"{text}{got}{f' ({about})' if about else ''}"


def _description(root: type[Section], path: Iterable[int | str]) -> str:
    """The description of the field at `path`, '' where there is none."""
    model: type[Section] | None = root
    about = ""
    for part in path:
        if isinstance(part, int) or model is None:
            continue
        found = next((f for name, f in model.model_fields.items() if part in (name, f.alias)), None)
        if found is None:
            return ""
        about, model = found.description or "", _section_in(found.annotation)
    return about


def _section_in(annotation: Any) -> type[Section] | None:
    """The Section class inside `Section | None` or `tuple[Section, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    inner = (_section_in(argument) for argument in typing.get_args(annotation))
    return next((section for section in inner if section is not None), None)


def _line(tree: Any, path: Iterable[int | str]) -> int | None:
    """1-based line of the deepest part of `path` that the file has, None for an empty path."""
    line, node = None, tree
    for part in path:
        position = getattr(node, "lc", None)
        try:
            line = (position.key(part) if isinstance(part, str) else position.item(part))[0] + 1  # type: ignore
            node = node[part]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
    return line


def _dotted(path: Iterable[int | str]) -> str:
    """'devices[0].clock_ghz' for ('devices', 0, 'clock_ghz')."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
