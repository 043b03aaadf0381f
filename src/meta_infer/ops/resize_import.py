"""How ONNX Resize (10, 11 to 19) and Upsample (7, 9) say which output size and scale they mean.

Most become one Resize. Antialias, crops, scales that only a run can tell, and float64 become one ResizeAxis per axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ir.shapes import UNBOUNDED, Dim, bounds, floordiv
from meta_infer.ops.attrs import floats_of
from meta_infer.ops.bind_dims import bind_dims, sizes_input
from meta_infer.ops.broadcast import text
from meta_infer.ops.importing import (
    attr_float,
    attr_int,
    attr_ints,
    attr_text,
    axis_in,
    core_node,
    present,
    shape_of,
    unsupported,
)
from meta_infer.ops.opdef import ImportContext, OnnxNode
from meta_infer.ops.size_math import SizeMath
from meta_infer.support.dtypes import BOOL, FLOAT32, FLOAT64, INT64

_SMALL = 1000


def scaled(size: Dim, scale: float) -> Dim:
    """floor(size * scale), with the product rounded to float32 as ONNX Runtime does.

    For a dynamic size, a scale such as 0.7 that float32 only approximates is taken as the fraction it stands for.
    """
    factor = np.float32(scale)
    if isinstance(size, int):
        return int(factor * np.float32(size))
    exact = Fraction(float(factor))
    near = exact.limit_denominator(_SMALL)
    share = near if np.float32(near.numerator / near.denominator) == factor else exact
    return floordiv(size * share.numerator, share.denominator)


@dataclass(frozen=True)
class _Target:
    """What is wanted of each dimension of the input.

    `scales` is empty where the ratio of the sizes counts. `vector` names a float32 vector of all scales that only a
    run can tell (then `scales` is empty too), `roi` one of both ends of all regions: starts, then ends.
    """

    shape: Shape
    scales: tuple[float, ...] = ()
    axes: tuple[int, ...] = ()                            # those that may change
    vector: str = ""
    roi: str = ""


def _resize(node: OnnxNode, ctx: ImportContext, target: _Target, **attrs: Attr) -> Iterable[Node]:
    """Integers are computed in floats, rounded and clipped to their range."""
    filled: dict[str, Attr] = {"cubic_coeff_a": -0.75, "exclude_outside": 0, "extrapolation_value": 0.0,
                               "antialias": False, **attrs}
    x, dtype, done = node.inputs[0], ctx.type_of(node.inputs[0]).dtype, node.outputs[0]
    computed = filled["mode"] != "nearest" and not dtype.is_float
    if computed:
        wide = FLOAT32 if dtype.bits <= 16 else FLOAT64
        x, done = _emit(node, ctx, "Cast", (x,), to=wide), ctx.fresh(node.outputs[0])
    crops = filled["coordinate_transformation_mode"] == "tf_crop_and_resize"
    smooth = filled["mode"] != "nearest" and (filled["antialias"] or ctx.type_of(x).dtype == FLOAT64)
    if crops or smooth or target.vector:
        x = _by_axes(node, ctx, x, target, filled)
        ctx.emit(core_node(node, "Identity", (x,), (done,)))
    else:
        del filled["antialias"]
        ctx.emit(core_node(node, "Resize", (x,), (done,), shape=target.shape, scales=target.scales, **filled))
    if computed:
        high = 1 if dtype == BOOL else 2 ** (dtype.bits - (dtype.kind == "int")) - 1
        low = -high - 1 if dtype.kind == "int" else 0
        top = float(np.nextafter(high, 0)) if dtype.bits > 32 else float(high)
        rounded = _emit(node, ctx, "Round", (done,))
        held = _emit(node, ctx, "Clip", (rounded,), min=float(low), max=top)
        ctx.emit(core_node(node, "Cast", (held,), node.outputs, to=dtype))
    return ()


def _emit(node: OnnxNode, ctx: ImportContext, op: str, inputs: tuple[str, ...], **attrs: Attr) -> str:
    made = ctx.fresh(f"resize/{op.lower()}")
    ctx.emit(core_node(node, op, inputs, (made,), **attrs))
    return made


def _by_axes(node: OnnxNode, ctx: ImportContext, x: str, target: _Target, attrs: Mapping[str, Attr]) -> str:
    rank, old = len(target.shape), ctx.type_of(x).shape
    region = ctx.known(target.roi) if target.roi else None
    for axis in target.axes:
        scale = target.scales[axis] if target.scales else 0.0
        same_size = old[axis] == target.shape[axis] and not target.vector and scale in (0.0, 1.0)
        whole = not target.roi or region is not None and (region[axis], region[rank + axis]) == (0, 1)
        if same_size and whole:
            continue
        x = _emit(node, ctx, "ResizeAxis", (x, target.vector, target.roi), axis=axis, size=(target.shape[axis],),
                  scale=scale, scale_index=axis, roi_indices=(axis, rank + axis), **attrs)
    return x


def _mode(node: OnnxNode) -> str:
    mode = attr_text(node, "mode", "nearest")
    return "linear" if mode == "bilinear" else mode


def _scales(node: OnnxNode, found: Iterable[float], count: int) -> list[float]:
    """One positive scale per dimension. Raises UnsupportedError for anything else."""
    scales = [float(s) for s in found]
    if len(scales) != count or not all(0 < s < float("inf") for s in scales):
        raise unsupported(node, f"scales {scales} are not {count} positive numbers",
                          "correct the node: it breaks the specification")
    return scales


def _by_scales(node: OnnxNode, ctx: ImportContext, i: int, axes: Sequence[int]) -> _Target:
    """Scales of `axes`: input `i`, or the attribute `scales` when i is 0."""
    old = shape_of(node, ctx)
    found = np.array(floats_of(node.attrs, "scales")) if i == 0 else ctx.known(node.inputs[i])
    if found is None:
        return _by_computed_scales(node, ctx, node.inputs[i], axes)
    shape, scales = [*old], [1.0] * len(old)
    for axis, scale in zip(axes, _scales(node, found.reshape(-1), len(axes)), strict=True):
        shape[axis], scales[axis] = scaled(old[axis], scale), float(np.float32(scale))
    return _Target(tuple(shape), tuple(scales), tuple(axes))


def _by_computed_scales(node: OnnxNode, ctx: ImportContext, scales: str, axes: Sequence[int]) -> _Target:
    """Sizes are floor(size * scale) in float32, found while running."""
    old = shape_of(node, ctx)
    vector = _spread(node, ctx, scales, axes, len(old), 1.0)
    return _sized_by(node, ctx, vector, axes, "Floor", 0.0)


def _sized_by(node: OnnxNode, ctx: ImportContext, vector: str, axes: Sequence[int], rounding: str,
              shift: float) -> _Target:
    """The target whose scales are in `vector`, its sizes bound while running."""
    old, math = shape_of(node, ctx), SizeMath(node, ctx)
    sizes = _emit(node, ctx, "Mul", (math.cast(math.dims(old), FLOAT32), vector))
    if shift:
        sizes = _emit(node, ctx, "Add", (sizes, ctx.constant(np.array(shift, np.float32), "half")))
    whole = math.cast(_emit(node, ctx, rounding, (sizes,)), INT64)
    shape = [*old]
    for axis in axes:
        shape[axis], = bind_dims(node, ctx, math.part(whole, axis, 1), [(0, UNBOUNDED)], f"resize_{axis}")
    return _Target(tuple(shape), (), tuple(axes), vector)


def _spread(node: OnnxNode, ctx: ImportContext, given: str, axes: Sequence[int], rank: int, default: float) -> str:
    """A float32 vector of `rank` elements: given[i] at axes[i], `default` elsewhere."""
    if ctx.type_of(given).dtype != FLOAT32:
        given = _emit(node, ctx, "Cast", (given,), to=FLOAT32)
    if list(axes) == list(range(rank)):
        return given
    filler = ctx.constant(np.array([default], np.float32), "filler")
    both = _emit(node, ctx, "Concat", (given, filler), axis=0)
    places = np.full(rank, len(axes), np.int64)
    places[list(axes)] = np.arange(len(axes))
    return _emit(node, ctx, "Gather", (both, ctx.constant(places, "places")), axis=0)


def import_upsample(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Scales are an attribute in version 7, an input in 9. Always asymmetric; nearest rounds down."""
    target = _by_scales(node, ctx, 0 if node.version < 9 else 1, range(len(shape_of(node, ctx))))
    return _resize(node, ctx, target, mode=_mode(node), coordinate_transformation_mode="asymmetric",
                   nearest_mode="floor")


