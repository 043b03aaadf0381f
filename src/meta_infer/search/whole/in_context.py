"""The chosen plan in context: it runs as a whole with a clock around every group, in turns with the plan by rule and
plans of the next best ways; prices of what takes clearly more or less in place are corrected, and the program is solved
again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from meta_infer.ir.group import Plan, walk_plans
from meta_infer.ir.group_text import group_text
from meta_infer.search.fine import Market
from meta_infer.search.space.sites import Known
from meta_infer.search.space.solve import Solved
from meta_infer.search.space.space import Offer
from meta_infer.search.space.ways import Way, choices_of, way_of
from meta_infer.search.story import InContext
from meta_infer.search.timing import TimeOver, Timer
from meta_infer.search.whole.context import Placed
from meta_infer.search.whole.placed import InPlace, time_placed
from meta_infer.search.whole.whole import Inputs
from meta_infer.support.errors import UnsupportedError

REPEATS = 2
_DEARER = 0.2
"""Share by which ways of plans before are taken to be dearer in the next one that is to show others in place."""
_NEW = 0.1
"""Share of a plan's time that its new ways must take for it to run."""


def in_context(market: Market, timer: Timer, inputs: Inputs, solved: Solved, default: Plan,
               others: int = 0) -> tuple[list[Solved], list[InContext]]:
    """The plan given and those that came after corrections, the last one last, and what was found of each in place.

    The `default` plan runs beside it, and as many as `others` plans of the next best ways, so that what competes has
    been seen in place as well. At most REPEATS times another plan of ways that have been timed is looked for, which
    ends early where that is the same or fails in place. The last plan is the best of parts that were seen in place, by
    their times there.
    """
    plans, steps, expected = [solved], [], solved.seconds
    beside = [] if choices_of(default) == choices_of(solved.plan) else [default]
    rivals = [one.plan for one in _rivals(market, solved, default, others)]
    while True:
        found, placed = _seen(market, timer, inputs, [solved.plan, *beside, *rivals])
        if found is None and rivals:
            rivals = []                                        # one of them fails in place
            continue
        if found is None:
            break
        mine = [one for one in placed if (one.text, one.way) in found.groups]
        level, clear = market.context.level(placed), market.context.learn(placed)
        in_place = sum(one.count * one.place for one in mine) + found.rest
        steps.append(InContext(expected, in_place, found.whole, level, len(placed), clear))
        if len(steps) > REPEATS or not clear:
            break
        corrected = solved.seconds + sum(one.count * (market.context.price(one.text, one.way, one.alone) - one.alone)
                                         for one in mine)
        again = _solved(market, lambda offer, way, known: _was_timed(market, offer, way))
        if again is None:
            break
        known, plans, solved = any(map(_same_as(again), plans)), _with(plans, again), again
        if known:
            break
        expected, rivals = again.seconds * found.whole / corrected, []
    if steps and (len(steps) > 1 or beside or rivals):
        as_seen = replace(market, context=market.context.as_seen())
        last = _solved(as_seen, lambda offer, way, known: market.context.was_seen(offer.text, way)
                       and _was_timed(market, offer, way))
        plans = plans if last is None else _with(plans, last)
    return plans, steps


def _rivals(market: Market, solved: Solved, default: Plan, most: int) -> list[Solved]:
    """Plans of the ways that come next, as long as enough is new in them: one run shows many in place at once."""
    found: list[Solved] = []
    seconds = {key: market.price(*key, market.sites[key[0]].ways[key[1]])
               for plan in (solved.plan, default) for key in _ways(market, plan)}
    while len(found) < most:
        dearer = replace(market, context=replace(market.context, seconds=market.context.seconds | {
            key: (1 + _DEARER) * price for key, price in seconds.items()}))
        other = _solved(dearer, lambda offer, way, known: _was_timed(market, offer, way))
        if other is None:
            break
        prices = {(site.text, way): (count, market.price(site.text, way, site.ways[way]))
                  for site, way, count in market.parts(other).values()}
        new = sum(count * price for key, (count, price) in prices.items() if key not in seconds)
        if new < _NEW * sum(count * price for count, price in prices.values()):
            break
        seconds |= {key: price for key, (_, price) in prices.items()}
        found.append(other)
    return found


def _ways(market: Market, plan: Plan) -> Iterator[tuple[str, Way]]:
    """The ways of a plan's groups that the market has."""
    for one in walk_plans(plan):
        for planned in one.groups:
            key = group_text(planned.group), way_of(planned.group, planned.variant)
            if key[0] in market.sites and key[1] in market.sites[key[0]].ways:
                yield key


def _was_timed(market: Market, offer: Offer, way: Way) -> bool:
    """Whether the way was timed, alone or in place, or none of its site's was."""
    site = market.sites[offer.text]
    if site.ways[way].measured is not None or (offer.text, way) in market.context.seconds:
        return True
    return all(known.measured is None for known in site.ways.values())


def _solved(market: Market, allowed: Callable[[Offer, Way, Known], bool]) -> Solved | None:
    """The best plan of the ways that are allowed; None where these cover none."""
    try:
        return market.solve(allowed)
    except UnsupportedError:
        return None


def _same_as(solved: Solved) -> Callable[[Solved], bool]:
    choices = choices_of(solved.plan)
    return lambda one: choices_of(one.plan) == choices


def _with(plans: Sequence[Solved], last: Solved) -> list[Solved]:
    """The plans with `last` at the end, which is not there twice."""
    is_last = _same_as(last)
    return [*(one for one in plans if not is_last(one)), last]


def _seen(market: Market, timer: Timer, inputs: Inputs, plans: Sequence[Plan]) -> tuple[InPlace | None, list[Placed]]:
    """The first plan in place, and the groups of all beside what is known of them alone; nothing where one failed or is
    not recorded."""
    try:
        found = time_placed([timer.build(plan) for plan in plans], timer, inputs)
    except TimeOver:
        return None, []
    if found is None:
        return None, []
    placed: dict[tuple[str, Way], list[Placed]] = {}
    for plan, one in zip(plans, found, strict=True):
        for group in _placed(market, plan, one):
            placed.setdefault((group.text, group.way), []).append(group)
    return found[0], [_mean(same) for same in placed.values()]


def _mean(same: Sequence[Placed]) -> Placed:
    """A way in several plans."""
    return replace(same[0], place=fmean(one.place for one in same), spread=fmean(one.spread for one in same))


def _placed(market: Market, plan: Plan, found: InPlace) -> Iterator[Placed]:
    """Groups of the outermost graph that were timed in place, beside what is known of them alone."""
    counts = Counter((group_text(one.group), way_of(one.group, one.variant)) for one in plan.groups)
    for (text, way), (place, spread) in found.groups.items():
        site = market.sites.get(text)
        if site is None or way not in site.ways or not place:
            continue
        known = site.ways[way]
        alone = market.guesses.corrected(way, known, text)
        if 0 < alone < math.inf:
            off = math.hypot(spread / place, known.spread / alone)
            yield Placed(text, way, counts[text, way], place, alone, off, known.measured is not None)
