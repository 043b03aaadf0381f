"""com.microsoft's RotaryEmbedding: pairs of elements of a head turned by an angle that grows with the position.

    (x1, x2)  ->  (x1 cos - x2 sin, x1 sin + x2 cos)

A pair is an element of the first half of the turned part and the one as far into the second half; neighbours when
interleaved.
"""

from __future__ import annotations

from collections.abc import Iterable

from meta_infer.ir.graph import Node, Shape
from meta_infer.ops.attention_math import part, positions
from meta_infer.ops.broadcast import text
from meta_infer.ops.importing import attr_int, shape_of, unsupported
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError


def rotate(b: NodeBuilder, x: str, shape: Shape, cos: str, sin: str, turned: int, interleaved: bool) -> str:
    """The first `turned` elements of each head of x [B, S, N, H]; cos and sin are [B or 1, S, 1, turned / 2]."""
    half, head = turned // 2, shape[-1]
    front = x if turned == head else part(b, x, shape, 3, 0, turned)
    front_shape = (*shape[:-1], turned)
    if interleaved:
        pairs = (*shape[:-1], half, 2)
        apart = b.reshape(front, pairs)
        left, right = (b.reshape(part(b, apart, pairs, 4, i, 1), (*shape[:-1], half)) for i in (0, 1))
    else:
        left, right = (part(b, front, front_shape, 3, i * half, half) for i in (0, 1))
    first = b.emit("Sub", b.emit("Mul", left, cos), b.emit("Mul", right, sin))
    second = b.emit("Add", b.emit("Mul", right, cos), b.emit("Mul", left, sin))
    if interleaved:
        columns = (*shape[:-1], half, 1)
        joined = b.emit("Concat", b.reshape(first, columns), b.reshape(second, columns), axis=4)
        result = b.reshape(joined, front_shape)
    else:
        result = b.emit("Concat", first, second, axis=3)
    if turned == head:
        return result
    return b.emit("Concat", result, part(b, x, shape, 3, turned, head - turned), axis=3)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Input [B, S, N * H], or [B, N, S, H]; positions [B, S], or [1]: where the sequence starts."""
    b, (x, ids, cos, sin) = NodeBuilder.importing(node, ctx), node.inputs
    shape, places, cache = (shape_of(node, ctx, i) for i in range(3))
    if attr_int(node, "is_packed_batching"):
        raise unsupported(node, "is_packed_batching is set", "give one sequence per row of the batch")
    if len(shape) not in (3, 4) or len(cache) != 2 or not isinstance(cache[1], int):
        raise ShapeError(f"input {text(shape)} or cache {text(cache)} is of no form that is known")
    batch, steps = (shape[0], shape[1]) if len(shape) == 3 else (shape[0], shape[2])
    turned = 2 * cache[1]
    given = attr_int(node, "num_heads")
    if len(shape) == 4:
        x, heads, head = b.transpose(x, (0, 2, 1, 3)), shape[1], shape[3]
    else:
        head = shape[2] // given if given else turned
        heads = shape[2] // head
    if not isinstance(head, int) or head < turned:
        raise ShapeError(f"heads of {head} elements are smaller than the {turned} that the cache turns")
    at = ids
    if len(places) == 1:
        at = b.emit("Add", positions(b, steps), ids)
    table = (batch if len(places) == 2 else 1, steps, 1, cache[1])
    turns = [b.reshape(b.emit("Gather", name, at, axis=0), table) for name in (cos, sin)]
    split = (batch, steps, heads, head)
    wide = x if len(shape) == 4 else b.reshape(x, split)
    found = rotate(b, wide, split, turns[0], turns[1], turned, bool(attr_int(node, "interleaved")))
    if len(shape) == 4:
        b.transpose(found, (0, 2, 1, 3), out=node.outputs[0])
    else:
        b.reshape(found, shape, out=node.outputs[0])
    return b.nodes


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("RotaryEmbedding", 1, convert=_import, domain="com.microsoft"),)
