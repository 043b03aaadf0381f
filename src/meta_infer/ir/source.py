"""C text as a statement of loop IR: the one thing in it that is not the compiler's own.

Only ops that users bring (custom.py) use it. It runs on targets that take C; the interpreter and the parser refuse it,
and the verifier can check its operands only.
"""

from __future__ import annotations

from dataclasses import dataclass

from meta_infer.ir.loop import Buffer, Expr, Stmt


@dataclass(frozen=True)
class Source(Stmt):
    """A block of C in which `buffers` are pointers to elements, `values` int64 constants, by the names given.

    `math` are functions of loop.MATH that the text calls for single floats, as `exp_f32(x)`.
    """

    text: str
    values: tuple[tuple[str, Expr], ...]
    buffers: tuple[tuple[str, Buffer], ...]
    math: tuple[str, ...] = ()
