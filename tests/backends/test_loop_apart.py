"""Loops that ask for a function of their own: the same results, text that reads back, and what must not cross."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.backends.cpu.emit_c import emit_function
from meta_infer.ir.builder import Builder
from meta_infer.ir.interpret_loop import interpret
from meta_infer.ir.loop import LoopFunc, Type, const
from meta_infer.ir.loop_parser import parse_func
from meta_infer.ir.loop_text import print_func
from meta_infer.ir.shapes import Symbol
from meta_infer.ir.verify_loop import verify_func
from meta_infer.support.dtypes import FLOAT32
from meta_infer.support.errors import InternalError
from tests.kernels.harness import Memory, compile_funcs, host_isa


def nested() -> LoopFunc:
    b = Builder("nested")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    n = b.dim(Symbol("n", 1, 100).dim)
    row = b.stack("row", FLOAT32, 8)
    held = b.scratch("held", FLOAT32, n)
    with b.chunks(4) as chunk:
        start = b.let(chunk * n, "start")
        with b.loop(0, n, name="i", apart=True) as i:
            total = b.var(const(0.0, Type(FLOAT32)), "total")
            with b.loop(0, 8, name="j", apart=True) as j:
                b.store(row, j, b.load(x, start + i) * 2.0)
            with b.loop(0, 8, name="j") as j:
                b.assign(total, total + b.load(row, j))
            b.store(held, i, total)
        with b.loop(0, n, name="i", apart=True) as i:
            b.store(y, start + i, b.load(held, i) + 1.0)
    func, _ = b.finish()
    verify_func(func)
    return func


def test_compiled_as_interpreted() -> None:
    func, n = nested(), 7
    x = np.arange(4 * n, dtype=np.float32)
    want = np.zeros_like(x)
    interpret(func, [x, want], [n])
    np.testing.assert_array_equal(want, x * 16 + 1)
    y = Memory("y", FLOAT32, 4 * n)
    compile_funcs([func]).run(func, [Memory("x", FLOAT32, 4 * n, x), y], [n])
    np.testing.assert_array_equal(y.array, want)


def test_text() -> None:
    func = nested()
    assert "for i in apart(0, " in print_func(func)
    assert parse_func(print_func(func)) == func
    assert emit_function(func, host_isa()).count("noinline") == 3


def test_registers_stay_where_they_are() -> None:
    b = Builder("crossing")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(1) as chunk:
        value = b.let(b.load(x, chunk), "value")
        with b.loop(0, 4, name="i", apart=True) as i:
            b.store(y, i, value)
    with pytest.raises(InternalError, match="'value' is no constant index"):
        verify_func(b.finish()[0])
