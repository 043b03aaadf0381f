"""The whole plans that run against each other at the end of a search, and which of them wins."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from meta_infer.ir.group import PLAIN, Plan, walk_plans
from meta_infer.ir.group_text import group_text
from meta_infer.search.fine import Market, is_view
from meta_infer.search.space.sites import Known
from meta_infer.search.space.solve import Solved
from meta_infer.search.space.space import ANCHORS, Offer
from meta_infer.search.space.ways import Way, choices_of, way_of
from meta_infer.search.story import CLEARLY, Contender
from meta_infer.support.errors import UnsupportedError

_DOUBT = 0.03
"""Share by which a way must be quicker than that of the plan by rule, for the plan that only changes what is clear."""
_THROUGHOUT = 3
"""Kernels of which a plan may have as many as it can, the heaviest ones."""


def standing(one: Contender, default: Contender) -> tuple[bool, float, float]:
    """Sorts plans: what is not clearly quicker than the default plan comes after it."""
    beats = one is default or not one.is_out and (math.isinf(default.measured) or (
        one.measured <= CLEARLY * default.measured and one.measured + one.doubt * one.spread < default.measured))
    return not beats, one.measured, one.estimate


def contenders_of(market: Market, solved: Solved, default: Plan, most: int,
                  before: Sequence[Solved] = ()) -> list[Contender]:
    """The best plan, the best that leaves the default's ways only for clearly quicker ones, those that have a kernel
    wherever it was timed or nowhere, the heaviest kernels first, and, last, the default one.

    The plans that were the best `before` their parts were timed in place come on top.
    """
    by_rule = Contender("default", default, _estimate(market, default))
    found = [Contender("searched", solved.plan, solved.seconds),
             *(Contender(f"before correction {i}", one.plan, _estimate(market, one.plan))
               for i, one in enumerate(before, 1))]
    most += len(before)
    careful = replace(market, doubt=_DOUBT).solve()
    if choices_of(careful.plan) != choices_of(solved.plan):
        found.append(Contender("where clearly quicker", careful.plan, _estimate(market, careful.plan)))
    heaviest = _kernels_by_weight(market, solved)
    timed = {(site.text, way.kernel) for site in market.sites.values() for way, known in site.ways.items()
             if known.measured is not None}
    rules: list[tuple[str, Callable[[Offer, Way, Known], bool]]] = [
        ("one anchor per group", lambda offer, way, known: offer.level != ANCHORS),
        *((f"{kernel} throughout", lambda offer, way, known, kernel=kernel:
           way.kernel == kernel or (offer.text, kernel) not in timed) for kernel in heaviest[:_THROUGHOUT]),
        *((f"without {kernel}", lambda offer, way, known, kernel=kernel: way.kernel != kernel) for kernel in heaviest),
    ]
    for name, rule in rules:
        if len(found) + 1 >= most:
            break
        try:
            other = market.solve(rule)
        except UnsupportedError:
            continue
        if all(choices_of(other.plan) != choices_of(one.plan) for one in found):
            found.append(Contender(name, other.plan, other.seconds))
    return [*(one for one in found if choices_of(one.plan) != choices_of(default)), by_rule]


def _estimate(market: Market, plan: Plan) -> float:
    """Kernels and conversions of a plan at the prices of now."""
    total = 0.0
    for one in walk_plans(plan):
        wanted = {(name, PLAIN): one.graph.values[name] for name in one.graph.outputs}
        for planned in one.groups:
            group, layouts = planned.group, planned.variant.inputs
            wanted |= {(name, layout): group.values[name] for name, layout in layouts.items()}
            site, way = market.sites.get(group_text(group)), way_of(group, planned.variant)
            if site is not None and way in site.ways and not is_view(group, planned.variant):
                total += market.price(site.text, way, site.ways[way])
        for (name, layout), value in wanted.items():
            made = one.formats.get(name)
            if name not in one.graph.constants and made is not None and made.layout != layout:
                total += market.conversion(value, made.layout, layout) or 0.0
    return total


def _kernels_by_weight(market: Market, solved: Solved) -> list[str]:
    weight: Counter[str] = Counter()
    for site, way, count in market.parts(solved).values():
        weight[way.kernel] += count * market.price(site.text, way, site.ways[way])     # type: ignore[assignment]
    return [kernel for kernel, _ in weight.most_common()]
