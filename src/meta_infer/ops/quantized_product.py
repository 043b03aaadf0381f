"""Quantised products: an exact integer product, then one multiplication in float32, then the result's own steps.

    QLinearMatMul, QLinearConv, QGemm    round(sum * (a_scale * b_scale / y_scale)) + y_zero, saturated
    MatMulIntegerToFloat                 sum * (a_scale * b_scale) + bias
    DynamicQuantizeMatMul                the same, of an `a` quantised on the way
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim
from meta_infer.ops.convolution import conv_operand
from meta_infer.ops.importing import attr_float, attr_int, present, shape_of
from meta_infer.ops.integer_product import emit_conv, emit_matmul, matmul_attrs
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode
from meta_infer.ops.requantize import dynamic_quantize, known_zero, number_of, saturate, spread, to_float
from meta_infer.support.dtypes import FLOAT32

MICROSOFT = "com.microsoft"


def _given(node: OnnxNode, i: int) -> str:
    return node.inputs[i] if present(node, i) else ""


def _scale(b: NodeBuilder, ctx: ImportContext, name: str, rank: int, axis: int) -> str:
    return spread(b, to_float(b, ctx, name), ctx.type_of(name), rank, axis)


def _finish(b: NodeBuilder, ctx: ImportContext, total: str, factor: str, y_scale: str, y_zero: str, rank: int,
            axis: int, out: str) -> None:
    """int32 sums times `factor` over y_scale, in steps of the dtype of y_zero."""
    steps = b.emit("Mul", b.cast(total, FLOAT32), b.emit("Div", factor, _scale(b, ctx, y_scale, rank, axis)))
    point = "" if known_zero(ctx, y_zero) else spread(b, y_zero, ctx.type_of(y_zero), rank, axis)
    saturate(b, steps, point, ctx.type_of(y_zero).dtype, out)


def _import_qlinear_matmul(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """1-D parameters are one per row of a and y, one per column of b."""
    b = NodeBuilder.importing(node, ctx)
    a, a_scale, a_zero, right, b_scale, b_zero, y_scale, y_zero = node.inputs
    if ctx.type_of(a).dtype.is_float:
        return _float8_matmul(b, node, ctx)
    factor = b.emit("Mul", _scale(b, ctx, a_scale, 2, 0), _scale(b, ctx, b_scale, 2, 1))
    total = emit_matmul(b, ctx, a, right, a_zero, b_zero)
    _finish(b, ctx, total, factor, y_scale, y_zero, 2, 0, node.outputs[0])
    return b.nodes


def _float8_matmul(b: NodeBuilder, node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Floats of 8 bits (since opset 21) have no zero point; the product is one of float32."""
    a, a_scale, _, right, b_scale, _, y_scale, y_zero = node.inputs
    factor = b.emit("Mul", _scale(b, ctx, a_scale, 2, 0), _scale(b, ctx, b_scale, 2, 1))
    steps = b.emit("Div", factor, _scale(b, ctx, y_scale, 2, 0))
    found = b.emit("Mul", b.emit("MatMul", b.cast(a, FLOAT32), b.cast(right, FLOAT32)), steps)
    b.emit("Cast", found, out=node.outputs[0], to=ctx.type_of(y_zero).dtype, saturate=True)
    return b.nodes


