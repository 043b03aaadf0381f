"""Max, average and sum pooling over any number of spatial dims, in a blocked or the plain layout.

    for plane (image and channel block, or channel):  for output row:
        for tile of output columns whose windows lie inside the image:  registers;  for tap:  max or add;  epilogue
        the other columns one by one, over the part of the window that meets the image

An element is a vector of channels when blocked and a single number when plain; the code is the same. Knobs: `columns`
of a tile, and `lines`, output rows of a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape, Value
from meta_infer.ir.group import PLAIN, Group, Layout, Variant, blocked
from meta_infer.ir.loop import Buffer, Expr, Type, cast, const, maximum, minimum
from meta_infer.ir.shapes import Dim, product, usual_upper
from meta_infer.kernels.blocked import blockable, blocks, operand_layouts
from meta_infer.kernels.fold import identity
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.plane_chunks import cut_planes, lines_knob, lines_refusal, plane_chunks
from meta_infer.kernels.point import Point, apply_nodes, bind, channel_count, store_outputs
from meta_infer.ops.attrs import ints_of
from meta_infer.support.dtypes import FLOAT32

COLUMNS = 8
"""Of a tile where nothing else has been chosen."""
_COLUMNS = (1, 2, 4, 8, 12)
# More taps of a row than this are a loop.
_STRAIGHT_TAPS = 8


@dataclass(frozen=True)
class PoolShape:
    """A pooling with two spatial dims or more; the last is the one that tiles run along."""

    x: Value
    y: Value
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    dilations: tuple[int, ...]
    is_max: bool
    is_sum: bool
    counts_padding: bool

    @property
    def in_spatial(self) -> Shape:
        return self._spatial(self.x)

    @property
    def out_spatial(self) -> Shape:
        return self._spatial(self.y)

    def _spatial(self, value: Value) -> Shape:
        return (1,) * (len(self.kernel) + 2 - value.rank) + value.shape[2:]


def pool_of(group: Group) -> PoolShape | None:
    """The group's pooling; None when it has a prologue or its epilogue changes the shape."""
    x, y, attrs = group.in_value(0), group.values[group.anchor.outputs[0]], group.anchor.attrs
    if x is None or group.prologue or any(group.values[n.outputs[0]].shape != y.shape for n in group.epilogue):
        return None
    kernel = ints_of(attrs, "kernel_shape")
    rank = len(kernel)
    strides, dilations = ints_of(attrs, "strides", (1,) * rank), ints_of(attrs, "dilations", (1,) * rank)
    pads = ints_of(attrs, "pads", (0,) * 2 * rank)
    lead = 1 if rank == 1 else 0                                       # a row is a plane of one row
    return PoolShape(x, y, (1,) * lead + kernel, (1,) * lead + strides, (0,) * lead + pads[:rank],
                     (0,) * lead + pads[rank:], (1,) * lead + dilations, group.anchor.op == "MaxPool",
                     group.anchor.op == "SumPool", bool(attrs.get("count_include_pad", 0)))


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    pool, block = pool_of(group), profile.lanes(FLOAT32)
    if pool is None:
        return
    others = [n for n in group.inputs if n != pool.x.name]
    if block > 1 and pool.x.dtype == FLOAT32 and blockable(group):
        inputs = operand_layouts(group, others, pool.y.rank, block) | {pool.x.name: blocked(block)}
        outputs = {n: blocked(block) for n in group.outputs}
        yield Variant("pool", "blocked", inputs, outputs, _default(pool, block))
    yield Variant("pool", "plain", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs},
                  _default(pool, 1))


def _planes(pool: PoolShape, lanes: int) -> Dim:
    return product((pool.y.shape[0], blocks(pool.y.shape[1], lanes) if lanes > 1 else pool.y.shape[1]))


def _line_work(pool: PoolShape) -> float:
    work = float(np.prod(pool.kernel))
    for dim in pool.out_spatial[1:]:
        work *= dim if isinstance(dim, int) else 64
    return work


