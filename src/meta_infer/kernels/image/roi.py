"""RoiAlign and MaxRoiPool: a grid of cells cut out of a region of an image, each one number per channel.

    for cell (region, row, column):  values[C] = start;  for sample or pixel of the cell:  for channel:  add or max

What a sample is made of is worked out once for all channels. Sources: the operator specification of ONNX; Mask R-CNN
(He et al., 2017) for RoiAlign, Fast R-CNN (Girshick, 2015) for MaxRoiPool.

No knob: cells cost what the regions ask for, which only the data says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Expr, Type, cast, const, maximum, minimum, select, unary
from meta_infer.ir.shapes import product
from meta_infer.kernels.fold import identity
from meta_infer.kernels.image.sampling import Sample, bounded, real_of
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.picks import unless_empty
from meta_infer.kernels.point import bind
from meta_infer.ops.attrs import bool_of, float_of, int_of, ints_of, text_of
from meta_infer.support.dtypes import INT64, DType

# Samples per side of a cell when they follow from the region's size: a larger region is none that fits an image.
_MOST_SAMPLES = 1 << 14
_CELLS = 16


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    kernel = "roi_align" if group.anchor.op == "RoiAlign" else "max_roi_pool"
    yield Variant(kernel, "plain", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})


def _bilinear(b: Builder, y: Expr, x: Expr, height: Expr, width: Expr) -> tuple[Sample, Expr]:
    """The four pixels around a point, and whether it lies within a pixel of the image; else it counts as zero."""
    real_h, real_w = cast(height, y.type.dtype), cast(width, x.type.dtype)
    inside = b.let(y.ge(-1.0) & y.le(real_h) & x.ge(-1.0) & x.le(real_w), "inside")
    sides = []
    for at, size, real in ((y, height, real_h), (x, width, real_w)):
        held = b.let(maximum(minimum(at, real - 1.0), const(0.0, at.type)), "held")
        low = b.let(cast(held, INT64), "low")
        far = b.let(held - cast(low, at.type.dtype), "far")
        sides.append(((low, b.let(1.0 - far, "near")), (b.let(minimum(low + 1, size - 1), "high"), far)))
    pixels = tuple((b.let(row * width + column, "pixel"), b.let(wy * wx, "weight"), None)
                   for row, wy in sides[0] for column, wx in sides[1])
    return Sample(pixels), inside


def _round(value: Expr) -> Expr:
    """To the nearest integer, halves away from zero."""
    return select(value.lt(0.0), unary("ceil", value - 0.5), unary("floor", value + 0.5))


def _region(b: Builder, rois: Expr, scale: Expr, offset: float) -> Expr:
    return bounded(b, rois * scale - offset)


def _lower_align(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    attrs = group.anchor.attrs
    image, rois, batches = (group.values[n] for n in group.anchor.inputs)
    out, dtype = group.values[group.outputs[0]], image.dtype
    is_max, half_pixel = text_of(attrs, "mode") == "max", bool_of(attrs, "half_pixel")
    rows, columns, ratio = (int_of(attrs, n) for n in ("output_height", "output_width", "sampling_ratio"))
    real: DType = real_of(dtype)
    b = Builder("roi_align")
    buffers = bind(b, group)
    src, regions, index, dst = (buffers[n] for n in (image.name, rois.name, batches.name, out.name))
    images, channels, height, width = (b.dim(d) for d in image.shape)
    values = b.scratch("values", real, channels)
    cells = unless_empty(b, b.dim(out.shape[0] * (rows * columns)), product((image.shape[0], *image.shape[2:])))
    one, scale = const(1.0, Type(real)), const(float_of(attrs, "spatial_scale"), Type(real))
    with b.chunks((cells + (_CELLS - 1)) // _CELLS) as chunk:
        begin = b.let(chunk * _CELLS, "begin")
        with b.loop(begin, minimum(begin + _CELLS, cells), name="cell") as cell:
            roi, ph, pw = b.let(cell // (rows * columns)), b.let(cell // columns % rows), b.let(cell % columns)
            left, top, right, bottom = (
                _region(b, cast(b.load(regions, roi * 4 + i), real), scale, 0.5 if half_pixel else 0.0)
                for i in range(4))
            tall, wide = b.let(bottom - top, "tall"), b.let(right - left, "wide")
            if not half_pixel:                                            # a region is one pixel at least
                tall, wide = b.let(maximum(tall, one)), b.let(maximum(wide, one))
            cell_h, cell_w = b.let(tall / float(rows), "cell_h"), b.let(wide / float(columns), "cell_w")
            most = const(float(_MOST_SAMPLES), Type(real))
            down, across = ((const(ratio), const(ratio)) if ratio > 0 else tuple(
                b.let(cast(maximum(minimum(unary("ceil", side), most), 0.0 * one), INT64), "samples")
                for side in (cell_h, cell_w)))
            batch = b.let(maximum(minimum(cast(b.load(index, roi), INT64), images - 1), 0), "batch")
            with b.loop(0, channels, name="c") as c:
                b.store(values, c, const(identity("max", real) if is_max else 0.0, Type(real)))
            with b.loop(0, down, name="iy") as iy, b.loop(0, across, name="ix") as ix:
                y = b.let(top + cast(ph, real) * cell_h + (cast(iy, real) + 0.5) * cell_h / cast(down, real), "y")
                x = b.let(left + cast(pw, real) * cell_w + (cast(ix, real) + 0.5) * cell_w / cast(across, real), "x")
                sample, inside = _bilinear(b, y, x, height, width)
                with b.loop(0, channels, name="c") as c:
                    plane, old = b.let((batch * channels + c) * (height * width), "plane"), b.load(values, c)
                    if is_max:
                        best = old
                        for at, weight, _ in sample.pixels:
                            part = cast(b.load(src, plane + at), real) * weight              # type: ignore[operator]
                            best = b.let(maximum(select(inside, part, 0.0 * one), best), "best")
                        b.store(values, c, best)
                    else:
                        b.store(values, c, old + select(inside, sample.read(b, src, plane, real), 0.0 * one))
            samples = b.let(down * across, "samples")
            with b.loop(0, channels, name="c") as c:
                value = b.load(values, c)
                if is_max:
                    value = select(samples.gt(0), value, 0.0 * one)
                else:
                    value = value / cast(maximum(samples, 1), real)
                b.store(dst, ((roi * channels + c) * rows + ph) * columns + pw, cast(value, dtype))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _lower_pool(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    """Regions are [image, x1, y1, x2, y2] with both ends inside, rounded to pixels; an empty cell is 0."""
    attrs = group.anchor.attrs
    image, rois = (group.values[n] for n in group.anchor.inputs)
    out, dtype = group.values[group.outputs[0]], image.dtype
    (rows, columns), real = ints_of(attrs, "pooled_shape"), real_of(image.dtype)
    b = Builder("max_roi_pool")
    buffers = bind(b, group)
    src, regions, dst = (buffers[n] for n in (image.name, rois.name, out.name))
    images, channels, height, width = (b.dim(d) for d in image.shape)
    cells = unless_empty(b, b.dim(out.shape[0] * (rows * columns)), image.shape[0])
    scale = const(float_of(attrs, "spatial_scale"), Type(real))

    def span(first: Expr, last: Expr, at: Expr, parts: int, size: Expr) -> tuple[Expr, Expr]:
        """Pixels [low, high) of cell `at` of a side [first, last]."""
        part = b.let(maximum(last - first + 1.0, const(1.0, Type(real))) / float(parts), "part")
        low = cast(unary("floor", cast(at, real) * part), INT64) + cast(first, INT64)
        high = cast(unary("ceil", (cast(at, real) + 1.0) * part), INT64) + cast(first, INT64)
        return tuple(b.let(maximum(minimum(v, size), 0), "bound") for v in (low, high))  # type: ignore[return-value]

    with b.chunks((cells + (_CELLS - 1)) // _CELLS) as chunk:
        begin = b.let(chunk * _CELLS, "begin")
        with b.loop(begin, minimum(begin + _CELLS, cells), name="cell") as cell:
            roi, ph, pw = b.let(cell // (rows * columns)), b.let(cell // columns % rows), b.let(cell % columns)
            index, left, top, right, bottom = (b.let(cast(b.load(regions, roi * 5 + i), real)) for i in range(5))
            batch = b.let(maximum(minimum(cast(bounded(b, index), INT64), images - 1), 0), "batch")
            left, top, right, bottom = (
                b.let(_round(bounded(b, v * scale)), "side") for v in (left, top, right, bottom))
            y0, y1 = span(top, bottom, ph, rows, height)
            x0, x1 = span(left, right, pw, columns, width)
            empty = b.let(y1.le(y0) | x1.le(x0), "empty")
            with b.loop(0, channels, name="c") as c:
                plane = b.let((batch * channels + c) * height, "plane")
                best = b.var(const(identity("max", dtype), Type(dtype)), "best")
                with b.loop(y0, y1, name="y") as y, b.loop(x0, x1, name="x") as x:
                    b.assign(best, maximum(b.load(src, (plane + y) * width + x), best))
                b.store(dst, ((roi * channels + c) * rows + ph) * columns + pw,
                        select(empty, const(0, Type(dtype)), best))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


ROI_ALIGN = Kernel("roi_align", ("RoiAlign",), _variants, _lower_align)
MAX_ROI_POOL = Kernel("max_roi_pool", ("MaxRoiPool",), _variants, _lower_pool)
