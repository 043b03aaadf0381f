"""com.microsoft's DynamicQuantizeLSTM: an LSTM whose weights are 8-bit integers with scales.

    W [directions, input, 4 * hidden] and R [directions, hidden, 4 * hidden] become float32 in ONNX's order of dims;
    what follows is an LSTM.

ONNX Runtime also quantises the inputs and the hidden state at every step. That costs accuracy and is not repeated here:
results differ from its own by that noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from meta_infer.ir.graph import Node
from meta_infer.ops.broadcast import text
from meta_infer.ops.importing import present
from meta_infer.ops.lstm import import_lstm
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.support.dtypes import FLOAT32

_SCALES = 8


def _float_weights(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, i: int, scale: str, zero: str) -> str:
    """(q - zero) * scale as [directions, 4 * hidden, columns]; one scale per direction, or one per gate's row."""
    shape, count = ctx.type_of(node.inputs[i]).shape, ctx.type_of(scale).shape
    if len(shape) != 3 or count not in (shape[:1], (shape[0], shape[2])):
        raise ShapeError(f"scales {text(count)} do not fit weights {text(shape)}")
    spread = (shape[0], 1, count[1] if len(count) > 1 else 1)
    difference = b.emit("Sub", b.cast(node.inputs[i], FLOAT32), b.cast(b.reshape(zero, spread), FLOAT32))
    return b.transpose(b.emit("Mul", difference, b.reshape(scale, spread)), (0, 2, 1))


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    b = NodeBuilder.importing(node, ctx)
    w = _float_weights(b, node, ctx, 1, node.inputs[_SCALES], node.inputs[_SCALES + 1])
    r = _float_weights(b, node, ctx, 2, node.inputs[_SCALES + 2], node.inputs[_SCALES + 3])
    others = (name if present(node, i) else "" for i, name in enumerate(node.inputs[3:_SCALES], 3))
    plain = replace(node, op="LSTM", domain="", version=14, inputs=(node.inputs[0], w, r, *others))
    return [*b.nodes, *import_lstm(plain, ctx)]


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("DynamicQuantizeLSTM", 1, convert=_import, domain="com.microsoft"),)
