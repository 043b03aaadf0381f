"""The parts that all forms of fused attention are built of, in core ops.

Shapes: B batch, S queries, L new keys, P past keys, T = P + L, N heads, H size of a head.
"""

from __future__ import annotations

from collections.abc import Sequence

from meta_infer.ir.graph import Shape
from meta_infer.ir.shapes import Dim
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.support.dtypes import INT32, INT64, DType


def split_heads(b: NodeBuilder, x: str, shape: Shape, heads: int, size: Dim) -> str:
    """[B, S, N * H] -> [B, N, S, H]."""
    return b.transpose(b.reshape(x, (shape[0], shape[1], heads, size)), (0, 2, 1, 3))


def merge_heads(b: NodeBuilder, x: str, batch: Dim, steps: Dim, width: Dim, out: str = "") -> str:
    """[B, N, S, H] -> [B, S, N * H]."""
    return b.reshape(b.transpose(x, (0, 2, 1, 3)), (batch, steps, width), out=out)


def part(b: NodeBuilder, x: str, shape: Shape, axis: int, first: Dim, size: Dim) -> str:
    """`size` elements of one axis, from `first` on."""
    starts = tuple(first if i == axis else 0 for i in range(len(shape)))
    sizes = tuple(size if i == axis else dim for i, dim in enumerate(shape))
    return b.emit("Slice", x, starts=starts, sizes=sizes, steps=(1,) * len(shape))


def scores(b: NodeBuilder, q: str, k: str, scale: float, dtype: DType) -> str:
    """[B, N, S, H] and [B, N, T, H] -> scale * q kᵀ, [B, N, S, T]. Queries are scaled: they are the fewer."""
    scaled = q if scale == 1.0 else b.emit("Mul", q, b.scalar(scale, dtype, "scale"))
    return b.emit("MatMul", scaled, b.transpose(k, (0, 1, 3, 2)))


def attend(b: NodeBuilder, found: str, v: str, batch: Dim, steps: Dim, width: Dim, out: str) -> None:
    """Softmax of scores [B, N, S, T] times values [B, N, T, H], as [B, S, N * H] = [batch, steps, width]."""
    merge_heads(b, b.emit("MatMul", b.emit("Softmax", found, axis=3), v), batch, steps, width, out)


def positions(b: NodeBuilder, count: Dim, dtype: DType = INT64) -> str:
    """0, 1, ... count - 1."""
    counted = b.emit("Iota", size=(count,))
    return counted if dtype == INT64 else b.cast(counted, dtype)


def masked(b: NodeBuilder, kept: str, value: float, dtype: DType) -> str:
    """0 where `kept`, else `value`."""
    return b.emit("Where", kept, b.scalar(0.0, dtype, "zero"), b.scalar(value, dtype, "masked"))


def causal(b: NodeBuilder, steps: Dim, total: Dim) -> str:
    """Whether key t may be seen by query s: t <= s + (T - S), as [S, T]."""
    keys = positions(b, total)
    last = keys if total == steps else part(b, keys, (total,), 0, total - steps, steps)
    return b.emit("LessOrEqual", keys, b.reshape(last, (steps, 1)))


def padding(b: NodeBuilder, mask: str, shape: Shape, batch: Dim, total: Dim) -> str | None:
    """Whether keys count, by an int32 mask in one of ONNX Runtime's forms, so that it broadcasts to [B, N, S, T].

    [B, T] and [B, S, T] hold 0 and 1; [B] holds the end of each row's keys, [2 * B] ends and then beginnings.
    None for another form.
    """
    if len(shape) in (2, 3):
        rows: Shape = (shape[0], 1, 1, shape[1]) if len(shape) == 2 else (shape[0], 1, shape[1], shape[2])
        return b.emit("Greater", b.reshape(mask, rows), b.scalar(0, INT32))
    if len(shape) != 1 or shape[0] not in (batch, batch * 2):
        return None
    at, columns = positions(b, total, INT32), (batch, 1, 1, 1)
    ends = mask if shape[0] == batch else part(b, mask, shape, 0, 0, batch)
    kept = b.emit("Less", at, b.reshape(ends, columns))
    if shape[0] == batch:
        return kept
    begins = part(b, mask, shape, 0, batch, batch)
    return b.emit("And", kept, b.emit("GreaterOrEqual", at, b.reshape(begins, columns)))


def add_all(b: NodeBuilder, x: str, terms: Sequence[str]) -> str:
    for term in terms:
        x = b.emit("Add", x, term)
    return x
