"""Names in the IR: printable tokens, unique over the whole region tree."""

from __future__ import annotations

import keyword
import re

_NOT_TOKEN = re.compile(r"[^A-Za-z0-9_./:-]")
_NOT_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]+")


class NameTable:
    """Hands out each name once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def copy(self) -> NameTable:
        """A table that has handed out the same names."""
        other = NameTable()
        other._taken, other._next = set(self._taken), dict(self._next)
        return other

    def unique(self, hint: str) -> str:
        """`hint` as a printable token, with `.1`, `.2`, ... appended when it is taken."""
        return self._claim(_NOT_TOKEN.sub("_", hint) or "value", ".")

    def identifier(self, hint: str) -> str:
        """`hint` as a Python identifier, with `_1`, `_2`, ... appended when it is taken."""
        name = _NOT_IDENTIFIER.sub("_", hint).strip("_") or "dim"
        name = f"d{name}" if name[0].isdigit() else f"{name}_" if keyword.iskeyword(name) else name
        return self._claim(name, "_")

    def _claim(self, stem: str, separator: str) -> str:
        name, count = stem, self._next.get(stem, 0)
        while name in self._taken:
            count += 1
            name = f"{stem}{separator}{count}"
        self._next[stem] = count
        self._taken.add(name)
        return name
