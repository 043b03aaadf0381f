"""The chosen plan in context: it runs once as a whole with a clock around every group, prices of what takes clearly
more or less in place are corrected, and the program is solved again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from meta_infer.ir.group import Plan
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


def in_context(market: Market, timer: Timer, inputs: Inputs, solved: Solved,
               default: Plan) -> tuple[list[Solved], list[InContext]]:
    """The plan given and those that came after corrections, the last one last, and what was found of each in place.

    The `default` plan runs first, so that what others compete with has been seen in place as well. At most REPEATS
    times another plan of ways that have been timed is looked for, which ends early where that is the same or fails in
    place. The last plan is the best of parts that were seen in place, by their times there.
    """
    plans, steps, expected = [solved], [], solved.seconds
    is_rule = choices_of(default) == choices_of(solved.plan)
    differs = 0 if is_rule else market.context.learn(_seen(market, timer, inputs, default)[1])
    while True:
        found, placed = _seen(market, timer, inputs, solved.plan)
        if found is None:
            break
        level, clear = market.context.level(placed), market.context.learn(placed)
        in_place = sum(one.count * one.place for one in placed) + found.rest
        steps.append(InContext(expected, in_place, found.whole, level, len(placed), clear))
        if len(steps) > REPEATS or not clear + differs:
            break
        corrected = solved.seconds + sum(one.count * (market.context.price(one.text, one.way, one.alone) - one.alone)
                                         for one in placed)
        again = _solved(market, lambda offer, way, known: _was_timed(market, offer, way))
        if again is None:
            break
        known, plans, solved = any(map(_same_as(again), plans)), _with(plans, again), again
        if known:
            break
        expected = again.seconds * found.whole / corrected
    if steps and (len(steps) > 1 or not is_rule):
        as_seen = replace(market, context=market.context.as_seen())
        last = _solved(as_seen, lambda offer, way, known: market.context.was_seen(offer.text, way)
                       and _was_timed(market, offer, way))
        plans = plans if last is None else _with(plans, last)
    return plans, steps


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


def _seen(market: Market, timer: Timer, inputs: Inputs, plan: Plan) -> tuple[InPlace | None, list[Placed]]:
    """A plan in place, and its groups beside what is known of them alone; nothing where it failed or is not recorded.
    """
    try:
        found = time_placed(timer.build(plan), timer, inputs)
    except TimeOver:
        return None, []
    return found, [] if found is None else list(_placed(market, plan, found))


def _placed(market: Market, plan: Plan, found: InPlace) -> Iterator[Placed]:
    """Groups of the outermost graph that were timed in place, beside what is known of them alone."""
    counts = Counter((group_text(one.group), way_of(one.group, one.variant)) for one in plan.groups)
    for (text, way), (place, spread) in found.groups.items():
        site = market.sites.get(text)
        if site is None or way not in site.ways or not place:
            continue
        known = site.ways[way]
        alone = market.guesses.corrected(way, known)
        if 0 < alone < math.inf:
            off = math.hypot(spread / place, known.spread / alone)
            yield Placed(text, way, counts[text, way], place, alone, off, known.measured is not None)
