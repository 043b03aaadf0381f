"""ONNX ops that draw random numbers: RandomUniform, RandomNormal, their Like forms, Bernoulli, Multinomial, Dropout.

A package gives the same numbers in every run: those of the node's `seed`, and without one of a seed made from the
node's name (its first output's when it has none), so that two nodes differ and two builds agree.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Node, Shape
from meta_infer.ops.importing import (
    attr_float,
    attr_int,
    attr_ints,
    origin_of,
    present,
    shape_of,
    unsupported,
    wanted,
)
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.onnx_dtypes import onnx_dtype
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.support.dtypes import BOOL, FLOAT32, FLOAT64, INT64, DType


def _seed(node: OnnxNode) -> int:
    given = node.attrs.get("seed")
    if isinstance(given, (int, float)) and math.isfinite(given):
        return int(given) % (1 << 32)
    return zlib.crc32(origin_of(node).encode())


def _uniform(build: NodeBuilder, node: OnnxNode, shape: Shape) -> str:
    return build.emit("Random", shape=shape, seed=_seed(node))


def _target(node: OnnxNode, ctx: ImportContext) -> DType:
    """`dtype`, else that of input 0."""
    return onnx_dtype(node, "dtype") if node.attrs.get("dtype") is not None else ctx.type_of(node.inputs[0]).dtype


def _shape(node: OnnxNode, ctx: ImportContext) -> Shape:
    """The `shape` attribute, or for a Like form the shape of input 0."""
    return shape_of(node, ctx) if node.inputs else attr_ints(node, "shape") or ()


def _import_uniform(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    build, low, high = NodeBuilder.importing(node, ctx), attr_float(node, "low", 0.0), attr_float(node, "high", 1.0)
    scaled = build.emit("Mul", _uniform(build, node, _shape(node, ctx)), build.scalar(high - low, FLOAT64, "range"))
    build.cast(build.emit("Add", scaled, build.scalar(low, FLOAT64, "low")), _target(node, ctx), out=node.outputs[0])
    return build.nodes


def _import_normal(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """sqrt(-2 ln(1 - u)) cos(2 pi v) is normal for uniform u and v (Box and Muller 1958)."""
    build, shape = NodeBuilder.importing(node, ctx), _shape(node, ctx)
    both, zeros, ones = _uniform(build, node, (2, *shape)), (0,) * len(shape), (1,) * len(shape)
    u, v = (build.reshape(build.emit("Slice", both, starts=(i, *zeros), sizes=(1, *shape), steps=(1, *ones)), shape)
            for i in range(2))
    log = build.emit("Log", build.emit("Sub", build.scalar(1, FLOAT64, "one"), u))
    radius = build.emit("Sqrt", build.emit("Mul", log, build.scalar(-2, FLOAT64, "factor")))
    cosine = build.emit("Cos", build.emit("Mul", v, build.scalar(2 * math.pi, FLOAT64, "turn")))
    scaled = build.emit("Mul", build.emit("Mul", radius, cosine),
                        build.scalar(attr_float(node, "scale", 1.0), FLOAT64, "scale"))
    moved = build.emit("Add", scaled, build.scalar(attr_float(node, "mean", 0.0), FLOAT64, "mean"))
    build.cast(moved, _target(node, ctx), out=node.outputs[0])
    return build.nodes


def _import_bernoulli(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """1 where a uniform number is below the probability. (The function body of ONNX has the comparison reversed.)"""
    build = NodeBuilder.importing(node, ctx)
    drawn = _uniform(build, node, shape_of(node, ctx))
    build.cast(build.emit("Less", drawn, build.cast(node.inputs[0], FLOAT64)), _target(node, ctx), out=node.outputs[0])
    return build.nodes


def _import_multinomial(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Logits [b, n] -> [b, samples]: how many of the running sums of e^logit a uniform share of their total reaches."""
    build, shape = NodeBuilder.importing(node, ctx), shape_of(node, ctx)
    if len(shape) != 2:
        raise ShapeError(f"draws from a matrix, one distribution a row, not from {len(shape)} dimensions")
    samples = attr_int(node, "sample_size", 1)
    logits = build.cast(node.inputs[0], FLOAT64)
    top = build.emit("ReduceMax", logits, axes=(1,), keepdims=True)
    weights = build.emit("Exp", build.emit("Sub", logits, top))
    sums = build.emit("CumSum", weights, axis=1, exclusive=False, reverse=False)
    last = build.emit("Slice", sums, starts=(0, shape[1] - 1), sizes=(shape[0], 1), steps=(1, 1))
    drawn = build.emit("Mul", _uniform(build, node, (shape[0], samples)), last)
    reached = build.emit("GreaterOrEqual", build.reshape(drawn, (shape[0], samples, 1)),
                         build.reshape(sums, (shape[0], 1, shape[1])))
    count = build.emit("ReduceSum", build.cast(reached, INT64), axes=(2,), keepdims=False)
    build.cast(count, onnx_dtype(node, "dtype"), out=node.outputs[0])
    return build.nodes


# --- Dropout --------------------------------------------------------------------------------------------------

def _import_dropout(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Since version 12 `ratio` and `training_mode` are inputs; before, it drops nothing at inference.

    In training mode: mask = (uniform >= ratio), y = x / (1 - ratio) where the mask is true, else 0.
    """
    build, x = NodeBuilder.importing(node, ctx), node.inputs[0]
    shape, dtype = shape_of(node, ctx), ctx.type_of(node.inputs[0]).dtype
    mode = node.inputs[2] if present(node, 2) else ""
    known = ctx.known(mode) if mode else np.array(False)
    every = ctx.constant(np.array(True), "kept")
    if known is not None and not known.any():
        if node.outputs[0]:
            build.finish(x, node.outputs[0])
        if wanted(node, 1):
            ones = build.emit("Expand", every, shape=shape)
            build.cast(ones, BOOL if node.version >= 10 else dtype, out=node.outputs[1])
        return build.nodes
    if dtype.bits < 16:
        raise unsupported(node, f"training mode of {dtype} is not supported", "cast to float16 or wider around it")
    ratio = build.cast(node.inputs[1], FLOAT64) if present(node, 1) else build.scalar(0.5, FLOAT64, "ratio")
    ratio = build.reshape(ratio, ())
    mask = build.emit("GreaterOrEqual", _uniform(build, node, shape), ratio)
    wide = dtype if dtype.bits >= 32 else FLOAT32
    scale = build.cast(build.emit("Reciprocal", build.emit("Sub", build.scalar(1, FLOAT64, "one"), ratio)), wide)
    scaled = build.cast(build.emit("Mul", build.cast(x, wide), scale), dtype)
    dropped = build.emit("Where", mask, scaled, build.scalar(0, dtype, "zero"))
    if known is None:
        training = build.reshape(mode, ())
        dropped = build.emit("Where", training, dropped, x)
        mask = build.emit("Or", mask, build.emit("Not", training))
    if node.outputs[0]:
        build.finish(dropped, node.outputs[0])
    if wanted(node, 1):
        build.finish(mask, node.outputs[1])
    return build.nodes


IMPORTS: tuple[OnnxImport, ...] = (
    OnnxImport("RandomUniform", 1, convert=_import_uniform),
    OnnxImport("RandomUniformLike", 1, convert=_import_uniform),
    OnnxImport("RandomNormal", 1, convert=_import_normal), OnnxImport("RandomNormalLike", 1, convert=_import_normal),
    OnnxImport("Bernoulli", 15, convert=_import_bernoulli), OnnxImport("Multinomial", 7, convert=_import_multinomial),
    OnnxImport("Dropout", 7, convert=_import_dropout))
