"""Seconds of a way before it is timed: what its kernel states of its cost, corrected by what was timed so far."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Protocol

from meta_infer.cost.algorithms import size_of
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Value
from meta_infer.ir.group import Group, Variant
from meta_infer.kernels.guess import alone_cost
from meta_infer.search.space.sites import Known, Site
from meta_infer.search.space.ways import Way


class Model(Protocol):
    """What predicts: (group, variant, sizes) -> seconds."""

    def __call__(self, group: Group, variant: Variant, sizes: Mapping[str, int]) -> float: ...


@dataclass
class Guesses:
    """Guesses of ways; `learn` sets by how much those of each kernel and variant were off, and those of all."""

    model: Model
    points: Iterable[Mapping[str, int]] = ({},)
    factors: dict[tuple[str, str, bool], float] = field(default_factory=dict)

    def seconds(self, group: Group, variant: Variant) -> float:
        return sum(self.model(group, variant, sizes) for sizes in self.points)

    def corrected(self, way: Way, known: Known) -> float:
        """What was measured, else the guess as the timed ones of its kind came out."""
        if known.measured is not None:
            return known.measured
        for key in ((way.kernel, way.variant), (way.kernel, ""), ("", "")):
            if (*key, known.is_counted) in self.factors:
                return known.guess * self.factors[*key, known.is_counted]
        return known.guess

    def learn(self, sites: Iterable[Site]) -> None:
        ratios: dict[tuple[str, str, bool], list[float]] = {}
        for site in sites:
            for way, known in site.ways.items():
                if known.measured is not None and 0 < known.measured < float("inf") and known.guess > 0:
                    for key in ((way.kernel, way.variant), (way.kernel, ""), ("", "")):
                        ratios.setdefault((*key, known.is_counted), []).append(known.measured / known.guess)
        self.factors = {key: statistics.median(found) for key, found in ratios.items()}

    def error(self, sites: Iterable[Site]) -> float:
        """The median share by which the corrected guesses of timed ways were off; 0 without any."""
        off = []
        for site in sites:
            for way, known in site.ways.items():
                if known.measured is not None and 0 < known.measured < float("inf"):
                    guess = self.corrected(way, replace(known, measured=None))
                    off.append(abs(guess - known.measured) / known.measured)
        return statistics.median(off) if off else 0.0


_PEAK, _RATE = 5e10, 1e10
"""Operations and bytes per second of a core where a profile states neither."""
_LAUNCH = 1e-6


def roofline_model(profile: Profile) -> Model:
    """Operations at the chip's peak, as kernels state them, or bytes through memory, and a launch."""
    from meta_infer.support.dtypes import FLOAT32

    peak = 2 * (profile.macs_per_second(FLOAT32) or _PEAK / 2) / max(profile.cores, 1)
    rate = profile.bandwidth or _RATE

    def seconds(group: Group, variant: Variant, sizes: Mapping[str, int]) -> float:
        cost = variant.cost or alone_cost(group, [variant])
        moved = sum(_bytes(group.values[name], sizes) for name in (*group.inputs, *group.outputs))
        return max(cost / peak, moved / rate / 4) + _LAUNCH

    return seconds


def _bytes(value: Value, sizes: Mapping[str, int]) -> float:
    return prod(size_of(dim, sizes) for dim in value.shape) * value.dtype.bytes
