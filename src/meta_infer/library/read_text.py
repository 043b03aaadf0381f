"""Reading an exported text back, as hands may have edited it: every field is checked, and a wrong one named by line."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from json.decoder import JSONDecoder
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from meta_infer.library.decisions import Decision
from meta_infer.library.rows import DECISIONS, SAMPLES, Row, Table
from meta_infer.library.samples import Sample
from meta_infer.library.write_text import TEXT_VERSION, Form
from meta_infer.support.errors import LibraryError

_HINT = "docs/library.md has the fields; `meta-infer library export` writes an example"
_MOST_PROBLEMS = 5
_DECODER = JSONDecoder()
_WORD = re.compile(r"[^ \t\r\n]")


@dataclass(frozen=True)
class _Place:
    """A value and where it stands: its line in YAML, its index in JSON. Lists and mappings hold places again."""

    value: Any
    at: int


class _Unreadable(Exception):
    """The text is not YAML or JSON, or not of this kind: the line, and what is wrong there."""


def read_text(text: str, form: Form, where: str) -> tuple[list[Sample], list[Decision]]:
    """The rows of a text; `where` names it in errors. Raises LibraryError with the lines and fields that are wrong."""
    line_of: Callable[[int], int] = (lambda at: at) if form == "yaml" else (lambda at: text.count("\n", 0, at) + 1)
    try:
        document = _parse_yaml(text) if form == "yaml" else _parse_json(text)
        sections = _sections(document, line_of)
    except _Unreadable as problem:
        raise LibraryError(str(problem), what=where, hint=_HINT) from None
    except RecursionError:
        raise LibraryError("is nested too deep", what=where, hint=_HINT) from None
    problems: list[str] = []
    samples = _rows(SAMPLES, sections.get("samples", []), line_of, problems)
    decisions = _rows(DECISIONS, sections.get("decisions", []), line_of, problems)
    if problems:
        more = f"\n  and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
        shown = problems[0] if len(problems) == 1 else f"{len(problems)} problems\n  " + "\n  ".join(
            problems[:_MOST_PROBLEMS]) + more
        raise LibraryError(shown, what=where, hint=_HINT)
    return samples, decisions


def _sections(document: _Place, line_of: Callable[[int], int]) -> dict[str, list[_Place]]:
    """The lists of rows. Raises _Unreadable where the text is not of this kind."""
    if not isinstance(document.value, dict) or "library" not in document.value:
        raise _Unreadable("is not an exported library: no field 'library' at its top")
    version = document.value["library"]
    if version.value != TEXT_VERSION or isinstance(version.value, bool):
        raise _Unreadable(f"line {line_of(version.at)}: library: is of version {version.value!r}, "
                          f"this meta-infer knows {TEXT_VERSION}")
    found = {}
    for name, place in document.value.items():
        if name == "library":
            continue
        if name not in (SAMPLES.name, DECISIONS.name):
            raise _Unreadable(f"line {line_of(place.at)}: {name!r} is unknown here, beside 'samples' and 'decisions'")
        if not isinstance(place.value, list):
            raise _Unreadable(f"line {line_of(place.at)}: {name}: expected a list")
        found[name] = place.value
    return found


def _rows(table: Table[Row], places: list[_Place], line_of: Callable[[int], int], problems: list[str]) -> list[Row]:
    """The rows that are right; what is wrong with the others goes to `problems`."""
    needed = [f.name for f in fields(table.make) if f.default is MISSING and f.default_factory is MISSING]
    needed += [name for name in table.place if name not in needed and name == "key"]
    seen: dict[tuple[Any, ...], int] = {}
    made = []
    for index, place in enumerate(places):
        if not isinstance(place.value, dict):
            problems.append(f"line {line_of(place.at)}: {table.name}[{index}]: expected fields")
            continue
        wrong, values = [], {}
        for name, item in place.value.items():
            try:
                values[name] = table.checked(name, _plain(item)) if name in table.fields else _unknown(table, name)
            except ValueError as problem:
                wrong.append(f"line {line_of(item.at)}: {table.name}[{index}].{problem}")
        wrong += [f"line {line_of(place.at)}: {table.name}[{index}].{name}: is missing" for name in needed
                  if name not in place.value]
        if not wrong:
            row = table.make(**values)
            key = tuple(getattr(row, name) for name in table.place)
            if key in seen:
                wrong.append(f"line {line_of(place.at)}: {table.name}[{index}]: has the same "
                             f"{', '.join(table.place)} as {table.name}[{seen[key]}]")
            seen.setdefault(key, index)
            made.append(row)
        problems += wrong
    return made


def _unknown(table: Table[Row], name: str) -> Any:
    near = difflib.get_close_matches(name, table.fields, n=1)
    raise ValueError(f"{name}: is no field of {table.name}" + (f", did you mean {near[0]!r}?" if near else ""))


def _plain(value: Any) -> Any:
    """A value without places."""
    if not isinstance(value, _Place):
        return value
    if isinstance(value.value, dict):
        return {name: _plain(item) for name, item in value.value.items()}
    return [_plain(item) for item in value.value] if isinstance(value.value, list) else value.value


def _parse_yaml(text: str) -> _Place:
    try:
        node = YAML(typ="safe", pure=True).compose(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise _Unreadable(f"{line}is not YAML: {reason}") from None
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        raise _Unreadable(f"is not YAML: {error}") from None
    return _of_node(node, set()) if node is not None else _Place(None, 1)


def _of_node(node: Node, seen: set[int]) -> _Place:
    line = node.start_mark.line + 1
    if id(node) in seen:                                        # anchors could unfold into any number of values
        raise _Unreadable(f"line {line}: is used a second time by an alias; write the value out, without & and *")
    seen.add(id(node))
    if isinstance(node, SequenceNode):
        return _Place([_of_node(item, seen) for item in node.value], line)
    if not isinstance(node, MappingNode):
        return _Place(_scalar(node), line)
    found: dict[str, _Place] = {}
    for key, item in node.value:
        name = str(key.value)
        if name in found:
            raise _Unreadable(f"line {key.start_mark.line + 1}: {name!r} stands there twice")
        place = _of_node(item, seen)
        found[name] = _Place(place.value, key.start_mark.line + 1)
    return _Place(found, line)


def _scalar(node: Node) -> Any:
    """A text, unless it looks like a number, a truth value or nothing; dates are texts here."""
    kind, text = str(node.tag).rpartition(":")[2], node.value
    try:
        if kind == "int":
            return int(text.replace("_", ""), 0 if text[:2] in ("0x", "0o") else 10)
        if kind == "float":
            return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan").lower())
    except ValueError:
        return text
    if kind == "null":
        return None
    return text.lower() == "true" if kind == "bool" else text


def _parse_json(text: str) -> _Place:
    try:
        place, end = _json_value(text, _skip(text, 0), depth=3)
        if _skip(text, end) != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
    except json.JSONDecodeError as error:
        raise _Unreadable(f"line {error.lineno}: is not JSON: {error.msg}") from None
    except ValueError as error:                                 # numbers of thousands of digits
        raise _Unreadable(f"is not JSON: {error}") from None
    return place


def _json_value(text: str, at: int, depth: int) -> tuple[_Place, int]:
    """The value that begins at `at`, and where it ends. The uppermost `depth` levels of it have places."""
    opening, begin = text[at:at + 1], at
    if not depth or opening not in ("{", "["):
        value, end = _DECODER.raw_decode(text, at)
        return _Place(value, at), end
    closing = "}" if opening == "{" else "]"
    named: dict[str, _Place] = {}
    listed: list[_Place] = []
    at = _skip(text, at + 1)
    if text.startswith(closing, at):
        return _Place(named if opening == "{" else listed, begin), at + 1
    while True:
        if opening == "{":
            start = at
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, at)
            if not isinstance(name, str) or not text.startswith(":", at):
                raise json.JSONDecodeError("expected a name in quotes and ':'", text, start)
            if name in named:
                raise json.JSONDecodeError(f"{name!r} stands there twice", text, start)
            place, at = _json_value(text, _skip(text, at + 1), depth - 1)
            named[name] = _Place(place.value, start)
        else:
            place, at = _json_value(text, at, depth - 1)
            listed.append(place)
        at = _skip(text, at)
        if text.startswith(closing, at):
            return _Place(named if opening == "{" else listed, begin), at + 1
        if not text.startswith(",", at):
            raise json.JSONDecodeError(f"expected ',' or '{closing}'", text, at)
        at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    """Where the next word begins."""
    found = _WORD.search(text, at)
    return found.start() if found else len(text)
