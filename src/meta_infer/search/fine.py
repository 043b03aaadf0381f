"""The fine stage: what the best plan is made of is timed, until every part of the best plan has been."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from meta_infer.cost.model import CostModel
from meta_infer.cost.refit import refit
from meta_infer.ir.graph import Value
from meta_infer.ir.group import Group, Layout, Variant, walk_plans
from meta_infer.kernels.guess import value_bytes
from meta_infer.kernels.registry import rival_digest
from meta_infer.lower.views import slice_view_offset
from meta_infer.search.aims import Aims, nearest
from meta_infer.search.space.coarse import Keeps, anything
from meta_infer.search.space.guesses import Guesses
from meta_infer.search.space.sites import Known, Site, Translated
from meta_infer.search.space.solve import WORK, Goal, Limits, Priced, Solved, solve
from meta_infer.search.space.space import Offer, Space
from meta_infer.search.space.ways import Way, way_of
from meta_infer.search.timing import Converted, TimeOver, Timer
from meta_infer.search.whole.context import Context
from meta_infer.support.errors import UnsupportedError

_BATCH = 12
"""Ways that are compiled together: what an interruption may cost in work."""
_LARGE, _FEW = 0.04, 2
"""Share of the plan's time from which a group has all rivals, and how many ways any group has: so many are timed
first."""
_GROWTH = 1.25
"""Times the samples of the last correction from which the cost model is corrected again."""
_SECONDS_PER_BYTE = 1.5e-10
"""A conversion's guess, reading and writing within the caches."""


def conversion_exists(source: Layout, target: Layout) -> bool:
    """Whether one launch converts between them; see kernels/movement/reorder.py."""
    return not (source.block and target.block and source.axis != target.axis)


def is_view(group: Group, variant: Variant) -> bool:
    """Whether lowering makes a view of it: a slice that is contiguous in its source."""
    return slice_view_offset(group, variant) is not None


@dataclass
class Market:
    """A space with the price of everything in it: timed, or guessed. `on_wanted` is told how many kernels a stage has
    left to time, `corrected` is the cost model by what this search has timed. `doubt` is the share by which ways count
    as slower that the plan by rule does not take: what is hardly quicker alone may be slower in place."""

    space: Space
    sites: Mapping[str, Site]
    translated: Translated
    guesses: Guesses
    cost: CostModel
    limits: Limits = field(default_factory=Limits)
    keeps: Keeps = anything
    conversions: dict[Converted, float] = field(default_factory=dict)
    context: Context = field(default_factory=Context)
    on_wanted: Callable[[int], None] = lambda count: None
    aims: Aims = field(default_factory=Aims)
    corrected: CostModel | None = None
    doubt: float = 0.0
    _work_joules: dict[tuple[frozenset[str], Way], float] = field(default_factory=dict)

    def price(self, text: str, way: Way, known: Known) -> float:
        """Seconds of a way of the site `text`: timed, or guessed, and as it is in place where that was seen."""
        return self.context.price(text, way, self.guesses.corrected(way, known, text))

    def solve(self, allowed: Callable[[Offer, Way, Known], bool] = lambda offer, way, known: True,
              work: float = WORK, objective: str = "") -> Solved:
        """The best plan at the prices of now, of the ways that are `allowed` and did not fail, for the build's
        objective or the one given.

        Where none keeps within the limits on memory or energy, the one that takes least of it: whole plans have the
        last word. `work` bounds the solver, see solve.py. Raises UnsupportedError where these cover no plan,
        NothingFits where none keeps within the limit on seconds.
        """
        def priced(offer: Offer, variant: Variant, way: Way, known: Known) -> Priced:
            seconds = 0.0 if is_view(offer.group, variant) else self.price(offer.text, way, known)
            if self.doubt and way not in self.sites[offer.text].by_rule:
                seconds *= 1 + self.doubt
            return Priced(variant, seconds, self._joules(offer, variant, way, seconds))

        def prices(offer: Offer) -> list[Priced]:
            if offer.is_free:
                return [Priced(variant, 0.0) for variant in offer.variants]
            return [priced(offer, variant, way, known) for variant, way, known in self.translated.ways(offer)
                    if known.measured != math.inf and allowed(offer, way, known)]

        def one(goal: Goal, limits: Limits) -> Solved:
            return solve(self.space, prices, self.conversion, limits, work, goal, self._conversion_joules)

        return nearest(objective or self.aims.objective, one, self.limits, self.aims.weighs_energy)

    def solve_known(self) -> Solved:
        """The best plan of ways that were timed; of all, where these cover none."""
        try:
            return self.solve(lambda offer, way, known: known.measured is not None)
        except UnsupportedError:
            return self.solve()

    def _joules(self, offer: Offer, variant: Variant, way: Way, seconds: float) -> float:
        energy = self.aims.energy
        if energy is None or not self.aims.weighs_energy:
            return 0.0
        key = offer.covers, way
        if key not in self._work_joules:
            self._work_joules[key] = energy.group(offer.group, variant)
        return self._work_joules[key] + energy.static_w * seconds

    def _conversion_joules(self, value: Value, source: Layout, target: Layout, seconds: float) -> float:
        energy = self.aims.energy
        return energy.conversion(value, source, target, seconds) if energy and self.aims.weighs_energy else 0.0

    def conversion(self, value: Value, source: Layout, target: Layout) -> float | None:
        if not conversion_exists(source, target):
            return None
        one = Converted(value.dtype, value.shape, source, target)
        return self.conversions.get(one, _SECONDS_PER_BYTE * value_bytes(value))

    def parts(self, solved: Solved) -> dict[str, tuple[Site, Way, int]]:
        """The distinct timed groups of a plan: by text the site, the way, and how often it is there."""
        found: dict[str, tuple[Site, Way, int]] = {}
        for offer, priced in solved.taken.values():
            if not offer.is_free and not is_view(offer.group, priced.variant):
                way = way_of(offer.group, priced.variant)
                _, _, count = found.get(offer.text, (None, None, 0))
                found[offer.text] = self.sites[offer.text], way, count + 1
        return found

    def shares(self, solved: Solved) -> list[tuple[Site, Way, float]]:
        """The parts of a plan with the share of its time that all of a kind take."""
        parts = [(site, way, count * self.price(site.text, way, site.ways[way]))
                 for site, way, count in self.parts(solved).values()]
        total = sum(seconds for _, _, seconds in parts) or 1.0
        return [(site, way, seconds / total) for site, way, seconds in parts]

    def conversions_of(self, solved: Solved) -> set[Converted]:
        """Conversions that a plan makes."""
        found: set[Converted] = set()
        for plan in walk_plans(solved.plan):
            for planned in plan.groups:
                for name, layout in planned.variant.inputs.items():
                    made = plan.formats.get(name)
                    value = planned.group.values[name]
                    if name not in planned.group.constants and made is not None and made.layout != layout:
                        found.add(Converted(value.dtype, value.shape, made.layout, layout))
        return found


