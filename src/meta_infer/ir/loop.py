"""Loop IR: what one kernel does, as loops over buffers with scalar and vector registers.

A `LoopFunc` is one parallel loop over `chunks`: the runtime calls the body once for every chunk index, in any
order and on any thread, so bodies of different chunks must not write the same memory. Everything inside a chunk is
serial. Dimensions known at build are constants; the others are int64 parameters (`dims`).

Semantics that matter:
- index arithmetic is int64; `//` and `%` need non-negative operands (the interpreter checks);
- `min(a, b)` is `a < b ? a : b`, `max(a, b)` is `a > b ? a : b`: when one is NaN the result is b;
- `mad(a, b, c)` is a*b+c, rounded once where the target has FMA, twice where it has not;
- a vector `Load` reads `lanes` consecutive elements; with `count`, only the first `count` are read, the rest are 0;
- a `Store` with `count` writes only the first `count` lanes;
- a comparison yields `bool` lanes, only usable by `select`, `and`, `or`, `not`;
- `dot(a, b, c)` multiplies integers of 8 or 16 bits exactly and adds in int32, which wraps around: nothing saturates.
"""

from __future__ import annotations

from dataclasses import dataclass

from meta_infer.ir.fold_index import fold_index, simpler
from meta_infer.support.dtypes import BOOL, INT32, INT64, DType


@dataclass(frozen=True)
class Type:
    """A register's type: one element, or `lanes` of them in a vector."""

    dtype: DType
    lanes: int = 1

    def __str__(self) -> str:
        return str(self.dtype) if self.lanes == 1 else f"{self.dtype}x{self.lanes}"

    def __hash__(self) -> int:             # functions are compared by hash: the leaves keep that cheap
        return hash(self.dtype.name) + self.lanes


INDEX = Type(INT64)


@dataclass(frozen=True)
class Buffer:
    """Memory a function touches, addressed by flat element index.

    `space`: 'global' (an argument), 'scratch' (per thread, from the runtime), 'stack' (small, constant size).
    `mode` of a global: 'in', 'out' or 'inout'. `size` in elements is required for scratch and stack.
    """

    name: str
    dtype: DType
    space: str = "global"
    mode: str = "in"
    size: Expr | None = None

    def __hash__(self) -> int:
        return hash(self.name)


