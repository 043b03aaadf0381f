"""Resize of one axis: the kernel of antialias, of crops and of scales that are known while running.

    for row (position before the axis, output position):  coordinate;  for tap:  sums[inner] += weight * x[tap]
                                                          y = sums / the weights' total, or the extrapolation value

A filter that shrinks an image has as many taps as the scale asks for: they are a loop, not unrolled.

No knob: rows are independent and all cut alike; the common resizes are those of resize.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, cast, const, mad, maximum, minimum, select, splat, unary
from meta_infer.ir.shapes import product
from meta_infer.kernels.image.resize_taps import coordinate, nearest
from meta_infer.kernels.image.sampling import bounded, real_of
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.picks import unless_empty
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import GRAIN, along_row, copy_lanes, copy_run
from meta_infer.ops.attrs import Attrs, bool_of, float_of, int_of, ints_of, text_of
from meta_infer.ops.resize_axis import RADIUS
from meta_infer.support.dtypes import INT64, DType


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    x = group.values[group.anchor.inputs[0]]
    if group.epilogue or group.prologue:
        return
    if x.dtype != real_of(x.dtype) and text_of(group.anchor.attrs, "mode") != "nearest":
        return
    yield Variant("resize_axis", "plain", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})


@dataclass(frozen=True)
class _Axis:
    """The axis in numbers; `scale`, `real_size` and `real_out` are floats of `real`."""

    b: Builder
    attrs: Attrs
    real: DType
    size: Expr
    scale: Expr
    real_size: Expr
    real_out: Expr
    region: tuple[Expr, Expr] | None

    def coordinate(self, x: Expr) -> Expr:
        transformation = text_of(self.attrs, "coordinate_transformation_mode")
        if transformation != "tf_crop_and_resize":
            at = coordinate(transformation, cast(x, self.real), self.scale, self.real_size, self.real_out)
            return bounded(self.b, at)
        assert self.region is not None, "the importer demands it"
        start, end = self.region
        last, one = self.real_size - 1.0, const(1.0, Type(self.real))
        step = (end - start) * last / maximum(self.real_out - 1.0, one)
        return bounded(self.b, select(self.real_out.gt(1.0), start * last + cast(x, self.real) * step,
                                      (start + end) * 0.5 * last))

    def weight(self, distance: Expr) -> Expr:
        """The interpolation kernel (see ops/resize_axis.py) at a distance >= 0."""
        zero = const(0.0, Type(self.real))
        if text_of(self.attrs, "mode") == "linear":
            return maximum(1.0 - distance, zero)
        a = float_of(self.attrs, "cubic_coeff_a")
        near = ((a + 2.0) * distance - (a + 3.0)) * distance * distance + 1.0
        far = ((a * distance - 5.0 * a) * distance + 8.0 * a) * distance - 4.0 * a
        return select(distance.le(1.0), near, select(distance.lt(2.0), far, zero))

    def filter(self, at: Expr) -> tuple[Expr, Expr, Expr, Expr]:
        """First tap, number of taps, distance of the first tap (negative), and distance from tap to tap."""
        b, radius, one = self.b, RADIUS[text_of(self.attrs, "mode")], const(1.0, Type(self.real))
        base = b.let(unary("ceil", at) - 1.0, "base")
        if not bool_of(self.attrs, "antialias"):
            first = 1 - radius
            return b.let(cast(base, INT64) + first, "first"), const(2 * radius), b.let(base - at + float(first)), one
        step = b.let(minimum(self.scale, one), "step")
        start = b.let(unary("floor", -float(radius) / step) + 1.0, "start")
        count = b.let(2 - cast(start, INT64) * 2, "count")
        return b.let(cast(base + start, INT64), "first"), count, b.let((base - at + start) * step, "distance"), step


def _row(axis: _Axis, src: Buffer, dst: Buffer, sums: Buffer, x: Expr, base: Expr, target: Expr, inner: Expr,
         lanes: int, move_lanes: int) -> None:
    """One output row of `inner` elements; `base` is the first element of the input's rows."""
    b, attrs, dtype = axis.b, axis.attrs, src.dtype
    at = axis.coordinate(x)

    def held(place: Expr) -> Expr:
        return b.let(maximum(minimum(place, axis.size - 1), 0), "held")

    def sample() -> None:
        if text_of(attrs, "mode") == "nearest":
            place = held(cast(nearest(attrs["nearest_mode"], at, axis.scale), INT64))
            copy_run(b, src, b.let(base + place * inner), dst, target, inner, move_lanes)
            return
        first, count, distance, step = axis.filter(at)
        along_row(b, 0, inner, lanes, lambda i, n, some: b.store(sums, i, const(0.0, Type(dtype, n)), some))
        total = b.var(const(0.0, Type(axis.real)), "total")
        with b.loop(0, count, name="tap") as tap:
            place = b.let(first + tap, "place")
            weight = axis.weight(b.let(unary("abs", distance + cast(tap, axis.real) * step), "away"))
            if bool_of(attrs, "exclude_outside"):
                weight = select(place.ge(0) & place.lt(axis.size), weight, const(0.0, Type(axis.real)))
            weight = b.let(weight, "weight")
            b.assign(total, total + weight)
            source = b.let(base + held(place) * inner, "source")
            along_row(b, 0, inner, lanes, lambda i, n, some: b.store(
                sums, i, mad(b.load(src, source + i, n, some), splat(weight, n), b.load(sums, i, n, some)), some))
        whole = b.let(select(total.eq(0.0), const(1.0, Type(axis.real)), total), "whole")
        along_row(b, 0, inner, lanes, lambda i, n, some: b.store(
            dst, target + i, b.load(sums, i, n, some) / splat(whole, n), some))

    if text_of(attrs, "coordinate_transformation_mode") != "tf_crop_and_resize":
        sample()
        return
    outside = at.lt(0.0) | at.gt(axis.real_size - 1.0)
    value = float_of(attrs, "extrapolation_value")
    with b.when(outside):
        fill = const(value if dtype.is_float else int(value), Type(dtype))
        along_row(b, 0, inner, move_lanes, lambda i, n, some: b.store(dst, target + i, splat(fill, n), some))
    with b.otherwise():
        sample()


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    attrs, names = group.anchor.attrs, group.anchor.inputs
    x, out, at = group.values[names[0]], group.values[group.outputs[0]], int_of(group.anchor.attrs, "axis")
    real = real_of(x.dtype)
    b = Builder("resize_axis")
    buffers = bind(b, group)
    src, dst = buffers[names[0]], buffers[out.name]
    scales = buffers[names[1]] if len(names) > 1 and names[1] else None
    roi = buffers[names[2]] if len(names) > 2 and names[2] else None
    size, length, inner = b.dim(x.shape[at]), b.dim(out.shape[at]), b.dim(product(x.shape[at + 1:]))
    rows = unless_empty(b, b.dim(product(out.shape[:at + 1])), x.shape[at])
    sums, lanes = b.scratch("sums", real, inner), profile.lanes(real)
    per_chunk = maximum(const(GRAIN // 4) // maximum(inner, 1), 1)
    with b.chunks((rows + per_chunk - 1) // per_chunk) as chunk:
        start = b.let(chunk * per_chunk, "start")
        real_size, real_out = b.let(cast(size, real), "real_size"), b.let(cast(length, real), "real_out")
        given = float_of(attrs, "scale")
        if scales is not None:
            scale = b.let(cast(b.load(scales, int_of(attrs, "scale_index")), real), "scale")
        else:
            scale = const(given, Type(real)) if given else b.let(real_out / real_size, "scale")
        region = None
        if roi is not None:
            first, last = (b.let(cast(b.load(roi, i), real), "end") for i in ints_of(attrs, "roi_indices"))
            region = (first, last)
        axis = _Axis(b, attrs, real, size, scale, real_size, real_out, region)
        with b.loop(start, minimum(start + per_chunk, rows), name="row") as row:
            base = b.let(row // length * size * inner, "base")
            _row(axis, src, dst, sums, b.let(row % length, "x"), base, b.let(row * inner, "target"), inner, lanes,
                 copy_lanes(profile, src.dtype))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


RESIZE_AXIS = Kernel("resize_axis", ("ResizeAxis",), _variants, _lower)
