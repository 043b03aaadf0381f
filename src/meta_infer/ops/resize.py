"""Resize by interpolation: nearest, linear, cubic. Every axis is resized on its own.

Source: the Resize section of the ONNX operator specification. Coordinates are computed in float32, as ONNX Runtime
does, since rounding decides which element `nearest` takes. The imports are in resize_import.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Attr
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, bool_of, dims_of, float_of, floats_of, ints_of, text_of
from meta_infer.ops.broadcast import text
from meta_infer.ops.elementwise import floats
from meta_infer.ops.opdef import InferContext, OnnxImport, OpDef, Sample, ShapeError, TensorType
from meta_infer.ops.resize_import import import_resize, import_resize_10, import_upsample

_F = np.float32


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, shape = ctx.input(0), dims_of(ctx.node.attrs, "shape")
    scales = floats_of(ctx.node.attrs, "scales", ())
    if len(shape) != len(x.shape) or (scales and len(scales) != len(x.shape)):
        raise ShapeError(f"{text(x.shape)} cannot be resized to {text(shape)} with scales {scales}")
    return (TensorType(x.dtype, shape),)


def coordinates(transformation: str, size: int, out: int, scale: float,
                region: tuple[float, float] = (0.0, 1.0)) -> np.ndarray:
    """The real position in an axis of `size` of each of `out` output elements, float32 [out].

    `region`: both ends of what tf_crop_and_resize crops, as parts of the axis.
    """
    x, factor = np.arange(out, dtype=_F), _F(scale)
    half = (x + _F(0.5)) / factor - _F(0.5)
    match transformation:
        case "asymmetric":
            return x / factor
        case "align_corners":
            return x * _F(size - 1) / _F(out - 1) if out > 1 else np.zeros(out, _F)
        case "pytorch_half_pixel":
            return half if out > 1 else np.zeros(out, _F)
        case "tf_half_pixel_for_nn":
            return (x + _F(0.5)) / factor
        case "tf_crop_and_resize":
            start, end = map(_F, region)
            step = (end - start) * _F(size - 1) / _F(max(out - 1, 1))
            return start * _F(size - 1) + x * step if out > 1 else (x + _F(0.5) * (start + end)) * _F(size - 1)
        case "half_pixel_symmetric":
            return _F(size / 2) * (1 - _F(out) / (factor * _F(size))) + half
    return half


def _nearest(mode: str, at: np.ndarray, scale: float) -> np.ndarray:
    """`simple`: down where the axis grows, up where it shrinks, as Resize of version 10 does."""
    match mode:
        case "simple":
            return np.asarray(np.ceil(at) if scale < 1 else np.floor(at))
        case "floor":
            return np.asarray(np.floor(at))
        case "ceil":
            return np.asarray(np.ceil(at))
        case "round_prefer_ceil":
            return np.floor(at + _F(0.5))
    return np.ceil(at - _F(0.5))


def taps(attrs: Attrs, size: int, out: int, scale: float,
         at: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Input positions and their weights for each output element of one axis, both [out, taps].

    `at`: the real positions, if known already.
    """
    if at is None:
        at = coordinates(text_of(attrs, "coordinate_transformation_mode"), size, out, scale)
    mode = text_of(attrs, "mode")
    if mode == "nearest":
        nearest = np.clip(_nearest(text_of(attrs, "nearest_mode"), at, scale), 0, size - 1).astype(np.int64)
        return nearest[:, None], np.ones((out, 1), _F)
    if mode == "linear":
        held = np.clip(at, 0, size - 1)
        low = np.floor(held)
        weight = held - low
        pair = np.stack((low, np.minimum(low + 1, size - 1)), 1).astype(np.int64)
        return pair, np.stack((1 - weight, weight), 1)
    base = np.floor(at)
    positions = base[:, None].astype(np.int64) + np.arange(-1, 3)
    weights = keys(at - base, float_of(attrs, "cubic_coeff_a"))
    if bool_of(attrs, "exclude_outside", False):
        weights = np.where((positions >= 0) & (positions < size), weights, 0)
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(positions, 0, size - 1), weights