def fine(market: Market, timer: Timer, *, rivals: int, slack: float, until: float, counted: int = 1,
         most: float = math.inf) -> Solved:
    """Times the parts of the best plan, few ways of each at first, `rivals` of what stays in it and fewer of what takes
    little, and solves again, until all its parts are timed.

    When the timer knows `most` ways, only plans of known ways are looked at, where there are any. Raises TimeOver at
    the time `until` (time.monotonic).
    """
    told = 0
    while True:
        market.guesses.learn(market.sites.values())
        left = most - timer.known
        solved = market.solve() if left > 0 else market.solve_known()
        conversions = market.conversions_of(solved) - market.conversions.keys()
        parts = market.shares(solved)
        told = _correct(market, timer, told) if counted > 1 else 0
        several = {site.text: _several(site, share, rivals) for site, _, share in parts}
        for site, way, _ in parts:
            _count(site, way, market, timer, several[site.text], counted, slack)
        brought = _brought(market)
        wanted = [(site, _promising(site, way, market.guesses, several[site.text], slack)) for site, way, _ in parts]
        wanted = _within(wanted, parts, left - len(conversions))
        wanted += [(site, variants) for site, variants in brought if all(site is not other for other, _ in wanted)]
        wanted = [(site, variants) for site, variants in wanted if variants]
        if not wanted and not conversions:
            return solved
        market.on_wanted(sum(len(variants) for _, variants in wanted) + len(conversions))
        market.conversions.update(timer.time_conversions(sorted(conversions, key=str)))
        for batch in _batches(wanted):
            if time.monotonic() > until:
                raise TimeOver("the time for measuring is over")
            timer.time(batch)


def _within(wanted: Sequence[tuple[Site, list[Variant]]], parts: Sequence[tuple[Site, Way, float]],
            most: float) -> list[tuple[Site, list[Variant]]]:
    """The ways of `wanted` that the plan of these `parts` has, kernels of users, and of the rest as many as come to
    `most`, those of what takes most of the plan's time first."""
    due = [[one for one in variants if way_of(site.group, one) == way or rival_digest(one.kernel)]
           for (site, variants), (_, way, _) in zip(wanted, parts, strict=True)]
    left = max(0.0, most - sum(map(len, due)))
    found = dict(enumerate(wanted))
    for at in sorted(found, key=lambda at: -parts[at][2]):
        site, variants = wanted[at]
        rest = [one for one in variants if one not in due[at]]
        more = rest[:int(min(len(rest), left))]
        found[at] = site, [one for one in variants if one in due[at] or one in more]
        left -= len(more)
    return list(found.values())


