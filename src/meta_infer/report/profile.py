"""A package's groups, timed in place, each beside its own floor.

A group's floor is the least time that any kernel could take for it on this machine just now: operations over the peak
and bytes over the rates of memory levels that probes reached in the same round (cost/floor.py). Weights lie where all
of the network's fit, because it runs again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from meta_infer.cost.algorithms import size_of
from meta_infer.cost.features import group_flops
from meta_infer.cost.floor import Floor, MachineRates, bounds, traffic
from meta_infer.report.profile_parts import Part
from meta_infer.search.measure.measure_protocol import median_and_spread
from meta_infer.search.whole.in_place import Round

SORTS = ("floor", "time", "order")


@dataclass(frozen=True)
class PartTime:
    """A part, timed: seconds of one run of the network, medians over the rounds.

    share     of the run
    flops, bytes  operations, and bytes that it has to read and write at least; None where nothing tells
    floor     seconds, None where there is none; by which `algorithm`, and what bounds it: 'peak' or a memory level
    ratio     time over floor, of one round each
    above     seconds above the floor, all of them where there is no floor
    turns     seconds, and operations per second of the peak probe, of every round
    """

    part: Part
    seconds: float
    spread: float
    share: float
    above: float
    flops: float | None = None
    bytes: float | None = None
    floor: float | None = None
    ratio: float | None = None
    algorithm: str = ""
    bound: str = ""
    turns: tuple[tuple[float, float], ...] = ()

    @property
    def place(self) -> int:
        return self.part.commands[0]


@dataclass(frozen=True)
class PackageTime:
    """A package, timed. `kernels` are seconds of all commands, `outside` what a run takes beyond them.

    `floor` sums up the floors there are, `covered` is the share of the kernels' time that has one. `peak` is operations
    per second, `levels` bytes per second by name of the memory level; nothing without probes.
    """

    seconds: float
    kernels: float
    outside: float
    floor: float | None
    covered: float
    rounds: int
    parts: tuple[PartTime, ...]
    peak: float | None = None
    levels: Mapping[str, float] = field(default_factory=dict)


def evaluate(parts: Sequence[Part], rounds: Sequence[Round], sizes: Mapping[str, int]) -> PackageTime:
    """Times beside floors, in the order of the commands."""
    whole = np.array([one.seconds for one in rounds])
    took = {id(part): np.array([one.commands[list(part.commands)].sum() for one in rounds]) for part in parts}
    rates = [one.rates for one in rounds if one.rates is not None]
    weights = sum(traffic(part.group, sizes).weights for part in parts if part.group is not None)
    timed = [_time(part, took[id(part)], whole, rates, sizes, weights) for part in parts]
    kernels = sum(took.values(), np.zeros(len(rounds)))
    floors = [one.floor for one in timed if one.floor is not None]
    covered = sum(one.seconds for one in timed if one.floor is not None)
    total = sum(one.seconds for one in timed)
    levels = {level.name: _median([one.levels[i].rate for one in rates])
              for i, level in enumerate(rates[0].levels)} if rates else {}
    return PackageTime(_median(whole), _median(kernels), max(0.0, _median(whole - kernels)),
                       sum(floors) if floors else None, covered / total if total else 0.0, len(rounds), tuple(timed),
                       _median([one.peak for one in rates]) if rates else None, levels)


def in_order(found: PackageTime, sort: str) -> list[PartTime]:
    """Parts as `sort` says: 'order' of the commands, most 'time' first, or furthest above the 'floor' first."""
    if sort == "order":
        return list(found.parts)
    return sorted(found.parts, key=lambda one: -(one.seconds if sort == "time" else one.above))


def _time(part: Part, took: np.ndarray, whole: np.ndarray, rates: Sequence[MachineRates], sizes: Mapping[str, int],
          weights: float) -> PartTime:
    seconds, spread = median_and_spread(took.tolist())
    peaks = [one.peak for one in rates] or [0.0] * len(took)
    turns = tuple((float(one), peak) for one, peak in zip(took, peaks, strict=True))
    share = _median(took / whole)
    if part.group is None:
        return PartTime(part, seconds, spread, share, seconds, turns=turns)
    moved = traffic(part.group, sizes)
    flops, count = float(size_of(group_flops(part.group), sizes)), moved.weights + moved.activations
    # In a loop nothing says how often it ran, and what did not run at all has no distance to anything.
    if not rates or part.repeats or not seconds:
        return PartTime(part, seconds, spread, share, seconds, flops, count, turns=turns)
    floors = [_least(bounds(part.group, sizes, one, weights)) for one in rates]
    least = np.array([one.seconds for one in floors])
    usual = sorted(floors, key=lambda one: one.seconds)[len(floors) // 2]
    if not usual.seconds:
        return PartTime(part, seconds, spread, share, seconds, flops, count, turns=turns)
    return PartTime(part, seconds, spread, share, _median(np.maximum(took - least, 0.0)), flops, count, usual.seconds,
                    _median(took / least), usual.algorithm, usual.bound, turns)


def _least(ways: Sequence[Floor]) -> Floor:
    return min(ways, key=lambda one: one.seconds)


def _median(values: np.ndarray | Sequence[float]) -> float:
    return float(np.median(values))
