"""A library as a text for people: YAML or JSON with one field a line, in an order that does not change.

    library: 1
    samples:
    - key: 9f0c...
      kernel: conv_direct
      knobs: {rows: 4}

Fields that are empty are left out. The same rows give the same text, so that two exports can be compared line by line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from meta_infer.library.decisions import Decision
from meta_infer.library.rows import DECISIONS, SAMPLES, Row, Table
from meta_infer.library.samples import Sample

Form = Literal["yaml", "json"]

TEXT_VERSION = 1
HEAD = "# Experience library of meta-infer; docs/library.md has the fields, `meta-infer library import` reads it.\n"

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_WORDS = frozenset({"y", "n", "yes", "no", "true", "false", "on", "off", "null", "nan", "inf"})
"""What YAML readers take for something else than a text."""


def write_text(samples: Iterable[Sample], decisions: Iterable[Decision], form: Form) -> str:
    by_group = sorted(samples, key=lambda s: (s.group, s.kernel, s.variant, s.cpu, s.isa, s.threads, s.key))
    by_place = sorted(decisions, key=lambda d: d.place)
    if form == "yaml":
        parts = [HEAD, f"library: {TEXT_VERSION}\n", *_yaml(SAMPLES, by_group), *_yaml(DECISIONS, by_place)]
        return "".join(parts)
    return f'{{"library": {TEXT_VERSION},\n{_json(SAMPLES, by_group)},\n{_json(DECISIONS, by_place)}}}\n'


def is_export(head: bytes) -> bool:
    """Whether a file that begins with `head` is such a text, as it was written."""
    return head.startswith((HEAD.encode()[:35], b'{"library": '))


def _fields(table: Table[Row], row: Row) -> Iterator[tuple[str, Any]]:
    for name, kind in table.fields.items():
        value = kind.write(table.checked(name, getattr(row, name)))
        if value not in ("", [], {}):
            yield name, value


def _yaml(table: Table[Row], rows: Sequence[Row]) -> Iterator[str]:
    yield f"{table.name}:{'' if rows else ' []'}\n"
    for row in rows:
        lines = (f"{name}: {_yaml_value(value)}\n" for name, value in _fields(table, row))
        yield "- " + "  ".join(lines)


def _yaml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_yaml_text(key)}: {_yaml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml_value, value)) + "]"
    return _yaml_text(value) if isinstance(value, str) else json.dumps(value)


def _yaml_text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    """As in YAML's quoted texts, whose escapes are those of JSON and one for what is beyond 16 bits."""
    if char in '"\\':
        return "\\" + char
    return char if char.isprintable() and char != "\ufeff" else f"\\U{ord(char):08x}"


def _json(table: Table[Row], rows: Sequence[Row]) -> str:
    written = [",\n  ".join(f'"{name}": {json.dumps(value, ensure_ascii=False)}' for name, value in _fields(table, row))
               for row in rows]
    return f'"{table.name}": [' + ",\n".join(f"\n {{{row}}}" for row in written) + "]"
