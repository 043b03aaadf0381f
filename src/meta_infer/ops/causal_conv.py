"""CausalConvWithState of ONNX: a convolution of each channel with its own kernel that looks at the past only.

Before the input come the last k - 1 elements of what went before it, or zeros; the last k - 1 of both are what the next
call takes.
"""

from __future__ import annotations

from collections.abc import Iterable

from meta_infer.ir.graph import Node
from meta_infer.ops.importing import attr_text, present, shape_of, unsupported, wanted
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    b, x, weight = NodeBuilder.importing(node, ctx), node.inputs[0], shape_of(node, ctx, 1)
    activation = attr_text(node, "activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise unsupported(node, f"activation {activation!r} is not supported", "use none, silu or swish")
    if len(shape_of(node, ctx)) != 3 or len(weight) != 3 or weight[1] != 1:
        raise ShapeError("should be [batch, channels, length] with weights [channels, 1, k]")
    channels, _, width = weight
    if not isinstance(channels, int) or not isinstance(width, int):
        raise unsupported(node, f"a kernel of {channels} channels and width {width} has no fixed size",
                          "give it a fixed shape")
    batch, _, length = shape_of(node, ctx)
    carried, extended = width - 1, x
    if present(node, 3):
        extended = b.emit("Concat", node.inputs[3], x, axis=2)
    pads = (0 if present(node, 3) else carried, 0)
    y = b.emit("Conv", extended, node.inputs[1], node.inputs[2] if present(node, 2) else "", kernel_shape=(width,),
               strides=(1,), pads=pads, dilations=(1,), group=channels)
    if activation != "none":
        y = b.emit("Silu", y)
    if wanted(node, 0):
        b.finish(y, node.outputs[0])
    if wanted(node, 1):
        if not present(node, 3):
            extended = b.emit("Pad", x, pads=(0, 0, carried, 0, 0, 0), mode="constant", value=0.0)
        b.emit("Slice", extended, out=node.outputs[1], starts=(0, 0, length), sizes=(batch, channels, carried),
               steps=(1, 1, 1))
    return b.nodes


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("CausalConvWithState", 27, convert=_import),)
