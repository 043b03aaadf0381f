"""A hypothesis strategy of well-formed loop functions whose results are exact: every target must give the same bits.

Left out are the functions of MATH (accuracy is the target's own) and what the IR leaves undefined: float to integer
out of range, shifts by the width or more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import (
    Buffer,
    Const,
    Expr,
    LoopFunc,
    Type,
    Var,
    binary,
    bitcast,
    cast,
    const,
    dot,
    iota,
    mad,
    maximum,
    minimum,
    reduce,
    select,
    shuffle,
    splat,
    unary,
)
from meta_infer.ir.shapes import Symbol
from meta_infer.support import dtypes
from meta_infer.support.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType

SIZE = 48
"""Elements of every input."""
BLOCK = 32
"""Elements of an output that one chunk writes."""
DIM = 5
"""Value of the functions' one dim parameter."""

NUMBERS = (FLOAT32, FLOAT64, dtypes.INT8, dtypes.INT16, INT32, INT64, dtypes.UINT8, dtypes.UINT16, dtypes.UINT32,
           dtypes.UINT64)
_FLOATS = (0.0, -0.0, 1.0, -1.5, 0.1, 1e-40, 3e38, 1e300, float("inf"), float("-inf"), float("nan"), 8388609.0, 2.5)
_INTEGERS = (0, 1, -1, 2, 7, 127, 128, 255, 32768, 65535, 2**31 - 1, -2**31, 2**40, 2**63 - 1, -2**63)


