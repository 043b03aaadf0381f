"""Orders of branches: all are topological, some are equal, and one takes the least memory where it matters."""

from __future__ import annotations

import pytest

from meta_infer.ir.graph import Graph, Node
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.passes.branch_order import branch_orders, group_orders
from meta_infer.passes.check_rewrite import results_differ
from meta_infer.passes.covers import propose_covers
from meta_infer.support.errors import InternalError

from .move_graphs import RECIPES, Maker

WIDE, NARROW = "float32[1, 64]", "float32[1, 2]"
COLUMNS = ", ".join(["0.5"] * 128)


def names(order: tuple[Node, ...]) -> str:
    return " ".join(node.outputs[0] for node in order)


def live_bytes(graph: Graph, order: tuple[Node, ...]) -> int:
    """The most bytes that made values hold at once, no value being in the place of another."""
    last = {name: i for i, node in enumerate(order) for name in node.reads}
    last |= dict.fromkeys(graph.outputs, len(order))
    most, live = 0, set[str]()
    for i, node in enumerate(order):
        live |= set(node.outputs)
        most = max(most, sum(4 * int(graph.values[name].shape[1]) for name in live))         # type: ignore[arg-type]
        live = {name for name in live if last.get(name, i) > i}
    return most


def test_two_branches() -> None:
    graph = parse_graph(f"""graph main(%x: {WIDE}) -> (%y) {{
      %a: {WIDE} = Exp(%x)
      %b: {WIDE} = Neg(%x)
      %c: {WIDE} = Exp(%a)
      %d: {WIDE} = Neg(%b)
      %y: {WIDE} = Add(%c, %d)
    }}""")
    orders = {name: names(order) for name, order in branch_orders(graph).items()}
    assert orders == {"as_given": "a b c d y", "depth_first": "a c b d y"}
    given = graph.replace(nodes=branch_orders(graph)["depth_first"])
    assert {name: names(order) for name, order in branch_orders(given).items()} == {
        "as_given": "a c b d y", "breadth_first": "a b c d y"}


def test_least_live_makes_the_small_results_first() -> None:
    """Four wide values that shrink: side by side all are live, one after the other a single one."""
    branches = "".join(f"%w{i}: {WIDE} = Exp(%x) " for i in range(4))
    branches += "".join(f"%n{i}: {NARROW} = MatMul(%w{i}, %k) " for i in range(4))
    graph = parse_graph(f"""graph main(%x: {WIDE}) -> (%y) {{
      const %k: float32[64, 2] = ({COLUMNS})
      {branches}
      %s: {NARROW} = Add(%n0, %n1)
      %t: {NARROW} = Add(%n2, %n3)
      %y: {NARROW} = Add(%s, %t)
    }}""")
    orders = branch_orders(graph)
    assert names(orders["depth_first"]) == "w0 n0 w1 n1 s w2 n2 w3 n3 t y"
    bytes = {name: live_bytes(graph, order) for name, order in orders.items()}
    assert bytes["as_given"] == 4 * 256 + 8 and bytes["depth_first"] == 256 + 3 * 8


def test_views_hold_what_they_are_views_of() -> None:
    """Reading %a last frees nothing as long as %v, a view of it, is needed."""
    graph = parse_graph(f"""graph main(%x: {WIDE}) -> (%y) {{
      const %k: float32[64, 2] = ({COLUMNS})
      %a: {WIDE} = Exp(%x)
      %v: {WIDE} = Reshape(%a) {{shape = (1, 64)}}
      %b: {WIDE} = Exp(%x)
      %n: {NARROW} = MatMul(%b, %k)
      %m: {NARROW} = MatMul(%v, %k)
      %y: {NARROW} = Add(%n, %m)
    }}""")
    orders = branch_orders(graph)
    assert names(orders["depth_first"]) == "a v m b n y"
    assert names(orders.get("least_live", orders["depth_first"])) in ("a v m b n y", "b n a v m y")


@pytest.mark.parametrize("seed", range(8))
def test_least_live_does_not_depend_on_a_good_order_to_begin_with(seed: int) -> None:
    """Branches of an Inception, one after the other, from any order that they are given in."""
    m = Maker(seed)
    x = m.input(1, 8, 9, 9)
    for _ in range(3):
        wide = [m.conv(x, m.pick(8, 16, 64)) for _ in range(4)]
        x = m.add("Concat", *(m.conv(name, m.pick(1, 2, 4)) for name in wide), axis=1)
    graph = m.finish()
    best = live_bytes(graph, branch_orders(graph).get("least_live", graph.nodes))
    waiting, known, shuffled = list(graph.nodes), {*graph.inputs, *graph.constants}, []
    while waiting:
        ready = [node for node in waiting if known.issuperset(node.inputs)]
        node = ready[m.pick(*range(len(ready)))]
        waiting.remove(node)
        shuffled.append(node)
        known.update(node.outputs)
    mixed = graph.replace(nodes=tuple(shuffled))
    orders = branch_orders(mixed)
    found = live_bytes(mixed, orders.get("least_live", mixed.nodes))
    assert found <= min(live_bytes(mixed, order) for order in orders.values()) and found <= 1.1 * best


@pytest.mark.parametrize("kind", RECIPES)
def test_random_graphs(kind: str) -> None:
    for recipe in RECIPES[kind]:
        for seed in range(15):
            graph = recipe(Maker(seed))
            for name, order in branch_orders(graph).items():
                assert sorted(map(id, order)) == sorted(map(id, graph.nodes)), name
                assert results_differ(graph, graph.replace(nodes=order), seed) is None
            groups = propose_covers(graph)
            for order_of_groups in group_orders(graph, groups).values():
                known = {*graph.inputs, *graph.constants}
                for group in order_of_groups:
                    assert known.issuperset(group.inputs)
                    known.update(group.outputs)
                assert len(order_of_groups) == len(groups)


def test_cycles_are_told() -> None:
    graph = parse_graph(f"""graph main(%x: {WIDE}) -> (%b) {{
      %a: {WIDE} = Neg(%x)
      %b: {WIDE} = Neg(%a)
    }}""")
    turned = graph.replace(nodes=(Node("Add", ("x", "b"), ("a",)), graph.nodes[1]))
    with pytest.raises(InternalError, match="2 of 2.*cycle"):
        branch_orders(turned)
