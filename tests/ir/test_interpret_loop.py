"""The loop interpreter: its results, and what it refuses that C would let pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from meta_infer.ir.builder import Builder
from meta_infer.ir.interpret_loop import interpret
from meta_infer.ir.loop import Expr, LoopFunc, Type, binary, cast, const, iota, mad, maximum, minimum, reduce, select
from meta_infer.ir.shapes import Symbol
from meta_infer.support.dtypes import FLOAT32, INT8, INT32, INT64
from meta_infer.support.errors import InternalError


def one(body: Callable[[Builder, Expr], None], chunks: int = 1, name: str = "f") -> LoopFunc:
    b = Builder(name)
    with b.chunks(chunks) as chunk:
        body(b, chunk)
    return b.finish()[0]


def test_sum_of_rows_with_partial_vectors() -> None:
    b = Builder("row_sum")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    n = b.dim(Symbol("N").dim)
    with b.chunks(3) as row:
        total = b.var(const(0.0, Type(FLOAT32, 4)))
        with b.loop(0, n, 4) as i:
            b.assign(total, total + b.load(x, row * n + i, 4, minimum(n - i, 4)))
        b.store(y, row, reduce("+", total))
    func = b.finish()[0]
    for size in (1, 4, 7):
        data, got = np.arange(3 * size, dtype=np.float32), np.zeros(3, np.float32)
        interpret(func, [data, got], [size], chunks=[2, 0, 1])
        np.testing.assert_array_equal(got, data.reshape(3, size).sum(1))


def test_minimum_and_maximum_of_nan_are_the_second_operand() -> None:
    def body(b: Builder, _: Expr) -> None:
        x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
        v = b.load(x, 0)
        b.store(y, 0, minimum(v, 1.0))
        b.store(y, 1, maximum(v, 2.0))
        b.store(y, 2, binary("min", const(3.0, Type(FLOAT32)), v))

    got = np.zeros(3, np.float32)
    interpret(one(body), [np.array([np.nan], np.float32), got], [])
    assert got[:2].tolist() == [1.0, 2.0] and np.isnan(got[2])


def test_integers_wrap_and_division_does_not_trap() -> None:
    def body(b: Builder, _: Expr) -> None:
        x, y = b.input("x", INT8), b.output("y", INT8)
        a, d = b.load(x, 0, 8), b.load(x, 8, 8)
        b.store(y, 0, binary("/", a, d))
        b.store(y, 8, binary("rem", a, d))
        b.store(y, 16, a * d + 100)

    a = np.array([-128, -128, 7, -7, 7, -7, 0, 127], np.int8)
    d = np.array([-1, 0, 2, 2, -2, 0, -1, -1], np.int8)
    got = np.zeros(24, np.int8)
    interpret(one(body), [np.concatenate([a, d]), got], [])
    assert got[:8].tolist() == [-128, 0, 3, -3, -3, 0, 0, -127]
    assert got[8:16].tolist() == [0, 0, 1, -1, 1, 0, 0, 0]
    with np.errstate(all="ignore"):
        assert got[16:].tolist() == (a * d + np.int8(100)).tolist()


def test_mad_rounds_once() -> None:
    def body(b: Builder, _: Expr) -> None:
        x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
        b.store(y, 0, mad(b.load(x, 0), b.load(x, 0), b.load(x, 1)))

    x = np.array([1 + 2.0**-12, -(1 + 2.0**-11)], np.float32)
    got = np.zeros(1, np.float32)
    interpret(one(body), [x, got], [])
    assert got[0] == 2.0**-24


@pytest.mark.parametrize(("index", "lanes", "message"), [(5, 1, r"x\[5 : 6\], which has 5"), (-1, 1, "x"), (2, 4, "x"),
                                                         (1 << 40, 1, "x")])
def test_loads_outside_are_refused(index: int, lanes: int, message: str) -> None:
    def body(b: Builder, _: Expr) -> None:
        x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
        b.store(y, 0, b.load(x, index, lanes))

    with pytest.raises(InternalError, match=message):
        interpret(one(body), [np.zeros(5, np.float32), np.zeros(8, np.float32)], [])


def test_a_partial_load_touches_only_its_lanes() -> None:
    def body(b: Builder, _: Expr) -> None:
        x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
        b.store(y, 0, b.load(x, 3, 8, 2) + 1.0, 4)
        b.store(y, 4, b.load(x, 99, 8, 0), 0)

    got = np.zeros(4, np.float32)
    interpret(one(body), [np.arange(5, dtype=np.float32), got], [])
    assert got.tolist() == [4, 5, 1, 1]


def store_at(index: Callable[[Expr], Expr]) -> LoopFunc:
    def body(b: Builder, chunk: Expr) -> None:
        b.store(b.output("y", INT64), index(chunk), chunk)

    return one(body, chunks=3)


def test_two_chunks_must_not_write_one_element() -> None:
    interpret(store_at(lambda c: c), [np.zeros(3, np.int64)], [])
    with pytest.raises(InternalError, match="chunk 1 and written by another"):
        interpret(store_at(lambda c: c // 2), [np.zeros(3, np.int64)], [])


def test_a_chunk_must_not_read_what_another_writes() -> None:
    def body(b: Builder, chunk: Expr) -> None:
        y = b.inout("y", INT64)
        b.store(y, chunk, b.load(y, (chunk + 1) % 3) + 1)

    for order in ([0, 1, 2], [2, 1, 0]):
        with pytest.raises(InternalError, match="another"):
            interpret(one(body, chunks=3), [np.zeros(3, np.int64)], [], order)


def test_outputs_cannot_be_read_before_they_are_written() -> None:
    def body(b: Builder, chunk: Expr) -> None:
        y = b.output("y", INT64)
        b.store(y, 0, b.load(y, 1))

    with pytest.raises(InternalError, match="read before it is written"):
        interpret(one(body), [np.zeros(3, np.int64)], [])


def test_index_division_needs_non_negative_operands() -> None:
    with pytest.raises(InternalError, match="non-negative"):
        interpret(store_at(lambda c: (c - 1) // 2 + 1), [np.zeros(9, np.int64)], [])
    with pytest.raises(InternalError, match="non-negative"):
        interpret(store_at(lambda c: c % (c * 0 + c)), [np.zeros(9, np.int64)], [])


def test_scratch_starts_as_garbage_in_every_chunk() -> None:
    def body(b: Builder, chunk: Expr) -> None:
        y, tmp = b.output("y", FLOAT32), b.scratch("tmp", FLOAT32, 4)
        with b.when(chunk.eq(0)):
            b.store(tmp, 0, const(1.0, Type(FLOAT32)))
        b.store(y, chunk, b.load(tmp, 0))

    got = np.zeros(2, np.float32)
    interpret(one(body, chunks=2), [got], [])
    assert got[0] == 1 and np.isnan(got[1])


def test_selection_by_lane_number() -> None:
    def body(b: Builder, _: Expr) -> None:
        x, y = b.input("n", INT64), b.output("y", INT32)
        inside = iota(8).lt(cast(b.load(x, 0), INT32))
        b.store(y, 0, select(inside, iota(8), -1))

    got = np.zeros(8, np.int32)
    interpret(one(body), [np.array([3]), got], [])
    assert got.tolist() == [0, 1, 2, -1, -1, -1, -1, -1]
