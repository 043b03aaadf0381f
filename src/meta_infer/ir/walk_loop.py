"""Visiting the statements of loop IR."""

from __future__ import annotations

from collections.abc import Iterator

from meta_infer.ir.loop import For, If, Stmt


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
