"""Walking rows: chunks of rows, a row as vectors and a tail, and the reduction of a row in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import (
    Expr,
    Operand,
    Type,
    binary,
    cast,
    const,
    iota,
    maximum,
    minimum,
    reduce,
    select,
    shuffle,
    splat,
)
from meta_infer.support.dtypes import INT32, DType

# Independent accumulators: enough to hide the latency of an addition.
_WAYS = 4
Visit = Callable[[Expr, Expr | None], Expr]
"""(index of the first element, lanes inside or None for all) -> the elements as one vector."""


@contextmanager
def row_chunks(b: Builder, rows: Expr, width: Expr, grain: int) -> Iterator[tuple[Expr, Expr]]:
    """The parallel loop over `rows` rows of `width` elements, about `grain` elements a chunk: (first, last) row."""
    per_chunk = maximum(const(grain) // maximum(width, 1), 1)
    with b.chunks((rows + (per_chunk - 1)) // per_chunk) as chunk:
        some = b.let(per_chunk, "per_chunk")
        first = b.let(chunk * some, "row_first")
        yield first, b.let(minimum(first + some, rows), "row_last")


def each_vector(b: Builder, first: Operand, last: Expr, lanes: int,
                body: Callable[[Expr, Expr | None], None]) -> None:
    """`body(at, None)` for whole vectors of [first, last), then `body(at, count)` for what is left."""
    if lanes == 1:
        with b.loop(first, last, 1, "i") as i:
            body(i, None)
        return
    whole = b.let(first + (last - first) // lanes * lanes, "whole")
    with b.loop(first, whole, lanes, "i") as i:
        body(i, None)
    with b.when(whole.lt(last)):
        body(whole, b.let(last - whole, "count"))


def identity(op: str, dtype: DType) -> int | float | bool:
    """The value that changes nothing under `op`: '+', '*', 'min' or 'max'."""
    if op in "+*":
        return 0 if op == "+" else 1
    if dtype.is_float:
        return float("inf") if op == "min" else float("-inf")
    signed = dtype.kind == "int"
    largest = 2 ** (dtype.bits - signed) - 1
    return largest if op == "min" else -largest - 1 if signed else 0


def fill_outside(value: Expr, count: Expr | None, filler: int | float | bool) -> Expr:
    """`value` with the lanes from `count` on replaced."""
    if count is None:
        return value
    inside = iota(value.type.lanes).lt(splat(cast(count, INT32), value.type.lanes))
    return select(inside, value, const(filler, value.type))


def across(op: str, value: Expr) -> Expr:
    """All lanes of a vector to one scalar, in a fixed pairwise order."""
    if value.type.lanes == 1:
        return value
    if op != "*":
        return reduce(op, value)
    while (lanes := value.type.lanes) > 2:
        low, high = tuple(range(lanes // 2)), tuple(range(lanes // 2, lanes))
        value = shuffle(value, value, low) * shuffle(value, value, high)
    both = value * shuffle(value, value, (1, 0))
    return reduce("+", shuffle(both, const(0, both.type), (0, 2)))


def fold(b: Builder, op: str, first: Operand, last: Expr, register: Type, visit: Visit, ways: int = _WAYS) -> Expr:
    """The reduction of [first, last) to one scalar: `ways` interleaved vectors, a power of two, then across lanes."""
    lanes, neutral = register.lanes, identity(op, register.dtype)
    acc = [b.var(const(neutral, register), "acc") for _ in range(ways)]
    stride = ways * lanes
    wide = b.let(first + (last - first) // stride * stride, "wide")
    with b.loop(first, wide, stride, "i") as i:
        for way, into in enumerate(acc):
            b.assign(into, binary(op, visit(i + way * lanes, None), into))
    each_vector(b, wide, last, lanes, lambda at, count: b.assign(
        acc[0], binary(op, fill_outside(visit(at, count), count, neutral), acc[0])))
    sums: list[Expr] = list(acc)
    while len(sums) > 1:
        sums = [binary(op, one, other) for one, other in zip(sums[::2], sums[1::2], strict=True)]
    return b.let(across(op, b.let(sums[0], "total")), "folded")
