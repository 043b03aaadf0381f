"""Tiles of a Winograd convolution: where they lie, and the transform of their input.

    for row of tiles (or the part of it in the block), input block:
        for column:               half[r][column] = B^T d, with zeros around the image       (per-thread scratch)
        for row of half, tile:    V[point][input block][tile][c] = half B

Neighbouring tiles share the first half, and the inner loops run along the row of tiles without branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, Type, const, maximum, minimum, select, splat
from meta_infer.kernels.conv.winograd_plan import WinogradConv
from meta_infer.kernels.conv.winograd_transforms import emit_program, linear_program, transforms
from meta_infer.kernels.conv_chunks import LINE_BYTES
from meta_infer.support.dtypes import FLOAT32


@dataclass(frozen=True)
class TileBlock:
    """Tiles [first, last) of all images; `groups` register tiles have `slots` places for them."""

    first: Expr
    last: Expr
    groups: Expr
    slots: Expr


@dataclass(frozen=True)
class TileRow:
    """`count` neighbouring tiles of image `n` whose first output is at (`y`, `x`); the first one has slot `slot`."""

    n: Expr
    y: Expr
    x: Expr
    slot: Expr
    count: Expr


def tile_block(b: Builder, plan: WinogradConv, index: Expr) -> TileBlock:
    """The tiles of block `index`."""
    first = b.let(index * plan.slots, "first_tile")
    last = b.let(minimum(b.dim(plan.tiles), first + plan.slots), "last_tile")
    groups = b.let((last - first + (plan.columns - 1)) // plan.columns, "groups")
    return TileBlock(first, last, groups, b.let(groups * plan.columns, "slots"))


@contextmanager
def tile_rows(b: Builder, plan: WinogradConv, tiles: TileBlock) -> Iterator[TileRow]:
    """A loop over the rows of tiles that a block's tiles lie in."""
    rows, columns = b.dim(plan.tile_rows), b.dim(plan.tile_columns)
    with b.loop(tiles.first // columns, (tiles.last - 1) // columns + 1, name="tile_row") as row:
        start = b.let(row * columns, "row_start")
        begin, end = b.let(maximum(tiles.first, start), "begin"), b.let(minimum(tiles.last, start + columns), "end")
        yield TileRow(b.let(row // rows, "n"), b.let(row % rows * plan.m, "y"), b.let((begin - start) * plan.m, "x"),
                      b.let(begin - tiles.first, "slot"), b.let(end - begin, "count"))


# Elements of a cache line.
_LINE = LINE_BYTES // FLOAT32.bytes

Vertical = Callable[[Expr, Sequence[Expr]], None]
"""Stores the transformed values of a column."""


@dataclass(frozen=True)
class InputTransform:
    """Writes V of a block from element `start` of `v` on; `half` is scratch of `plan.half_elements`."""

    plan: WinogradConv
    x: Buffer
    half: Buffer
    v: Buffer
    start: Expr

    def write(self, b: Builder, tiles: TileBlock, first: Expr | int, last: Expr | int) -> None:
        """Input blocks [first, last)."""
        with tile_rows(b, self.plan, tiles) as row, b.loop(first, last, name="ib") as ib:
            self._vertical(b, row, ib)
            self._horizontal(b, row, ib, b.let(minimum(ib + 1, last - 1), "next"))
        self._clear(b, tiles, first, last)

    def _vertical(self, b: Builder, row: TileRow, ib: Expr) -> None:
        plan, conv, side, block = self.plan, self.plan.conv, self.plan.side, self.plan.block
        height, width = (b.dim(d) for d in conv.in_spatial)
        program = linear_program(transforms(plan.m).input)
        pitch = plan.half_columns * block

        def keep(c: Expr, values: Sequence[Expr]) -> None:
            for r, value in enumerate(values):
                b.store(self.half, c * block + r * pitch, value)

        top, left = b.let(row.y - conv.begin[0], "top"), b.let(row.x - conv.begin[1], "left")
        image = b.let((row.n * plan.in_blocks + ib) * height, "image")
        columns = b.let(row.count * plan.m + (side - plan.m), "columns")
        low = b.let(minimum(maximum(const(0) - left, 0), columns), "low")
        high = b.let(maximum(minimum(width - left, columns), low), "high")
        for start, stop in ((const(0), low), (high, columns)):
            with b.loop(start, stop, name="c") as c:
                keep(c, [const(0.0, Type(FLOAT32, block))] * side)
        at = b.let(((image + top) * width + left) * block, "at")
        with b.when(top.ge(0) & (top + side).le(height)), b.loop(low, high, name="c") as c:
            values = [b.let(b.load(self.x, at + (width * r + c) * block, block), "d") for r in range(side)]
            keep(c, emit_program(b, program, values))
        with b.otherwise():
            self._edge(b, image, top, left, (low, high), keep)

    def _edge(self, b: Builder, image: Expr, top: Expr, left: Expr, columns: tuple[Expr, Expr],
              keep: Vertical) -> None:
        """The same where some rows lie outside of the image: their elements count as zero."""
        plan, block = self.plan, self.plan.block
        height, width = (b.dim(d) for d in plan.conv.in_spatial)
        rows, inside = [], []
        for r in range(plan.side):
            row = b.let(top + r, "row")
            nearest = maximum(minimum(row, height - 1), 0)
            rows.append(b.let(((image + nearest) * width + left) * block, "at"))
            inside.append(b.let(splat(row.ge(0) & row.lt(height), block), "inside"))
        with b.loop(*columns, name="c") as c:
            loaded = [b.let(b.load(self.x, at + c * block, block), "d") for at in rows]
            values = [b.let(select(known, value, 0.0), "d") for known, value in zip(inside, loaded, strict=True)]
            keep(c, emit_program(b, linear_program(transforms(plan.m).input), values))

    def _horizontal(self, b: Builder, row: TileRow, ib: Expr, coming: Expr) -> None:
        """Meanwhile the input of block `coming` is asked for, which is too short a stream for the processor to see."""
        plan, side, block = self.plan, self.plan.side, self.plan.block
        program = linear_program(transforms(plan.m).input)
        pitch = plan.half_columns * block
        to = b.let(self.start + (ib * plan.slots + row.slot) * block, "to")
        height, width = (b.dim(d) for d in plan.conv.in_spatial)
        image = b.let((row.n * plan.in_blocks + coming) * height, "image")
        with b.loop(0, side, name="r") as r, b.loop(0, row.count, name="t") as t:
            line = maximum(minimum(row.y - plan.conv.begin[0] + r, height - 1), 0)
            ahead = b.let(((image + line) * width + row.x + t * plan.m) * block, "ahead")
            for offset in range(0, plan.m * block, _LINE):
                b.prefetch(self.x, ahead + offset)
            values = [b.let(b.load(self.half, r * pitch + (t * plan.m + c) * block, block), "d") for c in range(side)]
            place = b.let(to + r * (side * plan.input_pitch) + t * block, "place")
            for c, value in enumerate(emit_program(b, program, values)):
                b.store(self.v, place + c * plan.input_pitch, value)

    def _clear(self, b: Builder, tiles: TileBlock, first: Expr | int, last: Expr | int) -> None:
        """Slots beyond the last tile take part in the products: zeros, which are quick on every processor."""
        plan, block = self.plan, self.plan.block
        count = b.let(tiles.last - tiles.first, "count")
        with b.when(count.lt(tiles.slots)), b.loop(0, plan.points, name="p") as p:
            with b.loop(first, last, name="ib") as ib, b.loop(count, tiles.slots, name="t") as t:
                b.store(self.v, self.start + p * plan.input_pitch + (ib * plan.slots + t) * block,
                        const(0.0, Type(FLOAT32, block)))