def _import_qlinear_conv(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """1-D parameters of the weights are one per output channel."""
    b = NodeBuilder.importing(node, ctx)
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    shape, weight = ctx.type_of(x).shape, ctx.type_of(w).shape
    rank, last = len(shape), bool(attr_int(node, "channels_last"))
    sizes = shape[1:-1] if last else shape[2:]
    if last:
        x = b.transpose(x, (0, rank - 1, *range(1, rank - 1)))
    factor = b.emit("Mul", _scale(b, ctx, x_scale, rank, 1), _scale(b, ctx, w_scale, rank, 1))
    x, attrs = conv_operand(b, node, x, sizes, weight, number_of(ctx, x_zero))
    total = emit_conv(b, ctx, x, w, x_zero, w_zero, attrs)
    if present(node, 8):
        columns: tuple[Dim, ...] = (weight[0], *(1,) * (rank - 2))
        total = b.emit("Add", total, b.reshape(node.inputs[8], columns))
    found = ctx.fresh(node.outputs[0]) if last else node.outputs[0]
    _finish(b, ctx, total, factor, y_scale, y_zero, rank, 1, found)
    if last:
        b.transpose(found, (0, *range(2, rank), 1), out=node.outputs[0])
    return b.nodes


def _import_to_float(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    b = NodeBuilder.importing(node, ctx)
    a, right, a_scale, b_scale = node.inputs[:4]
    total = emit_matmul(b, ctx, a, right, _given(node, 4), _given(node, 5))
    factor = b.emit("Mul", _scale(b, ctx, a_scale, 2, 0), _scale(b, ctx, b_scale, 2, 1))
    dtype = ctx.type_of(a_scale).dtype
    found = b.emit("Mul", b.cast(total, FLOAT32), factor)
    if present(node, 6):
        found = b.emit("Add", found, to_float(b, ctx, node.inputs[6]))
    b.cast(found, dtype, out=node.outputs[0])
    return b.nodes


def _import_dynamic(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    b = NodeBuilder.importing(node, ctx)
    x, right, b_scale = node.inputs[:3]
    a, a_scale, a_zero = dynamic_quantize(b, x, len(shape_of(node, ctx)))
    b_zero = _given(node, 3)
    points = "" if known_zero(ctx, b_zero) else spread(b, b_zero, ctx.type_of(b_zero), 2, 1)
    total = b.add("MatMulInteger", (a, right, a_zero, points), matmul_attrs(ctx, right, b_zero))
    found = b.emit("Mul", b.cast(total, FLOAT32), b.emit("Mul", a_scale, _scale(b, ctx, b_scale, 2, 1)))
    if present(node, 4):
        b.emit("Add", found, node.inputs[4], out=node.outputs[0])
    else:
        b.finish(found, node.outputs[0])
    return b.nodes


def _import_gemm(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """C is int32 in steps of alpha * a_scale * b_scale; without y_scale the result is float32."""
    b = NodeBuilder.importing(node, ctx)
    a, a_scale, a_zero, right, b_scale, b_zero = node.inputs[:6]
    left = b.transpose(a, (1, 0)) if attr_int(node, "transA") else a
    right = b.transpose(right, (1, 0)) if attr_int(node, "transB") else right
    total = emit_matmul(b, ctx, left, right, a_zero, b_zero)
    if present(node, 6):
        total = b.emit("Add", total, node.inputs[6])
    factor = b.emit("Mul", _scale(b, ctx, a_scale, 2, 0), _scale(b, ctx, b_scale, 2, 1))
    if (alpha := attr_float(node, "alpha", 1.0)) != 1.0:
        factor = b.emit("Mul", factor, b.constant(np.array(alpha, np.float32), "alpha"))
    if present(node, 7):
        _finish(b, ctx, total, factor, node.inputs[7], node.inputs[8], 2, 1, node.outputs[0])
    else:
        b.emit("Mul", b.cast(total, FLOAT32), factor, out=node.outputs[0])
    return b.nodes


IMPORTS: tuple[OnnxImport, ...] = (
    OnnxImport("QLinearMatMul", 10, convert=_import_qlinear_matmul),
    OnnxImport("QLinearConv", 10, convert=_import_qlinear_conv),
    OnnxImport("QLinearConv", 1, convert=_import_qlinear_conv, domain=MICROSOFT),
    OnnxImport("MatMulIntegerToFloat", 1, convert=_import_to_float, domain=MICROSOFT),
    OnnxImport("DynamicQuantizeMatMul", 1, convert=_import_dynamic, domain=MICROSOFT),
    OnnxImport("QGemm", 1, convert=_import_gemm, domain=MICROSOFT))
