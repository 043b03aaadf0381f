"""Visiting the statements and expressions of loop IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from meta_infer.ir.loop import (
    Bin,
    Bitcast,
    Cast,
    Dot,
    Expr,
    For,
    If,
    Intrin,
    Load,
    Mad,
    Reduce,
    Select,
    Shuffle,
    Splat,
    Stmt,
    Un,
)


def walk_stmts(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement of a body, outer before inner."""
    for stmt in body:
        yield stmt
        match stmt:
            case For(body=inner):
                yield from walk_stmts(inner)
            case If(then=then, orelse=orelse):
                yield from walk_stmts(then)
                yield from walk_stmts(orelse)


def _load_operands(load: Load) -> tuple[Expr, ...]:
    return (load.index,) if load.count is None else (load.index, load.count)


_OPERANDS: dict[type[Expr], Callable[[Any], tuple[Expr, ...]]] = {
    Bin: lambda e: (e.a, e.b),
    Shuffle: lambda e: (e.a, e.b),
    Un: lambda e: (e.a,),
    Cast: lambda e: (e.a,),
    Bitcast: lambda e: (e.a,),
    Splat: lambda e: (e.a,),
    Reduce: lambda e: (e.a,),
    Mad: lambda e: (e.a, e.b, e.c),
    Dot: lambda e: (e.a, e.b, e.c),
    Select: lambda e: (e.cond, e.a, e.b),
    Load: _load_operands,
    Intrin: lambda e: e.args,
}


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The operands of an expression, in order."""
    found = _OPERANDS.get(type(expr))
    return () if found is None else found(expr)
