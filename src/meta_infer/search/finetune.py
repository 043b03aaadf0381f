"""The finetune stage: local search over the knobs of the kernels that the plan chose, where the time goes first."""

from __future__ import annotations

import math
import time

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Variant
from meta_infer.kernels.kernel import Refusal
from meta_infer.search.default_plan import RISK_LIMIT
from meta_infer.search.fine import Market
from meta_infer.search.space.sites import Site
from meta_infer.search.space.solve import Solved
from meta_infer.search.space.ways import Way, moves, way_of
from meta_infer.search.timing import TimeOver, Timer

_GAIN = 0.99
"""A step is one where a way takes less than this share of the time of the one before it."""
_AT_ONCE = 6
_LARGE = 0.05
"""Share of the plan's time from which a group has all tries."""
_KNOWN = 0.3
"""Share of the tries that a group has whose first candidates did best elsewhere: their knobs were tuned there."""


def finetune(market: Market, timer: Timer, profile: Profile, solved: Solved, *, tries: int, until: float,
             most: float = math.inf) -> None:
    """Steps from the chosen ways to quicker neighbours, `tries` of each distinct group at most, fewer of what takes
    little, until the timer knows `most` ways.

    A group gets its turn by the time it takes in the whole plan. Raises TimeOver at the time `until` (time.monotonic).
    """
    parts = sorted(market.shares(solved), key=lambda part: -part[2])
    order = [(site, way, round(tries * min(1.0, share / _LARGE) * (_KNOWN if site.first else 1.0)))
             for site, way, share in parts]
    for done, (site, way, count) in enumerate(order):
        left = int(min(most - timer.known, sum(more for _, _, more in order[done:])))
        market.on_wanted(max(0, left))
        _climb(site, way, market, timer, profile, min(count, left), until)


def _climb(site: Site, start: Way, market: Market, timer: Timer, profile: Profile, tries: int, until: float) -> None:
    formats = start.inputs, start.outputs

    def best() -> tuple[Way, float]:
        timed = [(known.measured, way) for way, known in site.ways.items()
                 if known.measured is not None and (way.inputs, way.outputs) == formats]
        seconds, way = min(timed)
        return way, seconds

    now, seconds = best()
    while tries > 0:
        if time.monotonic() > until:
            raise TimeOver("the time for measuring is over")
        batch = _untimed(site, site.ways[now].variant, profile, market)[:min(_AT_ONCE, tries)]
        if not batch:
            return
        tries -= len(batch)
        for variant in batch:
            site.add(variant, market.guesses.seconds(site.group, variant))
        timer.time([(site, batch)])
        found, quicker = best()
        if quicker < _GAIN * seconds:
            now, seconds = found, quicker


def _untimed(site: Site, variant: Variant, profile: Profile, market: Market) -> list[Variant]:
    """Neighbours by one knob that were not timed yet, the best guess first."""
    found = []
    for moved in moves(site.group, variant, profile):
        if isinstance(moved, Refusal) or moved.risk > RISK_LIMIT or not market.keeps(site.group, moved):
            continue
        known = site.ways.get(way_of(site.group, moved))
        if known is None or known.measured is None:
            found.append((market.guesses.seconds(site.group, moved), moved))
    return [moved for _, moved in sorted(found, key=lambda item: item[0])]
