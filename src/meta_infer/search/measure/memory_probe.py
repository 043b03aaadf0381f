"""Kernels that do nothing but read, or copy, at one level of memory: the most that the level gives at that moment.

    private level (L1, L2)     every chunk passes again and again over memory of its thread
    shared level (L3)          the chunks together pass over warm memory
    main memory                the chunks together pass over memory that has left the caches, as weights do

Timed beside the candidates like the peak probe, they say how fast each level was just then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from meta_infer.cost.floor import MemoryRate
from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, LoopFunc, Type, Var, const
from meta_infer.kernels.kernel import KernelCall
from meta_infer.search.measure.candidate import MeasuredBuffer, Role, Uncompiled
from meta_infer.search.measure.measure_protocol import CACHE_UNKNOWN
from meta_infer.search.measure.peak_probe import lanes_of
from meta_infer.support.dtypes import FLOAT32

_CHUNKS = 16
_VECTORS = 12
_PASSES_BYTES = 1 << 20
"""Bytes that a chunk of a private level moves, at least."""


@dataclass(frozen=True)
class MemoryLevel:
    """A level of the machine: `bytes` of one core if `private`, of all cores if not; infinite for main memory."""

    name: str
    bytes: float
    private: bool

    def capacity(self, threads: int) -> float:
        """What it holds for this many threads together."""
        return self.bytes * threads if self.private else self.bytes


@dataclass(frozen=True)
class MemoryProbe:
    """A candidate that moves `bytes` at the level in one run."""

    level: MemoryLevel
    way: str                                                # 'read' or 'copy'
    bytes: int
    candidate: Uncompiled


def memory_levels(profile: Profile) -> tuple[MemoryLevel, ...]:
    """The levels that the profile states, nearest first, and main memory."""
    found = [MemoryLevel(name, size, private) for name, size, private in (
        ("L1", profile.l1d_bytes, True), ("L2", profile.l2_bytes, True), ("L3", profile.l3_bytes, False)) if size]
    return (*found, MemoryLevel("memory", math.inf, False))


def memory_probes(profile: Profile) -> tuple[MemoryProbe, ...]:
    """Probes of every level: reading, and copying where both sides can stay in the level."""
    assert profile.isa is not None, "probes are made for CPUs"
    lanes = lanes_of(profile.isa)
    last = profile.l3_bytes or CACHE_UNKNOWN
    probes: list[MemoryProbe] = []
    for level in memory_levels(profile):
        half = int(level.bytes) // 2 if level.private else last // 4
        for way in ("read", "copy") if level.bytes < math.inf else ("read",):
            make = _private if level.private else _shared
            probes.append(make(level, way, half, lanes))
    return tuple(probes)


def level_rates(probes: tuple[MemoryProbe, ...], rates: tuple[float, ...], threads: int) -> tuple[MemoryRate, ...]:
    """The levels at what their better probe reached: `rates` are bytes per second of each probe."""
    best: dict[MemoryLevel, float] = {}
    for probe, rate in zip(probes, rates, strict=True):
        best[probe.level] = max(rate, best.get(probe.level, 0.0))
    return tuple(MemoryRate(level.name, level.capacity(threads), rate) for level, rate in best.items())


class _Sums:
    """Accumulators enough that loads, not additions, set the pace."""

    def __init__(self, b: Builder, lanes: int) -> None:
        self._b, self._lanes = b, lanes
        self._sums = [b.var(const(0.0, Type(FLOAT32, lanes)), "sum") for _ in range(_VECTORS)]

    def add(self, source: Buffer, at: Expr) -> None:
        for k, total in enumerate(self._sums):
            self._b.assign(total, total + self._b.load(source, at + k * self._lanes, self._lanes))

    def total(self) -> Var:
        first, *rest = self._sums
        for other in rest:
            self._b.assign(first, first + other)
        return first


def _copy(b: Builder, source: Buffer, target: Buffer, at: Expr, to: Expr, lanes: int) -> None:
    values = [b.let(b.load(source, at + k * lanes, lanes), "value") for k in range(_VECTORS)]
    for k, value in enumerate(values):
        b.store(target, to + k * lanes, value)


def _steps(nbytes: int, lanes: int) -> int:
    """Elements of about `nbytes`, a multiple of what one step takes."""
    step = _VECTORS * lanes
    return max(1, nbytes // 4 // step) * step


def _private(level: MemoryLevel, way: str, nbytes: int, lanes: int) -> MemoryProbe:
    step = _VECTORS * lanes
    count = _steps(nbytes // (2 if way == "copy" else 1), lanes)
    passes = max(2, _PASSES_BYTES // (4 * count))
    b = Builder(f"{way}_{level.name.lower()}")
    y = b.output("y", FLOAT32)
    data = b.scratch("data", FLOAT32, count * (2 if way == "copy" else 1))
    with b.chunks(_CHUNKS) as chunk:
        with b.loop(0, count, step, "i") as i:
            for k in range(_VECTORS):
                b.store(data, i + k * lanes, const(0.0, Type(FLOAT32, lanes)))
        sums = _Sums(b, lanes) if way == "read" else None
        with b.loop(0, passes, name="turn"), b.loop(0, count, step, "i") as i:
            if sums is not None:
                sums.add(data, i)
            else:
                _copy(b, data, data, i, i + count, lanes)
        b.store(y, chunk * lanes, b.load(data, count, lanes) if sums is None else sums.total())
    func, _ = b.finish()
    moved = _CHUNKS * 4 * count * (2 * passes + 1 if way == "copy" else passes + 1)
    return MemoryProbe(level, way, moved, _uncompiled(func, {"y": MeasuredBuffer(_CHUNKS * lanes * 4, "float32",
                                                                                "output")}))


def _shared(level: MemoryLevel, way: str, nbytes: int, lanes: int) -> MemoryProbe:
    step = _VECTORS * lanes
    piece = _steps(nbytes // _CHUNKS // (2 if way == "copy" else 1), lanes)
    b = Builder(f"{way}_{level.name.lower()}")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(_CHUNKS) as chunk:
        start = b.let(chunk * piece, "start")
        sums = _Sums(b, lanes) if way == "read" else None
        with b.loop(start, start + piece, step, "i") as i:
            if sums is not None:
                sums.add(x, i)
            else:
                _copy(b, x, y, i, i, lanes)
        if sums is not None:
            b.store(y, chunk * lanes, sums.total())
    func, _ = b.finish()
    size = 4 * _CHUNKS * piece
    role: Role = "input" if level.bytes < math.inf else "weights"
    out = size if way == "copy" else _CHUNKS * lanes * 4
    return MemoryProbe(level, way, size * (2 if way == "copy" else 1), _uncompiled(func, {
        "x": MeasuredBuffer(size, "float32", role), "y": MeasuredBuffer(out, "float32", "output")}))


def _uncompiled(func: LoopFunc, buffers: dict[str, MeasuredBuffer]) -> Uncompiled:
    return Uncompiled(func.name, (KernelCall(func, tuple(buffers), ()),), buffers)
