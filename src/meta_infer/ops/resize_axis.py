"""ResizeAxis: Resize of one axis at a time, for what Resize does not do: antialias, crops, scales known while running.

Operands are the tensor, and where they are not attributes the vectors that hold the axis's scale (element
`scale_index`) and its region (elements `roi_indices`). An attribute `scale` of 0 stands for the ratio of the sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Attr
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, bool_of, dims_of, float_of, int_of, ints_of, text_of
from meta_infer.ops.broadcast import text
from meta_infer.ops.elementwise import floats
from meta_infer.ops.opdef import InferContext, OpDef, Sample, ShapeError, TensorType
from meta_infer.ops.resize import coordinates, taps

RADIUS = {"linear": 1, "cubic": 2}
"""Half the width of an interpolation kernel, in pixels of the smaller image."""


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, axis, (size,) = ctx.input(0), int_of(ctx.node.attrs, "axis"), dims_of(ctx.node.attrs, "size")
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"axis {axis} is outside {text(x.shape)}")
    return (TensorType(x.dtype, (*x.shape[:axis], size, *x.shape[axis + 1:])),)


def _smooth_taps(attrs: Attrs, at: np.ndarray, size: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Positions and weights [out, taps] of a kernel that is stretched where the axis shrinks."""
    mode, shrink = text_of(attrs, "mode"), min(scale, 1.0)
    base = np.ceil(at) - 1
    start = int(np.floor(-RADIUS[mode] / shrink)) + 1
    steps = np.arange(start, 2 - start)
    positions = base[:, None].astype(np.int64) + steps
    weights = kernel_weights(mode, np.abs((steps - (at - base)[:, None]) * shrink), float_of(attrs, "cubic_coeff_a"))
    if bool_of(attrs, "exclude_outside"):
        weights = np.where((positions >= 0) & (positions < size), weights, 0)
    total = weights.sum(1, keepdims=True)
    return np.clip(positions, 0, size - 1), weights / np.where(total == 0, 1, total)


def kernel_weights(mode: str, distance: np.ndarray, a: float) -> np.ndarray:
    """The interpolation kernel at distances >= 0: a triangle, or Keys' cubic with coefficient a (R. Keys, 1981)."""
    if mode == "linear":
        return np.asarray(np.maximum(1 - distance, 0))
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.asarray(np.where(distance <= 1, near, np.where(distance < 2, far, 0)))


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, scales, roi = (*arrays, None, None)[:3]
    assert x is not None
    axis, (out,) = int_of(attrs, "axis"), ints_of(attrs, "size")
    size = x.shape[axis]
    scale = float_of(attrs, "scale") if scales is None else float(scales[int_of(attrs, "scale_index")])
    scale = scale or float(np.float32(out) / np.float32(max(size, 1)))
    start, end = (0, 1) if roi is None else (roi[i] for i in ints_of(attrs, "roi_indices"))
    transformation = text_of(attrs, "coordinate_transformation_mode")
    at = coordinates(transformation, size, out, scale, (float(start), float(end)))
    positions, weights = (_smooth_taps(attrs, at, size, scale) if bool_of(attrs, "antialias") else
                          taps(attrs, size, out, scale, at))
    if positions.shape[1] == 1:
        y = np.take(x, positions[:, 0], axis)
    else:
        column = (-1, *(1,) * (x.ndim - axis - 1))
        y = np.add.reduce([np.take(x, positions[:, i], axis) * weights[:, i].reshape(column).astype(x.dtype)
                           for i in range(positions.shape[1])])
    if transformation == "tf_crop_and_resize":
        outside = ((at < 0) | (at > size - 1)).reshape(-1, *(1,) * (x.ndim - axis - 1))
        y = np.where(outside, np.array(float_of(attrs, "extrapolation_value")).astype(x.dtype), y)
    return (np.ascontiguousarray(y, x.dtype),)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return product(outputs[0].shape) * {"nearest": 0, "linear": 4, "cubic": 8}[text_of(attrs, "mode")]


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    """Against ONNX Runtime's Resize where it can say the same: one axis of four, antialias over axes 2 and 3."""
    base: dict[str, Attr] = {"nearest_mode": "round_prefer_floor", "cubic_coeff_a": -0.75, "exclude_outside": 0,
                             "extrapolation_value": 7.5, "scale": 0.0, "scale_index": 0, "roi_indices": (0, 1)}
    for mode in ("linear", "cubic"):
        for shape, out in (((2, 3, 9, 4), 4), ((1, 1, 5, 3), 8), ((1, 2, 16, 1), 3)):
            for exclude in (0, 1):
                attrs = {**base, "mode": mode, "coordinate_transformation_mode": "half_pixel", "antialias": True,
                         "exclude_outside": exclude, "axis": 2, "size": (out,)}
                yield Sample((floats(rng, shape),), attrs, 1e-4, 1e-4, onnx_op="-")
    for mode in ("nearest", "linear", "cubic"):
        for region in ((0.2, 0.9), (-0.3, 1.2), (0.8, 0.1)):
            for out in (1, 6):
                attrs = {**base, "mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize",
                         "antialias": False, "axis": 1, "size": (out,)}
                yield Sample((floats(rng, (2, 5, 3)), None, np.array(region, np.float32)), attrs, 1e-4, 1e-4,
                             onnx_op="-")
        attrs = {**base, "mode": mode, "coordinate_transformation_mode": "asymmetric", "antialias": False, "axis": 0,
                 "size": (7,), "scale_index": 1}
        yield Sample((floats(rng, (4, 3)), np.array((1, 1.8), np.float32)), attrs, 1e-4, 1e-4, onnx_op="-")


RESIZE_AXIS = OpDef("ResizeAxis", _infer, _reference, _samples, flops=_flops)

OPS: tuple[OpDef, ...] = (RESIZE_AXIS,)
