"""Convolution and transposed convolution in the plain layout: grouped, of any rank, with weights known or not.

    for plane (image, up to four output channels of a group):  for output row:
        sums[channel][W'] = bias                                                   (per-thread scratch)
        for input channel of the group, tap:  for the output columns it meets:  sums += weight * x
        epilogue

Input columns of one tap are neighbours, so stride 1 works on vectors. The blocked kernels are several times faster;
this one serves what they do not. Knobs: `channels`, output channels at once, and `lines`, output rows of a chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape, Value
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, const, maximum, minimum, splat
from meta_infer.ir.shapes import Dim, product, usual_upper
from meta_infer.kernels.conv.conv_shape import ConvShape, any_conv_of
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.matmul.gemm_tile import DTYPES, multiply_add
from meta_infer.kernels.plane_chunks import cut_planes, plane_chunks
from meta_infer.kernels.point import Point, apply_nodes, bind, store_outputs

# Measured on layers of many kinds, of one part in twenty for rows that are short or strided to one in seven.
_SHARE_OF_PEAK = 0.1


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    conv = any_conv_of(group)
    if conv is None or conv.x.dtype not in DTYPES:
        return
    plain = {name: PLAIN for name in (*group.inputs, *group.outputs)}
    taps = conv.taps * conv.weight.shape[1]                           # per output; of a transposed one, per input
    work = taps * product((conv.x if group.anchor.op == "ConvTranspose" else conv.y).shape[1:])
    channels = next(c for c in (4, 2, 1) if _out_group(conv) % c == 0)
    _, lines = cut_planes(_planes(conv, channels), _out_spatial(conv)[0], _line_work(group, conv, channels, profile))
    yield Variant("conv_generic", "conv_generic", {n: plain[n] for n in group.inputs},
                  {n: plain[n] for n in group.outputs}, {"channels": channels, "lines": lines}, flops=conv.flops,
                  cost=2.0 * max(1, usual_upper(work)) / _SHARE_OF_PEAK)


def _out_group(conv: ConvShape) -> int:
    """Output channels of a group."""
    return _channels(conv.y) // conv.group


def _out_spatial(conv: ConvShape) -> Shape:
    """With two dims or more."""
    return (1,) * (2 - len(conv.kernel)) + conv.out_spatial


def _planes(conv: ConvShape, channels: int) -> Dim:
    return conv.y.shape[0] * (conv.group * (_out_group(conv) // channels))


def _in_group(group: Group, conv: ConvShape) -> int:
    """Input channels of a group."""
    if group.anchor.op == "ConvTranspose":
        return int(conv.weight.shape[0]) // conv.group                # type: ignore[arg-type]
    return _channels(conv.weight)


def _line_work(group: Group, conv: ConvShape, channels: int, profile: Profile) -> float:
    """Vector operations of a row of outputs, so many channels of it."""
    work = float(conv.taps * _in_group(group, conv) * channels * 8)
    for dim in _out_spatial(conv)[1:]:
        work *= dim if isinstance(dim, int) else 64
    return work / profile.lanes(conv.x.dtype)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    conv, lines = any_conv_of(group), int(variant.knobs["lines"])
    assert conv is not None
    height = max(1, usual_upper(_out_spatial(conv)[0]))
    channels = tuple(c for c in (1, 2, 4) if _out_group(conv) % c == 0)
    return (Knob("channels", channels),
            Knob("lines", tuple(sorted({1, lines, max(1, lines // 2), max(lines, min(height, 2 * lines))}))))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    full, conv = {**variant.knobs, **values}, any_conv_of(group)
    assert conv is not None
    channels, lines = int(full["channels"]), int(full["lines"])
    if channels < 1 or _out_group(conv) % channels:
        return Refusal(full, "alignment", f"{_out_group(conv)} output channels of a group, {channels} at once")
    if not 0 < lines <= max(1, usual_upper(_out_spatial(conv)[0]), int(variant.knobs["lines"])):
        return Refusal(full, "shape", f"{lines} of {_out_spatial(conv)[0]} rows")
    return replace(variant, knobs=full)


@dataclass(frozen=True)
class _Rows:
    """What the code of an output row needs at hand. Spatial shapes have two dims or more."""

    b: Builder
    conv: ConvShape
    x: Buffer
    w: Buffer
    sums: Buffer
    channels: int                                   # output channels at once
    lanes: int
    is_transposed: bool

    @property
    def kernel(self) -> tuple[int, ...]:
        return self._spatial(self.conv.kernel, 1)

    @property
    def in_spatial(self) -> Shape:
        return (1,) * (2 - len(self.conv.kernel)) + self.conv.in_spatial

    @property
    def out_width(self) -> Expr:
        return self.b.dim(self.conv.out_spatial[-1])

    def _spatial(self, values: tuple[int, ...], missing: int) -> tuple[int, ...]:
        return (missing,) * (2 - len(values)) + values

    def geometry(self, axis: int) -> tuple[int, int, int]:
        """Stride, dilation and leading pad of a spatial axis."""
        conv = self.conv
        return (self._spatial(conv.strides, 1)[axis], self._spatial(conv.dilations, 1)[axis],
                self._spatial(conv.begin, 0)[axis])

    def outer_taps(self, stack: ExitStack, places: Sequence[Expr]) -> tuple[Expr, Expr]:
        """Opens loops over the taps of all axes but the last that meet the input.

        Returns (line of the input within its channel, tap number without the last axis).
        """
        b, line, tap = self.b, const(0), const(0)
        for axis, place in enumerate(places):
            stride, dilation, pad = self.geometry(axis)
            k = stack.enter_context(b.loop(0, self.kernel[axis], name="k"))
            size = b.dim(self.in_spatial[axis])
            if self.is_transposed:
                reach = b.let(place + pad - k * dilation, "reach")
                forward = b.let(maximum(reach, 0), "forward")
                inside = reach.ge(0) & (forward % stride).eq(0) & (forward // stride).lt(size)
                source = b.let(forward // stride, "source")
            else:
                source = b.let(place * stride + k * dilation - pad, "source")
                inside = source.ge(0) & source.lt(size)
            stack.enter_context(b.when(inside))
            line, tap = line * size + source, tap * self.kernel[axis] + k
        return b.let(line, "line"), b.let(tap, "tap")

    def add_tap(self, row: Expr, weights: Sequence[Expr], kw: Expr) -> None:
        """Add one tap of the last axis; `row` is the first element of the input row."""
        b = self.b
        stride, dilation, pad = self.geometry(len(self.kernel) - 1)
        width, shift = b.dim(self.in_spatial[-1]), b.let(kw * dilation - pad, "shift")
        # A walk over the dense side, input or output, visits every `stride`-th element of the other.
        short, wide = (width, self.out_width) if self.is_transposed else (self.out_width, width)
        low = b.let((maximum(const(0) - shift, 0) + (stride - 1)) // stride, "low")
        high = b.let(minimum((maximum(wide - shift, 0) + (stride - 1)) // stride, short), "high")

        def add(at: Expr, lanes: int) -> None:
            far = b.let(at * stride + shift)
            source, target = (at, far) if self.is_transposed else (far, at)
            value = b.let(b.load(self.x, row + source, lanes), "x")
            for c, weight in enumerate(weights):
                place = b.let(self.out_width * c + target)
                old = b.load(self.sums, place, lanes)
                b.store(self.sums, place, multiply_add(value, splat(weight, lanes), old))

        start = low
        if stride == 1 and self.lanes > 1:
            start = b.let(low + maximum(high - low, 0) // self.lanes * self.lanes, "whole")
            with b.loop(low, start, self.lanes, name="at") as at:
                add(at, self.lanes)
        with b.loop(start, high, name="at") as at:
            add(at, 1)


def _add_all(rows: _Rows, places: Sequence[Expr], n: Expr, part: Expr, in_group: int, first: Expr) -> None:
    """All input channels and taps of one output row, whose first output channel within the group is `first`."""
    b, conv = rows.b, rows.conv
    per_group = int(conv.weight.shape[1]) if rows.is_transposed else 0               # type: ignore[arg-type]
    with b.loop(0, in_group, name="ic") as ic, ExitStack() as stack:
        line, tap = rows.outer_taps(stack, places)
        channel = (n * (conv.group * in_group)) + part * in_group + ic
        for size in rows.in_spatial[:-1]:
            channel = channel * b.dim(size)
        row = b.let((channel + line) * b.dim(rows.in_spatial[-1]), "row")
        with b.loop(0, rows.kernel[-1], name="kw") as kw:
            within = b.let(tap * rows.kernel[-1] + kw, "within")
            weights = []
            for c in range(rows.channels):
                if rows.is_transposed:
                    place = (part * in_group + ic) * per_group + first + c
                else:
                    out_group = int(conv.weight.shape[0]) // conv.group               # type: ignore[arg-type]
                    place = (part * out_group + first + c) * in_group + ic
                weights.append(b.let(b.load(rows.w, place * conv.taps + within), "w"))
            rows.add_tap(row, weights, kw)


def _finish(rows: _Rows, group: Group, buffers: Mapping[str, Buffer], layouts: Mapping[str, Layout], n: Expr,
            channel: Expr, places: Sequence[Expr]) -> None:
    """Epilogue and stores of one output row, vector by vector."""
    b, y, lanes = rows.b, rows.conv.y, rows.lanes
    for c in range(rows.channels):
        with b.loop(0, rows.out_width, lanes, name="column") as column:
            count = None if lanes == 1 else b.let(minimum(rows.out_width - column, lanes), "count")
            value = b.let(b.load(rows.sums, rows.out_width * c + column, lanes, count), "r")
            spatial = (*places, column)[-(y.rank - 2):]
            point = Point(y.shape, (n, channel + c, *spatial), y.rank - 1, lanes, count)
            known = apply_nodes(b, group.epilogue, group.values, {y.name: value}, buffers, layouts, point)
            store_outputs(b, group, known, buffers, layouts, point)


def _start(rows: _Rows, bias: Buffer | None, channel: Expr) -> None:
    b, width = rows.b, rows.out_width
    for c in range(rows.channels):
        zero = const(0, Type(rows.conv.x.dtype))
        first = zero if bias is None else b.let(b.load(bias, channel + c), "bias")
        with b.loop(0, width, name="column") as column:
            b.store(rows.sums, width * c + column, first)


def _channels(value: Value) -> int:
    channels = value.shape[1]
    assert isinstance(channels, int), "the weights' shape fixes the channels"
    return channels


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    conv = any_conv_of(group)
    assert conv is not None
    is_transposed = group.anchor.op == "ConvTranspose"
    b = Builder("conv_transpose" if is_transposed else "conv_generic")
    buffers = bind(b, group)
    out_group, at_once = _out_group(conv), int(variant.knobs["channels"])
    sums = b.scratch("sums", conv.x.dtype, b.dim(conv.out_spatial[-1]) * at_once)
    rows = _Rows(b, conv, buffers[conv.x.name], buffers[conv.weight.name], sums, at_once,
                 profile.lanes(conv.x.dtype), is_transposed)
    in_group, out_spatial = _in_group(group, conv), _out_spatial(conv)
    tiles = out_group // at_once                                       # of one group
    with plane_chunks(b, _planes(conv, at_once), out_spatial[0], _line_work(group, conv, at_once, profile),
                      rows=int(variant.knobs["lines"])) as (plane, y0, y1):
        n, rest = b.let(plane // (conv.group * tiles), "n"), b.let(plane % (conv.group * tiles), "rest")
        part, first = b.let(rest // tiles, "part"), b.let(rest % tiles * at_once, "first")
        channel = b.let(part * out_group + first, "channel")
        with ExitStack() as stack:
            places = [stack.enter_context(b.loop(y0, y1, name="y"))]
            places += [stack.enter_context(b.loop(0, b.dim(d), name="z")) for d in out_spatial[1:-1]]
            _start(rows, buffers[conv.bias.name] if conv.bias is not None else None, channel)
            _add_all(rows, places, n, part, in_group, first)
            _finish(rows, group, buffers, layouts, n, channel, places)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


CONV_GENERIC = Kernel("conv_generic", ("Conv", "ConvTranspose"), _variants, _lower, _knobs, _tune)
