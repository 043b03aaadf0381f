"""What there is to tell of a plan that a search chose: its heaviest groups, what each was chosen over, rewrites that
it took, and how far guesses were off."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable

from meta_infer.ir.group import Plan, walk_plans
from meta_infer.ir.group_text import group_text
from meta_infer.passes.rewrite import key_of
from meta_infer.search.fine import Market, is_view
from meta_infer.search.space.sites import Site
from meta_infer.search.space.space import Space
from meta_infer.search.space.ways import Way, way_of
from meta_infer.search.story import Heavy

MOST = 10


def heaviest(market: Market, plan: Plan, most: int = MOST) -> tuple[Heavy, ...]:
    """The distinct groups of a plan that take most, with the nearest rival of each."""
    found: dict[tuple[str, Way], list[str]] = {}
    for one in walk_plans(plan):
        for planned in one.groups:
            text, way = group_text(planned.group), way_of(planned.group, planned.variant)
            site = market.sites.get(text)
            if site is not None and way in site.ways and not is_view(planned.group, planned.variant):
                name = planned.group.origins[0] if planned.group.origins else planned.group.outputs[0]
                found.setdefault((text, way), []).append(name)
    rows = [_heavy(market, market.sites[text], way, names) for (text, way), names in found.items()]
    total = sum(one.count * one.seconds for one in rows)
    rows.sort(key=lambda one: (-one.count * one.seconds, one.ops, one.node))
    return tuple(Heavy(one.ops, one.node, one.count, one.seconds, one.count * one.seconds / total if total else 0.0,
                       one.chosen, one.is_timed, one.rival, one.rival_seconds) for one in rows[:most])


def _heavy(market: Market, site: Site, way: Way, names: list[str]) -> Heavy:
    known = site.ways[way]
    rival, seconds = _rival(market, site, way)
    return Heavy(site.group.label, names[0], len(names), market.price(site.text, way, known), 0.0, str(way),
                 known.measured is not None or (site.text, way) in market.context.seconds, rival, seconds)


def _rival(market: Market, site: Site, way: Way) -> tuple[str, float]:
    """The quickest timed way of another kernel or variant, else of other knobs or layouts: its name, empty where there
    is none, and its seconds."""
    own = site.ways[way].key                                   # some knobs make no difference: the same code
    timed = [(market.price(site.text, other, known), other) for other, known in site.ways.items()
             if other != way and known.measured is not None and known.measured != math.inf and known.key != own]
    others = [item for item in timed if (item[1].kernel, item[1].variant) != (way.kernel, way.variant)]
    if not timed:
        return "", math.inf
    seconds, rival = min(others or timed)
    return str(rival), seconds


def moves_of(space: Space, plan: Plan) -> Counter[str]:
    """The moves of the space that a plan has made, by name."""
    made: Counter[str] = Counter()
    nodes = {key_of(node): node for node in plan.graph.nodes}
    for move in space.moves:
        made[move.move] += all(nodes.get(key_of(node)) == node for node in move.nodes)
    for key, region in space.regions.items():
        made += moves_of(region, plan.regions[key])
    return +made


def raw_error(sites: Iterable[Site]) -> float:
    """The median share by which guesses of timed ways were off, before any correction; 0 without any."""
    off = [abs(known.guess / known.measured - 1) for site in sites for known in site.ways.values()
           if known.measured is not None and 0 < known.measured < math.inf]
    return statistics.median(off) if off else 0.0
