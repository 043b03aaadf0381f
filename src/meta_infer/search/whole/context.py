"""Prices by what ways take within a network, where that differs from what they take alone.

Alone, a kernel finds its operands where it left them a moment ago. Within the network other kernels have run in
between. A machine is also quicker or slower as a whole from one minute to the next: so the ratios of a run (time in
place over time alone) are seen beside the run's `level`, and only what is clearly off the level counts. The level is
the median of these ratios in the first run; in later ones it is told by the ways that ran before as well, so that a
plan which takes longer in place as a whole is seen to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from meta_infer.search.space.ways import Way

CLEARLY = 0.1
"""Share by which a time in place differs from the level before it says anything."""
_SPREADS = 2.0
"""Times its own spread, likewise."""
_ENOUGH = 0.05
"""Share of a run that ways which ran before must have, to tell the level."""


@dataclass(frozen=True)
class Placed:
    """A distinct group's chosen way: `count` times in the plan, seconds of one run in place and alone, and the spread
    of both together as a share. `is_timed`: whether `alone` was measured."""

    text: str
    way: Way
    count: int
    place: float
    alone: float
    spread: float = 0.0
    is_timed: bool = True

    @property
    def ratio(self) -> float:
        return self.place / self.alone


@dataclass
class Context:
    """What is known of ways in place. Without any, prices stay as they are.

    seconds  of a (site, way) in place, at the level of times alone; only where they clearly differ
    ratios   time in place over time alone, beside the level, of every (site, way) that was seen, with its seconds in
             the network; 1 where that is not clearly so
    places   seconds in place of every (site, way) that was seen, at the level of times alone
    """

    seconds: dict[tuple[str, Way], float] = field(default_factory=dict)
    ratios: dict[tuple[str, Way], tuple[float, float]] = field(default_factory=dict)
    places: dict[tuple[str, Way], float] = field(default_factory=dict)

    def price(self, text: str, way: Way, seconds: float) -> float:
        """Seconds that a way of the site `text` is expected to take in place, where it takes `seconds` alone.

        What was not seen in place takes as much more as its kernel did elsewhere in the network, times what at this
        site is not explained by the kernel that was seen there.
        """
        key = text, way
        if key in self.seconds:
            return self.seconds[key]
        return seconds if key in self.ratios else seconds * self._kernel(way.kernel, text) * self._site(text)

    def as_seen(self) -> Context:
        """With the time in place as the price of all that was seen, however little it differs: what is best of many
        times alone was lucky more often than what ran in place."""
        return replace(self, seconds=dict(self.places))

    def level(self, placed: Sequence[Placed]) -> float:
        """By which factor groups took more in a run than alone."""
        again = [(one.place / self.places[one.text, one.way], one.count * one.place) for one in placed
                 if (one.text, one.way) in self.places]
        enough = _ENOUGH * sum(one.count * one.place for one in placed)
        return weighted_median(again) if again and sum(weight for _, weight in again) >= enough else level_of(placed)

    def learn(self, placed: Iterable[Placed]) -> int:
        """Takes in one run of a network; how many ways differ clearly from their time alone."""
        seen = [one for one in placed if 0 < one.place < math.inf and 0 < one.alone < math.inf]
        level = self.level(seen)
        clear = 0
        for one in seen:
            key, ratio = (one.text, one.way), one.ratio / level
            is_clear = abs(ratio - 1) > max(CLEARLY, _SPREADS * one.spread)
            self.places[key] = one.place / level
            self.seconds.pop(key, None)
            if is_clear or not one.is_timed:
                self.seconds[key] = one.place / level
            if one.is_timed:
                clear += is_clear
                self.ratios[key] = ratio if is_clear else 1.0, one.count * one.place
        return clear

    def was_seen(self, text: str, way: Way) -> bool:
        """Whether the way was seen in place, or none at its site was."""
        return (text, way) in self.places or all(site != text for site, _ in self.places)

    def _kernel(self, kernel: str, text: str) -> float:
        """The ratio that half of a kernel's time at other sites lies below; 1 where that is not clearly off."""
        elsewhere = [pair for (site, way), pair in self.ratios.items() if way.kernel == kernel and site != text]
        ratio = weighted_median(elsewhere) if elsewhere else 1.0
        return ratio if abs(ratio - 1) > CLEARLY else 1.0

    def _site(self, text: str) -> float:
        """What is left of the ratios at a site when those of the kernels there are taken out."""
        left = [(ratio / self._kernel(way.kernel, text), weight) for (site, way), (ratio, weight) in
                self.ratios.items() if site == text]
        return weighted_median(left) if left else 1.0


def level_of(placed: Iterable[Placed]) -> float:
    """The ratio of times in place to times alone that half of the time lies below; 1 without any that was timed."""
    return weighted_median([(one.ratio, one.count * one.alone) for one in placed if one.is_timed]) or 1.0


def weighted_median(pairs: Iterable[tuple[float, float]]) -> float:
    """Of (value, weight): the first value that half of the weight reaches; 0 of none."""
    ordered = sorted(pairs)
    half, total = sum(weight for _, weight in ordered) / 2, 0.0
    for value, weight in ordered:
        total += weight
        if total >= half:
            return value
    return 0.0
