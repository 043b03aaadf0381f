"""A block of rows times one panel, and how its results leave the registers.

Cheap epilogues run on the registers themselves, all operands of a tile being read before its first result is written.
Those with math functions are too long to repeat for every register of every tile: there the tile goes through a small
array, and one loop runs over its rows, several vectors abreast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meta_infer.ir.builder import Builder, index
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, Operand, minimum
from meta_infer.ir.shapes import divisible
from meta_infer.kernels.abreast import apply_abreast
from meta_infer.kernels.math_use import uses_math
from meta_infer.kernels.matmul.gemm_tile import Ahead, Tile, by_rows, each_tile, multiply
from meta_infer.kernels.point import Point, apply_nodes, store_outputs

Rows = Sequence[Sequence[Expr]]
Fetch = Callable[[Expr, Expr], Ahead | None]


@dataclass(frozen=True)
class Finish:
    """Where results go: the group in merged shapes ([..., columns]), its buffers, and what comes before its epilogue.

    `prepare(point, value)` adds what the anchor itself adds to a product (a scale, a third operand).
    """

    tile: Tile
    group: Group
    shape: Shape
    buffers: Mapping[str, Buffer]
    layouts: Mapping[str, Layout]
    prepare: Callable[[Point, Expr], Expr]
    rolled: Buffer | None = None                          # [rows][columns] of raw results, where math is used
    abreast: int = 1                                      # vectors that go through math functions together

    @property
    def block(self) -> tuple[int, int]:
        """Rows and vectors of a tile that go through math functions together."""
        vectors = self.tile.vectors if self.tile.vectors <= self.abreast and self.tile.vectors != 3 else 1
        rows = next(r for r in (4, 2, 1) if r * vectors <= self.abreast and self.tile.rows % r == 0)
        return rows, vectors


def make_finish(b: Builder, tile: Tile, group: Group, shape: Shape, buffers: Mapping[str, Buffer],
                layouts: Mapping[str, Layout], prepare: Callable[[Point, Expr], Expr], abreast: int = 4) -> Finish:
    """A Finish with the scratch it needs."""
    rolled = b.scratch("rolled", tile.dtype, tile.rows * tile.columns) if uses_math(group) else None
    return Finish(tile, group, shape, buffers, layouts, prepare, rolled, abreast if tile.lanes > 1 else 1)


@dataclass(frozen=True)
class Spot:
    """A panel's place in the output: `place` gives a row's leading coordinates, `column` its first column."""

    place: Callable[[Expr], tuple[Expr, ...]]
    column: Expr


def _sides(b: Builder, finish: Finish, spot: Spot, visit: Callable[[range, bool], None]) -> None:
    """`visit(vectors, partial)`: all vectors at once inside, one by one where a panel reaches over the right edge."""
    tile, width = finish.tile, finish.shape[-1]
    if divisible(width, tile.columns):
        visit(range(tile.vectors), False)
        return
    with b.when((spot.column + tile.columns).le(b.dim(width))):
        visit(range(tile.vectors), False)
    with b.otherwise():
        for v in range(tile.vectors):
            with b.when((spot.column + v * tile.lanes).lt(b.dim(width))):
                visit(range(v, v + 1), True)


def _point(b: Builder, finish: Finish, spot: Spot, row: Expr, v: int, partial: bool) -> Point:
    tile, shape = finish.tile, finish.shape
    column = b.let(spot.column + v * tile.lanes, "column")
    count = None
    if partial and tile.lanes > 1:
        count = b.let(minimum(b.dim(shape[-1]) - column, tile.lanes), "count")
    return Point(shape, (*spot.place(row), column), len(shape) - 1, tile.lanes, count)


def _apply(b: Builder, finish: Finish, point: Point, value: Expr) -> dict[str, Expr]:
    group = finish.group
    known = {group.anchor.outputs[0]: b.let(finish.prepare(point, value), "sum")}
    return apply_nodes(b, group.epilogue, group.values, known, finish.buffers, finish.layouts, point)


def _finish_registers(b: Builder, finish: Finish, spot: Spot, first: Expr, total: Rows) -> None:
    def visit(vectors: range, partial: bool) -> None:
        ready = []
        for r, row in enumerate(total):
            for v in vectors:
                point = _point(b, finish, spot, first + r, v, partial)
                ready.append((point, _apply(b, finish, point, row[v])))
        for point, known in ready:
            store_outputs(b, finish.group, known, finish.buffers, finish.layouts, point)

    _sides(b, finish, spot, visit)


def _finish_rolled(b: Builder, finish: Finish, spot: Spot, first: Expr, size: Expr) -> None:
    tile, rolled = finish.tile, finish.rolled
    assert rolled is not None

    rows, together = finish.block

    def some(r: Expr, vectors: range, partial: bool) -> None:
        """A block from row r on; behind the tile's last row that row once more, which changes nothing."""
        points, parts = [], []
        for i in range(rows):
            row = r if rows == 1 else b.let(minimum(r + i, size - 1), "row_in_tile")
            for v in vectors:
                point = _point(b, finish, spot, first + row, v, partial)
                value = b.load(rolled, row * tile.columns + v * tile.lanes, tile.lanes)
                points.append(point)
                parts.append(b.let(finish.prepare(point, value), "sum"))
        found = apply_abreast(b, finish.group, finish.group.anchor.outputs[0], parts, finish.buffers, finish.layouts,
                              points)
        for point, known in zip(points, found, strict=True):
            store_outputs(b, finish.group, known, finish.buffers, finish.layouts, point)

    def visit(vectors: range, partial: bool) -> None:
        with b.loop(0, size, rows, "r") as r:
            for v in vectors[::together]:
                some(r, range(v, min(v + together, vectors.stop)), partial)

    _sides(b, finish, spot, visit)


