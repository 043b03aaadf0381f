"""The integer program against trying every plan, on small random graphs with made-up variants and prices."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from meta_infer.ir.graph import Graph, Node, Value
from meta_infer.ir.group import PLAIN, Layout, Variant, blocked
from meta_infer.ir.group_text import group_text
from meta_infer.passes.covers import build_group
from meta_infer.passes.group_order import cycle_of, in_order
from meta_infer.search.space.solve import Limits, Priced, best_of_each, solve
from meta_infer.search.space.space import Offer, Space
from meta_infer.support.dtypes import FLOAT32
from meta_infer.support.errors import InternalError, UnsupportedError

LAYOUTS = (PLAIN, blocked(8), blocked(4))
PRICES = {(PLAIN, blocked(8)): 3e-6, (blocked(8), PLAIN): 2e-6, (PLAIN, blocked(4)): 1e-6, (blocked(4), PLAIN): 4e-6,
          (blocked(4), blocked(8)): 5e-6}


def conversion(value: Value, source: Layout, target: Layout) -> float | None:
    return PRICES.get((source, target))


def random_graph(rng: random.Random, count: int) -> Graph:
    """Elementwise nodes on values of one shape, each reading one or two earlier ones."""
    names, nodes = ["x"], []
    for i in range(count):
        reads = rng.sample(names, k=min(len(names), rng.choice((1, 1, 2))))
        nodes.append(Node("Add" if len(reads) == 2 else "Relu", tuple(reads), (f"v{i}",)))
        names.append(f"v{i}")
    unread = [n for n in names[1:] if all(n not in node.inputs for node in nodes)]
    values = {name: Value(name, FLOAT32, (1, 8, 4, 4)) for name in names}
    return Graph("g", ("x",), tuple(unread), tuple(nodes), values, {})


def random_space(rng: random.Random, graph: Graph) -> tuple[Space, dict[frozenset[str], list[Priced]]]:
    """Every node alone, and some neighbours together; two or three variants each."""
    sets = [frozenset({node.outputs[0]}) for node in graph.nodes]
    for _ in range(4):
        node = rng.choice(graph.nodes)
        makers = [name for name in node.inputs if name != "x"]
        if makers:
            sets.append(frozenset({node.outputs[0], rng.choice(makers)}))
    offers, prices = [], {}
    for keys in dict.fromkeys(sets):
        nodes = [node for node in graph.nodes if node.outputs[0] in keys]
        group = build_group(graph, nodes, nodes[0])
        priced = []
        for i in range(rng.choice((1, 2, 3))):
            variant = Variant("k", f"v{i}", {n: rng.choice(LAYOUTS) for n in group.inputs},
                              {n: rng.choice(LAYOUTS) for n in group.outputs}, packed_bytes=rng.choice((0, 100, 1000)))
            priced.append(Priced(variant, rng.randrange(1, 900) * 1e-8))
        offers.append(Offer(group, group_text(group), "none", tuple(p.variant for p in priced)))
        prices[offers[-1].covers] = priced
    return Space(graph, tuple(offers)), prices


def cost_of(graph: Graph, chosen: list[tuple[Offer, Priced]]) -> float:
    """Seconds of one complete choice; infinite when a value cannot be had in a format."""
    made = {name: p.variant.outputs[name] for offer, p in chosen for name in offer.group.outputs}
    made.update(dict.fromkeys(graph.inputs, PLAIN))
    wanted = {(name, p.variant.inputs[name]) for offer, p in chosen for name in offer.group.inputs}
    wanted |= {(name, PLAIN) for name in graph.outputs}
    total = sum(p.seconds for _, p in chosen)
    for name, layout in wanted:
        if made[name] != layout:
            total += PRICES.get((made[name], layout), float("inf"))
    return total


def best_by_trying(space: Space, prices: dict[frozenset[str], list[Priced]]) -> float:
    graph, best = space.graph, float("inf")
    everything = frozenset(node.outputs[0] for node in graph.nodes)

    def covers(left: frozenset[str], taken: tuple[Offer, ...]):
        if not left:
            yield taken
            return
        first = min(left)
        for offer in space.offers:
            if first in offer.covers and offer.covers <= left:
                yield from covers(left - offer.covers, (*taken, offer))

    for taken in covers(everything, ()):
        if cycle_of(graph, [offer.group for offer in taken]):
            continue
        for choice in itertools.product(*(prices[offer.covers] for offer in taken)):
            best = min(best, cost_of(graph, list(zip(taken, choice, strict=True))))
    return best


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_better(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng, rng.randrange(1, 6))
    space, prices = random_space(rng, graph)
    best = best_by_trying(space, prices)
    if best == float("inf"):
        with pytest.raises(UnsupportedError):
            solve(space, lambda offer: prices[offer.covers], conversion)
        return
    found = solve(space, lambda offer: prices[offer.covers], conversion)
    assert found.seconds == pytest.approx(best, abs=2e-8)
    assert found.gap == 0.0
    covered = [node.outputs[0] for planned in found.plan.groups for node in planned.group.nodes]
    assert sorted(covered) == sorted(node.outputs[0] for node in graph.nodes)
    seen = {"x"}
    for planned in found.plan.groups:
        assert seen.issuperset(planned.group.inputs), "groups come in an order in which they can run"
        seen.update(planned.group.outputs)


def test_equal_prices_give_equal_plans() -> None:
    rng = random.Random(7)
    space, prices = random_space(rng, random_graph(rng, 12))
    flat = {key: [Priced(p.variant, 1e-6) for p in priced] for key, priced in prices.items()}
    plans = [solve(space, lambda offer: flat[offer.covers], lambda *_: 1e-6).plan for _ in range(3)]
    assert all([g.variant for g in plan.groups] == [g.variant for g in plans[0].groups] for plan in plans)


def test_a_conversion_is_paid_once() -> None:
    """x is read blocked by three: one conversion, cheaper than the plain variants together, dearer than one of them."""
    nodes = tuple(Node("Relu", ("x",), (f"y{i}",)) for i in range(3))
    values = {name: Value(name, FLOAT32, (1, 8, 4, 4)) for name in ("x", "y0", "y1", "y2")}
    graph = Graph("g", ("x",), ("y0", "y1", "y2"), nodes, values, {})
    offers = []
    for node in nodes:
        group = build_group(graph, [node], node)
        offers.append(Offer(group, group_text(group), "none", (Variant("k", "a", {}, {}),)))

    def prices(offer: Offer) -> list[Priced]:
        return [Priced(Variant("k", name, {"x": layout}, {offer.key: PLAIN}), seconds)
                for name, layout, seconds in (("plain", PLAIN, 2e-6), ("blocked", blocked(8), 0.5e-6))]

    found = solve(Space(graph, tuple(offers)), prices, conversion)
    assert [g.variant.name for g in found.plan.groups] == ["blocked"] * 3
    assert found.seconds == pytest.approx(3 * 0.5e-6 + 3e-6) and found.conversions == pytest.approx(3e-6)
    alone = solve(Space(graph.replace(nodes=nodes[:1], outputs=("y0",)), tuple(offers[:1])), prices, conversion)
    assert alone.plan.groups[0].variant.name == "plain"


def test_groups_that_wait_for_each_other_are_not_taken_together() -> None:
    """a -> b and c -> d, with {a, d} and {b, c} the cheapest pair: each would wait for the other."""
    nodes = (Node("Relu", ("x",), ("a",)), Node("Relu", ("x",), ("c",)), Node("Neg", ("a",), ("b",)),
             Node("Neg", ("c",), ("d",)))
    values = {name: Value(name, FLOAT32, (1, 8, 4, 4)) for name in "xabcd"}
    graph = Graph("g", ("x",), ("b", "d", "a", "c"), nodes, values, {})
    by_key = {node.outputs[0]: node for node in nodes}

    def offer(keys: str) -> Offer:
        own = [by_key[key] for key in keys]
        group = build_group(graph, own, own[0])
        plain = Variant("k", "v", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})
        return Offer(group, keys, "none", (plain,))

    offers = [offer(keys) for keys in ("a", "b", "c", "d", "ad", "cb")]
    assert cycle_of(graph, [offers[4].group, offers[5].group])
    with pytest.raises(InternalError):
        in_order(graph, [offers[4].group, offers[5].group])
    def prices(offer: Offer) -> list[Priced]:
        return [Priced(offer.variants[0], len(offer.covers) ** -3.0 * 1e-6)]

    found = solve(Space(graph, tuple(offers)), prices, conversion)
    assert sorted(len(g.group.nodes) for g in found.plan.groups) == [1, 1, 2]


def test_a_memory_limit_prefers_what_is_smaller() -> None:
    rng = random.Random(3)
    graph = random_graph(rng, 4)
    offers = []
    for node in graph.nodes:
        group = build_group(graph, [node], node)
        offers.append(Offer(group, node.outputs[0], "none", (Variant("k", "v", {}, {}),)))

    def prices(offer: Offer) -> list[Priced]:
        plain = {n: PLAIN for n in offer.group.inputs}, {n: PLAIN for n in offer.group.outputs}
        return [Priced(Variant("k", "large", *plain, packed_bytes=10_000), 1e-6),
                Priced(Variant("k", "small", *plain, packed_bytes=10), 2e-6)]

    space = Space(graph, tuple(offers))
    assert {g.variant.name for g in solve(space, prices, conversion).plan.groups} == {"large"}
    limited = solve(space, prices, conversion, Limits(memory_bytes=25_000)).plan
    assert 0 < sum(g.variant.name == "large" for g in limited.groups) <= 2
    with pytest.raises(UnsupportedError, match="fits the limits"):
        solve(space, prices, conversion, Limits(memory_bytes=100))


def test_of_equal_formats_the_quickest_stays() -> None:
    group = build_group(random_graph(random.Random(0), 1), [random_graph(random.Random(0), 1).nodes[0]],
                        random_graph(random.Random(0), 1).nodes[0])
    plain = {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs}
    offer = Offer(group, "t", "none", ())
    slow, quick = (Priced(Variant("k", name, *plain, packed_bytes=size), seconds)
                   for name, size, seconds in (("slow", 5, 2.0), ("quick", 9, 1.0)))
    assert best_of_each(offer, [slow, quick]) == [quick]
    assert best_of_each(offer, [slow, quick], keep_all=True) == [quick, slow]
    assert np.isfinite(quick.seconds)


def test_ctrl_c_is_heard_as_before() -> None:
    """The solver takes the signal's handler away unless it is told not to."""
    import signal

    rng = random.Random(1)
    space, prices = random_space(rng, random_graph(rng, 3))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        solve(space, lambda offer: prices[offer.covers], conversion)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
