"""Bytes that a kernel moves into a cache: what its loops touch, less what the cache still holds from the time before.

    for i in 0..64 { for j in 0..4096 { y[i] += w[j] * x[i] } }     w takes 16 KiB: an L1 of 32 KiB keeps it, and that
                                                                    crosses once; into one of 8 KiB it comes 64 times

A loop whose body touches no more than the cache holds brings every distinct byte in once; of one that touches more each
iteration brings in anew what it needs (Wolf, Lam: A data locality optimizing algorithm, PLDI 1991). What an access
touches over some loops follows from its stride along each, taken at one iteration in the middle: an estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

import numpy as np

from meta_infer.cost.loop_points import Points, Value, trips
from meta_infer.ir.loop import (
    Assign,
    Buffer,
    Decl,
    Expr,
    For,
    If,
    Let,
    Load,
    LoopFunc,
    Stmt,
    Store,
    Type,
    Var,
)
from meta_infer.ir.walk_loop import operands, roots, walk_stmts

LINE = 64
WAY = 4096
"""Bytes of a way of a nearest cache: those of a page, so that a virtual address tells the set."""
_DEPTH = 16
_FAR = 1 << 40
"""Stride of an access whose place is not known: no two iterations share a line."""
_ELSEWHERE = 1 << 28
"""How far numbers are apart that are loaded along a loop and that places depend on: rows of a table."""


@dataclass
class _Places(Points):
    """Points where loaded numbers have values too, unless `apart` is 0: they differ by it wherever they are others."""

    apart: int = 0

    def _compute(self, expr: Expr, memo: dict[int, Value]) -> Value:
        if not isinstance(expr, Load) or not self.apart:
            return super()._compute(expr, memo)
        at = self._value(expr.index, memo)
        return np.where(at != at[-1], self.apart, 0) if isinstance(at, np.ndarray) else 0


@dataclass
class _At:
    """What is known at the points of a loop: for bounds and conditions, and for places."""

    control: Points
    places: _Places

    def inside(self) -> _At:
        return _At(Points(self.control.weights, dict(self.control.values)),
                   _Places(self.places.weights, dict(self.places.values), apart=self.places.apart))

    def bind(self, name: str, control: Value, places: Value) -> None:
        self.control.values[name], self.places.values[name] = control, places


@dataclass(frozen=True)
class Walk:
    """Accesses to a buffer by the same strides: `strides` in bytes and `trips` of all loops around, outermost first.

    `lines` are the cache lines that one iteration of the innermost loop touches, relative to each other.
    """

    buffer: str
    strides: tuple[int, ...]
    trips: tuple[int, ...]
    lines: frozenset[int]

    def footprint(self, depth: int) -> float:
        """Distinct bytes over all iterations of the loops from `depth` inwards."""
        pieces = sum(line - 1 not in self.lines for line in self.lines)         # runs of neighbouring lines
        size = float(len(self.lines) * LINE)
        extent = float((max(self.lines) - min(self.lines) + 1) * LINE)
        for stride, count in sorted(zip(self.strides[depth:], self.trips[depth:], strict=True)):
            if not stride or count <= 1:
                continue
            further = (count - 1) * stride // LINE * LINE
            if stride * pieces <= size:                                         # each run grows
                size = min(size + pieces * further, extent + further)
            else:
                size *= count
                pieces *= count
            extent += further
            if size >= extent:                                                  # runs have met
                size, pieces = extent, 1
        return size

    def crowd(self, depth: int) -> int:
        """Most lines of the footprint from `depth` inwards that share a set of a cache whose ways are `WAY` bytes."""
        sets = Counter(line % (WAY // LINE) for line in self.lines)
        most = max(sets.values())
        for stride, count in zip(self.strides[depth:], self.trips[depth:], strict=True):
            if LINE <= stride < _FAR:
                most *= -(-count // (WAY // gcd(stride, WAY)))
        return most


@dataclass
class Nest:
    """A loop, or the whole kernel, which is one over chunks: how often it runs and what is inside."""

    depth: int
    trips: int
    walks: list[Walk] = field(default_factory=list)          # of its own statements
    inner: list[Nest] = field(default_factory=list)

    def all_walks(self) -> list[Walk]:
        return [*self.walks, *(walk for nest in self.inner for walk in nest.all_walks())]


def touched(func: LoopFunc, dims: Sequence[int], unknown: float = 1.0, scattered: bool = False) -> Nest:
    """The loops of a kernel at these values of its dims, with what each touches.

    `unknown` is how often loops run whose bounds depend on data. With `scattered`, places that depend on data lie
    apart, as rows that are looked up in a table do; a kernel that is timed by itself, on zeros, has the same each time.
    """
    start = Points(np.ones(_DEPTH), {dim.name: int(value) for dim, value in zip(func.dims, dims, strict=True)})
    chunks = max(0, start.number(func.chunks))
    assigned = {s.var.name for s in walk_stmts(func.body) if isinstance(s, Assign)}
    places = _Places(start.weights, dict(start.values), apart=_ELSEWHERE if scattered else 0)
    return _nest(func.chunk, (0, chunks, 1), func.body, _At(start, places), (), assigned, round(unknown))


def local_bytes(func: LoopFunc, dims: Sequence[int]) -> dict[str, float]:
    """Bytes of a kernel's scratch and stack buffers."""
    points = Points.one({dim.name: int(value) for dim, value in zip(func.dims, dims, strict=True)})
    return {buffer.name: float(points.number(buffer.size) * buffer.dtype.bytes)
            for buffer in func.locals if buffer.size is not None}


