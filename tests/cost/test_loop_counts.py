"""Counts of loop IR against a machine that executes every statement and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.kernels import harness
from tests.kernels.conv_cases import conv_case
from tests.kernels.harness import Case, Memory, Step, layouts_of, make_group, make_profile, run_group

from meta_infer.cost.loop_counts import LoopCounts, count_loops
from meta_infer.hardware.isa import isa_named
from meta_infer.ir.builder import Builder
from meta_infer.ir.interpret_loop import _Machine
from meta_infer.ir.loop import (
    COMPARISONS,
    INDEX,
    Bin,
    Buffer,
    Cast,
    Const,
    Dot,
    Expr,
    For,
    If,
    Intrin,
    Load,
    LoopFunc,
    Mad,
    Prefetch,
    Reduce,
    Select,
    Shuffle,
    Splat,
    Stmt,
    Store,
    Type,
    Un,
    maximum,
    minimum,
)
from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.kernels.registry import kernels_for
from meta_infer.support.dtypes import FLOAT32, INT64

PROFILE = make_profile("x86-64-v3")
BITS = isa_named("x86-64-v3").simd_bits


class _CountingMachine(_Machine):
    """The interpreter, with a tally of what it does. An expression that a statement has twice is computed once."""

    def __init__(self, func: LoopFunc, arrays: Sequence[Any], dims: Sequence[int]) -> None:
        super().__init__(func, arrays, dims)
        self.tally: Counter[str] = Counter()

    def stmt(self, stmt: Stmt) -> None:
        self.memo = {}
        if isinstance(stmt, If):
            self.tally["branches"] += 1
        if isinstance(stmt, Prefetch):
            self.eval(stmt.index)
        if isinstance(stmt, Store):
            self.touched("stored", "store", stmt.buffer, stmt.value.type, stmt.count)
        if isinstance(stmt, For) and not stmt.unroll:
            first, last, pace = (int(self.eval(e)) for e in (stmt.start, stmt.stop, stmt.step))
            self.tally["iterations"] += len(range(first, last, pace))
        super().stmt(stmt)

    def value(self, expr: Expr) -> Any:
        return self.eval(expr)

    def width(self, type: Type) -> int:
        return -(-type.lanes * type.dtype.bits // BITS) if type.lanes > 1 else 1

    def add(self, kind: str, type: Type, registers: int = 0) -> None:
        self.tally[f"{'vector' if type.lanes > 1 else 'scalar'} {kind}"] += registers or self.width(type)

    def touched(self, what: str, kind: str, buffer: Buffer, type: Type, count: Expr | None) -> None:
        lanes = type.lanes if count is None else max(0, min(type.lanes, int(self.eval(count))))
        self.tally[f"{what} {buffer.name}"] += lanes * buffer.dtype.bytes
        self.add(kind if count is None else "partial", type)

    def compute(self, expr: Expr) -> Any:
        match expr:
            case Bin(op=op, a=a):
                slow, kind = op in ("/", "rem", "//", "%"), a.type if op in COMPARISONS else expr.type
                self.arithmetic(kind, slow)
            case Un(op=op, type=type):
                self.arithmetic(type, op == "sqrt")
            case Select(cond=cond):
                self.arithmetic(cond.type if cond.type == INDEX else expr.type, False)
            case Mad(type=type):
                self.add("mad", type)
            case Dot(a=a, type=type, narrow=narrow):
                self.add("dot_narrow" if narrow else "dot", type, self.width(a.type))
            case Cast(a=a, type=type):
                if type == INDEX and a.type.dtype.is_integer:
                    self.tally["index"] += 1
                else:
                    self.add("cast", type, max(self.width(type), self.width(a.type)))
            case Splat(a=a, type=type) if not isinstance(a, Const):
                self.add("broadcast", type)
                if isinstance(a, Load) and a.count is None:
                    self.tally["scalar load"] -= 1
            case Load(buffer=buffer, type=type, count=count):
                self.touched("loaded", "load", buffer, type, count)
            case Shuffle(a=a, type=type):
                self.add("shuffle", type if type.lanes > 1 else a.type)
            case Reduce(a=a):
                self.add("reduce", a.type)
            case Intrin(name=name, type=type):
                self.tally[f"math {name}"] += self.width(type)
        return super().compute(expr)

    def arithmetic(self, type: Type, slow: bool) -> None:
        if type == INDEX:
            self.tally["index"] += 1
        else:
            self.add("divide" if slow else "arithmetic", type)


def _flat(counts: LoopCounts) -> Counter[str]:
    found: Counter[str] = Counter()
    for what in ("vector", "scalar", "math", "loaded", "stored"):
        for name, count in getattr(counts, what).items():
            found[f"{what} {name}"] += round(count)
    found.update({"index": round(counts.index), "branches": round(counts.branches),
                  "iterations": round(counts.iterations)})
    return +found


def _executed(func: LoopFunc, arrays: Sequence[Any], dims: Sequence[int]) -> Counter[str]:
    machine = _CountingMachine(func, arrays, dims)
    with np.errstate(all="ignore"):
        chunks = int(machine.value(func.chunks))
        sizes = [int(machine.value(buffer.size)) for buffer in func.locals if buffer.size is not None]
        # The runtime evaluates these, not the kernel.
        machine.func = replace(func, locals=tuple(replace(buffer, size=Const(size))
                                                  for buffer, size in zip(func.locals, sizes, strict=True)))
        machine.tally.clear()
        for chunk in range(chunks):
            machine.tally["iterations"] += 1
            machine.run_chunk(chunk)
    return +machine.tally


def _array(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.uniform(-1, 1, shape).astype(np.float32)


def _cases() -> list[Case]:
    rng = np.random.default_rng(3)
    n, m = Symbol("n", 1, 64).dim, Symbol("m", 1, 64).dim
    channel = _array(rng, 6, 1, 1)
    return [
        conv_case(rng, (1, 3, 5, 6), 5, (3, 3), pads=(1, 1, 1, 1)),
        conv_case(rng, (1, 5, 3, 7), 9, (1, 1)),
        conv_case(rng, (1, 5, 1, 1), 9, (3, 1), pads=(1, 0, 1, 0), dynamic=True),
        conv_case(rng, (1, 6, 4, 6), 6, (3, 3), pads=(1, 1, 1, 1), strides=(2, 1), group=6),
        make_group("MatMul", {"a": _array(rng, 5, 7), "b": _array(rng, 7, 19)}, constants=("b",),
                   epilogue=[Step("Relu")]),
        make_group("MatMul", {"a": _array(rng, 2, 3, 5), "b": _array(rng, 2, 5, 11)},
                   shapes={"a": (2, n, 5), "b": (2, 5, 11)}),
        make_group("Softmax", {"x": _array(rng, 3, 21)}, {"axis": 1}),
        make_group("Softmax", {"x": _array(rng, 3, 1)}, {"axis": 1}, shapes={"x": (n, m)}),
        make_group("Add", {"x": _array(rng, 2, 6, 3, 5), "b": channel}, constants=("b",),
                   epilogue=[Step("Sigmoid"), Step("Mul", {"r": _array(rng, 2, 6, 3, 5)})]),
        make_group("Transpose", {"x": _array(rng, 3, 1, 9, 10)}, {"perm": (0, 3, 1, 2)}, shapes={"x": (n, 1, 9, m)}),
        make_group("MaxPool", {"x": _array(rng, 1, 5, 5, 6)},
                   {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 2), "dilations": (1, 1),
                    "ceil_mode": 0}),
    ]


@pytest.mark.parametrize("case", _cases(), ids=lambda c: c.group.label)
def test_counts_are_what_is_executed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def count(func: LoopFunc, buffers: Sequence[Memory], dims: Sequence[int]) -> None:
        nonlocal compared
        arrays = [buffer.array for buffer in buffers]
        found = count_loops(func, dims, BITS)
        executed = _executed(func, arrays, dims)
        if found.exact:
            compared += 1
            assert _flat(found) == executed, func.name

    monkeypatch.setattr(harness, "_interpret", count)
    for kernel in kernels_for(case.group.anchor.op):
        for variant in list(kernel.variants(case.group, PROFILE))[:2]:
            run_group(case.group, kernel, variant, layouts_of(variant, case.group), case.arrays, PROFILE,
                      engine="interpret")
    assert compared >= 1


def _triangle(rows: Dim, tile: int) -> LoopFunc:
    """For each chunk of `tile` rows: row i loads i + 1 elements, in vectors of 8 and a rest."""
    b = Builder("triangle")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    n = b.dim(rows)
    with b.chunks((n + (tile - 1)) // tile) as chunk:
        with b.loop(chunk * tile, minimum(chunk * tile + tile, n)) as i:
            with b.loop(0, i + 1, 8) as k:
                b.store(y, i * n + k, b.load(x, i * n + k, 8, i + 1 - k) * 2.0, i + 1 - k)
            with b.when((i % 3).eq(0)):
                b.store(y, i * n, b.load(x, i * n))
    func, _ = b.finish()
    return func


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 50])
@pytest.mark.parametrize("dynamic", [False, True])
def test_trip_counts_that_depend_on_outer_loops(rows: int, dynamic: bool) -> None:
    func = _triangle(Symbol("n", 0).dim if dynamic else rows, 4)
    dims = [rows] if dynamic else []
    arrays = [np.zeros(rows * rows, np.float32), np.zeros(rows * rows, np.float32)]
    found = count_loops(func, dims, BITS)
    assert found.exact
    assert _flat(found) == _executed(func, arrays, dims)
    assert found.chunks == -(-rows // 4)


@pytest.mark.parametrize("rows", [3000, 40_001])
def test_many_iterations_are_sampled(rows: int) -> None:
    found = count_loops(_triangle(rows, 16), [], BITS)
    assert not found.exact
    vectors = sum(-(-(i + 1) // 8) for i in range(rows))
    assert found.vector["partial"] == pytest.approx(2 * vectors, rel=0.01)
    assert found.stored["y"] == pytest.approx(4 * (rows * (rows + 1) / 2 + -(-rows // 3)), rel=0.01)
    assert found.branches == pytest.approx(rows)


def test_loops_whose_variable_no_bound_needs_are_not_expanded() -> None:
    b = Builder("big")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(1 << 20) as chunk, b.loop(0, 1 << 20) as i:
        b.store(y, chunk * i, b.load(x, i) + 1.0)
    func, _ = b.finish()
    found = count_loops(func, [])
    assert found.exact
    assert found.scalar["arithmetic"] == 2.0 ** 40 and found.loaded["x"] == 2.0 ** 42


def test_what_memory_holds_is_unknown_but_bounded() -> None:
    b = Builder("found")
    x, y = b.input("x", INT64), b.output("y", INT64)
    with b.chunks(2) as chunk:
        count = b.let(b.load(x, chunk))
        with b.loop(0, minimum(maximum(count, 0), 5)) as i:
            with b.when(b.load(x, i).lt(3)):
                b.store(y, i, i)
    func, _ = b.finish()
    found = count_loops(func, [])
    assert not found.exact
    assert found.scalar["store"] == 2 * 5 / 2


def test_vectors_of_two_registers_are_two_instructions() -> None:
    b = Builder("wide")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(3) as chunk:
        shared = b.load(x, chunk * 16, 16)
        b.store(y, chunk * 16, shared * shared)
    func, _ = b.finish()
    assert count_loops(func, [], 256).vector == {"load": 6, "arithmetic": 6, "store": 6}
    assert count_loops(func, [], 512).vector == {"load": 3, "arithmetic": 3, "store": 3}
    assert count_loops(func, []).vector == {"load": 3, "arithmetic": 3, "store": 3}


def test_chains_are_as_long_as_the_longest_of_a_block() -> None:
    b = Builder("sums")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(2) as chunk:
        one, two = b.var(b.load(x, 0), "one"), b.var(b.load(x, 1), "two")
        with b.loop(0, 10, name="k") as k:
            b.assign(one, one + b.load(x, k))
            b.assign(one, one * 2.0)
            b.assign(two, two + b.load(x, k))
        with b.loop(0, 3, unroll=True):
            b.assign(two, two + 1.0)
        b.store(y, chunk, one + two)
    func, _ = b.finish()
    found = count_loops(func, [])
    assert found.chain == 2 * (10 * 2 + 3)
    assert found.entries == 1 + 2 and found.iterations == 2 + 20, "the loop over chunks counts"


@pytest.mark.parametrize("unknown", [1.0, 9.0])
def test_loops_with_bounds_in_memory_run_as_often_as_told(unknown: float) -> None:
    b = Builder("table")
    at, x, y = b.input("at", INT64), b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(4) as chunk, b.loop(0, b.load(at, chunk)) as i:
        b.store(y, chunk, b.load(x, i))
    func, _ = b.finish()
    found = count_loops(func, [], unknown=unknown)
    assert found.unknown and not found.sampled and found.scalar["store"] == 4 * unknown