@dataclass(frozen=True)
class Factors:
    """The operands of one product: row r of the left one at step k is `a[a_first + r * a_row_step + k * a_step]`.

    `fetch(first, size)` says, for a tile of `size` rows from `first`, what to fetch while it is computed.
    """

    a: Buffer
    a_first: Expr
    a_row_step: Operand
    a_step: Operand
    panel: Buffer
    panel_at: Expr
    panel_step: Operand
    depth: Expr
    unroll: int = 1
    fetch: Fetch | None = None
    inside: Expr | None = None                            # columns of the panel that exist, None: all


def multiply_block(b: Builder, factors: Factors, count: Expr, finish: Finish, spot: Spot,
                   partial: Buffer | None = None, is_last: Expr | None = None) -> None:
    """Rows 0..count of the left operand times a panel, finished at `spot`.

    With `partial` [count][columns], the product adds to what is there and goes back there unless `is_last`.
    """
    tile, f = finish.tile, factors
    with each_tile(b, tile, count) as (first, size):
        ahead = f.fetch(first, size) if f.fetch is not None else None
        base = b.let(f.a_first + first * f.a_row_step, "base")

        def leave(rows: int, total: Rows) -> None:
            if finish.rolled is None:
                _finish_registers(b, finish, spot, first, total)
            else:
                _keep(b, tile, finish.rolled, index(0), total)

        def body(rows: int) -> None:
            start = None if partial is None else _kept(b, tile, partial, first, rows)
            a_rows = [b.let(base + index(r) * f.a_row_step, "row") for r in range(rows)]
            total = multiply(b, tile, rows, f.a, a_rows, f.a_step, f.panel, f.panel_at, f.panel_step, f.depth, start,
                             f.unroll, ahead, f.inside)
            if partial is None or is_last is None:
                leave(rows, total)
                return
            named = [[b.let(value, "total") for value in row] for row in total]
            with b.when(is_last):
                leave(rows, named)
            with b.otherwise():
                _keep(b, tile, partial, first, named)

        by_rows(b, tile, size, body)
        if finish.rolled is None:
            return
        if is_last is None:
            _finish_rolled(b, finish, spot, first, size)
            return
        with b.when(is_last):
            _finish_rolled(b, finish, spot, first, size)


def finish_block(b: Builder, count: Expr, finish: Finish, spot: Spot, compute: Callable[[int, Expr], Rows]) -> None:
    """Rows 0..count of any product, finished at `spot`: `compute(rows, first)` gives [rows][vectors] from a row on."""
    tile = finish.tile
    with each_tile(b, tile, count) as (first, size):
        def body(rows: int) -> None:
            total = compute(rows, first)
            if finish.rolled is None:
                _finish_registers(b, finish, spot, first, total)
            else:
                _keep(b, tile, finish.rolled, index(0), total)

        by_rows(b, tile, size, body)
        if finish.rolled is not None:
            _finish_rolled(b, finish, spot, first, size)


def _keep(b: Builder, tile: Tile, buffer: Buffer, first: Expr, values: Rows) -> None:
    for r, row in enumerate(values):
        for v, value in enumerate(row):
            b.store(buffer, (first + r) * tile.columns + v * tile.lanes, value)


def _kept(b: Builder, tile: Tile, buffer: Buffer, first: Expr, rows: int) -> list[list[Expr]]:
    return [[b.load(buffer, (first + r) * tile.columns + v * tile.lanes, tile.lanes) for v in range(tile.vectors)]
            for r in range(rows)]
