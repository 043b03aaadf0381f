"""Index arithmetic on numbers known at build."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Literal

_FOLD: dict[str, Callable[[int, int], int | bool]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "min": min, "max": max, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}


def fold_index(op: str, a: int, b: int) -> int | bool | None:
    """`a op b`, None when that is left to run time."""
    return None if op not in _FOLD or (op in ("//", "%") and b == 0) else _FOLD[op](a, b)


def simpler(op: str, a: int | None, b: int | None) -> Literal["a", "b", "zero"] | None:
    """What `a op b` is without computing it, when one side is a known number (None: it is not known)."""
    if op == "+" and a == 0 or op == "*" and a == 1:
        return "b"
    if op in "+-" and b == 0 or op in ("*", "//") and b == 1:
        return "a"
    return "zero" if op == "*" and (a == 0 or b == 0) or op == "%" and b == 1 else None