class Expr:
    """Base of expressions; `type` is the register type. Operators build new expressions and fold constants."""

    type: Type

    def __add__(self, other: Operand) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return binary("*", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return binary("/", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return binary("//", self, other)

    def __rfloordiv__(self, other: Operand) -> Expr:
        return binary("//", other, self)

    def __mod__(self, other: Operand) -> Expr:
        return binary("%", self, other)

    def __and__(self, other: Operand) -> Expr:
        return binary("&", self, other)

    def __or__(self, other: Operand) -> Expr:
        return binary("|", self, other)

    def __xor__(self, other: Operand) -> Expr:
        return binary("^", self, other)

    def __lshift__(self, other: Operand) -> Expr:
        return binary("<<", self, other)

    def __rshift__(self, other: Operand) -> Expr:
        return binary(">>", self, other)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def lt(self, other: Operand) -> Expr:
        return binary("<", self, other)

    def le(self, other: Operand) -> Expr:
        return binary("<=", self, other)

    def gt(self, other: Operand) -> Expr:
        return binary(">", self, other)

    def ge(self, other: Operand) -> Expr:
        return binary(">=", self, other)

    def eq(self, other: Operand) -> Expr:
        return binary("==", self, other)

    def ne(self, other: Operand) -> Expr:
        return binary("!=", self, other)


Operand = Expr | int | float | bool

ARITHMETIC = ("+", "-", "*", "/", "//", "%", "min", "max", "&", "|", "^", "<<", ">>", "rem")
"""'/' on integers truncates and 'rem' has the dividend's sign, as in C; '//' and '%' are for indices >= 0.
'>>' on signed integers is arithmetic. '&', '|', '^' also work on bool."""
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
UNARY = ("neg", "not", "abs", "sqrt", "floor", "ceil", "trunc", "rint")
MATH = ("exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "pow")
"""Functions the target must provide for any lane count (float32); kernels call them by name."""


@dataclass(frozen=True, eq=False)
class Const(Expr):
    """A scalar constant. 0.0 and -0.0 are different constants, NaN equals itself."""

    value: int | float | bool
    type: Type = INDEX

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and (self.type, repr(self.value)) == (other.type, repr(other.value))

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(frozen=True)
class Var(Expr):
    """A register or loop variable or dimension parameter, by name; names are unique in a function."""

    name: str
    type: Type = INDEX

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Bin(Expr):
    op: str
    a: Expr
    b: Expr
    type: Type


@dataclass(frozen=True)
class Un(Expr):
    op: str
    a: Expr
    type: Type


@dataclass(frozen=True)
class Mad(Expr):
    """a * b + c (see the module's note on rounding)."""

    a: Expr
    b: Expr
    c: Expr
    type: Type


@dataclass(frozen=True)
class Dot(Expr):
    """c (int32) + sums of k neighbours of a * b, of k times the lanes; `narrow`: sums of two fit in 16 bits."""

    a: Expr
    b: Expr
    c: Expr
    type: Type
    narrow: bool = False


@dataclass(frozen=True)
class Cast(Expr):
    """Numeric conversion, lane by lane; float to int truncates (out of range is undefined, NaN too)."""

    a: Expr
    type: Type


@dataclass(frozen=True)
class Bitcast(Expr):
    """The same bits as another dtype: as many lanes as fill them, the first in the lowest bits."""

    a: Expr
    type: Type


@dataclass(frozen=True)
class Select(Expr):
    """Lane-wise `cond ? a : b`; both sides are evaluated."""

    cond: Expr
    a: Expr
    b: Expr
    type: Type


@dataclass(frozen=True)
class Splat(Expr):
    """A scalar copied to all lanes."""

    a: Expr
    type: Type


@dataclass(frozen=True)
class Iota(Expr):
    """0, 1, ..., lanes-1 (int32)."""

    type: Type


@dataclass(frozen=True)
class Load(Expr):
    buffer: Buffer
    index: Expr
    type: Type
    count: Expr | None = None


@dataclass(frozen=True)
class Shuffle(Expr):
    """Lanes picked from the concatenation of a and b by constant positions."""

    a: Expr
    b: Expr
    picks: tuple[int, ...]
    type: Type


@dataclass(frozen=True)
class Reduce(Expr):
    """All lanes of a vector to one scalar in a fixed pairwise order: '+', 'min', 'max'."""

    op: str
    a: Expr
    type: Type


@dataclass(frozen=True)
class Intrin(Expr):
    """A call of a named function of MATH, lane by lane."""

    name: str
    args: tuple[Expr, ...]
    type: Type


class Stmt:
    """Base of statements."""


@dataclass(frozen=True)
class Let(Stmt):
    """An immutable register, in scope to the end of its block."""

    var: Var
    value: Expr


@dataclass(frozen=True)
class Decl(Stmt):
    """A mutable register with its first value."""

    var: Var
    value: Expr


@dataclass(frozen=True)
class Assign(Stmt):
    var: Var
    value: Expr


@dataclass(frozen=True)
class Store(Stmt):
    buffer: Buffer
    index: Expr
    value: Expr
    count: Expr | None = None


@dataclass(frozen=True)
class For(Stmt):
    """`for var in range(start, stop, step)`; `unroll` asks the target to unroll fully.

    `apart` asks for a function of its own: what other loops keep in registers is then no burden to this one.
    """

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Stmt, ...]
    unroll: bool = False
    apart: bool = False


@dataclass(frozen=True)
class If(Stmt):
    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True)
class Prefetch(Stmt):
    buffer: Buffer
    index: Expr


@dataclass(frozen=True)
class Fence(Stmt):
    """The compiler moves no load or store across it; it is no instruction.

    Between the steps of a register tile it keeps loads of the next step from being hoisted, which would spill.
    """


@dataclass(frozen=True)
class LoopFunc:
    """A kernel: `params` in argument order, `locals` its scratch and stack buffers, one body per chunk."""

    name: str
    params: tuple[Buffer, ...]
    dims: tuple[Var, ...]
    chunks: Expr
    chunk: Var
    body: tuple[Stmt, ...]
    locals: tuple[Buffer, ...] = ()


# --- construction with type rules and constant folding -------------------------------------------------------


def const(value: int | float | bool, type: Type = INDEX) -> Expr:
    """A constant; a vector type gives a splat of it."""
    scalar = Const(float(value) if type.dtype.is_float else value, Type(type.dtype))
    return scalar if type.lanes == 1 else Splat(scalar, type)


def _lift(value: Operand, like: Type) -> Expr:
    if not isinstance(value, Expr):
        return const(value, like)
    if value.type.lanes == 1 and like.lanes > 1:
        return splat(value, like.lanes)
    return value


def splat(value: Expr, lanes: int) -> Expr:
    """`value` in every lane; a vector of that width stays as it is."""
    if value.type.lanes == lanes:
        return value
    if value.type.lanes != 1:
        raise TypeError(f"cannot widen {value.type} to {lanes} lanes")
    return Splat(value, Type(value.type.dtype, lanes))


def _pair(a: Operand, b: Operand) -> tuple[Expr, Expr]:
    if isinstance(a, Expr) and isinstance(b, Expr):
        a, b = _lift(a, b.type), _lift(b, a.type)
    elif isinstance(a, Expr):
        b = _lift(b, a.type)
    elif isinstance(b, Expr):
        a = _lift(a, b.type)
    else:
        raise TypeError("one operand must be an expression")
    if a.type != b.type:
        raise TypeError(f"operands of different types: {a.type} and {b.type}")
    return a, b


def binary(op: str, a: Operand, b: Operand) -> Expr:
    """`a op b`; Python numbers take the other side's type, scalars widen to vectors. Raises TypeError on a mismatch."""
    if op not in ARITHMETIC and op not in COMPARISONS:
        raise TypeError(f"unknown operation {op!r}")
    x, y = _pair(a, b)
    type = Type(BOOL, x.type.lanes) if op in COMPARISONS else x.type
    if x.type == INDEX:                                   # only index arithmetic is folded: floats keep their rounding
        left, right = (int(e.value) if isinstance(e, Const) else None for e in (x, y))
        folded = None if left is None or right is None else fold_index(op, left, right)
        if folded is not None:
            return Const(folded, type)
        same = simpler(op, left, right)
        if same is not None:
            return {"a": x, "b": y, "zero": Const(0, INDEX)}[same]
        if op in "+-" and isinstance(y, Const) and isinstance(x, Bin) and x.op == "+" and isinstance(x.b, Const):
            total = int(x.b.value) + (int(y.value) if op == "+" else -int(y.value))
            return binary("+", x.a, total)
        if op in ("//", "%") and isinstance(y, Const) and isinstance(x, Bin) and x.op == "*" and (
                isinstance(x.b, Const) and int(y.value) > 0 and int(x.b.value) % int(y.value) == 0):
            return binary("*", x.a, int(x.b.value) // int(y.value)) if op == "//" else Const(0, INDEX)
    return Bin(op, x, y, type)


def unary(op: str, a: Expr) -> Expr:
    if op not in UNARY:
        raise TypeError(f"unknown operation {op!r}")
    if isinstance(a, Const) and a.type == INDEX and op == "neg":
        return Const(-int(a.value), INDEX)
    return Un(op, a, a.type)


def mad(a: Operand, b: Operand, c: Expr) -> Expr:
    x, y, z = _lift(a, c.type), _lift(b, c.type), c
    if not x.type == y.type == z.type:
        raise TypeError(f"mad of {x.type}, {y.type}, {z.type}")
    return Mad(x, y, z, z.type)


def dot(a: Expr, b: Expr, c: Expr, narrow: bool = False) -> Expr:
    return Dot(a, b, c, c.type, narrow)


def minimum(a: Operand, b: Operand) -> Expr:
    return binary("min", a, b)


def maximum(a: Operand, b: Operand) -> Expr:
    return binary("max", a, b)


def select(cond: Expr, a: Operand, b: Operand) -> Expr:
    x, y = _pair(a, b)
    if cond.type.lanes == 1 and x.type.lanes > 1:
        cond = splat(cond, x.type.lanes)
    if cond.type.lanes > 1 and x.type.lanes == 1:
        x, y = splat(x, cond.type.lanes), splat(y, cond.type.lanes)
    if cond.type != Type(BOOL, x.type.lanes):
        raise TypeError(f"select on {cond.type} between {x.type}")
    return Select(cond, x, y, x.type)


def cast(a: Expr, dtype: DType) -> Expr:
    if a.type.dtype == dtype:
        return a
    if isinstance(a, Const) and a.type == INDEX and dtype.is_float:
        return Const(float(a.value), Type(dtype))
    return Cast(a, Type(dtype, a.type.lanes))


def bitcast(a: Expr, dtype: DType) -> Expr:
    lanes, rest = divmod(a.type.lanes * a.type.dtype.bits, dtype.bits)
    if rest:
        raise TypeError(f"bitcast of {a.type} to {dtype}")
    return Bitcast(a, Type(dtype, lanes))


def intrin(name: str, *args: Expr) -> Expr:
    """A MATH function of one or two equal-typed arguments."""
    if name not in MATH:
        raise TypeError(f"unknown function {name!r}")
    return Intrin(name, args, args[0].type)


def reduce(op: str, a: Expr) -> Expr:
    return a if a.type.lanes == 1 else Reduce(op, a, Type(a.type.dtype))


def shuffle(a: Expr, b: Expr, picks: tuple[int, ...]) -> Expr:
    return Shuffle(a, b, picks, Type(a.type.dtype, len(picks)))


def iota(lanes: int) -> Expr:
    return Iota(Type(INT32, lanes))
