"""What each level of fusion is worth: the best plan of the levels up to it, at the prices that a search came to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from meta_infer.search.fine import Market, is_view
from meta_infer.search.space.sites import Known
from meta_infer.search.space.solve import Solved
from meta_infer.search.space.space import ANCHORS, LEVELS, Offer
from meta_infer.search.space.ways import Way, way_of
from meta_infer.search.story import Level
from meta_infer.support.errors import UnsupportedError

MOVES = "moves"
NAMES: Sequence[str] = (*LEVELS, ANCHORS, MOVES)
"""From basic to aggressive."""
MOST_CHOICES = 20_000
"""Choices of the program above which levels are left out: each level is solved once more."""
_WORK = 5.0
"""Deterministic time of the solver for each level."""


def fusion_levels(market: Market, solved: Solved, names: Sequence[str] = NAMES) -> tuple[Level, ...]:
    """The best plan of every level of `names`, from no fusion to all that the space has; none where solving would take
    long. `solved` is the plan that the search came to.

    They are solved for time alone, whatever the build aims at. A level has all groups of the levels below it, so it is
    never slower: where the solver's time ended before it had found as much, the plan of the level below stands for it
    too.
    """
    if solved.choices > MOST_CHOICES:
        return ()
    ranks = {name: rank for rank, name in enumerate(NAMES)}
    offered = {MOVES if offer.move is not None else offer.level for offer in market.space.all_offers}
    found: list[Level] = []
    best: Solved | None = None
    for name in names:
        here = best
        if name == names[-1] and market.aims.objective == "latency":
            here = solved
        elif name in offered:
            here = _up_to(market, ranks, name)
        if here is not None and (best is None or here.seconds < best.seconds):
            best = here
        before = found[-1].seconds if found else math.inf
        found.append(Level(name, best.seconds if best else math.inf, _gain(before, best.seconds if best else math.inf),
                           guessed_share(market, best) if best else 0.0, len(_kernels(best)) if best else 0,
                           name in offered))
    return tuple(found)


def _up_to(market: Market, ranks: Mapping[str, int], name: str) -> Solved | None:
    """The best plan whose groups are of a level up to `name`; None where these cover none, or none within the
    limits."""
    def allowed(offer: Offer, way: Way, known: Known) -> bool:
        return ranks[MOVES if offer.move is not None else offer.level] <= ranks[name]

    try:
        return market.solve(allowed, work=_WORK, objective="latency")
    except UnsupportedError:
        return None


def _gain(before: float, seconds: float) -> float:
    """Share of the time before that a level saves; 0 where there is no time before."""
    return 1 - seconds / before if 0 < before < math.inf else 0.0


def _kernels(solved: Solved) -> list[str]:
    return [key for key, (offer, priced) in solved.taken.items()
            if not offer.is_free and not is_view(offer.group, priced.variant)]


def guessed_share(market: Market, solved: Solved) -> float:
    """The share of a plan's time that nobody has timed: its kernels with a guess for a price."""
    guessed = 0.0
    for key in _kernels(solved):
        offer, priced = solved.taken[key]
        way = way_of(offer.group, priced.variant)
        known = market.sites[offer.text].ways.get(way)
        is_known = known is not None and known.measured is not None or (offer.text, way) in market.context.seconds
        guessed += 0.0 if is_known else priced.seconds
    return guessed / solved.seconds if solved.seconds else 0.0