def _several(site: Site, share: float, rivals: int) -> int:
    """How many ways of a site are worth a time: few before any is known, which may take it out of the plan, and of
    what takes a small share of the plan's time."""
    if all(known.measured is None for known in site.ways.values()):
        return min(rivals, _FEW)
    return min(rivals, max(_FEW, math.ceil(rivals * share / _LARGE)))


def _correct(market: Market, timer: Timer, told: int) -> int:
    """Fits the cost model to what was timed, unless that is hardly more than the `told` samples of the last time; to
    how many it is fitted now."""
    samples = [one for site in market.sites.values() for way in site.ways if (one := timer.sample(site, way))]
    if not samples or len(samples) < _GROWTH * told:
        return told
    market.corrected = refit(market.cost, samples)
    return len(samples)


def _count(site: Site, chosen: Way, market: Market, timer: Timer, rivals: int, counted: int, slack: float) -> None:
    """Ranks the best guesses of a site by the cost model, where there are more than will be timed.

    The model sees what lowered kernels do, which tells ways of one group apart better than what kernels state. Their
    level stays: other ways of the site, and other sites, keep their guesses; so do kernels of users, in which the model
    sees nothing.
    """
    is_seen = any(known.is_counted or known.measured is not None for known in site.ways.values())
    if counted == 1 or site.first or is_seen:
        return
    guessed = {way: market.guesses.corrected(way, known, site.text) for way, known in site.ways.items()}
    least = min(guessed.values())
    near = [way for way, seconds in guessed.items() if seconds <= slack * least or way == chosen]
    if len(near) <= rivals:
        return
    asked = sorted((way for way in near if not rival_digest(way.kernel)),
                   key=lambda way: (guessed[way], way))[:counted * rivals]
    if not asked:
        return
    predicted = {way: timer.predicted(market.corrected or market.cost, site, way) for way in asked}
    level = statistics.median(site.ways[way].guess / seconds for way, seconds in predicted.items())
    for way, seconds in predicted.items():
        site.ways[way].guess, site.ways[way].is_counted = level * seconds, True


def _brought(market: Market) -> list[tuple[Site, list[Variant]]]:
    """Untimed kernels of users, wherever they can be: nothing else tells how quick they are."""
    found = []
    for site in market.sites.values():
        own = [v for v in site.variants if rival_digest(v.kernel) and market.keeps(site.group, v)]
        for variant in own:
            site.add(variant, market.guesses.seconds(site.group, variant))
        untimed = [v for v in own if site.ways[way_of(site.group, v)].measured is None]
        if untimed:
            found.append((site, untimed))
    return found


def _promising(site: Site, chosen: Way, guesses: Guesses, rivals: int, slack: float) -> list[Variant]:
    """Untimed ways worth timing: the chosen one, what did best elsewhere, that of the plan by rule where it is of
    another kind, and where nothing did best elsewhere, the `rivals` best of all that were guessed to come near."""
    ranked = sorted(((guesses.corrected(way, known, site.text), way, known) for way, known in site.ways.items()),
                    key=lambda item: item[:2])
    least = ranked[0][0]
    near: list[tuple[Way, Known]] = [(way, known) for seconds, way, known in ranked
                                     if seconds <= slack * least or way == chosen]
    timed = sum(known.measured is not None for _, known in near)
    own = (way for way in site.ways if rival_digest(way.kernel))
    elsewhere = {(way.kernel, way.variant) for way in site.first}
    by_rule = (way for way in site.by_rule if (way.kernel, way.variant) not in elsewhere)
    wanted = dict.fromkeys([*site.first, *by_rule, *own, chosen])
    first = [way for way in wanted if site.ways[way].measured is None]
    untimed = [known.variant for way, known in near if known.measured is None and way not in first]
    more = 0 if site.first else rivals - timed - len(first)
    return [*(site.ways[way].variant for way in first), *untimed[:max(0, more)]]


def _batches(wanted: Sequence[tuple[Site, list[Variant]]]) -> list[list[tuple[Site, list[Variant]]]]:
    batches: list[list[tuple[Site, list[Variant]]]] = [[]]
    for site, variants in wanted:
        if batches[-1] and sum(len(v) for _, v in batches[-1]) + len(variants) > _BATCH:
            batches.append([])
        batches[-1].append((site, variants))
    return batches
