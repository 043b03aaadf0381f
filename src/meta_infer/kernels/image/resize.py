"""Resize: nearest, linear and cubic, any number of axes.

Every axis turns an output position into taps, pairs of (input position, weight): one for nearest, two for linear,
four for cubic; the result is the sum over the product of taps of all resized axes. Formulas follow the Resize
section of the ONNX operator specification; coordinates are computed in float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product as combinations

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Attr
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Expr, Type, cast, const, maximum, minimum, select, unary
from meta_infer.kernels.image.sampling import cubic_weights
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import each_row, strides_of
from meta_infer.support.dtypes import FLOAT32, INT64

Tap = tuple[Expr, Expr | None]
"""Input position (int64) and weight (float32; None stands for 1)."""

TRANSFORMS = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric",
              "tf_half_pixel_for_nn")
F32 = Type(FLOAT32)


def variants(group: Group, profile: Profile) -> Iterable[Variant]:
    attrs = group.anchor.attrs
    if group.epilogue or group.prologue or attrs["coordinate_transformation_mode"] not in TRANSFORMS:
        return
    if group.values[group.inputs[0]].dtype != FLOAT32 and attrs["mode"] != "nearest":
        return
    yield Variant("resize", str(attrs["mode"]), {group.inputs[0]: PLAIN}, {group.outputs[0]: PLAIN})


def coordinate(transformation: Attr, x: Expr, scale: Expr, size: Expr, out_size: Expr) -> Expr:
    """The real input coordinate of output position x (a float like the others), by coordinate_transformation_mode."""
    match transformation:
        case "tf_half_pixel_for_nn":
            return (x + 0.5) / scale
        case "asymmetric":
            return x / scale
        case "align_corners":
            return select(out_size.gt(1.0), x * (size - 1.0) / maximum(out_size - 1.0, 1.0), 0.0 * x)
        case "pytorch_half_pixel":
            return select(out_size.gt(1.0), (x + 0.5) / scale - 0.5, 0.0 * x)
        case "half_pixel_symmetric":
            adjustment = out_size / (scale * size)
            return size / 2.0 * (1.0 - adjustment) + ((x + 0.5) / scale - 0.5)
    return (x + 0.5) / scale - 0.5


def _inside(b: Builder, position: Expr, size: Expr) -> Expr:
    return b.let(maximum(minimum(position, size - 1), 0), "p")


def _taps(b: Builder, attrs: Mapping[str, Attr], x: Expr, scale: float | None, size: Expr,
          out_size: Expr) -> list[Tap]:
    real_size, real_out = cast(size, FLOAT32), cast(out_size, FLOAT32)
    ratio = b.let(real_out / real_size if scale is None else const(scale, F32), "scale")
    at = b.let(coordinate(attrs["coordinate_transformation_mode"], cast(x, FLOAT32), ratio, real_size,
                          real_out), "at")
    mode = attrs["mode"]
    if mode == "nearest":
        return [(_inside(b, cast(nearest(attrs["nearest_mode"], at, ratio), INT64), size), None)]
    if mode == "linear":
        held = b.let(minimum(maximum(at, const(0.0, F32)), real_size - 1.0), "held")
        low = b.let(cast(unary("floor", held), INT64), "low")
        weight = b.let(held - cast(low, FLOAT32), "w")
        return [(low, b.let(1.0 - weight)), (_inside(b, low + 1, size), weight)]
    return _cubic_taps(b, attrs, at, size)


def nearest(nearest_mode: Attr, at: Expr, scale: Expr) -> Expr:
    """A coordinate rounded to the pixel that `nearest_mode` names (see ops/resize.py)."""
    match nearest_mode:
        case "simple":
            return select(scale.lt(1.0), unary("ceil", at), unary("floor", at))
        case "floor":
            return unary("floor", at)
        case "ceil":
            return unary("ceil", at)
        case "round_prefer_ceil":
            return unary("floor", at + 0.5)
    return unary("ceil", at - 0.5)


def _cubic_taps(b: Builder, attrs: Mapping[str, Attr], at: Expr, size: Expr) -> list[Tap]:
    a = attrs.get("cubic_coeff_a", -0.75)
    assert isinstance(a, float)
    base = b.let(unary("floor", at), "base")
    first = b.let(cast(base, INT64) - 1, "first")
    weights = cubic_weights(b, b.let(at - base, "t"), a)
    positions = [first + i for i in range(4)]
    if attrs.get("exclude_outside"):
        zero = const(0.0, F32)
        weights = [b.let(select(p.ge(0) & p.lt(size), w, zero)) for p, w in zip(positions, weights, strict=True)]
        total = b.let(weights[0] + weights[1] + weights[2] + weights[3])
        weights = [b.let(w / total) for w in weights]
    return [(_inside(b, p, size), w) for p, w in zip(positions, weights, strict=True)]


def _weighted_sum(b: Builder, taps: Sequence[Sequence[Tap]], strides: Sequence[Expr], base: Expr, src) -> Expr:  # type: ignore[no-untyped-def]
    total: Expr | None = None
    for combination in combinations(*taps):
        at, weight = base, None
        for (position, w), stride in zip(combination, strides, strict=True):
            at = at + position * stride
            if w is not None:
                weight = w if weight is None else weight * w
        value = b.load(src, at)
        term = value if weight is None else value * weight
        total = term if total is None else b.let(total + term)
    assert total is not None
    return total


def lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    attrs = group.anchor.attrs
    value, out = group.values[group.inputs[0]], group.values[group.outputs[0]]
    scales = attrs.get("scales")
    b = Builder(f"resize_{attrs['mode']}")
    buffers = bind(b, group)
    src, dst = buffers[value.name], buffers[out.name]
    strides = strides_of(b, value.shape)

    def axis_taps(axis: int, x: Expr) -> list[Tap]:
        scale = scales[axis] if isinstance(scales, tuple) and scales else None
        if value.shape[axis] == out.shape[axis] and scale in (None, 1.0):
            return [(x, None)]
        return _taps(b, attrs, x, scale, b.dim(value.shape[axis]), b.dim(out.shape[axis]))  # type: ignore[arg-type]

    with each_row(b, out.shape) as (coords, base):
        outer = [axis_taps(axis, x) for axis, x in enumerate(coords)]
        fixed = const(0)
        moving, moving_strides = [], []
        for taps, stride in zip(outer, strides, strict=False):
            if len(taps) == 1 and taps[0][1] is None:
                fixed = fixed + taps[0][0] * stride
            else:
                moving.append(taps)
                moving_strides.append(stride)
        fixed = b.let(fixed, "fixed")
        with b.loop(0, b.dim(out.shape[-1]), name="x") as x:
            taps = axis_taps(out.rank - 1, x)
            b.store(dst, base + x, _weighted_sum(b, [*moving, taps], [*moving_strides, strides[-1]], fixed, src))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


RESIZE = Kernel("resize", ("Resize",), variants, lower)
