"""Attention in terms of products and a softmax, for devices that lack it.

    before                                                after
    %y: float32[B, 4, S, 8] = Attention(%q, %k, %v, %m)   %c: float32[B, 4, S, 8] = Mul(%q, %scale)
        {scale = 0.5}                                     %t: float32[B, 4, 8, S] = Transpose(%k) {perm = (0, 1, 3, 2)}
                                                          %s: float32[B, 4, S, S] = MatMul(%c, %t)
                                                          %a: float32[B, 4, S, S] = Add(%s, %m)
                                                          %p: float32[B, 4, S, S] = Softmax(%a) {axis = 3}
                                                          %y: float32[B, 4, S, 8] = MatMul(%p, %v)

Where heads of queries share keys, the products run over [batch, kv_heads, group, ...] and the keys are broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from meta_infer.ir.graph import Node, Shape
from meta_infer.ops.attrs import bool_of, float_of, text_of
from meta_infer.ops.dot_product_attention import ORDERS, heads_of, heads_per_key
from meta_infer.passes.pieces import Bounds, Decomposition, Pieces
from meta_infer.support.dtypes import BOOL


def attention(node: Node, to: Pieces, bounds: Bounds) -> bool:
    q, k, v = (_ordered(node, to, i, name) for i, name in enumerate("qkv"))
    (batch, heads, queries, _), (_, kv_heads, keys, width) = to.shape(q), to.shape(v)
    group, scale = heads_per_key(heads, kv_heads), float_of(node.attrs, "scale", 1.0)
    if scale != 1.0:
        q = to.emit("Mul", q, to.scalar(scale, q))
    k = to.emit("Transpose", k, perm=(0, 1, 3, 2))
    scores_shape: Shape = (batch, heads, queries, keys)
    scores = _product(to, q, k, group, scores_shape)
    scores = _masked(node, to, scores, scores_shape)
    p = to.emit("Softmax", scores, axis=3)
    if text_of(node.attrs, "empty", "nan") == "zero":
        best = to.emit("ReduceMax", scores, axes=(3,), keepdims=True)
        hidden = to.emit("Equal", best, to.scalar(-np.inf, q))
        p = to.emit("Where", hidden, to.scalar(0.0, q), p)
    bshd = text_of(node.attrs, "y_order", "bhsd") == "bshd"
    y = _product(to, p, v, group, (batch, heads, queries, width), "" if bshd else node.outputs[0])
    if bshd:
        to.emit("Transpose", y, out=node.outputs[0], perm=(0, 2, 1, 3))
    return True


def _ordered(node: Node, to: Pieces, i: int, name: str) -> str:
    """Operand i as [batch, heads, steps, size], without the heads that are not read."""
    x, found = node.inputs[i], heads_of(node.attrs, name, to.shape(node.inputs[i]))
    if found.heads != found.held:
        x = to.sliced(x, ORDERS[found.order][1], found.first, found.heads)
    return x if found.order == "bhsd" else to.emit("Transpose", x, perm=ORDERS[found.order])


def _product(to: Pieces, a: str, b: str, group: int, shape: Shape, out: str = "") -> str:
    """MatMul of [batch, heads, ...] with [batch, heads / group, ...], as `shape`."""
    if group == 1:
        return to.emit("MatMul", a, b, out=out)
    batch, heads, rows, inner = to.shape(a)
    _, kv_heads, _, columns = to.shape(b)
    left = to.reshape(a, (batch, kv_heads, group, rows, inner))
    right = to.reshape(b, (batch, kv_heads, 1, inner, columns))
    return to.reshape(to.emit("MatMul", left, right), shape, out)


def _masked(node: Node, to: Pieces, scores: str, shape: Shape) -> str:
    """Scores capped, with the mask added and hidden keys at minus infinity."""
    cap = float_of(node.attrs, "softcap", 0.0)
    if cap > 0:
        limit = to.scalar(cap, scores)
        scores = to.emit("Mul", to.emit("Tanh", to.emit("Div", scores, limit)), limit)
    mask = node.inputs[3] if len(node.inputs) > 3 else ""
    hidden = to.scalar(-np.inf, scores)
    if mask and to.dtype(mask) == BOOL:
        scores = to.emit("Where", mask, scores, hidden)
    elif mask:
        scores = to.emit("Add", scores, mask)
    if bool_of(node.attrs, "causal", False):
        scores = to.emit("Where", _frontier(node, to, shape), scores, hidden)
    return scores


def _frontier(node: Node, to: Pieces, shape: Shape) -> str:
    """bool [queries, keys]: whether key j may be seen by query i, j <= i + offset."""
    queries, keys, offset = shape[2], shape[3], node.attrs.get("offset", 0)
    if isinstance(queries, int) and isinstance(keys, int) and isinstance(offset, int):
        return to.constant(np.arange(keys) <= np.arange(queries)[:, None] + offset, "frontier")
    steps = to.emit("Iota", size=(queries + offset,))      # type: ignore[operator]
    last = to.sliced_all(steps, {0: (offset, queries)})    # type: ignore[dict-item]
    return to.emit("LessOrEqual", to.emit("Iota", size=(keys,)), to.reshape(last, (queries, 1)))


ATTENTION: Mapping[str, tuple[Decomposition, ...]] = {"Attention": (attention,)}