def import_resize_10(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Version 10 does not say how nearest rounds; ONNX Runtime rounds down when enlarging, up when shrinking."""
    target = _by_scales(node, ctx, 1, range(len(shape_of(node, ctx))))
    shrinks, grows = any(s < 1 for s in target.scales), any(s > 1 for s in target.scales)
    mixed = not target.scales or shrinks and grows
    return _resize(node, ctx, target, mode=_mode(node), coordinate_transformation_mode="asymmetric",
                   nearest_mode="simple" if mixed else "ceil" if shrinks else "floor")


def import_resize(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Version 11 and later: X, roi, scales or sizes; 18 adds axes, antialias and keep_aspect_ratio_policy."""
    transformation = attr_text(node, "coordinate_transformation_mode", "half_pixel")
    rank = len(shape_of(node, ctx))
    axes = [axis_in(node, a, rank) for a in attr_ints(node, "axes") or range(rank)]
    if _has(node, ctx, 3):
        target = _by_sizes(node, ctx, axes)
    elif _has(node, ctx, 2):
        target = _by_scales(node, ctx, 2, axes)
    else:
        raise unsupported(node, "neither scales nor sizes are given", "correct the node: it breaks the specification")
    if transformation == "tf_crop_and_resize":
        if not _has(node, ctx, 1):
            raise unsupported(node, "tf_crop_and_resize needs a roi, which is not given",
                              "correct the node: it breaks the specification")
        target = replace(target, roi=_region(node, ctx, axes, rank))
    return _resize(node, ctx, target, mode=_mode(node), coordinate_transformation_mode=transformation,
                   nearest_mode=attr_text(node, "nearest_mode", "round_prefer_floor"),
                   cubic_coeff_a=attr_float(node, "cubic_coeff_a", -0.75),
                   exclude_outside=attr_int(node, "exclude_outside"),
                   extrapolation_value=attr_float(node, "extrapolation_value"),
                   antialias=bool(attr_int(node, "antialias")))


def _region(node: OnnxNode, ctx: ImportContext, axes: Sequence[int], rank: int) -> str:
    """roi of all axes as float32, [0, 1] for those that are not in `axes`."""
    known, count = ctx.known(node.inputs[1]), len(axes)
    if known is not None and known.size == 2 * count:
        whole = np.concatenate((np.zeros(rank, np.float32), np.ones(rank, np.float32)))
        whole[[*axes, *(rank + a for a in axes)]] = known.reshape(-1)
        return ctx.constant(whole, "roi")
    if shape_of(node, ctx, 1) != (2 * count,):
        raise unsupported(node, f"roi {text(shape_of(node, ctx, 1))} does not hold two numbers for each of {count} "
                          "axes",
                          "give both ends of every axis")
    math = SizeMath(node, ctx)
    ends = (_spread(node, ctx, math.part(node.inputs[1], first, count), axes, rank, default)
            for first, default in ((0, 0.0), (count, 1.0)))
    return _emit(node, ctx, "Concat", tuple(ends), axis=0)


def _has(node: OnnxNode, ctx: ImportContext, i: int) -> bool:
    """Given and not empty: exporters pass an empty tensor for an operand that is not used."""
    return present(node, i) and shape_of(node, ctx, i) != (0,)


def _by_sizes(node: OnnxNode, ctx: ImportContext, axes: Sequence[int]) -> _Target:
    """Scales are size ratios. Where the ratio varies they are left out."""
    old, wanted = shape_of(node, ctx), sizes_input(node, ctx, 3, "sizes")
    if len(wanted) != len(axes):
        raise unsupported(node, f"{len(wanted)} sizes for {len(axes)} dimensions",
                          "correct the node: it breaks the specification")
    policy = attr_text(node, "keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        return _by_kept_ratio(node, ctx, axes, wanted, "Min" if policy == "not_larger" else "Max")
    shape = [*old]
    for axis, new in zip(axes, wanted, strict=True):
        shape[axis] = new
    ratios = [_ratio(new, size) for new, size in zip(shape, old, strict=True)]
    known = tuple(r for r in ratios if r is not None)
    return _Target(tuple(shape), known if len(known) == len(ratios) else (), tuple(axes))


def _ratio(new: Dim, old: Dim) -> float | None:
    if new == old:
        return 1.0
    if isinstance(new, int) and isinstance(old, int):
        return float(np.float32(new) / np.float32(old)) if old else 1.0
    if bounds(new)[0] < 1 or bounds(old)[0] < 1:
        return None
    up, down = floordiv(new, old), floordiv(old, new)
    if isinstance(up, int) and up * old == new:
        return float(up)
    return 1.0 / down if isinstance(down, int) and down * new == old and down else None


def _by_kept_ratio(node: OnnxNode, ctx: ImportContext, axes: Sequence[int], wanted: Sequence[Dim],
                   pick: str) -> _Target:
    """One scale for all axes: the smallest ratio (not_larger) or the largest (not_smaller); halves round up."""
    old = shape_of(node, ctx)
    static = [(w, o) for w, o in zip(wanted, (old[a] for a in axes), strict=True)
              if isinstance(w, int) and isinstance(o, int)]
    if len(static) == len(axes):
        ratios = [w / max(o, 1) for w, o in static]
        scale = min(ratios) if pick == "Min" else max(ratios)
        shape, scales = [*old], [1.0] * len(old)
        for axis, (_, size) in zip(axes, static, strict=True):
            shape[axis], scales[axis] = int(np.floor(scale * size + 0.5)), float(np.float32(scale))
        return _Target(tuple(shape), tuple(scales), tuple(axes))
    math = SizeMath(node, ctx)
    new, now = (math.cast(math.dims(dims), FLOAT32) for dims in (tuple(wanted), tuple(old[a] for a in axes)))
    ratio = math.reduce(pick, _emit(node, ctx, "Div", (new, now)), 0)
    several = _emit(node, ctx, "Expand", (ratio,), shape=(len(axes),))
    return _sized_by(node, ctx, _spread(node, ctx, several, axes, len(old), 1.0), axes, "Floor", 0.5)
