"""Places buffers in one arena per memory space.

Greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020): the largest
buffer first, at the lowest offset where it meets no buffer that is live at the same time. Orders by first use and by
life time are tried as well and the smallest arena wins. While it is above the lower bound, the buffer that reaches
highest is placed first and all others again, some rounds long. All of it is deterministic.

What sessions prepare when they are made lies one after the other in a space of its own.
Buffers that are sized while running (`ir/pooling.py`) are in no arena; the plan lists them with what bounds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from meta_infer.ir.pooling import late_symbols, sized_while_running
from meta_infer.ir.program import PREPARED, MemoryPlan, Placement, PooledBuffer, Program
from meta_infer.ir.shapes import is_unbounded, upper, usual_upper
from meta_infer.memory.liveness import LiveRange, command_count, live_ranges

ALIGNMENT = 64
# Bounds of the rounds spent on an arena above its lower bound: placing takes the square of the number of buffers.
_MOST_ROUNDS, _MOST_PLACED = 100, 20_000


def _align(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _pack(names: list[str], sizes: Mapping[str, int], ranges: Mapping[str, LiveRange]) -> tuple[dict[str, int], int]:
    """Offsets by first fit in the order given, and the bytes they need in all."""
    offsets: dict[str, int] = {}
    for name in names:
        busy = sorted((offsets[o], offsets[o] + sizes[o]) for o in offsets if ranges[o].overlaps(ranges[name]))
        place = 0
        for begin, end in busy:
            if place + sizes[name] <= begin:
                break
            place = max(place, end)
        offsets[name] = place
    return offsets, max((offsets[n] + sizes[n] for n in names), default=0)


def _smallest(orders: list[list[str]], sizes: Mapping[str, int], ranges: Mapping[str, LiveRange],
              bound: int) -> tuple[dict[str, int], int]:
    """The best placement that the orders, and rounds from the best of them, give. `bound` is the least possible."""
    packed = [_pack(names, sizes, ranges) for names in orders]
    best = min(packed, key=lambda p: p[1])
    names, (offsets, total) = orders[packed.index(best)], best
    for _ in range(min(_MOST_ROUNDS, _MOST_PLACED // max(len(names), 1))):
        if best[1] <= bound:
            break
        top = next(n for n in names if offsets[n] + sizes[n] == total)
        names = [top, *(n for n in names if n != top)]
        offsets, total = _pack(names, sizes, ranges)
        if total < best[1]:
            best = offsets, total
    return best


def lower_bound(sizes: Mapping[str, int], ranges: Mapping[str, LiveRange]) -> int:
    """The largest sum of bytes live at one command: no placement can need less."""
    change: dict[int, int] = {}
    for name, live in ranges.items():
        change[live.first] = change.get(live.first, 0) + sizes[name]
        change[live.last + 1] = change.get(live.last + 1, 0) - sizes[name]
    most = now = 0
    for position in sorted(change):
        now += change[position]
        most = max(most, now)
    return most


def _pooled(program: Program, ranges: Mapping[str, LiveRange]) -> dict[str, PooledBuffer]:
    given = {d.symbol.name for d in program.input_dims}
    found = {}
    for name, live in ranges.items():
        decl = program.buffers[name]
        if sized_while_running(decl, given):
            late = late_symbols(decl.elements, given)
            bound = None if any(map(is_unbounded, late)) else upper(decl.nbytes)
            found[name] = PooledBuffer(late, bound, live.first, live.last)
    return found


def plan_memory(program: Program) -> MemoryPlan:
    """Offsets for every root temp at the upper bounds of all dims (the usual ones), and the root of every buffer."""
    every = live_ranges(program)
    pooled = _pooled(program, every)
    ranges = {name: live for name, live in every.items() if name not in pooled}
    sizes = {name: _align(max(usual_upper(program.buffers[name].nbytes), 1)) for name in ranges}
    placements: dict[str, Placement] = {}
    totals: dict[str, int] = {}
    bounds: dict[str, int] = {}
    orders: tuple[Callable[[str], tuple[int, ...]], ...] = (
        lambda n: (-sizes[n], ranges[n].first),
        lambda n: (ranges[n].first, -sizes[n]),
        lambda n: (-(ranges[n].last - ranges[n].first), -sizes[n], ranges[n].first),
    )
    for space in sorted({program.buffers[n].space for n in ranges}):
        here = {n: r for n, r in ranges.items() if program.buffers[n].space == space}
        bounds[space] = lower_bound(sizes, here)
        offsets, totals[space] = _smallest([sorted(here, key=order) for order in orders], sizes, here, bounds[space])
        for name, offset in offsets.items():
            placements[name] = Placement(space, offset, sizes[name], here[name].first, here[name].last)
    prepared = {name: _align(max(usual_upper(decl.nbytes), 1)) for name, decl in program.buffers.items()
                if decl.kind == "prepared"}
    end = command_count(program.commands)
    for name, size in prepared.items():
        placements[name] = Placement(PREPARED, totals.get(PREPARED, 0), size, 0, end)
        bounds[PREPARED] = totals[PREPARED] = totals.get(PREPARED, 0) + size
    roots = {name: program.root(name) for name in program.buffers}
    return MemoryPlan(placements, roots, totals, bounds, ALIGNMENT, pooled)
