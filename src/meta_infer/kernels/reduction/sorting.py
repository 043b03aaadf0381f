"""A stable merge sort in loop IR: bottom-up, between two halves of a scratch."""

from __future__ import annotations

from collections.abc import Callable

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Expr, Var, const, minimum

# Passes of the merge sort: enough for 2**40 entries.
_PASSES = 40

Before = Callable[[Expr, Expr], Expr]
"""(entry, entry) -> whether the first comes before the second; may write statements. False for equals."""
Move = Callable[[Expr, Expr], None]
"""(source, target): writes the statements that copy one entry to another."""


def merge_sort(b: Builder, size: Expr, before: Before, move: Move) -> Var:
    """Put entries [0, size) of a scratch that has room for 2 * size in order; equal ones keep theirs.

    Gives the entry at which the sorted ones begin: 0 or `size`. What an entry is, only `before` and `move` know.
    """
    here, width = b.var(const(0), "here"), b.var(const(1), "width")
    with b.loop(0, _PASSES), b.when(width.lt(size)):
        there = b.let(size - here, "there")
        with b.loop(0, size, b.let(width * 2), name="left") as left:
            _merge(b, before, move, here, there, left, b.let(minimum(left + width, size), "middle"),
                   b.let(minimum(left + width * 2, size), "right"))
        b.assign(here, there)
        b.assign(width, width * 2)
    return here


def _merge(b: Builder, before: Before, move: Move, here: Expr, there: Expr, left: Expr, middle: Expr,
           right: Expr) -> None:
    """Runs [left, middle) and [middle, right) of the half at `here` to one run of the half at `there`."""
    low, high = b.var(left, "low"), b.var(middle, "high")
    with b.loop(left, right, name="to") as to:
        # Clamped entries: a run that is used up is not compared, but both sides are looked at.
        high_entry = b.let(here + minimum(high, right - 1), "high_entry")
        low_entry = b.let(here + minimum(low, middle - 1), "low_entry")
        take_high = low.ge(middle) | (high.lt(right) & before(high_entry, low_entry))
        with b.when(take_high):
            move(here + high, there + to)
            b.assign(high, high + 1)
        with b.otherwise():
            move(here + low, there + to)
            b.assign(low, low + 1)
