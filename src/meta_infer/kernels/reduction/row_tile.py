"""Rows abreast: how softmax and normalisations walk rows that they reduce, look at again and write.

A row's reduction is a chain of operations of which each waits for the one before, and what follows it waits for all of
it. So a tile takes some rows at once, and of each some vectors in a step, with an accumulator for each of them: the
others go on while one waits. What a row yields depends on its elements and on `vectors`, not on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Const, Expr, Type, Var, binary, const
from meta_infer.kernels.fold import across, each_vector, fill_outside, identity

Step = Callable[[Sequence[Expr], Expr | None], None]
"""(first elements of neighbouring vectors, the same in every row; lanes inside the only one, None for all)."""
Look = Callable[[Sequence[Expr], Expr | None], Sequence[Sequence[Expr]]]
"""As `Step`, and what it finds there: for each row a value for each vector."""


@dataclass(frozen=True)
class RowTile:
    """How many rows are in work at once, and how many vectors of each."""

    rows: int
    vectors: int


def each_tile(b: Builder, first: Expr, last: Expr, rows: int, even: bool,
              body: Callable[[Sequence[Expr]], None]) -> None:
    """`body` for every `rows` rows of [first, last), then for one at a time; `even` says that none are left over."""
    start = first
    if rows > 1:
        start = b.let(first + (last - first) // rows * rows, "tiles_last")
        with b.loop(first, start, rows, "row") as row:
            body([b.let(row + i, "row") for i in range(rows)])
    if rows == 1 or not even:
        with b.loop(start, last, 1, "row") as row:
            body([row])


def each_step(b: Builder, length: Expr, lanes: int, vectors: int, body: Step, again: bool = False) -> None:
    """`body` for every `vectors` vectors of [0, length), then for single ones, then for what is left.

    With `again`, what is left is the last whole vector of the row where its length is known and holds one: some
    elements are seen twice, but none has to be written under a mask, which takes as long as ten whole vectors.
    """
    start: Expr = const(0)
    if vectors > 1:
        stride = vectors * lanes
        start = b.let(length // stride * stride, "wide")
        with b.loop(0, start, stride, "i") as i:
            body([i + v * lanes for v in range(vectors)], None)
    if again and lanes > 1 and isinstance(length, Const) and int(length.value) >= lanes:
        with b.loop(start, length // lanes * lanes, lanes, "i") as i:
            body([i], None)
        if int(length.value) % lanes:
            body([length - lanes], None)
        return
    each_vector(b, start, length, lanes, lambda at, count: body([at], count))


def accumulators(b: Builder, op: str, register: Type, tile: RowTile) -> list[list[Var]]:
    """For each row a register for each vector of a step, with what changes nothing under `op`."""
    neutral = const(identity(op, register.dtype), register)
    return [[b.var(neutral, "acc") for _ in range(tile.vectors)] for _ in range(tile.rows)]


def fold_rows(b: Builder, op: str, length: Expr, register: Type, tile: RowTile, look: Look) -> list[Expr]:
    """The reduction of every row to one scalar, the vectors of a step into an accumulator each."""
    neutral, kept = identity(op, register.dtype), accumulators(b, op, register, tile)

    def step(places: Sequence[Expr], count: Expr | None) -> None:
        for row, found in zip(kept, look(places, count), strict=True):
            for into, value in zip(row, found, strict=False):
                b.assign(into, binary(op, fill_outside(value, count, neutral), into))

    each_step(b, length, register.lanes, tile.vectors, step)
    return [folded(b, op, row) for row in kept]


def folded(b: Builder, op: str, kept: Sequence[Expr]) -> Expr:
    """A row's accumulators as one scalar: in pairs, then across lanes."""
    return b.let(across(op, in_pairs(b, op, kept)), "folded")


def in_pairs(b: Builder, op: str, values: Sequence[Expr]) -> Expr:
    """Neighbours together, until one is left; their number is a power of two."""
    while len(values) > 1:
        values = [b.let(binary(op, *values[i:i + 2]), "total") for i in range(0, len(values), 2)]
    return values[0]
