"""com.microsoft's GroupQueryAttention: fewer heads of keys than of queries, a cache of keys, causal.

Shapes: B batch, S queries and new keys, P past keys, T = max(P, total_sequence_length) present keys, N heads of
queries, K of keys, H size of a head. Row b has `seqlens_k[b] + 1` keys in all; those before the new ones are its past:

    present[b, t] = past[b, t]  for t < begin[b],   new[b, t - begin[b]]  for the next S,   0 behind;
    begin[b] = max(seqlens_k[b] + 1 - S, 0)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import Dim, dim_max
from meta_infer.ops.attention_math import merge_heads, part, positions
from meta_infer.ops.bind_dims import sizes_input
from meta_infer.ops.broadcast import text
from meta_infer.ops.importing import (
    attr_float,
    attr_int,
    attr_text,
    present,
    shape_of,
    unsupported,
    wanted,
)
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.ops.rotary import rotate
from meta_infer.ops.skip_norm import simplified_norm
from meta_infer.support.dtypes import INT64, DType


@dataclass(frozen=True)
class _Sizes:
    batch: Dim
    steps: Dim
    past: Dim
    total: Dim
    heads: int
    groups: int                                           # heads of keys
    head: int
    dtype: DType


def _refuse(node: OnnxNode, ctx: ImportContext) -> None:
    if wanted(node, 3):
        raise unsupported(node, "the output_qk output is used", "leave it out")
    if attr_int(node, "sliding_window_cache") or present(node, 16):
        raise unsupported(node, "sliding_window_cache or query_seqlens is given", "keep the whole cache, unpadded rows")
    if any(attr_text(node, f"{letter}_quant_type", "NONE") != "NONE" for letter in "kv"):
        raise unsupported(node, "the cache is quantised", "keep past and present keys in floats")
    for i in (3, 4):
        if present(node, i) and ctx.type_of(node.inputs[i]).dtype != ctx.type_of(node.inputs[0]).dtype:
            raise unsupported(node, f"a cache of {ctx.type_of(node.inputs[i]).dtype} is not supported",
                              "keep it in the query's dtype")


def _sizes(node: OnnxNode, ctx: ImportContext) -> _Sizes:
    query, heads, groups = shape_of(node, ctx), attr_int(node, "num_heads"), attr_int(node, "kv_num_heads")
    if len(query) != 3 or not isinstance(query[2], int) or heads < 1 or groups < 1 or heads % groups:
        raise ShapeError(f"query {text(query)} does not split into {heads} heads over {groups} of keys")
    count = heads if present(node, 1) else heads + 2 * groups
    if query[2] % count:
        raise ShapeError(f"query {text(query)} does not split into {count} heads")
    past: Dim = shape_of(node, ctx, 3)[2] if present(node, 3) else 0
    (total,) = sizes_input(node, ctx, 6, "total_sequence_length")
    return _Sizes(query[0], query[1], past, dim_max(past, total), heads, groups, query[2] // count,
                  ctx.type_of(node.inputs[0]).dtype)


def _heads(b: NodeBuilder, node: OnnxNode, s: _Sizes) -> tuple[str, str, str]:
    """Queries [B, S, N, H], new keys and values [B, S, K, H]."""
    counts = (s.heads, s.groups, s.groups)
    if present(node, 1):
        q, k, v = (b.reshape(name, (s.batch, s.steps, count, s.head))
                   for name, count in zip(node.inputs[:3], counts, strict=True))
        return q, k, v
    whole: Shape = (s.batch, s.steps, sum(counts), s.head)
    packed, firsts = b.reshape(node.inputs[0], whole), (0, s.heads, s.heads + s.groups)
    q, k, v = (part(b, packed, whole, 2, first, count) for first, count in zip(firsts, counts, strict=True))
    return q, k, v


def _normal(b: NodeBuilder, node: OnnxNode, s: _Sizes, x: str, i: int, name: str) -> str:
    """Each head over its root mean square, times the weights of input i, if they are given."""
    if not present(node, i):
        return x
    epsilon = attr_float(node, name) or attr_float(node, "qk_norm_epsilon", 1e-6)
    return simplified_norm(b, x, node.inputs[i], s.dtype, (3,), epsilon)


def _turned(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, s: _Sizes, x: str, count: int, at: str) -> str:
    if not attr_int(node, "do_rotary"):
        return x
    half = shape_of(node, ctx, 7)[1]
    if not isinstance(half, int) or 2 * half > s.head:
        raise ShapeError(f"a cache of {half} columns turns more than the {s.head} elements of a head")
    cos, sin = (b.reshape(b.emit("Gather", name, at, axis=0), (s.batch, s.steps, 1, half)) for name in node.inputs[7:9])
    shape = (s.batch, s.steps, count, s.head)
    return rotate(b, x, shape, cos, sin, 2 * half, bool(attr_int(node, "rotary_interleaved")))


def _kept(b: NodeBuilder, s: _Sizes, past: str, new: str, begin: str, slots: str) -> str:
    """Present keys or values, [B, T, K, H]; begin [B, 1], slots [T] are int64."""
    zeros = b.emit("Expand", b.scalar(0.0, s.dtype, "zero"), shape=(s.batch, 1, s.groups, s.head))
    rows = [b.transpose(past, (0, 2, 1, 3))] if past else []
    rows += [new, zeros]
    after = b.emit("Sub", slots, begin)                    # [B, T]: place among the new ones
    count, first = _size(b, new, 1), _size(b, past, 2) if past else b.scalar(0, INT64)
    place = b.emit("Add", b.emit("Min", after, count), first)
    place = b.emit("Where", b.emit("Less", after, b.scalar(0, INT64)), slots, place)
    return b.emit("GatherND", b.emit("Concat", *rows, axis=1), b.reshape(place, (s.batch, s.total, 1)), batch_dims=1)


def _size(b: NodeBuilder, x: str, axis: int) -> str:
    return b.emit("Gather", b.emit("Shape", x), b.constant(np.array(axis, np.int64)), axis=0)


def _allowed(b: NodeBuilder, node: OnnxNode, s: _Sizes, lengths: str, last: str, slots: str) -> str:
    """Which present keys each query sees, [B, 1, S, T]: those up to itself, within the window if there is one."""
    columns = b.reshape(slots, (1, 1, 1, s.total))
    window = attr_int(node, "local_window_size", -1)
    if not attr_int(node, "causal", 1):
        return b.emit("Less", columns, b.reshape(lengths, (s.batch, 1, 1, 1)))
    rows = b.reshape(last, (s.batch, 1, s.steps, 1))
    seen = b.emit("LessOrEqual", columns, rows)
    if window < 0:
        return seen
    return b.emit("And", seen, b.emit("Greater", columns, b.emit("Sub", rows, b.scalar(window, INT64))))


def _softmax(b: NodeBuilder, node: OnnxNode, s: _Sizes, found: str) -> str:
    """Over the keys; a sink takes part in the sum, one per head or e^0 for all, and is dropped."""
    sink = node.inputs[11] if present(node, 11) else ""
    if not sink and attr_int(node, "smooth_softmax") != 1:
        return b.emit("Softmax", found, axis=3)
    column = b.reshape(sink, (1, s.heads, 1, 1)) if sink else b.scalar(0.0, s.dtype)
    column = b.emit("Expand", column, shape=(s.batch, s.heads, s.steps, 1))
    both = b.emit("Softmax", b.emit("Concat", found, column, axis=3), axis=3)
    return part(b, both, (s.batch, s.heads, s.steps, s.total), 3, 0, s.total)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    _refuse(node, ctx)
    b, s = NodeBuilder.importing(node, ctx), _sizes(node, ctx)
    q, k, v = _heads(b, node, s)
    lengths = b.emit("Add", b.cast(b.reshape(node.inputs[5], (s.batch, 1)), INT64), b.scalar(1, INT64))
    begin = b.emit("Max", b.emit("Sub", lengths, _size(b, node.inputs[0], 1)), b.scalar(0, INT64))
    last = b.emit("Add", begin, positions(b, s.steps))                   # [B, S]
    at = node.inputs[9] if present(node, 9) else last
    q = _turned(b, node, ctx, s, _normal(b, node, s, q, 14, "q_norm_epsilon"), s.heads, at)
    k = _turned(b, node, ctx, s, _normal(b, node, s, k, 15, "k_norm_epsilon"), s.groups, at)
    slots = positions(b, s.total)
    past = [node.inputs[i] if present(node, i) else "" for i in (3, 4)]
    keys, values = (b.transpose(_kept(b, s, old, new, begin, slots), (0, 2, 1, 3))
                    for old, new in zip(past, (k, v), strict=True))                # [B, K, T, H]
    for i, name in ((1, keys), (2, values)):
        if wanted(node, i):
            b.finish(name, node.outputs[i])
    scale = attr_float(node, "scale") or 1.0 / math.sqrt(s.head)
    per_group = s.steps * (s.heads // s.groups)
    rows = b.reshape(b.transpose(q, (0, 2, 1, 3)), (s.batch, s.groups, per_group, s.head))
    scaled = b.emit("Mul", rows, b.scalar(scale, s.dtype, "scale"))
    whole = (s.batch, s.heads, s.steps, s.total)
    found = b.reshape(b.emit("MatMul", scaled, b.transpose(keys, (0, 1, 3, 2))), whole)
    if cap := attr_float(node, "softcap"):
        limit = b.scalar(cap, s.dtype, "softcap")
        found = b.emit("Mul", b.emit("Tanh", b.emit("Div", found, limit)), limit)
    if present(node, 10):
        found = b.emit("Add", found, node.inputs[10])
    hidden = b.scalar(-math.inf, s.dtype, "hidden")
    found = b.emit("Where", _allowed(b, node, s, lengths, last, slots), found, hidden)
    weights = b.reshape(_softmax(b, node, s, found), (s.batch, s.groups, per_group, s.total))
    result = b.reshape(b.emit("MatMul", weights, values), (s.batch, s.heads, s.steps, s.head))
    merge_heads(b, result, s.batch, s.steps, s.heads * s.head, node.outputs[0] or ctx.fresh("unused"))
    return b.nodes


IMPORTS: tuple[OnnxImport, ...] = (
    OnnxImport("GroupQueryAttention", 1, convert=_import, domain="com.microsoft"),)
