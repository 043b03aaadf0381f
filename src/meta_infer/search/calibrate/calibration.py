"""What a calibration finds, from the times it took."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meta_infer.cost.features import Features
from meta_infer.cost.fit import CostSample, Fit
from meta_infer.cost.model import precision_of
from meta_infer.library.samples import Sample
from meta_infer.search.measure.candidate import Uncompiled
from meta_infer.search.measure.measure_protocol import median_and_spread
from meta_infer.search.measure.measurements import Measurement
from meta_infer.search.measure.memory_probe import MemoryProbe, level_rates

LOUD_REPEATS, LOUD_PROBE = 0.1, 0.05
"""Spreads, as shares of the median, from which times are not to be trusted."""


@dataclass(frozen=True)
class Job:
    """What is timed, and what the library keeps of it beside its times."""

    uncompiled: Uncompiled
    described: Sample


@dataclass(frozen=True)
class Timed:
    """A job with its time."""

    job: Job
    found: Measurement

    @property
    def cost_sample(self) -> CostSample | None:
        """What the cost model is fitted to; None where there are no features, or no time."""
        told = self.job.described
        if not self.found.ok or not told.features:
            return None
        return CostSample(told.kernel, precision_of(told.precision), told.group, Features.read(told.features),
                          self.found.seconds, peak_of([self]))


@dataclass(frozen=True)
class Noise:
    """How steady the machine was, in spreads as shares of the median.

    `repeats` is what one kernel in ten reaches, `probe` that of the probe of arithmetic over all of the calibration.
    """

    repeats: float
    probe: float

    @property
    def is_loud(self) -> bool:
        return self.repeats > LOUD_REPEATS or self.probe > LOUD_PROBE

    def __str__(self) -> str:
        return (f"one kernel in ten spread by {self.repeats:.1%} or more (up to {LOUD_REPEATS:.0%} is usual), "
                f"the probe of arithmetic by {self.probe:.1%} (up to {LOUD_PROBE:.0%})")


@dataclass(frozen=True)
class Calibration:
    """What came out.

    peak        float32 operations per second of one core
    rates       level of memory ('L1', ..., 'memory') -> bytes per second that one core reads or copies
    all_rates   the same of all cores together
    step        channels are best a multiple of this; 1: of nothing; None: not timed
    launches    threads -> seconds of a launch that gives each of them a chunk in which nothing is done
    timed       kernels measured by this run, `recalled` known from the library, `failed` of both, `total` planned
    """

    fitted: Fit
    peak: float
    rates: Mapping[str, float]
    all_rates: Mapping[str, float]
    step: int | None
    launches: Mapping[int, float]
    noise: Noise
    timed: int
    recalled: int
    failed: int
    total: int

    @property
    def is_complete(self) -> bool:
        return self.timed + self.recalled == self.total


def peak_of(timed: Iterable[Timed]) -> float:
    """Operations per second of the probe beside them, the median; 0 without any."""
    peaks = [peak for one in timed for _, peak in one.found.turns]
    return median_and_spread(peaks)[0] if peaks else 0.0


def noise_of(timed: Iterable[Timed]) -> Noise:
    """Of all of them, and of the probe beside them."""
    good = [one.found for one in timed if one.found.ok]
    repeats = [found.spread / found.seconds for found in good]
    peaks = [peak for found in good for _, peak in found.turns]
    middle, spread = median_and_spread(peaks) if peaks else (1.0, 0.0)
    return Noise(float(np.quantile(repeats, 0.9)) if repeats else 0.0, spread / middle)


def rates_of(probes: Sequence[MemoryProbe], timed: Sequence[Timed], threads: int) -> dict[str, float]:
    """Level of memory -> bytes per second that `threads` cores together move; levels whose probes failed are absent."""
    speeds = tuple(probe.bytes / one.found.seconds for probe, one in zip(probes, timed, strict=True))
    return {rate.name: rate.rate for rate in level_rates(tuple(probes), speeds, threads)
            if 0 < rate.rate < math.inf}
