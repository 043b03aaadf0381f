"""RotaryEmbedding of ONNX: the turns of ops/rotary.py, on heads as they lie, [batch, heads, steps, size] or packed."""

from __future__ import annotations

from collections.abc import Iterable

from meta_infer.ir.graph import Node
from meta_infer.ops.broadcast import text
from meta_infer.ops.importing import attr_int, present, shape_of, unsupported
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.ops.rotary import rotate


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Caches [positions, half] with position_ids [batch, steps], else [batch, steps, half]."""
    b, (x, cos, sin), shape = NodeBuilder.importing(node, ctx), node.inputs[:3], shape_of(node, ctx)
    if len(shape) not in (3, 4):
        raise ShapeError(f"input {text(shape)} should have 3 or 4 dimensions")
    packed, heads = len(shape) == 3, attr_int(node, "num_heads")
    width = shape[-1]
    if not isinstance(width, int) or packed and (heads <= 0 or width % heads):
        raise unsupported(node, f"{heads} heads do not share out a last dimension of {width}",
                          "give num_heads and a fixed size that it divides")
    head = width // heads if packed else width
    turned = attr_int(node, "rotary_embedding_dim") or head
    if turned % 2 or turned > head:
        raise ShapeError(f"{turned} elements of a head of {head} cannot be turned in pairs")
    batch, steps = (shape[0], shape[1]) if packed else (shape[0], shape[2])
    split = (batch, steps, heads, head) if packed else shape
    table = (batch, steps, 1, turned // 2) if packed else (batch, 1, steps, turned // 2)
    for i, cache in ((1, shape_of(node, ctx, 1)), (2, shape_of(node, ctx, 2))):
        if len(cache) != (2 if present(node, 3) else 3) or cache[-1] != turned // 2:
            raise ShapeError(f"input {i} {text(cache)} should end in {turned // 2} and have "
                             f"{'2 dimensions beside' if present(node, 3) else '3 dimensions without'} position_ids")
    if present(node, 3):
        cos, sin = (b.emit("Gather", name, node.inputs[3], axis=0) for name in (cos, sin))
    cos, sin = (b.reshape(name, table) for name in (cos, sin))
    found = rotate(b, b.reshape(x, split) if packed else x, split, cos, sin, turned,
                   bool(attr_int(node, "interleaved")))
    b.reshape(found, shape, out=node.outputs[0])
    return b.nodes


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("RotaryEmbedding", 23, convert=_import),)
