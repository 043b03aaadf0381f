"""What a loop function means, in numpy: for small sizes, to check code generators and kernels against.

Beyond computing, it checks what C would let pass: indices outside a buffer, negative operands of // and %, stores to
an input, reading an output element that was never written, and two chunks that touch one element when one writes it.
Scratch and stack memory starts as NaN (or a large number) in every chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meta_infer.ir.loop import (
    Assign,
    Bin,
    Bitcast,
    Buffer,
    Cast,
    Const,
    Decl,
    Dot,
    Expr,
    Fence,
    For,
    If,
    Intrin,
    Iota,
    Let,
    Load,
    LoopFunc,
    Mad,
    Prefetch,
    Reduce,
    Select,
    Shuffle,
    Splat,
    Stmt,
    Store,
    Type,
    Un,
    Var,
)
from meta_infer.support.dtypes import DType
from meta_infer.support.errors import InternalError

Register = Any
"""A numpy scalar, or a 1-D array of `lanes` elements."""

_FREE, _MANY = -1, -2


class _Memory:
    """A buffer's elements, with the chunk that last wrote and the chunk(s) that read each of them."""

    def __init__(self, buffer: Buffer, array: np.ndarray[Any, Any]) -> None:
        self.buffer, self.array = buffer, array
        shared = buffer.space == "global" and buffer.mode != "in"
        self.writer = np.full(array.size if shared else 0, _FREE, np.int64)
        self.reader = np.full(array.size if shared else 0, _FREE, np.int64)


def interpret(func: LoopFunc, arrays: Sequence[np.ndarray[Any, Any]], dims: Sequence[int],
              chunks: Sequence[int] | None = None) -> None:
    """Run `func` on flat arrays, one per param, writing outputs in place.

    `dims` are the values of its dim parameters; `chunks` an order of chunk indices (default: ascending).
    Raises InternalError naming the statement's buffer for every breach of the rules above.
    """
    if len(arrays) != len(func.params) or len(dims) != len(func.dims):
        raise InternalError(f"{len(arrays)} arrays and {len(dims)} dims for {len(func.params)} params and "
                            f"{len(func.dims)} dims", what=f"kernel {func.name}")
    machine = _Machine(func, arrays, dims)
    with np.errstate(all="ignore"):
        count = int(machine.value(func.chunks))
        for chunk in range(count) if chunks is None else chunks:
            machine.run_chunk(chunk)


def lane_function(name: str) -> Callable[..., Register]:
    """A function of MATH in numpy, for float64 operands."""
    if name in ("erf", "sigmoid"):
        from scipy import special

        return special.erf if name == "erf" else special.expit  # type: ignore[no-any-return]
    known: dict[str, Callable[..., Register]] = {
        "exp": np.exp, "log": np.log, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "pow": np.power}
    return known[name]