def _default(pool: PoolShape, lanes: int) -> dict[str, KnobValue]:
    return {"columns": COLUMNS, "lines": cut_planes(_planes(pool, lanes), pool.out_spatial[0], _line_work(pool))[1]}


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    pool = pool_of(group)
    assert pool is not None, "no variant was offered for this group"
    return Knob("columns", _COLUMNS), lines_knob(int(variant.knobs["lines"]), pool.out_spatial[0])


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    pool, full = pool_of(group), {**variant.knobs, **values}
    assert pool is not None, "no variant was offered for this group"
    columns, width = int(full["columns"]), max(1, usual_upper(pool.out_spatial[-1]))
    if columns != COLUMNS and not 0 < columns <= width:
        return Refusal(full, "shape", f"tiles of {columns} columns of {width}")
    if columns > profile.vector_registers - 2:
        return Refusal(full, "registers", f"{columns} accumulators of {profile.vector_registers} registers")
    return lines_refusal(full, pool.out_spatial[0]) or replace(variant, knobs=full)


def window(b: Builder, pool: PoolShape, axis: int, at: Expr) -> tuple[Expr, Expr]:
    """Taps [low, high) of one axis that meet the image for output position `at`."""
    pad, dilation, taps = pool.begin[axis], pool.dilations[axis], pool.kernel[axis]
    start = b.let(at * pool.strides[axis], "start")
    size = b.dim(pool.in_spatial[axis])
    low = b.let((maximum(pad - start, 0) + (dilation - 1)) // dilation, "low") if pad else const(0)
    high = minimum((maximum(size + pad - start, 0) + (dilation - 1)) // dilation, taps)
    return low, b.let(maximum(high, low), "high")


def _counted(b: Builder, pool: PoolShape, axis: int, at: Expr, window: tuple[Expr, Expr]) -> Expr:
    """Taps of one axis that an average divides by."""
    if not pool.counts_padding:
        return window[1] - window[0]
    dilation = pool.dilations[axis]
    limit = b.dim(pool.in_spatial[axis]) + (pool.begin[axis] + pool.end[axis]) - at * pool.strides[axis]
    return minimum((maximum(limit, 0) + (dilation - 1)) // dilation, pool.kernel[axis])


@dataclass(frozen=True)
class PoolPlane:
    """One plane's code: `lanes` numbers per element, `plane` the number of lines before its first one in x."""

    b: Builder
    pool: PoolShape
    x: Buffer
    lanes: int
    plane: Expr
    finish: Callable[[Expr, Expr], None]                               # (column, value)

    def _line(self, stack: ExitStack, outer: Sequence[Expr], windows: Sequence[tuple[Expr, Expr]]) -> Expr:
        """Loops over the taps of all axes but the last; the element where the input row begins."""
        at: Expr = const(0)
        for axis, (place, window) in enumerate(zip(outer, windows, strict=True)):
            tap = stack.enter_context(self.b.loop(*window, name="k"))
            source = place * self.pool.strides[axis] + tap * self.pool.dilations[axis] - self.pool.begin[axis]
            at = at * self.b.dim(self.pool.in_spatial[axis]) + source
        return self.b.let((self.plane + at) * self.b.dim(self.pool.in_spatial[-1]), "line")

    def columns(self, count: int, column: Expr, taps: tuple[Expr, Expr] | None, outer: Sequence[Expr],
                windows: Sequence[tuple[Expr, Expr]], divisor: Expr) -> None:
        """`count` neighbouring output columns; `taps` limits those of the last axis (None: all are inside)."""
        b, pool, lanes = self.b, self.pool, self.lanes
        dtype = pool.x.dtype
        start = const(identity("max", dtype) if pool.is_max else 0, Type(dtype, lanes))
        acc = [b.var(start, "acc") for _ in range(count)]
        with ExitStack() as stack:
            line = self._line(stack, outer, windows)
            left = b.let(line + column * pool.strides[-1] - pool.begin[-1], "left")

            def tap(k: Expr | int) -> None:
                for j in range(count):
                    place = left + j * pool.strides[-1] + k * pool.dilations[-1]
                    value = b.load(self.x, place * lanes, lanes)
                    b.assign(acc[j], maximum(value, acc[j]) if pool.is_max else acc[j] + value)

            if taps is None and pool.kernel[-1] <= _STRAIGHT_TAPS:
                for k in range(pool.kernel[-1]):
                    tap(k)
            else:
                low, high = taps or (const(0), const(pool.kernel[-1]))
                with b.loop(low, high, name="kw") as kw:
                    tap(kw)
        scale = None if pool.is_max or pool.is_sum else b.let(cast(maximum(divisor, 1), dtype), "divisor")
        for j in range(count):
            self.finish(b.let(column + j), acc[j] if scale is None else b.let(acc[j] / scale, "mean"))


def _inner_columns(b: Builder, pool: PoolShape) -> tuple[Expr, Expr]:
    """Output columns [low, high) whose windows lie inside the image."""
    stride, pad, width = pool.strides[-1], pool.begin[-1], b.dim(pool.out_spatial[-1])
    low = b.let(minimum(const(-(-pad // stride)), width), "inner_low")
    reach = b.dim(pool.in_spatial[-1]) + pad - (pool.kernel[-1] - 1) * pool.dilations[-1] + (stride - 1)
    return low, b.let(maximum(minimum(maximum(reach, 0) // stride, width), low), "inner_high")


def pool_row(b: Builder, code: PoolPlane, outer: Sequence[Expr], columns: int = COLUMNS) -> None:
    """All columns of the output row at `outer`, `columns` of them at a time where windows lie inside."""
    pool = code.pool
    windows = [window(b, pool, axis, at) for axis, at in enumerate(outer)]
    counted: Expr = const(1)
    for axis, at in enumerate(outer):
        counted = counted * _counted(b, pool, axis, at, windows[axis])
    counted = b.let(counted, "counted")
    low, high = _inner_columns(b, pool)
    whole = b.let(low + (high - low) // columns * columns, "whole")
    with b.loop(low, whole, columns, name="column") as column:
        code.columns(columns, column, None, outer, windows, counted * pool.kernel[-1])
    for first, last in ((const(0), low), (whole, b.dim(pool.out_spatial[-1]))):
        with b.loop(first, last, name="column") as column:
            taps = window(b, pool, len(outer), column)
            divisor = counted * _counted(b, pool, len(outer), column, taps)
            code.columns(1, column, taps, outer, windows, divisor)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    pool = pool_of(group)
    assert pool is not None
    lanes = layouts[pool.x.name].block or 1
    b = Builder("max_pool" if pool.is_max else "sum_pool" if pool.is_sum else "average_pool")
    buffers = bind(b, group)
    channels = blocks(pool.y.shape[1], lanes) if lanes > 1 else pool.y.shape[1]
    columns, lines = int(variant.knobs["columns"]), int(variant.knobs["lines"])
    chunks = plane_chunks(b, _planes(pool, lanes), pool.out_spatial[0], _line_work(pool), rows=lines)
    with chunks as (plane, y0, y1):
        n, channel = b.let(plane // b.dim(channels), "n"), b.let(plane % b.dim(channels) * lanes, "channel")
        count = channel_count(b, pool.y.shape, 1, channel, lanes) if lanes > 1 else None
        first = plane
        for dim in pool.in_spatial[:-1]:
            first = first * b.dim(dim)
        first = b.let(first, "first_line")
        with ExitStack() as stack:
            outer = [stack.enter_context(b.loop(y0, y1, name="y"))]
            outer += [stack.enter_context(b.loop(0, b.dim(d), name="z")) for d in pool.out_spatial[1:-1]]

            def finish(column: Expr, value: Expr) -> None:
                places = [*outer, column][-(pool.y.rank - 2):]
                point = Point(pool.y.shape, (n, channel, *places), 1 if lanes > 1 else pool.y.rank - 1, lanes, count)
                known = apply_nodes(b, group.epilogue, group.values, {pool.y.name: value}, buffers, layouts, point)
                store_outputs(b, group, known, buffers, layouts, point)

            pool_row(b, PoolPlane(b, pool, buffers[pool.x.name], lanes, first, finish), outer, columns)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


POOL = Kernel("pool", ("MaxPool", "AveragePool", "SumPool"), _variants, _lower, _knobs, _tune)
