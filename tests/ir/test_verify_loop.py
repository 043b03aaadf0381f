"""The loop verifier accepts what builders make (test_loop_text.py) and names each kind of fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from meta_infer.ir.loop import (
    INDEX,
    Assign,
    Bin,
    Bitcast,
    Buffer,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    If,
    Intrin,
    Iota,
    Let,
    Load,
    LoopFunc,
    Prefetch,
    Reduce,
    Select,
    Shuffle,
    Splat,
    Stmt,
    Store,
    Type,
    Un,
    Var,
    const,
)
from meta_infer.ir.verify_loop import verify_func
from meta_infer.support.dtypes import BOOL, FLOAT32, FLOAT64, INT32
from meta_infer.support.errors import InternalError

F, F8, B, B8 = Type(FLOAT32), Type(FLOAT32, 8), Type(BOOL), Type(BOOL, 8)
X, Y = Buffer("x", FLOAT32), Buffer("y", FLOAT32, mode="out")
ZERO, ONE = const(0), const(1)
FX, FX8 = Load(X, ZERO, F), Load(X, ZERO, F8)


def func(*body: Stmt) -> LoopFunc:
    return LoopFunc("f", (X, Y), (Var("d"),), Var("d"), Var("chunk"), body)


def put(value: Expr) -> Stmt:
    return Store(Y, ZERO, value)


def refuse(made: LoopFunc, message: str) -> None:
    with pytest.raises(InternalError, match=message) as caught:
        verify_func(made)
    assert "kernel f" in str(caught.value)


def test_a_sound_function_passes() -> None:
    v, i = Var("v", F8), Var("i")
    verify_func(func(Decl(v, FX8), For(i, ZERO, Var("d"), ONE, (Assign(v, Bin("+", v, FX8, F8)),)), put(v)))


@pytest.mark.parametrize(("statement", "message"), [
    (put(Var("v", F)), "'v' is not in scope"),
    (put(Var("d", F)), "'d' is int64, used as float32"),
    (Store(X, ZERO, FX), "store to input 'x'"),
    (Store(Y, ZERO, Load(X, FX, F)), "index into x is float32"),
    (Store(Y, FX, FX), "index into y is float32"),
    (Store(Buffer("z", FLOAT32), ZERO, FX), "'z' is not the function's own"),
    (Store(replace(Y, dtype=FLOAT64), ZERO, FX), "not the function's own"),
    (put(ONE), "y holds float32, not int64"),
    (Store(Y, ZERO, FX8, FX), "a count of lanes is an index"),
    (Assign(Var("d"), ONE), "'d' is assigned, but not declared"),
    (Let(Var("d"), ONE), "'d' is used twice"),
    (Let(Var("lambda"), ONE), "not an identifier"),
    (Let(Var("v", F8), FX), "'v' is float32x8, its value float32"),
    (For(Var("i"), ZERO, ONE, ZERO, ()), "step"),
    (For(Var("i"), FX, ONE, ONE, ()), "a bound of the loop over 'i' is float32"),
    (If(ONE, ()), "condition is int64"),
    (Prefetch(X, FX), "an address is float32"),
    (put(Bin("+", FX, ONE, F)), r"float32 \+ int64"),
    (put(Bin("<", FX, FX, F)), "float32 < float32 as float32"),
    (put(Bin("//", FX, FX, F)), "// is for scalar integers"),
    (put(Bin("&", FX, FX, F)), "& on float32"),
    (put(Bin("^^", FX, FX, F)), "unknown operation"),
    (put(Un("not", FX, F)), "not of float32"),
    (put(Cast(FX8, F)), "cast of float32x8 to float32"),
    (put(Bitcast(Load(X, ZERO, F), Type(FLOAT64))), "bitcast of float32 to float64"),
    (put(Select(Bin("<", FX, FX, B), FX8, FX8, F8)), "select on bool between"),
    (put(Splat(FX8, F8)), "splat of float32x8"),
    (put(Iota(F8)), "iota of float32x8"),
    (put(Shuffle(FX8, FX8, (0, 16), Type(FLOAT32, 2))), "shuffle picks"),
    (put(Reduce("*", FX8, F)), "reduce"),
    (put(Reduce("+", FX, F)), "reduce"),
    (put(Intrin("gamma", (FX,), F)), "gamma"),
    (put(Intrin("exp", (FX, FX), F)), "exp of"),
    (put(Intrin("exp", (ONE,), INDEX)), "exp of"),
    (put(Load(X, ZERO, Type(FLOAT32, 3))), "3 lanes is not a power of two"),
    (put(Const(1.5, Type(INT32))), "int32 constant 1.5"),
    (put(Const(1, B)), "bool constant 1"),
])
def test_each_fault_is_named(statement: Stmt, message: str) -> None:
    refuse(func(statement), message)


def test_registers_leave_scope_with_their_block() -> None:
    v = Var("v", F)
    refuse(func(If(Bin("<", ONE, ONE, B), (Let(v, FX),)), put(v)), "'v' is not in scope")
    refuse(func(For(Var("i"), ZERO, ONE, ONE, ()), Let(Var("w"), Var("i"))), "'i' is not in scope")
    refuse(func(Let(v, FX), Assign(v, FX)), "'v' is assigned, but not declared")


@pytest.mark.parametrize(("change", "message"), [
    (lambda f: replace(f, chunks=Var("chunk")), "'chunk' is not in scope"),
    (lambda f: replace(f, chunks=const(1.0, F)), "the number of chunks is float32"),
    (lambda f: replace(f, params=(X, X)), "'x' is used twice"),
    (lambda f: replace(f, params=(replace(X, mode="both"), Y)), "param 'x' is global both"),
    (lambda f: replace(f, locals=(Buffer("t", FLOAT32, "scratch"),)), "local 't' is scratch of size None"),
    (lambda f: replace(f, locals=(Buffer("t", FLOAT32, "stack", "inout", Var("d")),)), "stack 't' is not constant"),
    (lambda f: replace(f, locals=(Buffer("t", FLOAT32, "scratch", "inout", Var("chunk")),)), "not in scope"),
])
def test_faults_of_the_frame(change: Callable[[LoopFunc], LoopFunc], message: str) -> None:
    refuse(change(func()), message)