class _Machine:
    """Registers and memory of one run."""

    def __init__(self, func: LoopFunc, arrays: Sequence[np.ndarray[Any, Any]], dims: Sequence[int]) -> None:
        self.func = func
        self.registers: dict[str, Register] = {d.name: np.int64(v) for d, v in zip(func.dims, dims, strict=True)}
        self.memory: dict[str, _Memory] = {}
        for buffer, array in zip(func.params, arrays, strict=True):
            if array.dtype != buffer.dtype.numpy or array.ndim != 1:
                raise self.error(f"param {buffer.name} is {array.dtype}, rank {array.ndim}; wanted flat {buffer.dtype}")
            self.memory[buffer.name] = _Memory(buffer, array)
        self.chunk = 0
        self.memo: dict[int, Register] = {}

    def error(self, problem: str) -> InternalError:
        return InternalError(problem, what=f"kernel {self.func.name}",
                             hint="the loop IR breaks its own rules: look at the kernel that built it")

    def run_chunk(self, chunk: int) -> None:
        self.chunk = chunk
        self.registers[self.func.chunk.name] = np.int64(chunk)
        for buffer in self.func.locals:
            assert buffer.size is not None
            size = int(self.value(buffer.size))
            if size < 0:
                raise self.error(f"{buffer.space} buffer {buffer.name} has {size} elements")
            garbage = np.full(size * buffer.dtype.bytes, 0xFF, np.uint8).view(buffer.dtype.numpy)
            self.memory[buffer.name] = _Memory(buffer, garbage)
        self.block(self.func.body)

    # --- statements ---------------------------------------------------------------------------------------

    def block(self, body: Sequence[Stmt]) -> None:
        for stmt in body:
            self.stmt(stmt)

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Let(var=var, value=value) | Decl(var=var, value=value) | Assign(var=var, value=value):
                self.registers[var.name] = self.value(value)
            case Store(buffer=buffer, index=index, value=value, count=count):
                self.store(buffer, int(self.value(index)), self.value(value), value.type,
                           None if count is None else int(self.value(count)))
            case For(var=var, start=start, stop=stop, step=step, body=body):
                first, last, pace = (int(self.value(e)) for e in (start, stop, step))
                if pace <= 0:
                    raise self.error(f"loop over {var.name} has step {pace}")
                for i in range(first, last, pace):
                    self.registers[var.name] = np.int64(i)
                    self.block(body)
            case If(cond=cond, then=then, orelse=orelse):
                self.block(then if self.value(cond) else orelse)
            case Prefetch() | Fence():
                pass
            case _:
                raise self.error(f"unknown statement {type(stmt).__name__}")

    def span(self, buffer: Buffer, index: int, lanes: int, count: int | None) -> slice:
        """The elements an access touches. Raises InternalError when they are not all inside the buffer."""
        touched = lanes if count is None else max(0, min(lanes, count))
        size = self.memory[buffer.name].array.size
        if touched and not 0 <= index <= size - touched:
            raise self.error(f"access to {buffer.name}[{index} : {index + touched}], which has {size} elements")
        return slice(index, index + touched)

    def store(self, buffer: Buffer, index: int, value: Register, type: Type, count: int | None) -> None:
        if buffer.space == "global" and buffer.mode == "in":
            raise self.error(f"store to input {buffer.name}")
        memory, span = self.memory[buffer.name], self.span(buffer, index, type.lanes, count)
        if span.start == span.stop:
            return
        if memory.writer.size:
            for marks, deed in ((memory.writer[span], "written"), (memory.reader[span], "read")):
                if ((marks != _FREE) & (marks != self.chunk)).any():
                    raise self.error(f"{buffer.name}[{span.start} : {span.stop}] is written by chunk {self.chunk} "
                                     f"and {deed} by another")
            memory.writer[span] = self.chunk
        memory.array[span] = np.atleast_1d(value)[:span.stop - span.start]

    def load(self, expr: Load) -> Register:
        buffer, lanes = expr.buffer, expr.type.lanes
        count = None if expr.count is None else int(self.value(expr.count))
        memory, span = self.memory[buffer.name], self.span(buffer, int(self.value(expr.index)), lanes, count)
        if memory.writer.size and span.start != span.stop:
            writers, readers = memory.writer[span], memory.reader[span]
            if ((writers != _FREE) & (writers != self.chunk)).any():
                raise self.error(f"{buffer.name}[{span.start} : {span.stop}] is read by chunk {self.chunk} and "
                                 "written by another")
            if buffer.mode == "out" and (writers == _FREE).any():
                raise self.error(f"output {buffer.name}[{span.start} : {span.stop}] is read before it is written")
            readers[:] = np.where((readers == _FREE) | (readers == self.chunk), self.chunk, _MANY)
        if lanes == 1:
            return memory.array[span.start] if span.stop > span.start else buffer.dtype.numpy.type(0)
        found = np.zeros(lanes, buffer.dtype.numpy)
        found[:span.stop - span.start] = memory.array[span]
        return found

    # --- expressions --------------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Register:
        """The value of a statement's operand."""
        self.memo = {}
        return self.eval(expr)

    def eval(self, expr: Expr) -> Register:
        if isinstance(expr, Var):
            return self.registers[expr.name]
        known = self.memo.get(id(expr))
        if known is None:
            known = self.memo[id(expr)] = self.compute(expr)
        return known

    def compute(self, expr: Expr) -> Register:
        match expr:
            case Const(value=value, type=type):
                return _constant(value, type.dtype)
            case Bin():
                return self.binary(expr.op, self.eval(expr.a), self.eval(expr.b), expr.a.type.dtype)
            case Un(op=op, a=a, type=type):
                return _unary(op, self.eval(a), type.dtype)
            case Mad(a=a, b=b, c=c, type=type):
                return _fused(self.eval(a), self.eval(b), self.eval(c), type.dtype)
            case Dot(a=a, b=b, c=c, type=type, narrow=narrow):
                left, right = self.eval(a), self.eval(b)
                if narrow and np.abs((left.astype(np.int64) * right).reshape(-1, 2).sum(1)).max() > 32767:
                    raise self.error("a sum of two products that were said to fit in 16 bits does not")
                return _dot(left, right, self.eval(c), type)
            case Cast(a=a, type=type):
                return _cast(self.eval(a), type.dtype)
            case Bitcast(a=a, type=type):
                return np.atleast_1d(self.eval(a)).view(type.dtype.numpy)[_all_or_one(type)]
            case Select(cond=cond, a=a, b=b):
                return _pick(self.eval(cond), self.eval(a), self.eval(b))
            case Splat(a=a, type=type):
                return np.full(type.lanes, self.eval(a), type.dtype.numpy)
            case Iota(type=type):
                return np.arange(type.lanes, dtype=type.dtype.numpy)
            case Load():
                return self.load(expr)
            case Shuffle(a=a, b=b, picks=picks, type=type):
                both = np.concatenate([np.atleast_1d(self.eval(a)), np.atleast_1d(self.eval(b))])
                return both[list(picks)][_all_or_one(type)]
            case Reduce(op=op, a=a):
                return _reduce(op, self.eval(a))
            case Intrin(name=name, args=args, type=type):
                wide = [np.asarray(self.eval(a), np.float64) for a in args]
                return lane_function(name)(*wide).astype(type.dtype.numpy)[()]
        raise self.error(f"unknown expression {expr.__class__.__name__}")

    def binary(self, op: str, a: Register, b: Register, dtype: DType) -> Register:
        if op in ("//", "%"):
            if np.any(a < 0) or np.any(b <= 0):
                raise self.error(f"{a} {op} {b}: needs a non-negative dividend and a positive divisor")
            return a // b if op == "//" else a % b
        if op in ("/", "rem") and dtype.is_integer:
            return _truncating(op, a, b)
        return _BINARY[op](a, b)


