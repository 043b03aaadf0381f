"""The symbolic dims of a program, each with a slot of its own.

The runtime evaluates all of them at the start of a run, by the generated `mi_eval_dims`, and commands name them by
slot. Emitter and command table both ask here, so that they agree on the order.
"""

from __future__ import annotations

from collections.abc import Iterator

from meta_infer.ir.program import AssignDims, BufferDecl, Call, CheckDims, Copy, Program, walk_commands
from meta_infer.ir.shapes import Dim, Expr


def _mentioned(program: Program) -> Iterator[Dim]:
    """Every dim a running program needs the value of, static ones included."""
    for buffer in program.buffers.values():
        yield from buffer_dims(buffer, with_shape=buffer.name in (*program.inputs, *program.outputs))
    for command in walk_commands(program.commands):
        match command:
            case Call(dims=dims):
                yield from dims
            case Copy(count=count, src_offset=source, dst_offset=target):
                yield from (count, source, target)
            case AssignDims(dims=dims):
                yield from dims
            case CheckDims(a=a, b=b):
                yield from (a, b)


def buffer_dims(buffer: BufferDecl, with_shape: bool) -> tuple[Dim, ...]:
    """Elements and view offset of a buffer, and its shape if asked for."""
    return (buffer.elements, buffer.offset, *(buffer.shape if with_shape else ()))


def program_dims(program: Program) -> tuple[Dim, ...]:
    """All distinct symbolic dims, in the order they are met: buffers as declared, then commands in program order."""
    return tuple(dict.fromkeys(dim for dim in _mentioned(program) if isinstance(dim, Expr)))
