"""The input transform of an 8-bit Winograd convolution: activations less their zero point, in int16.

    for row of tiles (or the part of it in the block), pair of input blocks:
        for column:               half[r][column] = B^T d, with zeros around the image       (per-thread scratch)
        for row of half, tile:    V[point][pair][tile][2 c] = half B

Both blocks of a pair are transformed at once, side by side in a vector of int16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, Type, const, maximum, minimum, select, shuffle, splat
from meta_infer.kernels.conv.winograd_input import TileBlock, TileRow, tile_rows
from meta_infer.kernels.int8.dot_path import PAIRS
from meta_infer.kernels.int8.winograd_int8_plan import Int8Winograd
from meta_infer.kernels.int8.winograd_int8_transforms import INTEGER_TRANSFORMS, emit_integer, integer_program
from meta_infer.support.dtypes import INT16


@dataclass(frozen=True)
class Int8InputTransform:
    """Writes V of a block from element `start` of `v` on; `half` is scratch of `plan.half_input`."""

    plan: Int8Winograd
    x: Buffer
    zero: Expr
    half: Buffer
    v: Buffer
    start: Expr

    def write(self, b: Builder, tiles: TileBlock, first: Expr | int, last: Expr | int) -> None:
        """Pairs [first, last). Slots beyond the last tile stay as they are: what comes of them is never stored."""
        with tile_rows(b, self.plan.cut, tiles) as row, b.loop(first, last, name="pair") as pair:
            self._vertical(b, row, pair)
            self._horizontal(b, row, pair)

    def _load(self, b: Builder, at: Sequence[Expr]) -> Expr:
        """The channels of both blocks, at elements `at` of x."""
        block = self.plan.cut.block
        one, other = (b.load(self.x, place, block) for place in at)
        return PAIRS.stored(shuffle(one, other, tuple(range(2 * block))), self.zero)

    def _transformed(self, b: Builder, values: Sequence[Expr]) -> list[Expr]:
        return emit_integer(b, integer_program(INTEGER_TRANSFORMS[self.plan.cut.m].input), values)

    def _vertical(self, b: Builder, row: TileRow, pair: Expr) -> None:
        cut, deep = self.plan.cut, self.plan.deep
        side, pitch = cut.side, cut.half_columns * deep
        height, width = (b.dim(d) for d in cut.conv.in_spatial)

        def keep(c: Expr, values: Sequence[Expr]) -> None:
            for r, value in enumerate(values):
                b.store(self.half, c * deep + r * pitch, value)

        top, left = b.let(row.y - cut.conv.begin[0], "top"), b.let(row.x - cut.conv.begin[1], "left")
        # An odd last block is read twice; weights of the second are zero.
        planes = [row.n * cut.in_blocks + minimum(pair * 2 + i, cut.in_blocks - 1) for i in range(2)]
        images = [b.let(plane * height, "image") for plane in planes]
        columns = b.let(row.count * cut.m + (side - cut.m), "columns")
        low = b.let(minimum(maximum(const(0) - left, 0), columns), "low")
        high = b.let(maximum(minimum(width - left, columns), low), "high")
        for start, stop in ((const(0), low), (high, columns)):
            with b.loop(start, stop, name="c") as c:
                keep(c, [const(0, Type(INT16, deep))] * side)
        first = [b.let(((image + top) * width + left) * cut.block, "at") for image in images]
        with b.when(top.ge(0) & (top + side).le(height)), b.loop(low, high, name="c") as c:
            keep(c, self._transformed(b, [
                b.let(self._load(b, [at + (width * r + c) * cut.block for at in first]), "d") for r in range(side)]))
        with b.otherwise():
            self._edge(b, images, top, left, (low, high), keep)

    def _edge(self, b: Builder, images: Sequence[Expr], top: Expr, left: Expr, columns: tuple[Expr, Expr],
              keep: Callable[[Expr, Sequence[Expr]], None]) -> None:
        """The same where some rows lie outside of the image: their elements count as zero."""
        cut = self.plan.cut
        height, width = (b.dim(d) for d in cut.conv.in_spatial)
        rows, inside = [], []
        for r in range(cut.side):
            row = b.let(top + r, "row")
            nearest = b.let(maximum(minimum(row, height - 1), 0), "nearest")
            rows.append([b.let(((image + nearest) * width + left) * cut.block, "at") for image in images])
            inside.append(b.let(splat(row.ge(0) & row.lt(height), self.plan.deep), "inside"))
        with b.loop(*columns, name="c") as c:
            loaded = [b.let(self._load(b, [at + c * cut.block for at in row]), "d") for row in rows]
            keep(c, self._transformed(b, [b.let(select(known, value, 0), "d")
                                          for known, value in zip(inside, loaded, strict=True)]))

    def _horizontal(self, b: Builder, row: TileRow, pair: Expr) -> None:
        cut, deep, side = self.plan.cut, self.plan.deep, self.plan.cut.side
        pitch = cut.half_columns * deep
        to = b.let(self.start + (pair * cut.slots + row.slot) * deep, "to")
        with b.loop(0, side, name="r") as r, b.loop(0, row.count, name="t") as t:
            at = b.let(r * pitch + t * (cut.m * deep), "at")
            values = [b.let(b.load(self.half, at + c * deep, deep), "d") for c in range(side)]
            place = b.let(to + r * (side * self.plan.input_pitch) + t * deep, "place")
            for c, value in enumerate(self._transformed(b, values)):
                b.store(self.v, place + c * self.plan.input_pitch, value)
