"""Places buffers in one arena per memory space.

Greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020): the largest
buffer first, at the lowest offset where it meets no buffer that is live at the same time. A second order, by first
use, is tried as well and the smaller arena wins; both are deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from meta_infer.ir.program import MemoryPlan, Placement, Program
from meta_infer.ir.shapes import upper
from meta_infer.memory.liveness import LiveRange, live_ranges

ALIGNMENT = 64


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


def plan_memory(program: Program) -> MemoryPlan:
    """Offsets for every root temp at the upper bounds of all dims, and the root of every buffer."""
    ranges = live_ranges(program)
    sizes = {name: _align(max(upper(program.buffers[name].nbytes), 1)) for name in ranges}
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
        offsets, total = min((_pack(sorted(here, key=order), sizes, here) for order in orders), key=lambda p: p[1])
        totals[space] = total
        bounds[space] = lower_bound(sizes, here)
        for name, offset in offsets.items():
            placements[name] = Placement(space, offset, sizes[name], here[name].first, here[name].last)
    roots = {name: program.root(name) for name in program.buffers}
    return MemoryPlan(placements, roots, totals, bounds, ALIGNMENT)
