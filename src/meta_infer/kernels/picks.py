"""Indices read from a tensor: negative ones count from the end, wrong ones are clamped.

A wrong index gives a wrong element, never a wild read or write.
"""

from __future__ import annotations

from collections.abc import Sequence

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, cast, const, maximum, minimum, select
from meta_infer.ir.shapes import Dim, bounds
from meta_infer.support.dtypes import INT64


def unless_empty(b: Builder, count: Expr, size: Dim) -> Expr:
    """`count`, or 0 when `size` is 0: then there is no element that an index could name, and nothing is done."""
    return count if bounds(size)[0] > 0 else select(b.dim(size).gt(0), count, const(0))


def pick(b: Builder, index: Buffer, at: Expr, size: Expr) -> Expr:
    """The index stored at `at`, as a position in [0, size); size must be above 0."""
    raw = b.let(cast(b.load(index, at), INT64), "raw")
    return b.let(maximum(minimum(select(raw.lt(0), raw + size, raw), size - 1), 0), "pick")


def flat_pick(b: Builder, index: Buffer, at: Expr, sizes: Sequence[Expr]) -> Expr:
    """Row-major position in a box of `sizes` that the index tuple beginning at `at` names."""
    place: Expr = const(0)
    for i, size in enumerate(sizes):
        place = place * size + pick(b, index, at + i, size)
    return b.let(place, "place")
