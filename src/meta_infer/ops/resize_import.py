"""How ONNX Resize (10, 11 to 19) and Upsample (7, 9) say which output size and scale they mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ir.shapes import Dim, floordiv
from meta_infer.ops.attrs import floats_of
from meta_infer.ops.broadcast import text
from meta_infer.ops.importing import (
    attr_float,
    attr_int,
    attr_ints,
    attr_text,
    axis_in,
    constant_of,
    core_node,
    dims_input,
    present,
    shape_of,
    unsupported,
)
from meta_infer.ops.opdef import ImportContext, OnnxNode

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


def _resize(node: OnnxNode, shape: Shape, scales: Sequence[float], **attrs: Attr) -> tuple[Node, ...]:
    filled: dict[str, Attr] = {"cubic_coeff_a": -0.75, "exclude_outside": 0, "extrapolation_value": 0.0, **attrs}
    return (core_node(node, "Resize", node.inputs[:1], node.outputs, shape=shape,
                      scales=tuple(float(np.float32(s)) for s in scales), **filled),)


def _mode(node: OnnxNode) -> str:
    mode = attr_text(node, "mode", "nearest")
    return "linear" if mode == "bilinear" else mode


def _scales(node: OnnxNode, found: Iterable[float], count: int) -> list[float]:
    """One positive scale per dimension. Raises UnsupportedError for anything else."""
    scales = [float(s) for s in found]
    if len(scales) != count or not all(0 < s < float("inf") for s in scales):
        raise unsupported(node, f"scales {scales} are not {count} positive numbers",
                          "the model breaks the ONNX specification here")
    return scales


def import_upsample(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Scales are an attribute in version 7, an input in 9. Always asymmetric; nearest rounds down."""
    found = floats_of(node.attrs, "scales") if node.version < 9 else constant_of(node, ctx, 1, "scales").reshape(-1)
    scales = _scales(node, found, len(shape_of(node, ctx)))
    shape = tuple(scaled(d, s) for d, s in zip(shape_of(node, ctx), scales, strict=True))
    return _resize(node, shape, scales, mode=_mode(node), coordinate_transformation_mode="asymmetric",
                   nearest_mode="floor")


def import_resize_10(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Version 10 does not say how nearest rounds; ONNX Runtime rounds down when enlarging, up when shrinking."""
    scales = _scales(node, constant_of(node, ctx, 1, "scales").reshape(-1), len(shape_of(node, ctx)))
    shrinks, grows = any(s < 1 for s in scales), any(s > 1 for s in scales)
    if shrinks and grows and _mode(node) == "nearest":
        raise unsupported(node, "nearest enlarges one axis and shrinks another, which version 10 leaves undefined",
                          "export with opset 11 or newer")
    shape = tuple(scaled(d, s) for d, s in zip(shape_of(node, ctx), scales, strict=True))
    return _resize(node, shape, scales, mode=_mode(node), coordinate_transformation_mode="asymmetric",
                   nearest_mode="ceil" if shrinks else "floor")


def import_resize(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Version 11 and later: X, roi, scales or sizes; 18 adds axes, antialias and keep_aspect_ratio_policy."""
    transformation = attr_text(node, "coordinate_transformation_mode", "half_pixel")
    if transformation == "tf_crop_and_resize":
        raise unsupported(node, "coordinate_transformation_mode tf_crop_and_resize", "crop with Slice, then resize")
    if attr_int(node, "antialias"):
        raise unsupported(node, "antialias", "export with antialias off, or blur with a convolution first")
    old = shape_of(node, ctx)
    axes = [axis_in(node, a, len(old)) for a in attr_ints(node, "axes") or range(len(old))]
    shape, scales = _by_sizes(node, ctx, old, axes) if _has(node, ctx, 3) else _by_scales(node, ctx, old, axes)
    return _resize(node, shape, scales, mode=_mode(node), coordinate_transformation_mode=transformation,
                   nearest_mode=attr_text(node, "nearest_mode", "round_prefer_floor"),
                   cubic_coeff_a=attr_float(node, "cubic_coeff_a", -0.75),
                   exclude_outside=attr_int(node, "exclude_outside"))


def _has(node: OnnxNode, ctx: ImportContext, i: int) -> bool:
    """Given and not empty: exporters pass an empty tensor for an operand that is not used."""
    return present(node, i) and shape_of(node, ctx, i) != (0,)


def _by_scales(node: OnnxNode, ctx: ImportContext, old: Shape, axes: Sequence[int]) -> tuple[Shape, list[float]]:
    if not _has(node, ctx, 2):
        raise unsupported(node, "neither scales nor sizes are given", "the model breaks the ONNX specification here")
    shape, scales = [*old], [1.0] * len(old)
    given = _scales(node, constant_of(node, ctx, 2, "scales").reshape(-1), len(axes))
    for axis, scale in zip(axes, given, strict=True):
        shape[axis], scales[axis] = scaled(old[axis], scale), scale
    return tuple(shape), scales


def _by_sizes(node: OnnxNode, ctx: ImportContext, old: Shape, axes: Sequence[int]) -> tuple[Shape, list[float]]:
    """Scales are size ratios. With dynamic sizes whose ratio varies they are left out: `scales` is empty then."""
    wanted = dims_input(node, ctx, 3, "sizes")
    if len(wanted) != len(axes):
        raise unsupported(node, f"{len(wanted)} sizes for {len(axes)} dimensions",
                          "the model breaks the ONNX specification here")
    policy = attr_text(node, "keep_aspect_ratio_policy", "stretch")
    shape, scales = [*old], [1.0] * len(old)
    if policy != "stretch":
        scale = _kept_ratio(node, [old[a] for a in axes], wanted, policy)
        for axis in axes:
            size = old[axis]
            assert isinstance(size, int), "checked by _kept_ratio"
            shape[axis], scales[axis] = int(np.floor(scale * size + 0.5)), scale
        return tuple(shape), scales
    for axis, new in zip(axes, wanted, strict=True):
        shape[axis] = new
    ratios = [_ratio(new, size) for new, size in zip(shape, old, strict=True)]
    return tuple(shape), [] if None in ratios else [r for r in ratios if r is not None]


def _ratio(new: Dim, old: Dim) -> float | None:
    if new == old:
        return 1.0
    if isinstance(new, int) and isinstance(old, int):
        return float(np.float32(new) / np.float32(old)) if old else 1.0
    up, down = floordiv(new, old), floordiv(old, new) if new != 0 else 0
    if isinstance(up, int) and up * old == new:
        return float(up)
    return 1.0 / down if isinstance(down, int) and down * new == old and down else None


def _kept_ratio(node: OnnxNode, old: Sequence[Dim], wanted: Sequence[Dim], policy: str) -> float:
    """The one scale of all axes: the smallest ratio (not_larger) or the largest (not_smaller)."""
    static = [(w, o) for w, o in zip(wanted, old, strict=True) if isinstance(w, int) and isinstance(o, int)]
    if len(static) != len(old):
        raise unsupported(node, f"keep_aspect_ratio_policy {policy} with the dynamic shape {text(tuple(old))}",
                          "fix the shape with --shape")
    ratios = [w / o for w, o in static]
    return min(ratios) if policy == "not_larger" else max(ratios)
