"""Objectives and limits against trying every plan, on small random graphs with made-up variants and prices."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from meta_infer.ir.graph import Graph, Value
from meta_infer.ir.group import PLAIN, Layout
from meta_infer.ir.shapes import evaluate, product
from meta_infer.passes.group_order import cycle_of
from meta_infer.passes.rewrite import key_of
from meta_infer.search.aims import BALANCED, balanced, nearest, solve_for
from meta_infer.search.space.live_bytes import weight_bytes
from meta_infer.search.space.solve import (
    ENERGY,
    LATENCY,
    MEMORY,
    NO_LIMITS,
    Goal,
    Limits,
    NothingFits,
    Priced,
    Solved,
    solve,
)
from meta_infer.search.space.space import Offer, Space
from meta_infer.support.errors import UnsupportedError
from tests.search.test_solve import PRICES, conversion, random_graph, random_space

NANO = 1e-9


def conversion_joules(value: Value, source: Layout, target: Layout, seconds: float) -> float:
    return 7 * NANO if source == PLAIN else 11 * NANO


@dataclass(frozen=True)
class Figures:
    """What one complete plan takes."""

    seconds: float
    joules: float
    bytes: int

    def within(self, limits: Limits) -> bool:
        return all(limit is None or mine <= limit * (1 + 1e-9) for mine, limit in
                   ((self.seconds, limits.seconds), (self.joules, limits.joules), (self.bytes, limits.memory_bytes)))


def figures_of(graph: Graph, chosen: list[tuple[Offer, Priced]], have: frozenset[tuple[str, Layout]]) -> Figures | None:
    """Figures of a choice with conversions to `have`; None when a value is not there as it is read."""
    made = {name: p.variant.outputs[name] for offer, p in chosen for name in offer.group.outputs}
    made.update(dict.fromkeys(graph.inputs, PLAIN))
    wanted = {(name, p.variant.inputs[name]) for offer, p in chosen for name in offer.group.inputs}
    wanted |= {(name, PLAIN) for name in graph.outputs}
    copies = {(name, layout) for name, layout in wanted if made[name] != layout}
    if copies != have or any((made[name], layout) not in PRICES for name, layout in copies):
        return None
    seconds = sum(p.seconds for _, p in chosen) + sum(PRICES[made[name], layout] for name, layout in copies)
    joules = sum(p.joules for _, p in chosen) + sum(
        conversion_joules(graph.values[name], made[name], layout, 0.0) for name, layout in copies)
    weights = sum(weight_bytes(offer.group, p.variant) for offer, p in chosen)
    return Figures(seconds, joules, weights + peak(graph, chosen, copies))


def peak(graph: Graph, chosen: list[tuple[Offer, Priced]], copies: set[tuple[str, Layout]]) -> int:
    """Bytes alive at the worst node, worked out node by node."""
    place = {key_of(node): i for i, node in enumerate(graph.nodes)}
    last = {name: max([i for i, node in enumerate(graph.nodes) if name in node.inputs], default=0)
            for name in graph.values}
    last |= dict.fromkeys(graph.outputs, len(graph.nodes) - 1)
    spans = [(min(place[key_of(node)] for node in offer.group.nodes), last[name],
              size(graph, name, p.variant.outputs[name])) for offer, p in chosen for name in offer.group.outputs]
    spans += [(place.get(name, 0), last[name] if name in place else 0, size(graph, name, layout))
              for name, layout in copies]
    return max(sum(count for first, end, count in spans if first <= i <= end) for i in range(len(graph.nodes)))


def size(graph: Graph, name: str, layout: Layout) -> int:
    return int(evaluate(product(layout.physical(graph.values[name].shape)), {})) * 4


def every_plan(space: Space, prices: dict[frozenset[str], list[Priced]]) -> list[Figures]:
    graph, found = space.graph, []

    def covers(left: frozenset[str], taken: tuple[Offer, ...]):
        if not left:
            yield taken
            return
        for offer in space.offers:
            if min(left) in offer.covers and offer.covers <= left:
                yield from covers(left - offer.covers, (*taken, offer))

    for taken in covers(frozenset(node.outputs[0] for node in graph.nodes), ()):
        if cycle_of(graph, [offer.group for offer in taken]):
            continue
        for choice in itertools.product(*(prices[offer.covers] for offer in taken)):
            chosen = list(zip(taken, choice, strict=True))
            made = {name: p.variant.outputs[name] for offer, p in chosen for name in offer.group.outputs}
            wanted = {(name, p.variant.inputs[name]) for offer, p in chosen for name in offer.group.inputs}
            wanted |= {(name, PLAIN) for name in graph.outputs}
            copies = frozenset((n, la) for n, la in wanted if made.get(n, PLAIN) != la)
            one = figures_of(graph, chosen, copies)
            if one is not None:
                found.append(one)
    return found


def random_case(seed: int) -> tuple[Space, dict[frozenset[str], list[Priced]], list[Figures]]:
    rng = random.Random(seed)
    space, prices = random_space(rng, random_graph(rng, rng.randrange(1, 5)))
    prices = {key: [Priced(p.variant, p.seconds, rng.randrange(1, 500) * NANO) for p in priced]
              for key, priced in prices.items()}
    return space, prices, every_plan(space, prices)


def solver(space: Space, prices: dict[frozenset[str], list[Priced]]) -> Callable[[Goal, Limits], Solved]:
    def run(goal: Goal, limits: Limits = NO_LIMITS) -> Solved:
        return solve(space, lambda offer: prices[offer.covers], conversion, limits, goal=goal, joules=conversion_joules)
    return run


@pytest.mark.parametrize("seed", range(24))
def test_nothing_is_better_for_any_objective(seed: int) -> None:
    space, prices, plans = random_case(seed)
    run = solver(space, prices)
    if not plans:
        with pytest.raises(UnsupportedError):
            run(MEMORY)
        return
    for goal, best in ((LATENCY, min(p.seconds for p in plans)), (ENERGY, min(p.joules for p in plans)),
                       (MEMORY, min(p.bytes for p in plans))):
        found = run(goal)
        assert found.objective == pytest.approx(best, rel=1e-6, abs=1e-12), goal.name
        assert found.gap == pytest.approx(0.0, abs=1e-6)
    goal = balanced(run(LATENCY), True)
    best = min(goal.of(p.seconds, p.joules, p.bytes) for p in plans)
    assert run(goal).objective == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("seed", range(24))
def test_nothing_within_the_limits_is_better(seed: int) -> None:
    space, prices, plans = random_case(seed)
    run, rng = solver(space, prices), random.Random(seed)
    for _ in range(4):
        if not plans:
            return
        like = rng.choice(plans)
        limits = Limits(*(limit if rng.random() < 0.6 else None for limit in
                          (like.bytes - rng.randrange(-500, 600), like.joules * rng.uniform(0.7, 1.2),
                           like.seconds * rng.uniform(0.7, 1.2))))
        fitting = [p for p in plans if p.within(limits)]
        for goal in (LATENCY, ENERGY, MEMORY):
            if not fitting:
                with pytest.raises(NothingFits, match="fits the limits"):
                    run(goal, limits)
                continue
            found = run(goal, limits)
            best = min(goal.of(p.seconds, p.joules, p.bytes) for p in fitting)
            assert found.objective == pytest.approx(best, rel=1e-5, abs=2e-9), goal.name
            assert Figures(found.seconds, found.joules, found.bytes).within(limits)


@pytest.mark.parametrize("seed", range(20))
def test_least_memory_first_then_energy_then_time(seed: int) -> None:
    space, prices, plans = random_case(seed)
    if not plans:
        return
    found = solve_for("memory", solver(space, prices), NO_LIMITS, True)
    least = min(p.bytes for p in plans)
    assert found.bytes == least and found.gap == 0.0
    assert found.joules == pytest.approx(min(p.joules for p in plans if p.bytes == least), rel=2e-3)
    quick = solve_for("memory", solver(space, prices))
    assert quick.bytes == least
    assert quick.seconds == pytest.approx(min(p.seconds for p in plans if p.bytes == least), rel=1e-6)


def test_limits_that_nothing_keeps_give_the_nearest_but_for_time() -> None:
    space, prices, plans = next(case for case in map(random_case, range(99)) if len(case[2]) > 5)
    run = solver(space, prices)
    assert nearest("latency", run, Limits(memory_bytes=1)).bytes == min(p.bytes for p in plans)
    assert nearest("memory", run, Limits(joules=NANO), True).joules == pytest.approx(min(p.joules for p in plans))
    with pytest.raises(NothingFits):
        nearest("memory", run, Limits(memory_bytes=10**9, seconds=1e-9))


def test_balanced_leaves_out_what_is_not_known() -> None:
    space, prices, _ = random_case(3)
    quickest = solver(space, prices)(LATENCY)
    goal = balanced(quickest, False)
    assert goal.joules == 0.0
    assert goal.of(quickest.seconds, quickest.joules, quickest.bytes) == pytest.approx(1.0)
    share = BALANCED["seconds"] / (BALANCED["seconds"] + BALANCED["bytes"])
    assert goal.seconds * quickest.seconds == pytest.approx(share)


@pytest.mark.parametrize("goal", [LATENCY, ENERGY, MEMORY])
def test_equal_prices_give_equal_plans(goal: Goal) -> None:
    rng = random.Random(11)
    space, prices = random_space(rng, random_graph(rng, 10))
    flat = {key: [Priced(p.variant, 1e-6, NANO) for p in priced] for key, priced in prices.items()}
    found = [solver(space, flat)(goal, Limits(memory_bytes=10**6, joules=1.0)).plan for _ in range(3)]
    assert all([g.variant for g in one.groups] == [g.variant for g in found[0].groups] for one in found)


@pytest.mark.parametrize("seed", range(8))
def test_regions_share_the_limits_of_the_whole(seed: int) -> None:
    """Exact without limits; within limits a plan is found whenever the smallest of both fit together."""
    (outer, prices, plans), (inner, more, others) = (next(
        case for case in map(random_case, range(start, 999)) if len(case[2]) > 1) for start in (seed, seed + 50))
    both = Space(outer.graph, outer.offers, {("v0", 0): inner})
    own = {id(offer): priced for space, known in ((outer, prices), (inner, more)) for offer in space.offers
           for priced in [known[offer.covers]]}

    def run(goal: Goal, limits: Limits = NO_LIMITS) -> Solved:
        return solve(both, lambda offer: own[id(offer)], conversion, limits, goal=goal, joules=conversion_joules)

    free = run(LATENCY)
    assert free.seconds == pytest.approx(min(p.seconds for p in plans) + min(p.seconds for p in others), rel=1e-6)
    assert free.gap == 0.0 and run(MEMORY).bytes == min(p.bytes for p in plans) + min(p.bytes for p in others)
    least = min(p.bytes for p in plans) + min(p.bytes for p in others)
    tight = run(LATENCY, Limits(memory_bytes=least))
    assert tight.bytes <= least and tight.bound <= tight.seconds
    with pytest.raises(NothingFits):
        run(LATENCY, Limits(memory_bytes=least - 1))
