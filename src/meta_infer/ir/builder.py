"""Builds loop functions: the pen that kernel templates write with.

    b = Builder("scale")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    n = b.dim(value.shape[0])                       # an int stays a constant, a symbolic dim becomes a parameter
    with b.chunks(ceildiv_expr(n, 1024)) as chunk:
        start = b.let(chunk * 1024)
        with b.loop(start, minimum(start + 1024, n)) as i:
            b.store(y, i, b.load(x, i) * 2.0)
    func, dims = b.finish()
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from contextlib import contextmanager

from meta_infer.ir.loop import (
    INDEX,
    Assign,
    Buffer,
    Const,
    Decl,
    Expr,
    Fence,
    For,
    If,
    Let,
    Load,
    LoopFunc,
    Operand,
    Prefetch,
    Stmt,
    Store,
    Type,
    Var,
    const,
)
from meta_infer.ir.shapes import Dim
from meta_infer.support.dtypes import DType


def index(value: Operand) -> Expr:
    """A Python int as an index constant; an expression stays."""
    return value if isinstance(value, Expr) else const(int(value), INDEX)


class Builder:
    """Collects statements; every name it gives is unique in the function."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._params: list[Buffer] = []
        self._locals: list[Buffer] = []
        self._dims: dict[str, tuple[Var, Dim]] = {}
        self._blocks: list[list[Stmt]] = [[]]
        self._names: dict[str, int] = {}
        self._chunks: Expr = const(1)
        self._chunk = Var("chunk")
        self._names["chunk"] = 1

    def unique(self, stem: str) -> str:
        stem += "_" * keyword.iskeyword(stem)                 # the text form reads expressions as Python
        count = self._names.get(stem, 0)
        self._names[stem] = count + 1
        return f"{stem}_{count}" if count else stem

    # --- parameters ---------------------------------------------------------------------------------------

    def _param(self, name: str, dtype: DType, mode: str) -> Buffer:
        buffer = Buffer(self.unique(name), dtype, "global", mode)
        self._params.append(buffer)
        return buffer

    def input(self, name: str, dtype: DType) -> Buffer:
        return self._param(name, dtype, "in")

    def output(self, name: str, dtype: DType) -> Buffer:
        return self._param(name, dtype, "out")

    def inout(self, name: str, dtype: DType) -> Buffer:
        return self._param(name, dtype, "inout")

    def scratch(self, name: str, dtype: DType, size: Operand) -> Buffer:
        """Per-thread memory of `size` elements (64-byte aligned, contents undefined); size may depend on dims."""
        buffer = Buffer(self.unique(name), dtype, "scratch", "inout", index(size))
        self._locals.append(buffer)
        return buffer

    def stack(self, name: str, dtype: DType, size: int) -> Buffer:
        """A small local array of constant size."""
        buffer = Buffer(self.unique(name), dtype, "stack", "inout", const(size))
        self._locals.append(buffer)
        return buffer

    def dim(self, dim: Dim) -> Expr:
        """A dimension as an expression; equal symbolic dims share one parameter."""
        if isinstance(dim, int):
            return const(dim)
        key = str(dim)
        if key not in self._dims:
            self._dims[key] = (Var(self.unique("d")), dim)
        return self._dims[key][0]

    # --- statements ---------------------------------------------------------------------------------------

    def emit(self, stmt: Stmt) -> None:
        self._blocks[-1].append(stmt)

    def let(self, value: Operand, name: str = "t") -> Expr:
        """Name a value, so that it is computed once; constants and variables are returned as they are."""
        value = index(value)
        if isinstance(value, (Const, Var)):
            return value
        var = Var(self.unique(name), value.type)
        self.emit(Let(var, value))
        return var

    def var(self, value: Expr, name: str = "v") -> Var:
        """A mutable register."""
        var = Var(self.unique(name), value.type)
        self.emit(Decl(var, value))
        return var

    def assign(self, var: Var, value: Expr) -> None:
        self.emit(Assign(var, value))

    def load(self, buffer: Buffer, at: Operand, lanes: int = 1, count: Operand | None = None) -> Expr:
        return Load(buffer, index(at), Type(buffer.dtype, lanes), None if count is None else index(count))

    def store(self, buffer: Buffer, at: Operand, value: Operand, count: Operand | None = None) -> None:
        if not isinstance(value, Expr):
            value = const(value, Type(buffer.dtype))
        self.emit(Store(buffer, index(at), value, None if count is None else index(count)))

    def prefetch(self, buffer: Buffer, at: Operand) -> None:
        self.emit(Prefetch(buffer, index(at)))

    def fence(self) -> None:
        """Keep loads and stores on their side of this place: see `Fence`."""
        self.emit(Fence())

    @contextmanager
    def chunks(self, count: Operand) -> Iterator[Expr]:
        """The parallel loop of the function; everything else goes inside. Give the number of chunks."""
        self._chunks = index(count)
        yield self._chunk

    @contextmanager
    def loop(self, start: Operand, stop: Operand, step: Operand = 1, name: str = "i",
             unroll: bool = False, apart: bool = False) -> Iterator[Expr]:
        var = Var(self.unique(name))
        self._blocks.append([])
        yield var
        body = tuple(self._blocks.pop())
        self.emit(For(var, index(start), index(stop), index(step), body, unroll, apart))

    @contextmanager
    def when(self, cond: Expr) -> Iterator[None]:
        self._blocks.append([])
        yield
        self.emit(If(cond, tuple(self._blocks.pop())))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The else of the `when` just closed."""
        last = self._blocks[-1].pop()
        assert isinstance(last, If) and not last.orelse, "otherwise() must follow when()"
        self._blocks.append([])
        yield
        self.emit(If(last.cond, last.then, tuple(self._blocks.pop())))

    def finish(self) -> tuple[LoopFunc, tuple[Dim, ...]]:
        """The function, and the dims a call must pass for its `dims` parameters, in order."""
        assert len(self._blocks) == 1, "a loop or branch is still open"
        func = LoopFunc(self._name, tuple(self._params), tuple(v for v, _ in self._dims.values()), self._chunks,
                        self._chunk, tuple(self._blocks[0]), tuple(self._locals))
        return func, tuple(d for _, d in self._dims.values())
