"""What one launch of a kernel executes: instructions by kind, bytes by buffer, iterations, over all its chunks.

    for i in 0..n step 8 { y[i] = x[i] * 2.0 }     ->     vector load, arithmetic, store: ceil(n / 8) each

Every statement is visited once, however often it runs: how often is the product of the trip counts around it. Where a
bound, a condition or the number of lanes of a load or store depends on an outer loop's variable, that loop is expanded
into its iterations as an array, and what is inside is evaluated for all of them at once; beyond `CAP` of them for as
many, spread evenly. So counts are exact for most kernels and close for the others, in milliseconds.

What depends on data cannot be known: of a branch both sides count half, `min` of an unknown and a known number is the
known one, and a loop with an unknown bound runs as often as the caller says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from meta_infer.cost.loop_points import Points, Value, expand, split, trips
from meta_infer.ir.loop import (
    COMPARISONS,
    INDEX,
    Assign,
    Bin,
    Bitcast,
    Buffer,
    Cast,
    Const,
    Decl,
    Dot,
    Expr,
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
from meta_infer.ir.source import Source
from meta_infer.ir.walk_loop import operands, roots, walk_stmts

CAP = 4096
"""Most iterations that are looked at one by one."""

KINDS = ("mad", "arithmetic", "divide", "load", "store", "partial", "broadcast", "shuffle", "reduce", "cast", "dot",
         "dot_narrow")
"""mad: multiply-adds. divide: divisions, remainders, square roots. partial: loads and stores of some lanes only.
broadcast: a number, from memory or not, in all lanes. reduce: all lanes to one. dot: Dot; dot_narrow: sums of two that
fit in 16 bits."""


@dataclass(frozen=True)
class LoopCounts:
    """Counts of one launch. Instructions are on whole registers: an operation on a vector of two registers counts two.

    `vector`, `scalar`: KINDS -> instructions. `math`: function of MATH -> calls, of a register or a number each.
    `chain`: steps of the longest chain of assignments to one register, each of which waits for the one before, of every
    block as often as it runs.
    `iterations`, `entries`: of loops that are not unrolled, and how often such a loop is begun.
    `index`: scalar index arithmetic, most of which compilers move out of loops or into addresses.
    `loaded`, `stored`: buffer -> bytes, each access counted. `sampled`: of some loop only a part was looked at.
    `unknown`: some loop's bound, or some condition, depends on what memory holds.
    """

    vector: Mapping[str, float]
    scalar: Mapping[str, float]
    math: Mapping[str, float]
    chain: float
    index: float
    iterations: float
    entries: float
    branches: float
    prefetches: float
    loaded: Mapping[str, float]
    stored: Mapping[str, float]
    chunks: int
    statements: int
    sampled: bool = False
    unknown: bool = False

    @property
    def exact(self) -> bool:
        return not self.sampled and not self.unknown


def count_loops(func: LoopFunc, dims: Sequence[int], register_bits: int = 0, unknown: float = 1.0) -> LoopCounts:
    """Counts of one launch of `func` at these values of its dims.

    `register_bits` is the width of the machine's vector registers; 0 takes every vector for one register. `unknown` is
    how often loops run whose bounds depend on data.
    """
    counter = _Counter(func, register_bits, unknown)
    points = Points.one({dim.name: int(value) for dim, value in zip(func.dims, dims, strict=True)})
    chunks = points.number(func.chunks)
    if chunks > 0:
        counter.loop(func.chunk, (0, chunks, 1), func.body, points)
    return counter.result(max(0, chunks))


@dataclass
class _Counter:
    """Adds up one function."""

    func: LoopFunc
    register_bits: int
    trips_of_unknown: float
    vector: dict[str, float] = field(default_factory=dict)
    scalar: dict[str, float] = field(default_factory=dict)
    math: dict[str, float] = field(default_factory=dict)
    loaded: dict[str, float] = field(default_factory=dict)
    stored: dict[str, float] = field(default_factory=dict)
    chain: float = 0.0
    index: float = 0.0
    iterations: float = 0.0
    entries: float = 0.0
    branches: float = 0.0
    prefetches: float = 0.0
    statements: int = 0

    def __post_init__(self) -> None:
        self.assigned = {s.var.name for s in walk_stmts(self.func.body) if isinstance(s, Assign)}
        self.varying, known = varying_names(self.func)
        self.unknown = not known or bool(self.varying & self.assigned)
        self.sampled = False

    def result(self, chunks: int) -> LoopCounts:
        return LoopCounts(self.vector, self.scalar, self.math, self.chain, self.index, self.iterations, self.entries,
                          self.branches, self.prefetches, self.loaded, self.stored, chunks, self.statements,
                          self.sampled, self.unknown)

    # --- statements ---------------------------------------------------------------------------------------

    def loop(self, var: Var, span: tuple[Value, Value, Value], body: Sequence[Stmt], points: Points,
             unrolled: bool = False) -> None:
        """A loop's body, at as many points as tell one iteration from another."""
        cap = CAP if var.name in self.varying else 0
        inner, whole = expand(points, var.name, span, trips(*span), cap, self.trips_of_unknown)
        self.sampled |= not whole
        if not inner.total:
            return
        if not unrolled:
            self.iterations += inner.total
            self.entries += points.total
        self.block(body, inner)

    def block(self, body: Sequence[Stmt], points: Points) -> None:
        steps: dict[str, int] = {}
        for stmt in body:
            self.statements += 1
            if isinstance(stmt, Assign) and stmt.var.type != INDEX:
                steps[stmt.var.name] = steps.get(stmt.var.name, 0) + 1
            self.stmt(stmt, points)
        self.chain += points.total * max(steps.values(), default=0)

    def stmt(self, stmt: Stmt, points: Points) -> None:
        times, seen = points.total, set[int]()
        for root in roots(stmt):
            self.count(root, times, points, seen)
        match stmt:
            case Let(var=var, value=value) | Decl(var=var, value=value):
                if var.name in self.varying:
                    points.values[var.name] = None if var.name in self.assigned else points.value(value)
            case Store(buffer=buffer, value=value, count=count):
                self.access(self.stored, "store", buffer, value.type, count, points, times)
            case For(var=var, start=start, stop=stop, step=step, body=body, unroll=unroll):
                span = (points.value(start), points.value(stop), points.value(step))
                self.loop(var, span, body, points, unroll)
            case If(cond=cond, then=then, orelse=orelse):
                self.branches += times
                yes, no = split(points, points.value(cond))
                for side, inside in ((then, yes), (orelse, no)):
                    if inside.total:
                        self.block(side, inside)
            case Prefetch():
                self.prefetches += times
            case Source():
                self.unknown = True

    # --- expressions --------------------------------------------------------------------------------------

    def add(self, kind: str, type: Type, times: float, registers: int = 0) -> None:
        into = self.vector if type.lanes > 1 else self.scalar
        into[kind] = into.get(kind, 0.0) + times * (registers or self.registers(type))

    def registers(self, type: Type) -> int:
        bits = type.lanes * type.dtype.bits
        return -(-bits // self.register_bits) if self.register_bits and type.lanes > 1 else 1

    def access(self, into: dict[str, float], kind: str, buffer: Buffer, type: Type, count: Expr | None,
               points: Points, times: float) -> None:
        """Bytes of a load or store, and the instruction."""
        lanes: float = type.lanes
        if count is not None:
            self.add("partial", type, times)
            wanted = points.value(count)
            if wanted is not None:
                lanes = points.mean(np.clip(wanted, 0, type.lanes))
        elif kind:
            self.add(kind, type, times)
        into[buffer.name] = into.get(buffer.name, 0.0) + times * lanes * buffer.dtype.bytes

    def count(self, expr: Expr, times: float, points: Points, seen: set[int]) -> None:
        if isinstance(expr, (Var, Const)) or id(expr) in seen:
            return
        seen.add(id(expr))
        for operand in operands(expr):
            self.count(operand, times, points, seen)
        found = _COUNTED.get(type(expr))
        if found is not None:
            found(self, expr, times, points)

    def load(self, expr: Load, times: float, points: Points) -> None:
        self.access(self.loaded, "load", expr.buffer, expr.type, expr.count, points, times)

    def splat(self, expr: Splat, times: float, points: Points) -> None:
        if isinstance(expr.a, Const):                       # stays in a register
            return
        self.add("broadcast", expr.type, times)
        if isinstance(expr.a, Load) and expr.a.count is None:        # one instruction for both
            self.scalar["load"] -= times

    def intrin(self, expr: Intrin, times: float, points: Points) -> None:
        self.math[expr.name] = self.math.get(expr.name, 0.0) + times * self.registers(expr.type)

    def cast(self, expr: Cast, times: float, points: Points) -> None:
        if Type(expr.type.dtype) == INDEX and expr.type.lanes == 1 and expr.a.type.dtype.is_integer:
            self.index += times
        else:
            self.add("cast", expr.type, times, max(self.registers(expr.type), self.registers(expr.a.type)))

    def plain(self, expr: Bin | Un | Select, times: float, points: Points) -> None:
        """Arithmetic, comparisons and picks; those of indices apart."""
        first = expr.cond if isinstance(expr, Select) else expr.a
        worked_on = first.type if isinstance(expr, Bin) and expr.op in COMPARISONS else expr.type
        if worked_on == INDEX:
            self.index += times
        else:
            slow = isinstance(expr, (Bin, Un)) and expr.op in ("/", "rem", "//", "%", "sqrt")
            self.add("divide" if slow else "arithmetic", worked_on, times)


_COUNTED: dict[type[Expr], Callable[..., None]] = {
    Bin: _Counter.plain, Un: _Counter.plain, Select: _Counter.plain,
    Mad: lambda c, e, times, points: c.add("mad", e.type, times),
    Dot: lambda c, e, times, points: c.add("dot_narrow" if e.narrow else "dot", e.type, times, c.registers(e.a.type)),
    Cast: _Counter.cast,
    Splat: _Counter.splat,
    Load: _Counter.load,
    Shuffle: lambda c, e, times, points: c.add("shuffle", e.type if e.type.lanes > 1 else e.a.type, times),
    Reduce: lambda c, e, times, points: c.add("reduce", e.a.type, times),
    Intrin: _Counter.intrin,
}
"""What is not here (registers, constants, Iota, Bitcast) is no instruction."""
assert not {Bitcast, Iota} & {*_COUNTED}


# --- what trip counts depend on --------------------------------------------------------------------------------


def varying_names(func: LoopFunc) -> tuple[frozenset[str], bool]:
    """Names that bounds, conditions and numbers of lanes depend on, however indirectly, and whether on these alone:
    not on what memory holds."""
    made: dict[str, list[Expr]] = {}
    waiting: list[Expr] = []
    for stmt in walk_stmts(func.body):
        match stmt:
            case Let(var=var, value=value) | Decl(var=var, value=value) | Assign(var=var, value=value):
                made.setdefault(var.name, []).append(value)
            case For() | If():
                waiting += roots(stmt)
            case Store(count=count) if count is not None:
                waiting.append(count)
        waiting += [load.count for root in roots(stmt) if root.type != INDEX
                    for load in _partial_loads(root) if load.count is not None]
    found: set[str] = set()
    seen: set[int] = set()
    known = True
    while waiting:
        expr = waiting.pop()
        if isinstance(expr, Load):
            known = False
        if id(expr) in seen or isinstance(expr, Load):
            continue
        seen.add(id(expr))
        if isinstance(expr, Var) and expr.name not in found:
            found.add(expr.name)
            waiting += made.get(expr.name, ())
        waiting += operands(expr)
    return frozenset(found), known


def _partial_loads(root: Expr) -> Iterator[Load]:
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        expr = waiting.pop()
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        if isinstance(expr, Load) and expr.count is not None:
            yield expr
        waiting += operands(expr)
