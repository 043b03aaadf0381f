"""What normalisations give beside their result: LayerNormalization's Mean and InvStdDev, and BatchNormalization in
training mode, which normalises by the statistics of the batch and updates the running ones."""

from __future__ import annotations

from collections.abc import Iterable

from meta_infer.ir.graph import Node
from meta_infer.ops.importing import attr_float, attr_int, attr_ints, axis_in, shape_of, wanted
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxNode, ShapeError
from meta_infer.support.dtypes import BFLOAT16, FLOAT32, DType

_ONNX_BFLOAT16 = 16                                     # its number in TensorProto.DataType


def _moments(build: NodeBuilder, x: str, axes: tuple[int, ...]) -> tuple[str, str]:
    """Mean and population variance of x over `axes`, which stay as 1; the variance of centred values, so it is >= 0."""
    mean = build.emit("ReduceMean", x, axes=axes, keepdims=True)
    centred = build.emit("Sub", x, mean)
    return mean, build.emit("ReduceMean", build.emit("Mul", centred, centred), axes=axes, keepdims=True)


def _root(build: NodeBuilder, variance: str, epsilon: float, dtype: DType) -> str:
    return build.emit("Sqrt", build.emit("Add", variance, build.scalar(epsilon, dtype, "epsilon")))


def layer_statistics(node: OnnxNode, ctx: ImportContext, axis: int) -> Iterable[Node]:
    """Outputs 1 and 2 of LayerNormalization, of the type that `stash_type` says and computed in float32 at least."""
    build, x, rank = NodeBuilder.importing(node, ctx), node.inputs[0], len(shape_of(node, ctx))
    dtype = ctx.type_of(x).dtype
    if dtype.bits < 32:
        x, dtype = build.cast(x, FLOAT32), FLOAT32
    mean, variance = _moments(build, x, tuple(range(axis, rank)))
    stash = BFLOAT16 if attr_int(node, "stash_type", 1) == _ONNX_BFLOAT16 else FLOAT32
    if wanted(node, 1):
        build.cast(mean, stash, out=node.outputs[1])
    if wanted(node, 2):
        root = _root(build, variance, attr_float(node, "epsilon", 1e-5), dtype)
        build.cast(build.emit("Reciprocal", root), stash, out=node.outputs[2])
    return build.nodes


def mean_variance(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """MeanVarianceNormalization: y = (x - mean) / (sqrt(variance) + 1e-9)."""
    build, x, rank = NodeBuilder.importing(node, ctx), node.inputs[0], len(shape_of(node, ctx))
    given = ctx.type_of(x).dtype
    dtype = given if given.bits >= 32 else FLOAT32
    wide = x if dtype == given else build.cast(x, dtype)
    axes = tuple(sorted({axis_in(node, axis, rank) for axis in attr_ints(node, "axes") or (0, 2, 3)}))
    mean, variance = _moments(build, wide, axes)
    deviation = build.emit("Add", build.emit("Sqrt", variance), build.scalar(1e-9, dtype, "epsilon"))
    build.cast(build.emit("Div", build.emit("Sub", wide, mean), deviation), given, out=node.outputs[0])
    return build.nodes


def batch_in_training(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """y = (x - mean) / sqrt(variance + epsilon) * scale + bias; running = running * momentum + now * (1 - momentum)."""
    build, (x, scale, bias, *running), shape = NodeBuilder.importing(node, ctx), node.inputs, shape_of(node, ctx)
    if len(shape) < 2:
        raise ShapeError(f"{len(shape)} dimensions have no channels")
    columns, given = (shape[1], *(1,) * (len(shape) - 2)), ctx.type_of(x).dtype
    dtype = given if given.bits >= 32 else FLOAT32
    wide = x if dtype == given else build.cast(x, dtype)
    mean, variance = _moments(build, wide, tuple(i for i in range(len(shape)) if i != 1))
    if node.outputs[0]:
        factor, offset = (build.reshape(name if ctx.type_of(name).dtype == dtype else build.cast(name, dtype), columns)
                          for name in (scale, bias))
        normal = build.emit("Div", build.emit("Sub", wide, mean),
                            _root(build, variance, attr_float(node, "epsilon", 1e-5), dtype))
        result = build.emit("Add", build.emit("Mul", normal, factor), offset)
        build.cast(result, given, out=node.outputs[0])
    momentum = attr_float(node, "momentum", 0.9)
    for i, (old, now) in enumerate(zip(running, (mean, variance), strict=True), 1):
        if not wanted(node, i):
            continue
        kind = ctx.type_of(old).dtype
        flat = build.cast(build.reshape(now, (shape[1],)), kind)
        kept = build.emit("Mul", old, build.scalar(momentum, kind, "momentum"))
        build.emit("Add", kept, build.emit("Mul", flat, build.scalar(1 - momentum, kind, "share")), out=node.outputs[i])
    return build.nodes
