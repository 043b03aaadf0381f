"""Scales and zero points in core ops, computed as ONNX Runtime does: float32, round half to even, then saturate."""

from __future__ import annotations

import numpy as np

from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, TensorType
from meta_infer.support.dtypes import FLOAT32, UINT8, DType


def spread(b: NodeBuilder, name: str, found: TensorType, rank: int, axis: int) -> str:
    """A scale or zero point so that it broadcasts against data of `rank` dims: of one element, or along `axis`.

    What has several dims already is left as it is.
    """
    if not found.shape or len(found.shape) > 1:
        return name
    if found.shape == (1,):
        return b.reshape(name, ())
    behind = rank - 1 - axis % rank
    return b.reshape(name, (*found.shape, *(1,) * behind)) if behind else name


def known_zero(ctx: ImportContext, name: str) -> bool:
    """True for an absent zero point and for one that is constant and zero."""
    known = ctx.known(name) if name else np.zeros(1)
    return known is not None and not np.any(known)


def number_of(ctx: ImportContext, zero: str) -> int | None:
    """A zero point of one element that is constant, 0 for an absent one; None for others."""
    known = ctx.known(zero) if zero else np.zeros(1, np.int64)
    return int(known.reshape(-1)[0]) if known is not None and known.size == 1 else None


def to_float(b: NodeBuilder, ctx: ImportContext, name: str) -> str:
    """A scale in float32."""
    return name if ctx.type_of(name).dtype == FLOAT32 else b.cast(name, FLOAT32)


def dequantize(b: NodeBuilder, ctx: ImportContext, x: str, scale: str, zero: str, out: str = "") -> str:
    """(x - zero) * scale in float32, one scale and zero point for the whole tensor; 8-bit differences are exact."""
    wide = b.cast(x, FLOAT32)
    if not known_zero(ctx, zero):
        point = spread(b, zero, ctx.type_of(zero), 0, 0) if zero else ""
        wide = b.emit("Sub", wide, b.cast(point, FLOAT32))
    return b.emit("Mul", wide, spread(b, to_float(b, ctx, scale), ctx.type_of(scale), 0, 0), out=out)


def quantize(b: NodeBuilder, ctx: ImportContext, x: str, scale: str, zero: str, to: DType, out: str) -> None:
    """saturate(round(x / scale) + zero), one scale and zero point for the whole tensor."""
    steps = b.emit("Div", x, spread(b, to_float(b, ctx, scale), ctx.type_of(scale), 0, 0))
    point = "" if known_zero(ctx, zero) else spread(b, zero, ctx.type_of(zero), 0, 0)
    saturate(b, steps, point, to, out)


def saturate(b: NodeBuilder, steps: str, zero: str, to: DType, out: str) -> None:
    """Float32 steps to integers: rounded to nearest even, shifted by `zero` ('' = 0), clipped to the range of `to`."""
    found = b.emit("Round", steps)
    if zero:
        found = b.emit("Add", found, b.cast(zero, FLOAT32))
    info = np.iinfo(to.numpy)
    b.cast(b.emit("Clip", found, min=float(info.min), max=float(info.max)), to, out=out)


def dynamic_quantize(b: NodeBuilder, x: str, rank: int) -> tuple[str, str, str]:
    """(x as uint8, its scale, its zero point as uint8), by the range of x with 0 in it; scale 1 when all is 0."""
    axes, zero, most = tuple(range(rank)), b.scalar(0.0, FLOAT32, "zero"), b.scalar(255.0, FLOAT32, "steps")
    low = b.emit("Min", b.emit("ReduceMin", x, axes=axes, keepdims=False), zero)
    high = b.emit("Max", b.emit("ReduceMax", x, axes=axes, keepdims=False), zero)
    width = b.emit("Div", b.emit("Sub", high, low), most)
    scale = b.emit("Where", b.emit("Equal", width, zero), b.scalar(1.0, FLOAT32, "one"), width)
    point = b.emit("Round", b.emit("Clip", b.emit("Neg", b.emit("Div", low, scale)), min=0.0, max=255.0))
    steps = b.emit("Add", b.emit("Round", b.emit("Div", x, scale)), point)
    return b.cast(b.emit("Clip", steps, min=0.0, max=255.0), UINT8), scale, b.cast(point, UINT8)


