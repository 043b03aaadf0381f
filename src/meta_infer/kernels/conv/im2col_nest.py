"""Convolution as a matrix product over columns of the input (im2col), in the plain layout, for any dtype.

    chunk: image n, `positions` outputs from p0 on (numbered over all spatial dims), some groups (or output channels)
        for group:
            columns[k][positions] = what kernel element k = (input channel, tap) meets, zero outside   (scratch)
            for panel of positions:  for tile of output channels:
                registers[channel][position] = sum over k of weight[channel][k] * columns[k][position]
                bias, epilogue

The columns stay in the second-level cache, all output channels of the group pass over them, and vectors run along
positions: channels need not be a multiple of anything, and weights are read as the model has them, known or not.
(K. Chellapilla et al., "High Performance Convolutional Neural Networks for Document Processing", 2006.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, Type, const, maximum, minimum, splat
from meta_infer.ir.shapes import Dim, ceildiv, divisible, product
from meta_infer.kernels.collapse import Collapsed, collapse, operand_values, unflatten
from meta_infer.kernels.conv.conv_shape import ConvShape
from meta_infer.kernels.conv.conv_tile import split_evenly
from meta_infer.kernels.kernel import KernelCall, Lowering
from meta_infer.kernels.math_use import uses_math
from meta_infer.kernels.matmul.gemm_tile import Tile, multiply
from meta_infer.kernels.point import Point, apply_nodes, bind, store_outputs


@dataclass(frozen=True)
class Im2colConv:
    """A convolution with everything chosen. A chunk has `positions` outputs, a multiple of a panel's, and `units`:
    groups where there are several, else tiles of output channels."""

    conv: ConvShape
    tile: Tile
    positions: int
    units: int

    @property
    def in_per_group(self) -> int:
        return int(self.conv.weight.shape[1])                         # type: ignore[arg-type]

    @property
    def out_per_group(self) -> int:
        return int(self.conv.weight.shape[0]) // self.conv.group      # type: ignore[arg-type]

    @property
    def depth(self) -> int:
        return self.in_per_group * self.conv.taps

    @property
    def sizes(self) -> list[int]:
        """Output channels of each tile of a group: as even as can be, larger ones first."""
        return split_evenly(self.out_per_group, self.tile.rows)

    @property
    def all_units(self) -> int:
        return self.conv.group if self.conv.group > 1 else len(self.sizes)

    @property
    def pitch(self) -> int:
        """Elements from one k to the next: room for a vector beyond the last one, and an odd number of panels, so
        that neighbours do not share cache sets."""
        panels = self.positions // self.tile.columns + 1
        return (panels + (panels % 2 == 0)) * self.tile.columns

    @property
    def column_elements(self) -> int:
        return self.depth * self.pitch

    @property
    def outputs(self) -> Dim:
        return product(self.conv.out_spatial)


def merged(group: Group, conv: ConvShape) -> Collapsed | None:
    """The outputs as [N, C, positions]; None where an operand varies over a part of the spatial dims."""
    space = collapse(conv.y.shape, operand_values(group), (1, 2))
    return space if len(space.shape) == 3 else None


@dataclass(frozen=True)
class _Nest:
    """What the code inside a chunk needs at hand; p0 is the chunk's first position, `count` how many it has."""

    b: Builder
    plan: Im2colConv
    group: Group                                     # in merged shapes
    space: Collapsed
    buffers: Mapping[str, Buffer]
    layouts: Mapping[str, Layout]
    columns: Buffer
    raw: Buffer | None                               # a tile's results, where epilogues call math functions
    n: Expr
    p0: Expr
    count: Expr

    def fill(self, part: Expr) -> None:
        """The columns of one group, line by line of the output."""
        b, conv, plan = self.b, self.plan.conv, self.plan
        rank = len(conv.kernel)
        width = b.dim(conv.out_spatial[-1])
        lines = b.let(self.p0 // width, "line_first"), b.let((self.p0 + self.count - 1) // width + 1, "line_end")
        channel = b.let((self.n * conv.group + part) * plan.in_per_group, "channel")
        with b.loop(*lines, name="line") as line, ExitStack() as stack:
            start = b.let(line * width - self.p0, "start")
            first = b.let(maximum(const(0) - start, 0), "first")
            last = b.let(minimum(self.count - start, width), "last")
            places = unflatten(b, line, conv.out_spatial[:-1])
            tap, row, inside = const(0), const(0), None
            for axis in range(rank - 1):
                k = const(0) if conv.kernel[axis] == 1 else stack.enter_context(b.loop(0, conv.kernel[axis], name="k"))
                at = b.let(places[axis] * conv.strides[axis] + k * conv.dilations[axis] - conv.begin[axis], "at")
                size = b.dim(conv.in_spatial[axis])
                met = at.ge(0) & at.lt(size)
                inside = met if inside is None else inside & met
                tap, row = tap * conv.kernel[axis] + k, row * size + at
            k = const(0) if conv.kernel[-1] == 1 else stack.enter_context(b.loop(0, conv.kernel[-1], name="k"))
            stride, shift = conv.strides[-1], b.let(k * conv.dilations[-1] - conv.begin[-1], "shift")
            in_width = b.dim(conv.in_spatial[-1])
            low = (maximum(const(0) - shift, 0) + (stride - 1)) // stride
            low = b.let(minimum(maximum(low, first), last), "low")
            high = (maximum(in_width - shift, 0) + (stride - 1)) // stride
            high = b.let(maximum(minimum(high, last), low), "high")
            if inside is not None:
                high = b.let(_if(b, inside, high, low), "high")
            tap = b.let(tap * conv.kernel[-1] + k, "tap")
            with b.loop(0, plan.in_per_group, name="ic") as ic:
                to = b.let((ic * conv.taps + tap) * plan.pitch + start, "to")
                source = channel + ic
                for planes in conv.in_spatial[:-1]:
                    source = source * b.dim(planes)
                source = b.let((source + row) * in_width + shift, "source")
                self._zero(to, first, low)
                self._copy(to, source, low, high)
                self._zero(to, high, last)

    def _zero(self, to: Expr, first: Expr, last: Expr) -> None:
        """Zeros in [first, last), and up to a vector beyond: what belongs there is written later, or is room."""
        b, lanes = self.b, self.plan.tile.lanes
        with b.loop(first, last, lanes, name="q") as q:
            b.store(self.columns, to + q, const(0, Type(self.columns.dtype, lanes)))

    def _copy(self, to: Expr, source: Expr, low: Expr, high: Expr) -> None:
        """The same for what the input has."""
        b, stride, lanes = self.b, self.plan.conv.strides[-1], self.plan.tile.lanes
        x = self.buffers[self.plan.conv.x.name]
        if stride > 1 or lanes == 1:
            with b.loop(low, high, name="q") as q:
                b.store(self.columns, to + q, b.load(x, source + q * stride))
            return
        whole = b.let(low + (high - low) // lanes * lanes, "whole")
        with b.loop(low, whole, lanes, name="q") as q:
            b.store(self.columns, to + q, b.load(x, source + q, lanes))
        with b.when(whole.lt(high)):
            b.store(self.columns, to + whole, b.load(x, source + whole, lanes, high - whole))

    def multiply(self, part: Expr, units: tuple[Expr, Expr] | None) -> None:
        """All panels of a group; `units` are the tiles of output channels (None: all)."""
        b, plan = self.b, self.plan
        sizes = plan.sizes
        panels = (self.count + (plan.tile.columns - 1)) // plan.tile.columns
        with b.loop(0, b.let(panels, "panels"), name="panel", apart=True) as panel:
            place = b.let(panel * plan.tile.columns, "place")
            tile, channel = 0, 0
            for rows in sorted(set(sizes), reverse=True):
                many = sizes.count(rows)
                low, high = (const(0), const(many)) if units is None else (
                    maximum(units[0] - tile, 0), minimum(units[1] - tile, many))
                with b.loop(low, high, name="tile") as i:
                    self._tile(rows, b.let(part * plan.out_per_group + channel + i * rows, "oc"), place)
                tile, channel = tile + many, channel + many * rows

    def _tile(self, rows: int, channel: Expr, place: Expr) -> None:
        b, plan, conv = self.b, self.plan, self.plan.conv
        weights = [b.let((channel + r) * plan.depth, "w_row") for r in range(rows)]
        total = multiply(b, plan.tile, rows, self.buffers[conv.weight.name], weights, 1, self.columns, place,
                         plan.pitch, const(plan.depth))
        if conv.bias is not None:
            total = [[value + splat(b.load(self.buffers[conv.bias.name], channel + r), plan.tile.lanes)
                      for value in row] for r, row in enumerate(total)]
        p = b.let(self.p0 + place, "p")
        if self.raw is None:
            named = [[b.let(value, "sum") for value in row] for row in total]
            def each(v: int, count: Expr | None) -> None:
                for r, row in enumerate(named):
                    self._point(row[v], channel + r, p, v, count)

            self._sides(p, each)
            return
        for r, row in enumerate(total):
            for v, value in enumerate(row):
                b.store(self.raw, r * plan.tile.columns + v * plan.tile.lanes, value)
        with b.loop(0, rows, name="r") as number:
            def again(v: int, count: Expr | None) -> None:
                at = number * plan.tile.columns + v * plan.tile.lanes
                assert self.raw is not None
                self._point(b.let(b.load(self.raw, at, plan.tile.lanes), "sum"), channel + number, p, v, count)

            self._sides(p, again)

    def _sides(self, p: Expr, visit: Callable[[int, Expr | None], None]) -> None:
        """All vectors of a panel inside; only the outputs there are where it reaches over the end."""
        b, tile, outputs = self.b, self.plan.tile, self.space.shape[-1]
        if divisible(outputs, tile.columns):
            for v in range(tile.vectors):
                visit(v, None)
            return
        with b.when((p + tile.columns).le(b.dim(outputs))):
            for v in range(tile.vectors):
                visit(v, None)
        with b.otherwise():
            for v in range(tile.vectors):
                left = b.let(b.dim(outputs) - (p + v * tile.lanes), "left")
                with b.when(left.gt(0)):
                    visit(v, None if tile.lanes == 1 else b.let(minimum(left, tile.lanes), "count"))

    def _point(self, value: Expr, channel: Expr, p: Expr, v: int, count: Expr | None) -> None:
        b, lanes = self.b, self.plan.tile.lanes
        coords = (self.n, b.let(channel, "c"), b.let(p + v * lanes, "at"))
        point = Point(self.space.shape, coords, 2, lanes, count)
        known = apply_nodes(b, self.group.epilogue, self.group.values, {self.plan.conv.y.name: value}, self.buffers,
                            self.layouts, point)
        store_outputs(b, self.group, known, self.buffers, self.layouts, point)


def _if(b: Builder, cond: Expr, a: Expr, otherwise: Expr) -> Expr:
    chosen = b.var(otherwise, "chosen")
    with b.when(cond):
        b.assign(chosen, a)
    return chosen


def lower_im2col(group: Group, plan: Im2colConv, layouts: Mapping[str, Layout]) -> Lowering:
    """The loop nest of the module's note."""
    conv, tile = plan.conv, plan.tile
    space = merged(group, conv)
    assert space is not None, "variants asks first"
    b = Builder("conv_im2col")
    buffers = bind(b, group)
    columns = b.scratch("columns", conv.x.dtype, plan.column_elements)
    raw = b.scratch("raw", conv.x.dtype, tile.rows * tile.columns) if uses_math(group) else None
    blocks = ceildiv(plan.outputs, plan.positions)
    unit_groups = -(-plan.all_units // plan.units)
    with b.chunks(b.dim(product((conv.y.shape[0], blocks))) * unit_groups) as chunk:
        block, rest = b.let(chunk % b.dim(blocks), "block"), b.let(chunk // b.dim(blocks), "rest")
        n, unit_group = b.let(rest % b.dim(conv.y.shape[0]), "n"), b.let(rest // b.dim(conv.y.shape[0]), "unit_group")
        first = b.let(unit_group * plan.units, "first")
        last = b.let(minimum(first + plan.units, plan.all_units), "last")
        p0 = b.let(block * plan.positions, "p0")
        count = b.let(minimum(b.dim(plan.outputs) - p0, plan.positions), "count")
        nest = _Nest(b, plan, space.group(group), space, buffers, layouts, columns, raw, n, p0, count)
        parts = (const(0), const(1)) if conv.group == 1 else (first, last)
        with b.loop(*parts, name="part") as part:
            nest.fill(part)
            nest.multiply(part, (first, last) if conv.group == 1 and unit_groups > 1 else None)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))
