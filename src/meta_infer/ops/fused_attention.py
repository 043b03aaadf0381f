"""com.microsoft's Attention, QAttention and MultiHeadAttention as core products, masks and softmax."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import Dim
from meta_infer.ops.attention_math import add_all, attend, causal, masked, padding, part, scores, split_heads
from meta_infer.ops.broadcast import text
from meta_infer.ops.importing import attr_float, attr_int, attr_ints, present, shape_of, unsupported, wanted
from meta_infer.ops.integer_product import emit_matmul
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.ops.requantize import spread
from meta_infer.support.dtypes import FLOAT32, DType

MICROSOFT = "com.microsoft"
_FILTER = -10000.0


@dataclass(frozen=True)
class _Sizes:
    """What an attention node asks for; `total` counts past and new keys."""

    batch: Dim
    steps: Dim
    total: Dim
    heads: int
    width: Dim                                            # of the output: heads * size of a value
    head: int                                             # size of a query
    dtype: DType


def _given(node: OnnxNode, i: int) -> str:
    return node.inputs[i] if present(node, i) else ""


def _refuse_attributes(node: OnnxNode) -> None:
    for name in ("do_rotary", "past_present_share_buffer"):
        if attr_int(node, name):
            raise unsupported(node, f"{name} is set", "rotate before the node, or let past and present be two tensors")


def _head_size(node: OnnxNode, width: Dim, heads: int) -> int:
    if not isinstance(width, int) or heads < 1 or width % heads:
        raise ShapeError(f"a width of {width} does not split into {heads} heads")
    return width // heads


def _finish(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, sizes: _Sizes, q: str, k: str, v: str, mask: str,
            bias: str, qk: str = "") -> None:
    """softmax(q kᵀ * scale + bias + masks) v; q, k, v are [B, N, ., H]. `qk` names what softmax gets."""
    scale = attr_float(node, "scale") or 1.0 / math.sqrt(sizes.head)
    found = scores(b, q, k, scale, sizes.dtype)
    terms = [bias] if bias else []
    filtered = attr_float(node, "mask_filter_value", _FILTER)
    if mask:
        shape = ctx.type_of(mask).shape
        kept = padding(b, mask, shape, sizes.batch, sizes.total)
        if kept is None:
            raise unsupported(node, f"a mask of shape {text(shape)} is not supported",
                              "give it as [batch], [2 * batch], [batch, keys] or [batch, queries, keys]")
        terms.append(masked(b, kept, filtered, sizes.dtype))
    if attr_int(node, "unidirectional") and sizes.steps != 1:
        terms.append(masked(b, causal(b, sizes.steps, sizes.total), filtered, sizes.dtype))
    ready = add_all(b, found, terms)
    if qk:
        b.finish(ready, qk)
    attend(b, ready, v, sizes.batch, sizes.steps, sizes.width, node.outputs[0] or ctx.fresh("unused"))


def _import_attention(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """One product makes queries, keys and values: x [B, S, D] times weights [D, Dq + Dk + Dv], plus bias."""
    b, (x, weights) = NodeBuilder.importing(node, ctx), node.inputs[:2]
    product = b.emit("MatMul", x, weights)
    if present(node, 2):
        product = b.emit("Add", product, node.inputs[2])
    return _attention(b, node, ctx, product, ctx.type_of(x).dtype, _given(node, 3), _given(node, 4), _given(node, 5))


def _import_quantized(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """The same with an integer product: input and weight are 8-bit with scales and zero points."""
    b, (x, weight, bias, x_scale, w_scale) = NodeBuilder.importing(node, ctx), node.inputs[:5]
    if ctx.type_of(bias).dtype != FLOAT32:
        raise unsupported(node, f"a bias of {ctx.type_of(bias).dtype} is not supported", "use float32")
    total = emit_matmul(b, ctx, x, weight, _given(node, 6), _given(node, 7))
    factor = b.emit("Mul", spread(b, x_scale, ctx.type_of(x_scale), 2, 0),
                    spread(b, w_scale, ctx.type_of(w_scale), 2, 1))
    product = b.emit("Add", b.emit("Mul", b.cast(total, FLOAT32), factor), bias)
    return _attention(b, node, ctx, product, FLOAT32, _given(node, 5), _given(node, 8), "")


def _attention(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, product: str, dtype: DType, mask: str, past: str,
               bias: str) -> Iterable[Node]:
    _refuse_attributes(node)
    heads, (batch, steps, _) = attr_int(node, "num_heads"), shape_of(node, ctx)
    whole = shape_of(node, ctx, 1)[1]
    each = whole // 3 if isinstance(whole, int) else 0
    widths = attr_ints(node, "qkv_hidden_sizes") or (each,) * 3
    if sum(widths) != whole:
        raise ShapeError(f"queries, keys and values of {text(widths)} columns are not the {whole} of the weights")
    shape: Shape = (batch, steps, whole)
    firsts = (0, widths[0], widths[0] + widths[1])
    q, k, v = (split_heads(b, part(b, product, shape, 2, first, width), shape, heads, _head_size(node, width, heads))
               for first, width in zip(firsts, widths, strict=True))
    total: Dim = steps
    if past:
        k, v, total = _with_past(b, ctx, past, k, v, steps)
    if wanted(node, 1):
        stacked = (1, batch, heads, total, widths[0] // heads)
        b.emit("Concat", b.reshape(k, stacked), b.reshape(v, stacked), out=node.outputs[1], axis=0)
    sizes = _Sizes(batch, steps, total, heads, widths[2], widths[0] // heads, dtype)
    _finish(b, node, ctx, sizes, q, k, v, mask, bias)
    return b.nodes


def _with_past(b: NodeBuilder, ctx: ImportContext, past: str, k: str, v: str, steps: Dim) -> tuple[str, str, Dim]:
    """Keys and values behind those of `past` [2, B, N, P, H], and how many they are now."""
    shape = ctx.type_of(past).shape
    old = [b.reshape(part(b, past, shape, 0, i, 1), shape[1:]) for i in (0, 1)]
    return (b.emit("Concat", old[0], k, axis=2), b.emit("Concat", old[1], v, axis=2), shape[3] + steps)


def _import_multi_head(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Query [B, S, N*H], key and value [B, L, N*H] or [B, N, L, H]; or packed: query [B, S, N, 3, H], or key
    [B, L, N, 2, H] with both. One bias for all three lies end to end; past keys come before the new ones."""
    if present(node, 8) or present(node, 9):
        raise unsupported(node, "past_sequence_length or cache_indirection is given",
                          "let past and present be two tensors, without beams")
    b, heads, query = NodeBuilder.importing(node, ctx), attr_int(node, "num_heads"), shape_of(node, ctx)
    if len(query) not in (3, 5):
        raise ShapeError(f"query {text(query)} must have three dims, or five when it is packed")
    batch, steps, dtype = query[0], query[1], ctx.type_of(node.inputs[0]).dtype
    head = _head_size(node, query[2], heads) if len(query) == 3 else _head_size(node, query[4], 1)
    q, k, v, count, value_head = _operands(b, node, ctx, heads, head)
    past_key, past_value = _given(node, 6), _given(node, 7)
    if bool(past_key) != bool(past_value):
        raise unsupported(node, "past_key and past_value must be given together", "give both or neither")
    if past_key:
        k, v = b.emit("Concat", past_key, k, axis=2), b.emit("Concat", past_value, v, axis=2)
        count = ctx.type_of(past_key).shape[2] + count
    for i, name in ((1, k), (2, v)):
        if wanted(node, i):
            b.finish(name, node.outputs[i])
    sizes = _Sizes(batch, steps, count, heads, value_head * heads, head, dtype)
    _finish(b, node, ctx, sizes, q, k, v, _given(node, 4), _given(node, 5), node.outputs[3] if wanted(node, 3) else "")
    return b.nodes