def keys(t: np.ndarray, a: float) -> np.ndarray:
    """Weights of the four neighbours at distances 1+t, t, 1-t, 2-t (R. Keys, 1981)."""
    def far(d: np.ndarray) -> np.ndarray:
        return np.asarray(((a * d - 5 * a) * d + 8 * a) * d - 4 * a)

    def near(d: np.ndarray) -> np.ndarray:
        return np.asarray(((a + 2) * d - (a + 3)) * d * d + 1)

    return np.stack((far(1 + t), near(t), near(1 - t), far(2 - t)), 1)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, shape = arrays[0], ints_of(attrs, "shape")
    assert x is not None
    scales = floats_of(attrs, "scales", ()) or tuple(o / s for o, s in zip(shape, x.shape, strict=True))
    y = x
    for axis, (out, scale) in enumerate(zip(shape, scales, strict=True)):
        if scale == 1.0 and out == y.shape[axis]:
            continue
        positions, weights = taps(attrs, y.shape[axis], out, scale)
        if positions.shape[1] == 1:
            y = np.take(y, positions[:, 0], axis)
            continue
        column = (-1, *(1,) * (y.ndim - axis - 1))
        parts = [np.take(y, positions[:, i], axis) * weights[:, i].reshape(column).astype(y.dtype)
                 for i in range(positions.shape[1])]
        y = np.add.reduce(parts)
    return (np.ascontiguousarray(y, x.dtype),)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    per_element = {"nearest": 0, "linear": 8, "cubic": 40}[text_of(attrs, "mode")]
    return product(outputs[0].shape) * per_element


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    def attrs_of(mode: str, transformation: str, nearest: str = "round_prefer_floor", exclude: int = 0,
                 ) -> dict[str, Attr]:
        return {"mode": mode, "coordinate_transformation_mode": transformation, "nearest_mode": nearest,
                "cubic_coeff_a": -0.75, "exclude_outside": exclude, "extrapolation_value": 0.0}

    def sample(shape: tuple[int, ...], out: tuple[int, ...], scales: tuple[float, ...] | None,
               attrs: dict[str, Attr]) -> Sample:
        """By scales, or by sizes when None."""
        x = floats(rng, shape)
        factors = scales or tuple(float(_F(o / s)) for o, s in zip(out, shape, strict=True))
        operands = (x, None, np.array(scales, _F)) if scales else (x, None, None, np.array(out, np.int64))
        return Sample((x,), {**attrs, "scales": tuple(float(_F(f)) for f in factors), "shape": out}, 1e-4, 1e-5,
                      onnx_inputs=operands, onnx_attrs=attrs)

    for transformation in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"):
        for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            attrs = attrs_of("nearest", transformation, nearest)
            yield sample((1, 2, 3, 5), (1, 2, 6, 10), (1.0, 1.0, 2.0, 2.0), attrs)
            yield sample((1, 2, 8, 6), (1, 2, 5, 3), (1.0, 1.0, 0.7, 0.5), attrs)
        for mode in ("linear", "cubic"):
            attrs = attrs_of(mode, transformation)
            yield sample((2, 3, 5, 4), (2, 3, 10, 6), (1.0, 1.0, 2.0, 1.5), attrs)
            yield sample((1, 2, 7, 9), (1, 2, 11, 4), None, attrs)
            yield sample((1, 1, 1, 3), (1, 1, 4, 1), None, attrs)
    yield sample((1, 1, 6, 6), (1, 1, 9, 4), None, attrs_of("cubic", "half_pixel", exclude=1))
    yield sample((2, 3), (4, 9), (2.0, 3.0), attrs_of("nearest", "asymmetric", "floor"))
    yield sample((5,), (7,), None, attrs_of("nearest", "half_pixel"))
    x = floats(rng, (1, 2, 3, 4))
    for up in ((1.0, 1.0, 2.0, 3.0), (1.0, 1.0, 2.0, 1.0)):
        out = tuple(int(s * d) for s, d in zip(up, x.shape, strict=True))
        old = {**attrs_of("nearest", "asymmetric", "floor"), "scales": up, "shape": out}
        for op, opset in (("Resize", 10), ("Upsample", 9)):
            yield Sample((x,), old, onnx_op=op, onnx_inputs=(x, np.array(up, _F)), onnx_attrs={"mode": "nearest"},
                         opset=opset)
        yield Sample((x,), old, onnx_op="Upsample", onnx_attrs={"mode": "nearest", "scales": up}, opset=8)
    out = (1, 2, 6, 12)
    smooth = {**attrs_of("linear", "asymmetric", "floor"), "scales": (1.0, 1.0, 2.0, 3.0), "shape": out}
    yield Sample((x,), smooth, 1e-4, 1e-5, "Upsample", (x, np.array((1, 1, 2, 3), _F)), {"mode": "linear"}, 9)


RESIZE = OpDef(
    "Resize", _infer, _reference, _samples,
    (OnnxImport("Resize", 10, 10, import_resize_10), OnnxImport("Resize", 11, convert=import_resize),
     OnnxImport("Upsample", 7, 9, import_upsample)), flops=_flops)

OPS: tuple[OpDef, ...] = (RESIZE,)