def _reduce(op: str, a: Register) -> Register:
    while a.size > 1:
        a = _BINARY[op](a[:a.size // 2], a[a.size // 2:])
    return a[0]


def _all_or_one(type: Type) -> slice | int:
    return slice(None) if type.lanes > 1 else 0


def _pick(cond: Register, a: Register, b: Register) -> Register:
    picked: Register = np.where(cond, a, b)
    return picked[()]


_BINARY: dict[str, Callable[[Register, Register], Register]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a ^ b if a.dtype == np.bool_ else a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b, "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    "min": lambda a, b: _pick(a < b, a, b), "max": lambda a, b: _pick(a > b, a, b),
}


def _constant(value: int | float | bool, dtype: DType) -> Register:
    if dtype.is_integer:
        return np.asarray(int(value) & ((1 << dtype.bits) - 1), f"uint{dtype.bits}").view(dtype.numpy)[()]
    return dtype.numpy.type(value)


def _fused(a: Register, b: Register, c: Register, dtype: DType) -> Register:
    """a * b + c; for float32 through float64, whose product is exact."""
    if dtype.name != "float32":
        return a * b + c
    wide: Register = np.asarray(np.float64(a) * np.float64(b) + np.float64(c))
    return wide.astype(np.float32)[()]


def _dot(a: Register, b: Register, c: Register, type: Type) -> Register:
    sums = (a.astype(np.int64) * b.astype(np.int64)).reshape(type.lanes, -1).sum(1) + np.atleast_1d(c)
    return sums.astype(np.int32)[_all_or_one(type)]            # the low 32 bits


def _unary(op: str, a: Register, dtype: DType) -> Register:
    match op:
        case "neg":
            return -a
        case "not":
            return ~a
        case "abs":
            return a if dtype.kind == "bool" else np.abs(a)
        case "sqrt":
            return np.sqrt(a)
    if not dtype.is_float:
        return a
    return {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint}[op](a)


def _cast(a: Register, dtype: DType) -> Register:
    value: Register = np.asarray(a)
    return a != 0 if dtype.kind == "bool" else value.astype(dtype.numpy)[()]


def _truncating(op: str, a: Register, b: Register) -> Register:
    """C division; x / 0 and x rem 0 are 0, the lowest number / -1 wraps."""
    a, b = np.broadcast_arrays(np.atleast_1d(a), np.atleast_1d(b))
    safe = np.where(b == 0, np.ones_like(b), b)
    remainder = np.fmod(a, safe)
    quotient = (a - remainder) // safe
    if a.dtype.kind == "i":
        quotient, remainder = np.where(b == -1, -a, quotient), np.where(b == -1, np.zeros_like(a), remainder)
    picked = np.where(b == 0, np.zeros_like(a), quotient if op == "/" else remainder)
    return picked if picked.size > 1 else picked[0]
