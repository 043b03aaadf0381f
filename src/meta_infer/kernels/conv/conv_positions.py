"""The output positions of a chunk, numbered across its rows, and how results at them leave the registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from meta_infer.ir.builder import Builder, index
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr
from meta_infer.ir.shapes import divisible
from meta_infer.kernels.conv.conv_patch import Corner
from meta_infer.kernels.conv.conv_taps import TapConv
from meta_infer.kernels.math_use import uses_math
from meta_infer.kernels.point import Point, apply_nodes, channel_count, store_outputs
from meta_infer.support.dtypes import FLOAT32, INT64


@dataclass(frozen=True)
class PositionTable:
    """For each position of a chunk: the element `place` of the input that its first tap meets, its row and column."""

    place: Buffer
    row: Buffer
    column: Buffer


def position_table(b: Builder, room: int) -> PositionTable:
    return PositionTable(*(b.scratch(name, INT64, room) for name in ("position_place", "position_row",
                                                                     "position_column")))


def fill_positions(b: Builder, table: PositionTable, rows: Expr, width: Expr, row_step: Expr, column_step: Expr,
                   beyond: int) -> None:
    """Number `rows` x `width` positions, their places `row_step` and `column_step` elements apart; the last one is
    repeated `beyond` times, for tiles that reach over the end."""
    def put(at: Expr, row: Expr, column: Expr) -> None:
        b.store(table.place, at, row * row_step + column * column_step)
        b.store(table.row, at, row)
        b.store(table.column, at, column)

    with b.loop(0, rows, name="row") as row, b.loop(0, width, name="column") as column:
        put(row * width + column, row, column)
    with b.loop(0, beyond, name="more") as more:
        put(rows * width + more, rows - 1, width - 1)


@dataclass(frozen=True)
class Where:
    """Where the positions of a tile are: `place(j)` is the row and column of number j within the chunk, `inside(j)`
    whether there is such a position (None: there is)."""

    place: Callable[[Expr], tuple[Expr, Expr]]
    inside: Callable[[Expr], Expr | None]


def numbered(b: Builder, table: PositionTable, first: Expr, count: Expr | None) -> Where:
    """Positions `first`, `first` + 1, ... of a table; those below `count` exist (None: all)."""
    def place(j: Expr) -> tuple[Expr, Expr]:
        return b.let(b.load(table.row, first + j), "row"), b.let(b.load(table.column, first + j), "column")

    return Where(place, lambda j: None if count is None else (first + j).lt(count))


@dataclass(frozen=True)
class Finish:
    """What follows the anchor, for tiles of `vectors` blocks at some positions of a chunk."""

    group: Group
    taps: TapConv
    buffers: Mapping[str, Buffer]
    layouts: Mapping[str, Layout]
    block: int
    tile: Buffer | None                             # room for a tile, where epilogues call math functions

    def _ragged(self, axis: int) -> bool:
        """Whether phases of an axis differ in size."""
        return self.taps.out_step[axis] > 1 and not divisible(self.taps.out_spatial[axis], self.taps.out_step[axis])

    @contextmanager
    def inside(self, b: Builder, corner: Corner, firsts: Sequence[Expr]) -> Iterator[None]:
        """Code for a phase that has an output at the chunk's place on the leading axes."""
        with ExitStack() as stack:
            for axis, q in enumerate(corner.lead):
                if self._ragged(axis):
                    out = q * self.taps.out_step[axis] + firsts[axis]
                    stack.enter_context(b.when(out.lt(b.dim(self.taps.out_spatial[axis]))))
            yield

    def store(self, b: Builder, acc: Sequence[Sequence[Expr]], corner: Corner, firsts: Sequence[Expr],
              out_block: Expr, where: Where) -> None:
        """Run the epilogue on a tile and store it; `where` says where its positions are."""
        if self.tile is None:
            for j in range(len(acc[0])):
                with self._at(b, corner, firsts, where, index(j)) as spatial:
                    for v, row in enumerate(acc):
                        self._point(b, row[j], (corner.n, b.let((out_block + v) * self.block, "oc"), *spatial))
            return
        vectors, columns = len(acc), len(acc[0])
        for v, row in enumerate(acc):
            for j, value in enumerate(row):
                b.store(self.tile, (v * columns + j) * self.block, value)
        with b.loop(0, columns, name="j") as column:
            with (self._at(b, corner, firsts, where, column) as spatial,
                  b.loop(0, vectors, name="v") as vector):
                result = b.let(b.load(self.tile, (vector * columns + column) * self.block, self.block), "r")
                self._point(b, result, (corner.n, b.let((out_block + vector) * self.block, "oc"), *spatial))

    @contextmanager
    def _at(self, b: Builder, corner: Corner, firsts: Sequence[Expr], where: Where,
            j: Expr) -> Iterator[tuple[Expr, ...]]:
        """The output's spatial coordinates of a tile's position number `j`, where there is such an output."""
        taps = self.taps
        with ExitStack() as stack:
            inside = where.inside(j)
            if inside is not None:
                stack.enter_context(b.when(inside))
            row, column = where.place(j)
            q = (*corner.lead, corner.row + row, corner.column + column)
            spatial = [b.let(at * step + first, "out")
                       for at, step, first in zip(q, taps.out_step, firsts, strict=True)]
            for axis in (-2, -1):
                if self._ragged(axis):
                    stack.enter_context(b.when(spatial[axis].lt(b.dim(taps.out_spatial[axis]))))
            yield tuple(spatial[-len(taps.conv.kernel):])

    def _point(self, b: Builder, value: Expr, coords: tuple[Expr, ...]) -> None:
        output = self.taps.conv.y
        count = channel_count(b, output.shape, 1, coords[1], self.block)
        point = Point(output.shape, coords, 1, self.block, count)
        known = apply_nodes(b, self.group.epilogue, self.group.values, {output.name: value}, self.buffers,
                            self.layouts, point)
        store_outputs(b, self.group, known, self.buffers, self.layouts, point)


def make_finish(b: Builder, group: Group, taps: TapConv, buffers: Mapping[str, Buffer], layouts: Mapping[str, Layout],
                block: int, accumulators: int) -> Finish:
    """A Finish with the room it needs; `accumulators` are those of the largest tile."""
    tile = b.stack("tile", FLOAT32, accumulators * block) if uses_math(group) else None
    return Finish(group, taps, buffers, layouts, block, tile)