def traffic(nest: Nest, capacity: float, sizes: Mapping[str, float], ways: int = 0) -> dict[str, float]:
    """Buffer -> bytes brought into a cache of `capacity` bytes that holds nothing at first.

    `sizes` are those of buffers, where they are known: no more is touched of one. With `ways`, lines of a walk that
    share a set are held up to that many: rows a multiple of a page apart displace each other in an empty cache.
    """
    if not nest.trips:
        return {}
    walks = nest.all_walks()
    body = _footprints(walks, nest.depth + 1, sizes)
    crowded = ways > 0 and any(walk.crowd(nest.depth + 1) > ways for walk in walks)
    if sum(body.values()) <= capacity and not crowded or not nest.inner and nest.trips == 1:
        return _footprints(nest.all_walks(), nest.depth, sizes)
    once = _footprints(nest.walks, nest.depth + 1, sizes)
    for inner in nest.inner:
        for buffer, count in traffic(inner, capacity, sizes, ways).items():
            once[buffer] = once.get(buffer, 0.0) + count
    return {buffer: count * nest.trips for buffer, count in once.items()}


def footprint(nest: Nest, sizes: Mapping[str, float]) -> dict[str, float]:
    """Buffer -> distinct bytes touched by all of a kernel."""
    return _footprints(nest.all_walks(), nest.depth, sizes)


def _footprints(walks: Sequence[Walk], depth: int, sizes: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for walk in walks:
        found[walk.buffer] = found.get(walk.buffer, 0.0) + walk.footprint(depth)
    return {buffer: min(count, sizes.get(buffer, count)) for buffer, count in found.items()}


def _nest(var: Var, span: tuple[Value, Value, Value], body: Sequence[Stmt], outside: _At,
          around: tuple[int, ...], assigned: set[str], unknown: int) -> Nest:
    """The nest of one loop. Point number d has the variable of the loop at depth d one step further than point -1."""
    count = trips(*span)
    times = unknown if count is None else int(count[-1]) if isinstance(count, np.ndarray) else int(count)
    depth = len(around)
    nest = Nest(depth, times)
    if not times or depth >= _DEPTH - 1:
        return nest
    at = outside.inside()
    start, _, step = span
    if count is None:
        at.bind(var.name, None, None)
    else:
        turn = np.full(_DEPTH, (times - 1) // 2)
        turn[depth] += 1
        at.bind(var.name, start + turn * step, start + turn * step)
    places: dict[tuple[str, tuple[int, ...]], set[int]] = {}
    _block(body, at, (*around, times), assigned, nest, places, unknown)
    nest.walks = [Walk(buffer, strides, (*around, times), frozenset(lines))
                  for (buffer, strides), lines in places.items()]
    return nest


def _block(body: Sequence[Stmt], at: _At, around: tuple[int, ...], assigned: set[str], nest: Nest,
           places: dict[tuple[str, tuple[int, ...]], set[int]], unknown: int) -> None:
    points = at.control
    for stmt in body:
        seen: set[int] = set()
        for root in roots(stmt):
            _loads(root, at.places, len(around), places, seen)
        match stmt:
            case Let(var=var, value=value) | Decl(var=var, value=value):
                if var.type.lanes == 1 and var.type.dtype.is_integer:
                    kept = var.name not in assigned
                    at.bind(var.name, points.value(value) if kept else None, at.places.value(value) if kept else None)
            case Store(buffer=buffer, index=index, value=value):
                _touch(buffer, index, value.type, at.places, len(around), places)
            case For(var=var, start=start, stop=stop, step=step, body=inner):
                span = (points.value(start), points.value(stop), points.value(step))
                nest.inner.append(_nest(var, span, inner, at, around, assigned, unknown))
            case If(cond=cond, then=then, orelse=orelse):
                holds = points.value(cond)
                here = holds[-1] if isinstance(holds, np.ndarray) else holds
                for side, taken in ((then, here is None or here), (orelse, here is None or not here)):
                    if taken:
                        _block(side, at.inside(), around, assigned, nest, places, unknown)


def _loads(expr: Expr, points: Points, depth: int, places: dict[tuple[str, tuple[int, ...]], set[int]],
           seen: set[int]) -> None:
    if id(expr) in seen:
        return
    seen.add(id(expr))
    if isinstance(expr, Load):
        _touch(expr.buffer, expr.index, expr.type, points, depth, places)
    for operand in operands(expr):
        _loads(operand, points, depth, places, seen)


def _touch(buffer: Buffer, index: Expr, type: Type, points: Points, depth: int,
           places: dict[tuple[str, tuple[int, ...]], set[int]]) -> None:
    at, size = points.value(index), buffer.dtype.bytes
    if at is None:
        base, strides = 0, (_FAR,) * depth
    elif isinstance(at, np.ndarray):
        base = int(at[-1]) * size
        strides = tuple(abs(int(step)) * size for step in (at[:depth] - at[-1]))
    else:
        base, strides = int(at) * size, (0,) * depth
    lines = places.setdefault((buffer.name, strides), set())
    lines.update(range(base // LINE, (base + type.lanes * size - 1) // LINE + 1))