@dataclass
class _Writer:
    draw: Callable[..., object]
    b: Builder
    chunk: Expr = field(default_factory=lambda: const(0))
    inputs: dict[DType, Buffer] = field(default_factory=dict)
    scope: list[Var] = field(default_factory=list)
    mutable: list[Var] = field(default_factory=list)
    counters: list[Expr] = field(default_factory=list)

    def pick(self, options: Sequence) -> object:
        return self.draw(st.sampled_from(list(options)))

    def type(self, kinds: Sequence[DType] = (*NUMBERS, BOOL)) -> Type:
        return Type(self.pick(kinds), self.pick((1, 1, 2, 4, 8, 8, 16)))

    def index(self, limit: int) -> Expr:
        """A number in [0, limit)."""
        if limit <= 1:
            return const(0)
        total: Expr = const(self.draw(st.integers(0, limit - 1)))
        for counter in self.counters:
            total = total + counter * self.draw(st.integers(0, 5))
        return self.pick((lambda e: e % limit, lambda e: minimum(e // 2, limit - 1), lambda e: (e + 3) % limit))(total)

    # --- expressions --------------------------------------------------------------------------------------

    def expr(self, type: Type, depth: int) -> Expr:
        known = [v for v in self.scope if v.type == type]
        if known and self.draw(st.integers(0, 2)) == 0:
            return self.pick(known)
        if depth <= 0:
            return self.leaf(type)
        if type.dtype == BOOL:
            return self.boolean(type, depth)
        return self.number(type, depth)

    def leaf(self, type: Type) -> Expr:
        ways = ["const", "load", "load"]
        if type.lanes > 1:
            ways += ["splat", "partial"] + (["iota"] if type.dtype == INT32 else [])
        match self.pick(ways):
            case "const":
                return self.constant(type)
            case "splat":
                return splat(self.leaf(Type(type.dtype)), type.lanes)
            case "iota":
                return iota(type.lanes)
            case "partial":
                count = minimum(self.index(type.lanes + 2), type.lanes)
                return self.b.load(self.input(type.dtype), self.index(SIZE - type.lanes + 1), type.lanes, count)
        return self.b.load(self.input(type.dtype), self.index(SIZE - type.lanes + 1), type.lanes)

    def constant(self, type: Type) -> Expr:
        if type.dtype == BOOL:
            return const(self.draw(st.booleans()), type)
        if type.dtype.is_float:
            value = self.pick(_FLOATS)
            return const(float(type.dtype.numpy.type(min(max(value, -3e38), 3e38) if value == value else value)), type)
        low, high = np.iinfo(type.dtype.numpy).min, np.iinfo(type.dtype.numpy).max
        return const(min(max(self.pick(_INTEGERS), int(low)), int(high)), type)

    def input(self, dtype: DType) -> Buffer:
        if dtype not in self.inputs:
            self.inputs[dtype] = self.b.input(f"x_{dtype}", dtype)
        return self.inputs[dtype]

    def boolean(self, type: Type, depth: int) -> Expr:
        match self.pick(("compare", "compare", "logic", "not", "select", "cast", "order", "shuffle")):
            case "compare":
                operand = Type(self.pick(NUMBERS), type.lanes)
                a, b = self.expr(operand, depth - 1), self.expr(operand, depth - 1)
                return binary(self.pick(("<", "<=", ">", ">=", "==", "!=")), a, b)
            case "not":
                return unary("not", self.expr(type, depth - 1))
            case "select":
                return select(*(self.expr(type, depth - 1) for _ in range(3)))
            case "cast":
                return cast(self.expr(Type(self.pick(NUMBERS), type.lanes), depth - 1), BOOL)
            case "order":
                a, b = self.expr(type, depth - 1), self.expr(type, depth - 1)
                return binary(self.pick(("<", "<=", ">", ">=", "==", "!=", "min", "max")), a, b)
            case "shuffle" if type.lanes > 1:
                return self.shuffled(type, depth)
        return binary(self.pick("&|^"), self.expr(type, depth - 1), self.expr(type, depth - 1))

    def shuffled(self, type: Type, depth: int) -> Expr:
        a, b = self.expr(type, depth - 1), self.expr(type, depth - 1)
        return shuffle(a, b, tuple(self.draw(st.integers(0, 2 * type.lanes - 1)) for _ in range(type.lanes)))

    def number(self, type: Type, depth: int) -> Expr:
        dtype = type.dtype
        ways = ["binary"] * 4 + ["unary", "select", "cast", "bitcast"]
        ways += ["shuffle"] if type.lanes > 1 else ["reduce", "pick"]
        ways += ["mad"] if dtype == FLOAT32 or dtype.is_integer else []
        ways += ["dot"] if dtype == INT32 and type.lanes <= 8 else []
        match self.pick(ways):
            case "unary":
                names = ("neg", "abs", "floor", "ceil", "trunc", "rint", *(("sqrt",) if dtype.is_float else ("not",)))
                return unary(self.pick(names), self.expr(type, depth - 1))
            case "select":
                cond = self.expr(Type(BOOL, type.lanes), depth - 1)
                return select(cond, self.expr(type, depth - 1), self.expr(type, depth - 1))
            case "mad":
                return mad(*(self.expr(type, depth - 1) for _ in range(3)))
            case "dot":
                names, terms = self.pick((((dtypes.INT16,), 2), ((dtypes.INT8, dtypes.UINT8), 4)))
                a, b = (self.expr(Type(self.pick(names), terms * type.lanes), depth - 1) for _ in range(2))
                return dot(a, b, self.expr(type, depth - 1))
            case "shuffle":
                return self.shuffled(type, depth)
            case "reduce":
                wide = Type(dtype, self.pick((2, 4, 8, 16)))
                return reduce(self.pick(("+", "min", "max")), self.expr(wide, depth - 1))
            case "pick":
                wide = Type(dtype, self.pick((2, 8)))
                a, b = self.expr(wide, depth - 1), self.expr(wide, depth - 1)
                return shuffle(a, b, (self.draw(st.integers(0, 2 * wide.lanes - 1)),))
            case "cast":
                return self.converted(type, depth)
            case "bitcast":
                other = [t for t in NUMBERS if t.bits == dtype.bits and t != dtype]
                return bitcast(self.expr(Type(self.pick(other), type.lanes), depth - 1), dtype)
        a, b = self.expr(type, depth - 1), self.expr(type, depth - 1)
        if dtype.is_float:
            return binary(self.pick(("+", "-", "*", "/", "min", "max")), a, b)
        op = self.pick(("+", "-", "*", "/", "rem", "min", "max", "&", "|", "^", "<<", ">>"))
        return binary(op, a, b & (dtype.bits - 1) if op in ("<<", ">>") else b)

    def converted(self, type: Type, depth: int) -> Expr:
        """A cast; from float to integer only of numbers in range."""
        source = self.pick([t for t in (*NUMBERS, BOOL) if t != type.dtype])
        a = self.expr(Type(source, type.lanes), depth - 1)
        if source.is_float and type.dtype.is_integer:
            low = 0 if type.dtype.kind == "uint" else -100
            a = minimum(maximum(a, low), 100)                         # in this order a NaN becomes -100 or 0
        return cast(a, type.dtype)

    # --- statements ---------------------------------------------------------------------------------------

    def block(self, statements: int, nesting: int) -> None:
        scope, mutable, counters = list(self.scope), list(self.mutable), list(self.counters)
        for _ in range(statements):
            self.statement(nesting)
        self.scope, self.mutable, self.counters = scope, mutable, counters

    def statement(self, nesting: int) -> None:
        ways = ["let", "let", "var", "store", "store"] + (["assign"] * 2 if self.mutable else [])
        match self.pick(ways + (["for", "if"] if nesting else [])):
            case "let":
                made = self.b.let(self.expr(self.type(), 3), "t")
                if isinstance(made, Var):
                    self.scope.append(made)
            case "var":
                var = self.b.var(self.expr(self.type(), 2))
                self.scope.append(var)
                self.mutable.append(var)
            case "assign":
                var = self.pick(self.mutable)
                self.b.assign(var, self.expr(var.type, 2))
            case "store":
                self.store()
            case "for":
                step = self.draw(st.integers(1, 3))
                with self.b.loop(0, self.pick((3, 4, self.b.dim(_DIM))), step, unroll=self.draw(st.booleans())) as i:
                    self.counters.append(i)
                    self.block(2, nesting - 1)
                self.counters.pop()
            case "if":
                with self.b.when(self.expr(Type(BOOL), 2)):
                    self.block(2, nesting - 1)
                if self.draw(st.booleans()):
                    with self.b.otherwise():
                        self.block(1, nesting - 1)

    def store(self) -> None:
        type = self.type()
        out = self.b.output(f"y_{type.dtype}", type.dtype)
        inside = self.index(BLOCK - type.lanes + 1)
        count = minimum(self.index(type.lanes + 2), type.lanes) if self.draw(st.booleans()) else None
        self.b.store(out, self.chunk * BLOCK + inside, self.expr(type, 3), count)


_DIM = Symbol("N", 1, 100).dim


@st.composite
def loop_funcs(draw: Callable[..., object], statements: int = 5) -> LoopFunc:
    """A function of `DIM`-valued dims, inputs of SIZE elements and outputs of chunks x BLOCK."""
    b = Builder("f")
    writer = _Writer(draw, b)
    tmp = b.scratch("tmp", FLOAT32, b.dim(_DIM) * 3 + 5) if draw(st.booleans()) else b.stack("tmp", FLOAT32, 16)
    with b.chunks(draw(st.integers(1, 3))) as chunk:
        writer.chunk = chunk
        writer.counters = [chunk]
        b.store(tmp, writer.index(8), writer.expr(Type(FLOAT32, 8), 2))
        writer.block(statements, 2)
        writer.store()
        if isinstance(tmp.size, Const):
            b.prefetch(tmp, 0)
            b.fence()
    return b.finish()[0]


def arrays_for(func: LoopFunc, chunks: int, seed: int) -> list[np.ndarray]:
    """Contents for the params: numbers of all sizes and kinds, outputs all ones."""
    rng = np.random.default_rng(seed)
    made = []
    for param in func.params:
        dtype = param.dtype.numpy
        if param.mode != "in":
            filling = 1 if dtype == np.bool_ else 0xFF
            made.append(np.full(chunks * BLOCK * dtype.itemsize, filling, np.uint8).view(dtype))
        elif param.dtype.is_float:
            values = rng.normal(size=SIZE) * 10.0 ** rng.integers(-3, 6, SIZE)
            values[rng.integers(0, SIZE, 6)] = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40], 6)
            made.append(values.astype(dtype))
        elif param.dtype == BOOL:
            made.append(rng.integers(0, 2, SIZE).astype(np.bool_))
        else:
            info = np.iinfo(dtype)
            wide = rng.integers(info.min, info.max, SIZE, dtype, endpoint=True)
            made.append(np.where(rng.random(SIZE) < 0.5, wide, rng.integers(0, 5, SIZE).astype(dtype)))
    return made


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit for bit, but that any NaN equals any other."""
    if a.dtype.kind != "f":
        return a.tobytes() == b.tobytes()
    nan = np.isnan(a) & np.isnan(b)
    return np.where(nan, 0, a).tobytes() == np.where(nan, 0, b).tobytes()


