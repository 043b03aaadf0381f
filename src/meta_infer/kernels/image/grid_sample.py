"""GridSample: an image sampled at the points of a grid; AffineGrid: such a grid from an affine map.

Of each point the pixels and weights are worked out once, then all channels are read.
Source: the operator specification of ONNX; rounding and reflection as in PyTorch's GridSampler.h.

No knob: the time goes to reads at places that only the data says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Expr, Type, cast, const, maximum, minimum, select, unary
from meta_infer.ir.shapes import product
from meta_infer.kernels.image.sampling import Tap, bounded, cubic_weights, linear_taps, real_of, sample_of, zero_tap
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.picks import unless_empty
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import GRAIN, unravel
from meta_infer.ops.attrs import bool_of, text_of
from meta_infer.support.dtypes import INT64

_CUBIC = -0.75


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    kernel = "grid_sample" if group.anchor.op == "GridSample" else "affine_grid"
    yield Variant(kernel, "plain", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})


def _reflect(b: Builder, at: Expr, low: Expr, high: Expr) -> Expr:
    """`at` mirrored at the borders until it lies between them."""
    width = maximum(high - low, const(1.0, at.type))                # borders that coincide: any width will do
    beyond = b.let(maximum(maximum(low - at, at - high), const(0.0, at.type)), "beyond")
    times = b.let(unary("trunc", beyond / width), "times")
    rest = b.let(beyond - times * width, "rest")
    odd = (times - 2.0 * unary("floor", times / 2.0)).gt(0.5)
    mirrored = select(at.lt(low) ^ odd, low + rest, high - rest)
    return b.let(select(beyond.gt(0.0), mirrored, at), "reflected")


def _axis_taps(b: Builder, mode: str, padding: str, align: bool, point: Expr, size: Expr) -> list[Tap]:
    """Pixels of one axis for the normalised coordinate `point`, -1 and 1 being the ends of the image."""
    real = cast(size, point.type.dtype)
    at = (point + 1.0) / 2.0 * (real - 1.0) if align else ((point + 1.0) * real - 1.0) / 2.0
    at = bounded(b, unary("rint", at) if mode == "nearest" else at)
    low = const(0.0 if align else -0.5, at.type)
    high = b.let(real - (1.0 if align else 0.5), "high")
    if padding == "border" and mode != "cubic":
        outside = at.lt(low) | at.gt(high)
        at = b.let(select(outside, maximum(minimum(at, real - 1.0), const(0.0, at.type)), at), "at")
    elif padding == "reflection":
        at = _reflect(b, at, low, high)

    def pixel(place: Expr, weight: Expr | None) -> Tap:
        if padding == "zeros":
            return zero_tap(b, place, size, weight)
        if padding == "reflection":
            place = cast(_reflect(b, b.let(cast(place, at.type.dtype)), low, high), INT64)
        return Tap(b.let(maximum(minimum(place, size - 1), 0), "held"), weight)

    if mode == "nearest":
        return [pixel(b.let(cast(at, INT64), "near"), None)]
    if mode == "linear" and padding == "zeros":
        return linear_taps(b, at, size)
    base = b.let(unary("floor", at), "base")
    far, first = b.let(at - base, "far"), b.let(cast(base, INT64), "first")
    if mode == "linear":
        return [pixel(first, b.let(1.0 - far, "close")), pixel(b.let(first + 1), far)]
    return [pixel(b.let(first + (i - 1)), weight) for i, weight in enumerate(cubic_weights(b, far, _CUBIC))]


def _lower_sample(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    attrs = group.anchor.attrs
    image, grid = (group.values[n] for n in group.anchor.inputs)
    mode, padding, align = text_of(attrs, "mode"), text_of(attrs, "padding_mode"), bool_of(attrs, "align_corners")
    rank, real = image.rank - 2, real_of(image.dtype, grid.dtype)
    b = Builder(f"grid_sample_{mode}")
    buffers = bind(b, group)
    src, points, dst = buffers[image.name], buffers[grid.name], buffers[group.outputs[0]]
    sizes = [b.dim(d) for d in image.shape[2:]]
    plane, channels = b.dim(product(image.shape[2:])), b.dim(image.shape[1])
    per_image = b.dim(product(grid.shape[1:-1]))
    count = unless_empty(b, b.dim(product(grid.shape[:-1])), product(image.shape[2:]))
    taps_each = {"nearest": 1, "linear": 2, "cubic": 4}[mode] ** rank
    per_chunk = maximum(const(GRAIN) // maximum(channels * (2 * taps_each), 1), 1)
    with b.chunks((count + per_chunk - 1) // per_chunk) as chunk:
        start = b.let(chunk * per_chunk, "start")
        with b.loop(start, minimum(start + per_chunk, count), name="at") as at:
            n, place = b.let(at // per_image, "n"), b.let(at % per_image, "place")
            taps = []
            for axis in range(rank):                                     # a point names the last axis first
                point = b.let(cast(b.load(points, at * rank + (rank - 1 - axis)), real), "point")
                taps.append(_axis_taps(b, mode, padding, align, point, sizes[axis]))
            sample = sample_of(b, taps, sizes)
            with b.loop(0, channels, name="channel") as channel:
                map_at = b.let(n * channels + channel, "map_at")
                value = sample.read(b, src, b.let(map_at * plane, "plane"), real)
                b.store(dst, map_at * per_image + place, cast(value, dst.dtype))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _lower_grid(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    """grid[n, ..., i] = sum over j of theta[n, i, j] * (x, y, ..., 1)[j], x along the last spatial axis."""
    theta, out = group.values[group.anchor.inputs[0]], group.values[group.outputs[0]]
    align, rank, dtype = bool_of(group.anchor.attrs, "align_corners"), out.rank - 2, theta.dtype
    real = real_of(dtype)
    b = Builder("affine_grid")
    buffers = bind(b, group)
    weights, dst = buffers[theta.name], buffers[out.name]
    per_image, count = b.dim(product(out.shape[1:-1])), b.dim(product(out.shape[:-1]))
    per_chunk = const(GRAIN // 16)
    with b.chunks((count + per_chunk - 1) // per_chunk) as chunk:
        start = b.let(chunk * per_chunk, "start")
        with b.loop(start, minimum(start + per_chunk, count), name="at") as at:
            n = b.let(at // per_image, "n")
            places = []
            for place, size in zip(unravel(b, at % per_image, out.shape[1:-1]), out.shape[1:-1], strict=True):
                step, whole = cast(place, real), cast(b.dim(size), real)
                at_ends = step * 2.0 / maximum(whole - 1.0, const(1.0, Type(real))) - 1.0
                places.append(b.let(at_ends if align else (step * 2.0 + 1.0) / whole - 1.0, "place"))
            for i in range(rank):
                base = b.let(n * (rank * (rank + 1)) + i * (rank + 1), "base")
                total = cast(b.load(weights, base + rank), real)
                for j, place in enumerate(reversed(places)):
                    total = total + cast(b.load(weights, base + j), real) * place
                b.store(dst, at * rank + i, cast(total, dtype))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


GRID_SAMPLE = Kernel("grid_sample", ("GridSample",), _variants, _lower_sample)
AFFINE_GRID = Kernel("affine_grid", ("AffineGrid",), _variants, _lower_grid)
