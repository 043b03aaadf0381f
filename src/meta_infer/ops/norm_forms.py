"""Normalisations that are combinations of other ops: LpNormalization, LRN."""

from __future__ import annotations

import math
from collections.abc import Iterable

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import product
from meta_infer.ops.importing import attr_float, attr_int, axis_in, shape_of, unsupported
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError


def _import_lp(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """x / norm along one axis; where the norm is 0 so are all elements, and they stay 0."""
    build, x, order = NodeBuilder.importing(node, ctx), node.inputs[0], attr_int(node, "p", 2)
    if order not in (1, 2):
        raise unsupported(node, f"p = {order}; ONNX defines 1 and 2", "use ReduceL1, ReduceL2 or Pow and ReduceSum")
    dtype, axis = ctx.type_of(x).dtype, axis_in(node, attr_int(node, "axis", -1), len(shape_of(node, ctx)))
    norm = build.emit(f"ReduceL{order}", x, axes=(axis,), keepdims=True)
    is_zero = build.emit("Equal", norm, build.scalar(0, dtype, "zero"))
    build.emit("Div", x, build.emit("Where", is_zero, build.scalar(1, dtype, "one"), norm), out=node.outputs[0])
    return build.nodes


def _import_lrn(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """x / (bias + alpha * m)^beta, m the mean of x² over `size` neighbouring channels (Krizhevsky et al. 2012).

    The mean is an AveragePool over [n, 1, channels, elements] that counts its padding.
    """
    build, x, shape = NodeBuilder.importing(node, ctx), node.inputs[0], shape_of(node, ctx)
    size, dtype = attr_int(node, "size"), ctx.type_of(x).dtype
    if len(shape) < 2 or size < 1:
        raise ShapeError(f"normalises over {size} channels of {len(shape)} dimensions")
    before, behind = (size - 1) // 2, math.ceil((size - 1) / 2)
    planes = build.reshape(build.emit("Mul", x, x), (shape[0], 1, shape[1], product(shape[2:])))
    means = build.emit("AveragePool", planes, kernel_shape=(size, 1), strides=(1, 1), dilations=(1, 1),
                       pads=(before, 0, behind, 0), ceil_mode=False, count_include_pad=True)
    alpha = build.scalar(attr_float(node, "alpha", 1e-4), dtype, "alpha")
    scaled = build.emit("Mul", build.reshape(means, shape), alpha)
    base = build.emit("Add", scaled, build.scalar(attr_float(node, "bias", 1.0), dtype, "bias"))
    power = build.emit("Pow", base, build.scalar(attr_float(node, "beta", 0.75), dtype, "beta"))
    build.emit("Div", x, power, out=node.outputs[0])
    return build.nodes


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("LpNormalization", 1, convert=_import_lp),
                                   OnnxImport("LRN", 1, convert=_import_lrn))
