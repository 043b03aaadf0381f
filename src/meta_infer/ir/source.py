"""C text as a statement of loop IR: the one thing in it that is not the compiler's own.

Only ops and kernels that users bring (custom/) use it. It runs on targets that take C; the interpreter and the parser
refuse it, and the verifier can check its operands only.
"""

from __future__ import annotations

from dataclasses import dataclass

from meta_infer.ir.loop import Buffer, Expr, Stmt


@dataclass(frozen=True)
class Linked:
    """An object file or archive that the text calls into: its name for messages, and the SHA-256 of its bytes."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Source(Stmt):
    """A block of C in which `buffers` are pointers to elements, `values` int64 constants, by the names given.

    `math` are functions of loop.MATH that the text calls for single floats, as `exp_f32(x)`. `macros` have integer
    values while the text lasts. `before` are declarations that the text finds; `head` stands before all functions of
    the unit, once: includes, functions of its own. `file` is what the compiler's messages call the text; '' leaves that
    to the unit.
    """

    text: str
    values: tuple[tuple[str, Expr], ...]
    buffers: tuple[tuple[str, Buffer], ...]
    math: tuple[str, ...] = ()
    macros: tuple[tuple[str, int], ...] = ()
    head: str = ""
    linked: tuple[Linked, ...] = ()
    file: str = ""
    before: str = ""
