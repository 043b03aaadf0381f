"""Timing of whole runs: one thing alone, or several in turns so that a busy machine slows all of them alike."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Latency:
    """Times of single runs in seconds; throughput in runs per second."""

    runs: int
    min: float
    mean: float
    p50: float
    p90: float
    p99: float
    max: float
    throughput: float


def summarize(seconds: list[float]) -> Latency:
    """Figures of a list of times. Percentiles interpolate linearly between neighbours."""
    p50, p90, p99 = (float(p) for p in np.percentile(seconds, (50, 90, 99)))
    total = float(np.sum(seconds))
    return Latency(len(seconds), min(seconds), total / len(seconds), p50, p90, p99, max(seconds),
                   len(seconds) / total if total else 0.0)


def measure(run: Callable[[], object], warmup: int, iterations: int | None, duration: float) -> list[float]:
    """Seconds of each run after `warmup` untimed ones: `iterations` of them, or as many as begin within `duration`."""
    for _ in range(warmup):
        run()
    seconds: list[float] = []
    end = time.perf_counter() + duration
    while len(seconds) < iterations if iterations is not None else not seconds or time.perf_counter() < end:
        seconds.append(_timed(run))
    return seconds


def measure_in_turns(candidates: Mapping[str, Callable[[], object]], rounds: int,
                     seconds_per_turn: float) -> dict[str, list[float]]:
    """The median seconds of each candidate's turn, one per round.

    Within a round every candidate runs for `seconds_per_turn`; the order turns from round to round. Compare medians
    of one round with each other: what disturbs the machine then disturbs both.
    """
    medians: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    for i in range(rounds):
        for name in names[i % len(names):] + names[:i % len(names)]:
            medians[name].append(float(np.median(measure(candidates[name], 1, None, seconds_per_turn))))
    return medians


def peak_rss_bytes() -> int:
    """The most memory this process has ever held, as the system counts it (Linux: in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
