"""Activations whose function body in ONNX does not serve, as core ops.

    %y = ThresholdedRelu(%x) {alpha = 1.0}  ->  %y = Where(Greater(%x, alpha), %x, 0)    a body from opset 18 on
    %y = Celu(%x) {alpha = 2.0}             ->  %y = Mul(Elu(Div(%x, alpha)), alpha)     the body makes scalars [1]
"""

from __future__ import annotations

from collections.abc import Iterable

from meta_infer.ir.graph import Node
from meta_infer.ops.importing import attr_float
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode


def _import_thresholded(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    build, x = NodeBuilder.importing(node, ctx), node.inputs[0]
    dtype = ctx.type_of(x).dtype
    above = build.emit("Greater", x, build.scalar(attr_float(node, "alpha", 1.0), dtype, "alpha"))
    build.emit("Where", above, x, build.scalar(0, dtype, "zero"), out=node.outputs[0])
    return build.nodes


def _import_celu(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    build, x = NodeBuilder.importing(node, ctx), node.inputs[0]
    alpha = build.scalar(attr_float(node, "alpha", 1.0), ctx.type_of(x).dtype, "alpha")
    bent = build.emit("Elu", build.emit("Div", x, alpha), alpha=1.0)
    build.emit("Mul", bent, alpha, out=node.outputs[0])
    return build.nodes


IMPORTS: tuple[OnnxImport, ...] = (
    OnnxImport("ThresholdedRelu", 10, convert=_import_thresholded),
    OnnxImport("Celu", 12, convert=_import_celu),
)
