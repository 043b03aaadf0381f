"""Passes inside and around the bodies of If and Loop: captured values count as readers, names stay unique."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.graph import Graph, walk_nodes
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.ir.graph_text import print_graph
from meta_infer.ops.execute import execute_graph
from meta_infer.passes.check_rewrite import results_differ
from meta_infer.passes.pipeline import canonicalize
from meta_infer.passes.rewrite import Edit, apply_rule, edit_graphs
from meta_infer.passes.verify_types import verify
from meta_infer.support.errors import InternalError

LOOP = """graph main(%x: float32[N, 4] @"x", %n: int64[] @"n") -> (%y, %rows) {
  symbol N in [1, 8] step 1
  symbol T in [0, 1000] step 1 from %y
  symbol step_ in [0, 999] step 1
  const %true: bool[] = (true,)
  const %two: float32[] = (2.0,)
  const %half: float32[] = (0.5,)
  const %row: float32[4] = (1.0, 2.0, 3.0, 4.0)
  %i: float32[N, 4] = Identity(%x) from ("id")
  %s: float32[N, 4] = Mul(%i, %two) from ("outer")
  %y: float32[N, 4] @"y", %rows: float32[T, N, 4] @"rows" = Loop(%n, %true, %i) {iteration = ([step_],),
      reverse = (), shapes = (([N], 4), ([T], [N], 4)), trips = ([T],)} from ("loop") regions {
    region body(%it: int64[], %go: bool[], %carried: float32[N, 4]) captures (%half, %i, %row, %s, %true, %two)
        -> (%next_go, %next, %scan) {
      %next_go: bool[] = Identity(%true) from ("go")
      %m: float32[N, 4] = Mul(%s, %two) from ("scale")
      %k: float32[4] = Mul(%row, %half) from ("constant")
      %a: float32[N, 4] = Add(%carried, %m) from ("add")
      %b: float32[N, 4] = Sigmoid(%a) from ("sigmoid")
      %next: float32[N, 4] = Mul(%a, %b) from ("silu")
      %t: float32[N, 4] = Add(%i, %k) from ("row")
      %scan: float32[N, 4] = Mul(%t, %next) from ("scan")
    }
  }
}
"""
IF = """graph main(%x: float32[N, 4] @"x", %c: bool[] @"c") -> (%y) {
  symbol N in [1, 8] step 1
  const %one: float32[] = (1.0,)
  const %three: float32[] = (3.0,)
  %a: float32[N, 4] = Mul(%x, %three) from ("a")
  %b: float32[N, 4] = Mul(%a, %three) from ("b")
  %y: float32[N, 4] @"y" = If(%c) from ("if") regions {
    region then() captures (%a, %c, %one) -> (%t) {
      %t: float32[N, 4] = If(%c) from ("inner") regions {
        region deep() captures (%a, %one) -> (%d) {
          %d: float32[N, 4] = Mul(%a, %one) from ("neutral")
        }
        region other() captures (%one, %a) -> (%o) {
          %o: float32[N, 4] = Div(%a, %one) from ("neutral2")
        }
      }
    }
    region else() captures (%b) -> (%b) {
    }
  }
}
"""


@pytest.fixture(params=[LOOP, IF], ids=["loop", "if"])
def graph(request: pytest.FixtureRequest) -> Graph:
    return parse_graph(request.param)


def test_pipeline_keeps_results(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    verify(graph)
    monkeypatch.setenv("META_INFER_VERIFY", "3")
    after = canonicalize(graph)
    for seed in range(4):
        assert results_differ(graph, after, seed) is None


def test_loop_body_is_simplified_and_counts_as_a_reader() -> None:
    graph = canonicalize(parse_graph(LOOP))
    body = graph.nodes[-1].regions[0]
    assert "Silu" in {node.op for node in body.nodes}
    assert [node.origins for node in graph.nodes if node.op == "Mul"] == [("outer",)]
    assert set(body.captures) == {"x", "s", "two"}, print_graph(graph)
    inputs = {"x": np.ones((2, 4), np.float32), "n": np.array(3, np.int64)}
    for wanted, found in zip(execute_graph(parse_graph(LOOP), inputs).values(),
                             execute_graph(graph, inputs).values(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_product_read_by_a_deep_region_is_not_merged() -> None:
    graph = canonicalize(parse_graph(IF))
    assert [node.origins for node in graph.nodes] == [("a",), ("b",), ("if",)]
    assert not any(node.op == "Div" for _, node in walk_nodes(graph))


def test_rule_that_makes_a_cycle_is_caught() -> None:
    graph = parse_graph(IF)

    def tangle(edit: Edit) -> None:
        node = edit.made_by("a")
        if node is not None:
            edit.remove([node])
            edit.emit("Add", ("b", "three"), output="a")

    with pytest.raises(InternalError, match="cycle"):
        edit_graphs(graph, tangle)


def test_rule_that_never_rests_is_caught() -> None:
    def flip(edit: Edit, node: object) -> bool:
        return True

    with pytest.raises(InternalError, match="never comes to rest"):
        apply_rule(parse_graph(IF), flip)


def test_graph_without_change_is_the_same_object(graph: Graph) -> None:
    assert apply_rule(graph, lambda edit, node: False) is graph
