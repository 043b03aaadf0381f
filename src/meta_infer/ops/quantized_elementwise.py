"""com.microsoft's ops on 8-bit tensors with a scale and a zero point each: to float32, the op, and back.

    y = QLinearAdd(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)
      ->  quantize(dequantize(a) + dequantize(b))

ONNX Runtime computes some of them by tables or in other orders; results differ by one step at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import product
from meta_infer.ops.importing import attr_float, attr_int, axis_in, present, shape_of, unsupported
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, TensorType
from meta_infer.ops.pooling import emit_average_pool, emit_max_pool
from meta_infer.ops.requantize import dequantize, quantize
from meta_infer.support.dtypes import FLOAT32

MICROSOFT = "com.microsoft"

Apply = Callable[[NodeBuilder, OnnxNode, ImportContext, str], str]
"""(builder, node, context, float operand) -> float result."""


def _given(node: OnnxNode, i: int) -> str:
    return node.inputs[i] if present(node, i) else ""


def _float_of(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, i: int) -> str:
    """Input i, whose scale and zero point are the next two, in float32."""
    return dequantize(b, ctx, node.inputs[i], node.inputs[i + 1], _given(node, i + 2))


def _unary(node: OnnxNode, ctx: ImportContext, apply: Apply) -> Iterable[Node]:
    """Inputs: X, X_scale, X_zero_point, Y_scale, Y_zero_point."""
    b, dtype = NodeBuilder.importing(node, ctx), ctx.type_of(node.inputs[0]).dtype
    x = _float_of(b, node, ctx, 0)
    quantize(b, ctx, apply(b, node, ctx, x), node.inputs[3], _given(node, 4), dtype, node.outputs[0])
    return b.nodes


def _binary(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    b, dtype = NodeBuilder.importing(node, ctx), ctx.type_of(node.inputs[0]).dtype
    left, right = (_float_of(b, node, ctx, i) for i in (0, 3))
    result = b.emit(node.op.removeprefix("QLinear"), left, right)
    quantize(b, ctx, result, node.inputs[6], _given(node, 7), dtype, node.outputs[0])
    return b.nodes


def _where(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    b, dtype = NodeBuilder.importing(node, ctx), ctx.type_of(node.inputs[1]).dtype
    x, y = (_float_of(b, node, ctx, i) for i in (1, 4))
    result = b.emit("Where", node.inputs[0], x, y)
    quantize(b, ctx, result, node.inputs[7], node.inputs[8], dtype, node.outputs[0])
    return b.nodes


def _concat(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Inputs: Y_scale, Y_zero_point, then tensor, scale and zero point of each part."""
    b, (scale, zero), count = NodeBuilder.importing(node, ctx), node.inputs[:2], len(node.inputs) - 2
    if count % 3:
        raise unsupported(node, f"{count} inputs behind the first two are no tensors with scale and zero point",
                          "give three inputs for each part")
    dtype, axis = ctx.type_of(zero).dtype, axis_in(node, attr_int(node, "axis"), len(shape_of(node, ctx, 2)))
    ready = []
    for i in range(2, len(node.inputs), 3):
        out = ctx.fresh(node.inputs[i])
        quantize(b, ctx, _float_of(b, node, ctx, i), scale, zero, dtype, out)
        ready.append(out)
    b.emit("Concat", *ready, out=node.outputs[0], axis=axis)
    return b.nodes


def _sigmoid(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, x: str) -> str:
    return b.emit("Sigmoid", x)


def _leaky_relu(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, x: str) -> str:
    return b.emit("LeakyRelu", x, alpha=attr_float(node, "alpha", 0.01))


def _softmax(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, x: str) -> str:
    """Over one axis, or before opset 13 over all dims from it on, as if they were one."""
    shape = shape_of(node, ctx)
    axis = axis_in(node, attr_int(node, "axis", -1), len(shape))
    if attr_int(node, "opset") >= 13 or all(d == 1 for d in shape[axis + 1:]):
        return b.emit("Softmax", x, axis=axis)
    matrix = b.reshape(x, (product(shape[:axis]), product(shape[axis:])))
    return b.reshape(b.emit("Softmax", matrix, axis=1), shape)


def _channels_first(apply: Apply) -> Apply:
    """`apply` between transpositions where the node's tensors have their channels last."""
    def wrapped(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, x: str) -> str:
        if not attr_int(node, "channels_last"):
            return apply(b, node, ctx, x)
        rank = len(shape_of(node, ctx))
        first = b.transpose(x, (0, rank - 1, *range(1, rank - 1)))
        return b.transpose(apply(b, node, ctx, first), (0, *range(2, rank), 1))
    return wrapped


def _average_pool(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, x: str) -> str:
    shape = shape_of(node, ctx)
    first = (*shape[:1], *shape[-1:], *shape[1:-1]) if attr_int(node, "channels_last") else shape
    return emit_average_pool(b, node, x, TensorType(FLOAT32, first))


def _global_average_pool(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, x: str) -> str:
    return b.emit("GlobalAveragePool", x)


def _max_pool(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """NhwcMaxPool: of 8-bit tensors with channels last, which need no scale for it."""
    b, x = NodeBuilder.importing(node, ctx), ctx.type_of(node.inputs[0])
    rank = len(x.shape)
    first = TensorType(x.dtype, (*x.shape[:1], *x.shape[-1:], *x.shape[1:-1]))
    found = emit_max_pool(b, node, b.transpose(node.inputs[0], (0, rank - 1, *range(1, rank - 1))), first)
    b.transpose(found, (0, *range(2, rank), 1), out=node.outputs[0])
    return b.nodes


def _rule(op: str, apply: Apply) -> OnnxImport:
    return OnnxImport(op, 1, convert=lambda node, ctx: _unary(node, ctx, apply), domain=MICROSOFT)


IMPORTS: tuple[OnnxImport, ...] = (
    OnnxImport("QLinearAdd", 1, convert=_binary, domain=MICROSOFT),
    OnnxImport("QLinearMul", 1, convert=_binary, domain=MICROSOFT),
    OnnxImport("QLinearWhere", 1, convert=_where, domain=MICROSOFT),
    OnnxImport("NhwcMaxPool", 1, convert=_max_pool, domain=MICROSOFT),
    OnnxImport("QLinearConcat", 1, convert=_concat, domain=MICROSOFT),
    _rule("QLinearSigmoid", _sigmoid), _rule("QLinearLeakyRelu", _leaky_relu), _rule("QLinearSoftmax", _softmax),
    _rule("QLinearAveragePool", _channels_first(_average_pool)),
    _rule("QLinearGlobalAveragePool", _channels_first(_global_average_pool)))
