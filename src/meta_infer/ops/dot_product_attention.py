"""Attention as one op: softmax(scale * q kᵀ + mask) v for many heads (Vaswani et al., arXiv:1706.03762).

    y[b, h, i] = sum over keys j of p[b, h, i, j] * v[b, g, j],    p[b, h, i] = softmax over j of
    s[b, h, i, j] = cap(scale * q[b, h, i] . k[b, g, j]) + mask[b, h, i, j],    g = h // (heads / kv_heads)

Operands: q, k, v and an optional mask that broadcasts to [batch, heads, queries, keys]: numbers of q's dtype that are
added, or bools (false hides a key, as -inf does). Attributes, each with a default:

    scale      1.0
    softcap    0.0: none, else cap(x) = softcap * tanh(x / softcap)
    causal     false; true hides key j from query i when j > i + offset
    offset     0: how many keys come before the first query
    empty      "nan" or "zero": what a query gets that no key is left to (all s are -inf), as softmax or ONNX has it
    q_order    "bhsd", or "bshd": how batch, heads, steps and size lie in the tensor; k_order, v_order and y_order
               likewise, and "bhds" for k alone
    q_heads    how many heads, from head q_first on, of those the tensor has are read; default all. So are k_heads,
               k_first, v_heads and v_first: queries, keys and values may be parts of one tensor.

A key that is hidden has no influence as long as its value is finite; no keys at all give zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from meta_infer.ir.graph import Attr, Shape
from meta_infer.ir.shapes import Dim
from meta_infer.ops.attrs import Attrs, bool_of, float_of, int_of, text_of
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.elementwise import floats
from meta_infer.ops.opdef import InferContext, OpDef, Sample, ShapeError, TensorType
from meta_infer.support.dtypes import BOOL

ORDERS = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3), "bhds": (0, 1, 3, 2)}
"""Where batch, heads, steps and size lie among a tensor's axes."""


@dataclass(frozen=True)
class Heads:
    """One operand: its sizes, its order, and which of the heads in the tensor, which has `held` of them, are read."""

    batch: Dim
    heads: Dim
    steps: Dim
    size: Dim
    order: str
    first: int
    held: Dim


def heads_of(attrs: Attrs, name: str, shape: Shape) -> Heads:
    """Operand `name` (q, k or v) of `shape`. Raises ShapeError."""
    order, first = text_of(attrs, f"{name}_order", "bhsd"), int_of(attrs, f"{name}_first", 0)
    if order not in ORDERS or (order == "bhds" and name != "k"):
        raise ShapeError(f"{name} does not come in the order {order!r}")
    if len(shape) != 4:
        raise ShapeError(f"{name} {text(shape)} should have four dimensions")
    batch, held, steps, size = (shape[axis] for axis in ORDERS[order])
    if f"{name}_heads" not in attrs:
        return Heads(batch, held, steps, size, order, 0, held)
    heads = int_of(attrs, f"{name}_heads")
    if not isinstance(held, int) or first < 0 or first + heads > held:
        raise ShapeError(f"{name} has {held} heads, not {heads} from the one at {first} on")
    return Heads(batch, heads, steps, size, order, first, held)


def heads_per_key(heads: Dim, kv_heads: Dim) -> int:
    """How many heads of queries share one of keys. Raises ShapeError when they cannot."""
    if heads == kv_heads:
        return 1
    if not isinstance(heads, int) or not isinstance(kv_heads, int) or kv_heads == 0 or heads % kv_heads:
        raise ShapeError(f"{heads} heads of queries are no multiple of {kv_heads} heads of keys")
    return heads // kv_heads


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    attrs, given = ctx.node.attrs, [ctx.input(i) for i in range(3)]
    if not given[0].dtype.is_float or any(t.dtype != given[0].dtype for t in given):
        raise ShapeError("query, key and value should be floats of one type")
    q, k, v = (heads_of(attrs, name, t.shape) for name, t in zip("qkv", given, strict=True))
    for a, b in ((q.batch, k.batch), (q.batch, v.batch), (q.size, k.size), (k.steps, v.steps), (k.heads, v.heads)):
        same_dim(a, b)
    heads_per_key(q.heads, k.heads)
    mask = ctx.optional(3)
    if mask is not None:
        _check_mask(mask, given[0], (q.batch, q.heads, q.steps, k.steps))
    sizes, order = (q.batch, q.heads, q.steps, v.size), text_of(attrs, "y_order", "bhsd")
    if order not in ("bhsd", "bshd") or text_of(attrs, "empty", "nan") not in ("nan", "zero"):
        raise ShapeError(f"y_order {order!r} should be bhsd or bshd, empty nan or zero")
    return (TensorType(given[0].dtype, tuple(sizes[axis] for axis in ORDERS[order])),)