def _operands(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, heads: int,
              head: int) -> tuple[str, str, str, Dim, int]:
    """q, k, v as [B, N, ., H], how many keys there are, and the size of a value."""
    query = shape_of(node, ctx)
    if len(query) == 5:
        q, k, v = _unpacked(b, node.inputs[0], query, 3)
        return (*_biased(b, node, (q, k, v), heads, (head, head, head)), query[1], head)
    key = shape_of(node, ctx, 1) if present(node, 1) else None
    if key is None:
        raise unsupported(node, "there is no key, and the query is not packed", "connect key and value")
    q = split_heads(b, node.inputs[0], query, heads, head)
    if len(key) == 5:
        k, v = _unpacked(b, node.inputs[1], key, 2)
        return (*_biased(b, node, (q, k, v), heads, (head, head, head)), key[1], head)
    value = shape_of(node, ctx, 2)
    if len(key) == 4:
        ready = _biased(b, node, (q, node.inputs[1], node.inputs[2]), heads, None)
        return (*ready, key[2], _head_size(node, value[3], 1))
    value_head = _head_size(node, value[2], heads)
    k, v = (split_heads(b, node.inputs[i], shape, heads, size)
            for i, shape, size in ((1, key, head), (2, value, value_head)))
    return (*_biased(b, node, (q, k, v), heads, (head, head, value_head)), key[1], value_head)


def _unpacked(b: NodeBuilder, x: str, shape: Shape, parts: int) -> list[str]:
    """[B, L, N, parts, H] -> parts of [B, N, L, H]."""
    batch, count, heads, _, size = shape
    pieces = (b.reshape(part(b, x, shape, 3, i, 1), (batch, count, heads, size)) for i in range(parts))
    return [b.transpose(piece, (0, 2, 1, 3)) for piece in pieces]


def _biased(b: NodeBuilder, node: OnnxNode, operands: tuple[str, str, str], heads: int,
            sizes: tuple[int, int, int] | None) -> tuple[str, str, str]:
    """q, k, v [B, N, ., H] plus their parts of the bias [N*H + N*H + N*Hv]."""
    bias = _given(node, 3)
    if not bias:
        return operands
    if sizes is None:
        raise unsupported(node, "a bias with keys and values of four dims is not supported", "add it before the node")
    first, found, whole = 0, [], sum(sizes) * heads
    for x, size in zip(operands, sizes, strict=True):
        term = b.reshape(part(b, bias, (whole,), 0, first, heads * size), (1, heads, 1, size))
        found.append(b.emit("Add", x, term))
        first += heads * size
    return found[0], found[1], found[2]


IMPORTS: tuple[OnnxImport, ...] = (
    OnnxImport("Attention", 1, convert=_import_attention, domain=MICROSOFT),
    OnnxImport("QAttention", 1, convert=_import_quantized, domain=MICROSOFT),
    OnnxImport("MultiHeadAttention", 1, convert=_import_multi_head, domain=MICROSOFT))
