"""The chosen plan in context: it runs once as a whole with a clock around every group, prices of what takes clearly
more or less in place are corrected, and the program is solved again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from meta_infer.search.context import Placed, level_of
from meta_infer.search.fine import Market, fine
from meta_infer.search.placed import InPlace, time_placed
from meta_infer.search.solve import Solved
from meta_infer.search.story import InContext
from meta_infer.search.timing import TimeOver, Timer
from meta_infer.search.ways import choices_of, way_of
from meta_infer.search.whole import Inputs
from meta_infer.support.errors import UnsupportedError

REPEATS = 2


def in_context(market: Market, timer: Timer, inputs: Inputs, solved: Solved, *, slack: float,
               until: float) -> tuple[list[Solved], list[InContext]]:
    """The plan given and those that came after corrections, the last one last, and what was found of each in place.

    At most REPEATS times another plan is looked for, which ends early where that is the same, fails in place, or needs
    times when the time `until` (time.monotonic) is over. When several have run, the last plan is the best of parts that
    were seen in place.
    """
    plans, steps, expected = [solved], [], solved.seconds
    while True:
        try:
            built = timer.build(solved.plan)
            found = time_placed(built, timer, inputs)
        except TimeOver:
            break
        if found is None:
            break
        placed = list(_placed(market, solved, found))
        level, clear = level_of(placed), market.context.learn(placed)
        in_place = sum(one.count * one.place for one in placed) + found.rest
        steps.append(InContext(expected, in_place, found.whole, level, len(placed), clear))
        if len(steps) > REPEATS or not clear:
            break
        corrected = solved.seconds + sum(one.count * (market.context.price(one.text, one.way, one.alone) - one.alone)
                                         for one in placed)
        try:
            again = fine(market, timer, rivals=1, slack=slack, until=until)
        except TimeOver:
            break
        known, plans, solved = any(map(_same_as(again), plans)), _with(plans, again), again
        if known:
            break
        expected = again.seconds * found.whole / corrected
    if len(steps) > 1:
        try:
            plans = _with(plans, market.solve(lambda offer, way, known: market.context.was_seen(offer.text, way)))
        except UnsupportedError:
            pass
    return plans, steps


def _same_as(solved: Solved) -> Callable[[Solved], bool]:
    choices = choices_of(solved.plan)
    return lambda one: choices_of(one.plan) == choices


def _with(plans: Sequence[Solved], last: Solved) -> list[Solved]:
    """The plans with `last` at the end, which is not there twice."""
    is_last = _same_as(last)
    return [*(one for one in plans if not is_last(one)), last]


def _placed(market: Market, solved: Solved, found: InPlace) -> Iterator[Placed]:
    """Groups of the outermost graph that were timed in place, beside what is known of them alone."""
    counts = Counter((offer.text, way_of(offer.group, priced.variant)) for offer, priced in solved.taken.values())
    for (text, way), (place, spread) in found.groups.items():
        site = market.sites.get(text)
        if site is None or way not in site.ways or not place:
            continue
        known = site.ways[way]
        alone = market.guesses.corrected(way, known)
        if 0 < alone < math.inf:
            off = math.hypot(spread / place, known.spread / alone)
            yield Placed(text, way, counts[text, way], place, alone, off, known.measured is not None)
