"""Visiting the statements and expressions of loop IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from meta_infer.ir.loop import (
    Assign,
    Bin,
    Bitcast,
    Cast,
    Decl,
    Dot,
    Expr,
    For,
    If,
    Intrin,
    Let,
    Load,
    Mad,
    Prefetch,
    Reduce,
    Select,
    Shuffle,
    Splat,
    Stmt,
    Store,
    Un,
    Var,
)
from meta_infer.ir.source import Source


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


def roots(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that stand in a statement itself."""
    match stmt:
        case Let(value=value) | Decl(value=value) | Assign(value=value):
            return (value,)
        case Store(index=index, value=value, count=count):
            return (index, value) if count is None else (index, value, count)
        case For(start=start, stop=stop, step=step):
            return (start, stop, step)
        case If(cond=cond):
            return (cond,)
        case Prefetch(index=index):
            return (index,)
        case Source(values=values):
            return tuple(value for _, value in values)
    return ()


def names_in(body: tuple[Stmt, ...]) -> tuple[str, ...]:
    """Names of all registers and buffers that a body reads, assigns or writes, each once."""
    found: dict[str, None] = {}
    seen: set[int] = set()

    def visit(expr: Expr) -> None:
        if id(expr) in seen:
            return
        seen.add(id(expr))
        if isinstance(expr, Var):
            found[expr.name] = None
        elif isinstance(expr, Load):
            found[expr.buffer.name] = None
        for operand in operands(expr):
            visit(operand)

    for stmt in walk_stmts(body):
        for root in roots(stmt):
            visit(root)
        match stmt:
            case Assign(var=var):
                found[var.name] = None
            case Store(buffer=buffer) | Prefetch(buffer=buffer):
                found[buffer.name] = None
            case Source(buffers=buffers):
                found.update(dict.fromkeys(held.name for _, held in buffers))
    return tuple(found)


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
