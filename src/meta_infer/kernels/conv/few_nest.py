"""The loop nest of convolutions with few output channels whose kernel equals their stride: positions are the lanes.

    chunk: an image, some lines of x
        for line i, tile of `vectors` times `lanes` columns:
            panel[IC][tile] = x, transposed in registers out of its blocks of channels     (scratch; a plain x is
                                                                                           read once where it lies)
            for group of rows, a row being (output channel, ky):
                sums[row][kx][vector] = bias + sum over IC of w * panel                    (registers)
                y[channel][i * kh + ky][...] = epilogue(sums[row], the kx of a column side by side)

    w [group][IC][row][kx]

With one output channel of a channel block seven of eight lanes would be idle; here none is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, Type, Var, const, mad, maximum, minimum, shuffle, splat
from meta_infer.ir.shapes import ceildiv
from meta_infer.kernels.abreast import apply_abreast
from meta_infer.kernels.blocked import blocks
from meta_infer.kernels.conv.conv_shape import ConvShape, extra_inputs
from meta_infer.kernels.conv.conv_tile import split_evenly
from meta_infer.kernels.kernel import KernelCall, Lowering
from meta_infer.kernels.lane_transpose import transpose_lanes
from meta_infer.kernels.math_use import uses_math
from meta_infer.kernels.point import Point, store_outputs
from meta_infer.support.dtypes import FLOAT32

# Vectors whose epilogues run abreast.
_ABREAST = 4
# Input channels in straight code.
_UNROLL = 4


@dataclass(frozen=True)
class FewConv:
    """A convolution with everything chosen."""

    conv: ConvShape
    is_transposed: bool
    block: int                    # channels of a block of x, 1: x is plain
    lanes: int
    rows: int                     # of the largest group
    vectors: int
    lines: int                    # of a chunk

    @property
    def columns(self) -> int:
        """Of a tile."""
        return self.vectors * self.lanes

    @property
    def in_channels(self) -> int:
        """Padding included."""
        return blocks(self.conv.in_channels, self.block) * self.block

    @property
    def all_rows(self) -> int:
        return int(self.conv.out_channels) * self.conv.kernel[0]                       # type: ignore[arg-type]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each group, larger ones first."""
        return tuple(split_evenly(self.all_rows, self.rows))

    @property
    def has_panel(self) -> bool:
        return self.block > 1 or len(self.sizes) > 1

    @property
    def panel_elements(self) -> int:
        return self.in_channels * self.columns if self.has_panel else 0

    @property
    def packed_elements(self) -> int:
        return self.in_channels * self.all_rows * self.conv.kernel[1]

    def pack(self, weight: np.ndarray) -> np.ndarray:
        """The weights in the order of the module's note, zero beyond IC."""
        by_input = weight if self.is_transposed else weight.swapaxes(0, 1)             # [IC, OC, kh, kw]
        full = np.zeros((self.in_channels, *by_input.shape[1:]), np.float32)
        full[:by_input.shape[0]] = by_input
        rows = full.reshape(self.in_channels, self.all_rows, -1)
        ends = np.cumsum(self.sizes)[:-1]
        return np.concatenate([part.reshape(-1) for part in np.split(rows, ends, axis=1)])


@dataclass(frozen=True)
class _Tile:
    """`count` columns of line `i` of image `n` from `column` on; None: all that a tile has."""

    n: Expr
    i: Expr
    column: Expr
    count: Expr | None