def _check_mask(mask: TensorType, query: TensorType, scores: Shape) -> None:
    if mask.dtype not in (BOOL, query.dtype) or len(mask.shape) > 4:
        raise ShapeError(f"a mask of {mask.dtype} {text(mask.shape)} does not go with scores {text(scores)}")
    for a, b in zip(reversed(mask.shape), reversed(scores), strict=False):
        if a != 1:
            same_dim(a, b)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    q, k, v = (_ordered(attrs, name, array) for name, array in zip("qkv", arrays, strict=False))
    group = heads_per_key(q.shape[1], k.shape[1])
    if group > 1:
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.matmul(q, k.swapaxes(2, 3)) * float_of(attrs, "scale", 1.0)
    cap = float_of(attrs, "softcap", 0.0)
    if cap > 0:
        scores = np.tanh(scores / cap) * cap
    mask = arrays[3] if len(arrays) > 3 else None
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    if bool_of(attrs, "causal", False):
        last = np.arange(q.shape[2])[:, None] + int_of(attrs, "offset", 0)
        scores = np.where(np.arange(k.shape[2]) <= last, scores, -np.inf)
    scores = scores.astype(q.dtype, copy=False)
    with np.errstate(invalid="ignore"):
        largest = np.max(scores, axis=3, keepdims=True, initial=-np.inf)
        power = np.exp(scores - np.where(np.isneginf(largest), 0, largest).astype(q.dtype))
        total = np.sum(power, axis=3, keepdims=True)
        if text_of(attrs, "empty", "nan") == "zero":
            total = np.where(total == 0, 1, total).astype(q.dtype)
        y = np.matmul(power / total, v)
    return (np.ascontiguousarray(y.transpose(ORDERS[text_of(attrs, "y_order", "bhsd")])),)


def _ordered(attrs: Attrs, name: str, array: np.ndarray | None) -> np.ndarray:
    """The heads that are read, as [batch, heads, steps, size]."""
    assert array is not None
    found = heads_of(attrs, name, array.shape)
    assert isinstance(found.heads, int)
    return array.transpose(ORDERS[found.order])[:, found.first:found.first + found.heads]


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    """Two products, and 14 for each exponential as in Softmax."""
    q, k, v = (heads_of(attrs, name, t.shape) for name, t in zip("qkv", inputs, strict=False) if t is not None)
    return q.batch * q.heads * q.steps * k.steps * (2 * q.size + 2 * v.size + 14)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    def sample(sizes: tuple[int, ...], mask: np.ndarray | None = None, **attrs: Attr) -> Sample:
        """`sizes`: batch, heads, kv_heads, queries, keys, size, size of a value."""
        batch, heads, kv_heads, queries, keys, size, width = sizes
        shapes = {"q": (batch, heads, queries, size), "k": (batch, kv_heads, keys, size),
                  "v": (batch, kv_heads, keys, width)}
        arrays = [floats(rng, tuple(shape[axis] for axis in ORDERS[str(attrs.get(f"{name}_order", "bhsd"))]), -2, 2)
                  for name, shape in shapes.items()]
        return Sample((*arrays, mask), {"scale": 0.5, **attrs}, 1e-4, 1e-5, onnx_op="-")

    yield sample((1, 1, 1, 1, 1, 1, 1))
    yield sample((2, 3, 3, 5, 7, 4, 3), floats(rng, (2, 1, 1, 7), -5, 5))
    yield sample((2, 4, 2, 5, 7, 4, 3), rng.random((5, 7)) < 0.7, empty="zero")
    yield sample((1, 4, 1, 3, 6, 5, 9), rng.random((1, 4, 3, 1)) < 0.5, empty="zero", q_order="bshd", y_order="bshd")
    yield sample((2, 2, 2, 6, 6, 3, 8), k_order="bhds", v_order="bshd", causal=True)
    yield sample((1, 2, 2, 3, 8, 3, 2), floats(rng, (3, 8), -1, 1), k_order="bshd", causal=True, offset=5, softcap=2.0)
    yield sample((1, 2, 2, 4, 0, 3, 2))
    yield sample((0, 2, 2, 4, 3, 3, 2))
    packed = floats(rng, (2, 5, 9, 4), -2, 2)
    orders = {f"{name}_order": "bshd" for name in "qkvy"}
    parts = {f"{name}_{key}": value for i, name in enumerate("qkv") for key, value in (("first", 3 * i), ("heads", 3))}
    yield Sample((packed, packed, packed), {"scale": 0.5, **orders, **parts}, 1e-4, 1e-5, onnx_op="-")


ATTENTION = OpDef("Attention", _infer, _reference, _samples, flops=_flops)

OPS: tuple[OpDef, ...] = (ATTENTION,)
