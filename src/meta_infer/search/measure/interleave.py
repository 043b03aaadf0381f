"""Times Python callables in turns, so that whatever disturbs the machine disturbs all of them alike.

    found = interleave({"ours": ours, "theirs": theirs}, rounds=21, seconds=4.0)
    print(found["ours"].p50, median_round(found["ours"], found["theirs"]).ratio)

A figure of one candidate alone says little on a busy machine; the ratio of two within one round says much.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Stats:
    """Times of single runs in seconds; `rounds` holds the median of each round where runs went in turns.

    Percentiles interpolate linearly between neighbours.
    """

    count: int
    min: float
    mean: float
    p50: float
    p90: float
    p99: float
    max: float
    rounds: tuple[float, ...] = ()

    @property
    def per_second(self) -> float:
        """Runs per second."""
        return 1 / self.mean if self.mean else 0.0


@dataclass(frozen=True)
class RoundOf:
    """Seconds per run of two candidates in the round whose ratio is the median of all rounds."""

    seconds: float
    reference: float

    @property
    def ratio(self) -> float:
        return self.seconds / self.reference if self.reference else math.inf


def summarize(seconds: Sequence[float], rounds: Sequence[float] = ()) -> Stats:
    """Figures of at least one time."""
    p50, p90, p99 = (float(p) for p in np.percentile(seconds, (50, 90, 99)))
    return Stats(len(seconds), min(seconds), float(np.mean(seconds)), p50, p90, p99, max(seconds), tuple(rounds))


def interleave(candidates: Mapping[str, Callable[[], object]], *, rounds: int = 21, seconds: float = 4.0,
               warmup: int = 1) -> dict[str, Stats]:
    """Statistics of every candidate.

    `seconds` is the time for all together: each of the `rounds` gives each candidate an equal share of it, and at
    least one run. Every turn begins with `warmup` untimed runs, and the order turns from round to round. Compare
    candidates by `median_round`.
    """
    turn = seconds / max(rounds * len(candidates), 1)
    times: dict[str, list[float]] = {name: [] for name in candidates}
    medians: dict[str, list[float]] = {name: [] for name in candidates}
    for name in in_turns(list(candidates), rounds):
        found = timed_runs(candidates[name], warmup, None, turn)
        times[name] += found
        medians[name].append(float(np.median(found)))
    return {name: summarize(found, medians[name]) for name, found in times.items()}


def in_turns(names: Sequence[str], rounds: int) -> list[str]:
    """Every name once per round, each round beginning with the next one."""
    return [names[(i + k) % len(names)] for i in range(rounds) for k in range(len(names))]


def timed_runs(run: Callable[[], object], warmup: int, iterations: int | None, duration: float) -> list[float]:
    """Seconds of each run after `warmup` untimed ones: `iterations` of them, or those that begin within `duration`."""
    for _ in range(warmup):
        run()
    found: list[float] = []
    end = time.perf_counter() + duration
    while len(found) < iterations if iterations is not None else not found or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return found


def median_round(of: Stats, to: Stats) -> RoundOf:
    """The round whose ratio of/to is the median (the lower one of two): figures that belong together."""
    pairs = sorted((RoundOf(a, b) for a, b in zip(of.rounds, to.rounds, strict=True)), key=lambda pair: pair.ratio)
    return pairs[(len(pairs) - 1) // 2]