@dataclass(frozen=True)
class _Nest:
    b: Builder
    plan: FewConv
    group: Group
    x: Buffer
    w: Buffer
    bias: Buffer | None
    panel: Buffer | None
    buffers: Mapping[str, Buffer]
    layouts: Mapping[str, Layout]

    def write(self, tile: _Tile) -> None:
        if self.panel is not None and self.plan.block > 1:
            self._transpose(tile)
        elif self.panel is not None:
            self._copy(tile, self.panel)
        b, plan, row, start = self.b, self.plan, 0, 0
        for size in sorted(set(plan.sizes), reverse=True):
            count, weights = plan.sizes.count(size), plan.in_channels * size * plan.conv.kernel[1]
            with b.loop(0, count, name="group") as index:
                first = b.let(index * size + row, "row")
                sums = self._sums(tile, size, first, b.let(index * weights + start, "w_at"))
                self._finish_all(tile, first, sums)
            row, start = row + count * size, start + count * weights

    def _transpose(self, tile: _Tile) -> None:
        """The panel; columns beyond the line are copies of its last one."""
        b, plan, block = self.b, self.plan, self.plan.block
        assert self.panel is not None
        height, width = (b.dim(d) for d in plan.conv.in_spatial)
        with b.loop(0, plan.in_channels // block, name="ib") as ib:
            line = b.let(((tile.n * (plan.in_channels // block) + ib) * height + tile.i) * width, "line")
            for first in range(0, plan.columns, block):
                places = [tile.column + (first + k) for k in range(block)]
                if tile.count is not None:
                    places = [minimum(place, width - 1) for place in places]
                loaded = [b.let(b.load(self.x, (line + place) * block, block), "d") for place in places]
                for c, value in enumerate(transpose_lanes(b, loaded)):
                    b.store(self.panel, (ib * block + c) * plan.columns + first, value)

    def _copy(self, tile: _Tile, panel: Buffer) -> None:
        b, plan = self.b, self.plan
        with b.loop(0, plan.in_channels, name="c") as channel:
            for v, value in enumerate(self._given(tile, channel)):
                b.store(panel, channel * plan.columns + v * plan.lanes, value)

    def _inputs(self, tile: _Tile, channel: Expr) -> list[Expr]:
        """The tile's columns of an input channel."""
        b, plan, lanes = self.b, self.plan, self.plan.lanes
        if self.panel is None:
            return self._given(tile, channel)
        at = channel * plan.columns
        return [b.let(b.load(self.panel, at + v * lanes, lanes), "x") for v in range(plan.vectors)]

    def _given(self, tile: _Tile, channel: Expr) -> list[Expr]:
        """The same from a plain x."""
        b, plan, lanes = self.b, self.plan, self.plan.lanes
        height, width = (b.dim(d) for d in plan.conv.in_spatial)
        at = b.let(((tile.n * plan.in_channels + channel) * height + tile.i) * width + tile.column, "x_at")
        counts = [self._count(tile, v * lanes, 1) for v in range(plan.vectors)]
        return [b.let(b.load(self.x, at + v * lanes, lanes, count), "x") for v, count in enumerate(counts)]

    def _count(self, tile: _Tile, first: int, step: int) -> Expr | None:
        """How many of the lanes from output `first` of the tile on are inside, of `step` outputs a column."""
        if tile.count is None:
            return None
        return self.b.let(minimum(maximum(tile.count * step - first, 0), self.plan.lanes), "count")

    def _sums(self, tile: _Tile, rows: int, first: Expr, w_at: Expr) -> list[list[list[Var]]]:
        """[row][kx][vector]."""
        b, plan = self.b, self.plan
        (kh, kw), lanes = plan.conv.kernel, plan.lanes
        zero = const(0.0, Type(FLOAT32, lanes))
        start = [zero if self.bias is None else
                 b.let(splat(b.load(self.bias, (first + r) // kh), lanes), "bias") for r in range(rows)]
        sums = [[[b.var(start[r], f"acc{r}_{k}_{v}") for v in range(plan.vectors)] for k in range(kw)]
                for r in range(rows)]
        straight = next(u for u in (_UNROLL, 2, 1) if plan.in_channels % u == 0)
        with b.loop(0, plan.in_channels, straight, name="ic") as channel:
            for u in range(straight):
                b.fence()
                inputs = self._inputs(tile, b.let(channel + u, "c"))
                at = b.let(w_at + (channel + u) * (rows * kw), "at")
                for r in range(rows):
                    for k in range(kw):
                        weight = b.let(splat(b.load(self.w, at + r * kw + k), lanes), "w")
                        for v, value in enumerate(inputs):
                            b.assign(sums[r][k][v], mad(value, weight, sums[r][k][v]))
        return sums

    def _finish_all(self, tile: _Tile, first: Expr, sums: Sequence[Sequence[Sequence[Var]]]) -> None:
        """All lines of a group; where they call math functions as a loop, so that these are emitted once."""
        b, plan = self.b, self.plan
        if len(sums) == 1 or not uses_math(self.group):
            for r, row_sums in enumerate(sums):
                self._finish(tile, b.let(first + r, "row"), row_sums)
            return
        kw, vectors, lanes = plan.conv.kernel[1], plan.vectors, plan.lanes
        kept = b.stack("kept", FLOAT32, len(sums) * kw * plan.columns)
        for r, row_sums in enumerate(sums):
            for k in range(kw):
                for v, value in enumerate(row_sums[k]):
                    b.store(kept, ((r * kw + k) * vectors + v) * lanes, value)
        with b.loop(0, len(sums), name="r") as index:
            loaded = [[b.let(b.load(kept, ((index * kw + k) * vectors + v) * lanes, lanes), "s")
                       for v in range(vectors)] for k in range(kw)]
            self._finish(tile, b.let(first + index, "row"), loaded)

    def _finish(self, tile: _Tile, row: Expr, sums: Sequence[Sequence[Expr]]) -> None:
        """One output line's part: epilogue and stores."""
        b, plan, conv = self.b, self.plan, self.plan.conv
        (kh, kw), lanes = conv.kernel, plan.lanes
        parts = [part for v in range(plan.vectors) for part in interleave(b, [sums[k][v] for k in range(kw)])]
        channel, y = b.let(row // kh, "channel"), b.let(tile.i * kh + row % kh, "y")
        left = b.let(tile.column * kw, "left")
        points = [Point(conv.y.shape, (tile.n, channel, y, left + first), 3, lanes, self._count(tile, first, kw))
                  for first in range(0, len(parts) * lanes, lanes)]
        together = min(len(parts) & -len(parts), _ABREAST)             # a power of two that divides them
        for first in range(0, len(parts), together):
            some = points[first:first + together]
            found = apply_abreast(b, self.group, conv.y.name, parts[first:first + together], self.buffers,
                                  self.layouts, some)
            for known, point in zip(found, some, strict=True):
                store_outputs(b, self.group, known, self.buffers, self.layouts, point)


def interleave(b: Builder, rows: Sequence[Expr]) -> list[Expr]:
    """As many vectors as given whose lanes, one vector after another, are lane 0 of each row, lane 1 of each row..."""
    count, lanes, results = len(rows), rows[0].type.lanes, []
    if count == 1 or lanes == 1:
        return [*rows]
    for j in range(count):
        origins = [divmod(j * lanes + lane, count) for lane in range(lanes)]           # (lane of the row, row)
        made = rows[0]
        for other in range(1, count):
            picks = [lanes + place if row == other else place if other == 1 and row == 0 else lane
                     for lane, (place, row) in enumerate(origins)]
            made = b.let(shuffle(made, rows[other], tuple(picks)), "v")
        results.append(made)
    return results


def lower_few(group: Group, plan: FewConv, layouts: Mapping[str, Layout], name: str) -> Lowering:
    """The group as one launch."""
    conv = plan.conv
    b = Builder(name)
    x, w = b.input("x", FLOAT32), b.input("w", FLOAT32)
    packed = {f"{conv.weight.name}@few": plan.pack(group.constants[conv.weight.name])}
    bias = None
    if conv.bias is not None:
        bias = b.input("bias", FLOAT32)
        packed[f"{conv.weight.name}@bias"] = np.ascontiguousarray(group.constants[conv.bias.name])
    extras = extra_inputs(group, conv)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    panel = b.scratch("panel", FLOAT32, plan.panel_elements) if plan.has_panel else None
    nest = _Nest(b, plan, group, x, w, bias, panel, buffers, layouts)
    height, width = (b.dim(d) for d in conv.in_spatial)
    parts = ceildiv(conv.in_spatial[0], plan.lines)
    with b.chunks(b.dim(conv.y.shape[0] * parts)) as chunk:
        n, top = b.let(chunk // b.dim(parts), "n"), b.let(chunk % b.dim(parts) * plan.lines, "top")
        whole = b.let(width // plan.columns * plan.columns, "whole")
        with b.loop(top, minimum(top + plan.lines, height), name="i") as i:
            with b.loop(0, whole, plan.columns, name="column") as column:
                nest.write(_Tile(n, i, column, None))
            with b.when(whole.lt(width)):
                nest.write(_Tile(n, i, whole, b.let(width - whole, "rest")))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (conv.x.name, *packed, *extras, *group.outputs), dims),), packed)
