"""Seconds of a way before it is timed: what its kernel states of its cost, corrected by what was timed so far."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
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

_SIBLING = 1.03
"""Times its guess that a way counts whose siblings were timed: what is hardly better by a guess is not worth a time."""


class Model(Protocol):
    """What predicts: (group, variant, sizes) -> seconds."""

    def __call__(self, group: Group, variant: Variant, sizes: Mapping[str, int]) -> float: ...


@dataclass
class Guesses:
    """Guesses of ways; `learn` sets by how much those of each kernel and variant were off, and those of all, and those
    of each variant for one site: of its siblings that were timed there, an untimed way has the level, not more luck."""

    model: Model
    points: Iterable[Mapping[str, int]] = ({},)
    factors: dict[tuple[str, str, str, bool], float] = field(default_factory=dict)

    def seconds(self, group: Group, variant: Variant) -> float:
        return sum(self.model(group, variant, sizes) for sizes in self.points)

    def corrected(self, way: Way, known: Known, text: str = "") -> float:
        """What was measured, else the guess as the timed ones of its kind came out, at the site `text` where it has
        any."""
        if known.measured is not None:
            return known.measured
        for key in _kinds(way, text):
            if (*key, known.is_counted) in self.factors:
                return known.guess * self.factors[*key, known.is_counted] * (_SIBLING if key[0] else 1.0)
        return known.guess

    def learn(self, sites: Iterable[Site]) -> None:
        ratios: dict[tuple[str, str, str, bool], list[float]] = {}
        for site in sites:
            for way, known in site.ways.items():
                if known.measured is not None and 0 < known.measured < float("inf") and known.guess > 0:
                    ratio = known.measured * known.lowered / known.guess
                    for key in _kinds(way, site.text):
                        ratios.setdefault((*key, known.is_counted), []).append(ratio)
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


def _kinds(way: Way, text: str) -> Iterator[tuple[str, str, str]]:
    """What a way is like, the closest first: (site, kernel, variant)."""
    if text:
        yield text, way.kernel, way.variant
    yield "", way.kernel, way.variant
    yield "", way.kernel, ""
    yield "", "", ""


_CLOCK, _RATE = 2.5e9, 1e10
"""Cycles per second, and bytes per second of a core, where a profile states neither."""
_LAUNCH = 1e-6


def roofline_model(profile: Profile) -> Model:
    """Operations at the chip's peak, as kernels state them, or bytes through memory, and a launch."""
    from meta_infer.support.dtypes import FLOAT32

    stated = profile.macs_per_second(FLOAT32)
    peak = 2 * stated / max(profile.cores, 1) if stated else _peak_of_vectors(profile)
    rate = profile.bandwidth or _RATE

    def seconds(group: Group, variant: Variant, sizes: Mapping[str, int]) -> float:
        cost = variant.cost or alone_cost(group, [variant])
        moved = sum(_bytes(group.values[name], sizes) for name in (*group.inputs, *group.outputs))
        return max(cost / peak, moved / rate / 4) + _LAUNCH

    return seconds


def _peak_of_vectors(profile: Profile) -> float:
    """Operations per second of a core with two pipes for vectors, as on every out-of-order core of the catalog."""
    from meta_infer.support.dtypes import FLOAT32

    a_cycle = 2 * profile.lanes(FLOAT32) * (2 if profile.has_fma else 1)
    return a_cycle * (profile.clock_ghz * 1e9 if profile.clock_ghz else _CLOCK)


def _bytes(value: Value, sizes: Mapping[str, int]) -> float:
    return prod(size_of(dim, sizes) for dim in value.shape) * value.dtype.bytes
