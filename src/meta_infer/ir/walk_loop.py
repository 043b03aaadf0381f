"""Visiting the statements and expressions of loop IR."""

from __future__ import annotations

from collections.abc import Iterator

from meta_infer.ir.loop import (
    Bin,
    Bitcast,
    Cast,
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


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The operands of an expression, in order."""
    match expr:
        case Bin(a=a, b=b) | Shuffle(a=a, b=b):
            return (a, b)
        case Un(a=a) | Cast(a=a) | Bitcast(a=a) | Splat(a=a) | Reduce(a=a):
            return (a,)
        case Mad(a=a, b=b, c=c):
            return (a, b, c)
        case Select(cond=cond, a=a, b=b):
            return (cond, a, b)
        case Load(index=index, count=count):
            return (index,) if count is None else (index, count)
        case Intrin(args=args):
            return args
    return ()
