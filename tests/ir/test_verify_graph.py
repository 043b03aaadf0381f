"""The verifier finds every kind of broken graph and shows the IR around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from meta_infer.ir.graph import Graph
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.ir.shapes import Symbol
from meta_infer.ir.verify_graph import verify_graph
from meta_infer.support.dtypes import FLOAT32
from meta_infer.support.errors import InternalError

TEXT = """graph main(%x: float32[N, 2], %c: bool[]) -> (%y, %z) {
  symbol N in [1, 8] step 1
  const %k: float32[2] = (1.0, 2.0)
  %a: float32[N, 2] = Add(%x, %k) from ("add")
  %z: float32[N, 2] = Relu(%a) from ("relu")
  %y: float32[N, 2] = If(%c) from ("if") regions {
    region then() captures (%a, %k) -> (%t) {
      %t: float32[N, 2] = Mul(%a, %k) from ("mul")
    }
    region else() captures (%x) -> (%x) {
    }
  }
}
"""


def without_value(graph: Graph, name: str) -> Graph:
    return graph.replace(values={k: v for k, v in graph.values.items() if k != name})


def with_value(graph: Graph, name: str, /, **changes: object) -> Graph:
    return graph.replace(values={**graph.values, name: replace(graph.values[name], **changes)})


def with_then(graph: Graph, **changes: object) -> Graph:
    node = graph.nodes[2]
    regions = (node.regions[0].replace(**changes), node.regions[1])
    return graph.replace(nodes=(*graph.nodes[:2], replace(node, regions=regions)))


def duplicate(graph: Graph) -> Graph:
    return graph.replace(nodes=(*graph.nodes, graph.nodes[1]))


BROKEN: list[tuple[str, Callable[[Graph], Graph]]] = [
    ("%a is not defined before its use", lambda g: g.replace(nodes=(g.nodes[1], g.nodes[0], g.nodes[2]))),
    ("%gone is not defined", lambda g: g.replace(outputs=("gone",))),
    ("%z is defined twice", duplicate),
    ("%x is defined twice", lambda g: g.replace(inputs=("x", "x", "c"))),
    ("%a has no type", lambda g: without_value(g, "a")),
    ("says it is %b", lambda g: with_value(g, "a", name="b")),
    ("%old is typed but nothing", lambda g: g.replace(values={**g.values, "old": replace(g.values["a"], name="old")})),
    ("holds an array of shape", lambda g: g.replace(constants={"k": np.zeros(3, np.float32)})),
    ("holds an array of float64", lambda g: g.replace(constants={"k": np.zeros(2)})),
    ("captures .* but reads", lambda g: with_then(g, captures=("a",))),
    ("captures .* but reads", lambda g: with_then(g, captures=("a", "k", "x"))),
    ("%a is defined twice", lambda g: with_then(g, inputs=("a",), values={
        **g.nodes[2].regions[0].values, "a": g.values["a"]}, captures=("k",))),
    ("symbol N has two ranges", lambda g: with_value(g, "z", shape=(Symbol("N", 1, 9).dim, 2))),
    ("two ranges", lambda g: g.replace(nodes=(replace(g.nodes[0], attrs={"a": Symbol("N", 2, 8).dim}), *g.nodes[1:]))),
    ("empty range", lambda g: with_value(g, "z", shape=(Symbol("M", 3, 2).dim, 2))),
    ("not an identifier", lambda g: with_value(g, "z", shape=(Symbol("a b").dim, 2))),
    ("outermost graph captures", lambda g: g.replace(captures=("x",))),
    ("has no outputs", lambda g: g.replace(nodes=(*g.nodes, replace(g.nodes[0], outputs=("",))))),
]


def test_accepts() -> None:
    verify_graph(parse_graph(TEXT))
    verify_graph(parse_graph(TEXT).replace(outputs=("x", "k", "x")))


@pytest.mark.parametrize("message, change", BROKEN, ids=[f"{i}" for i in range(len(BROKEN))])
def test_refuses(message: str, change: Callable[[Graph], Graph]) -> None:
    with pytest.raises(InternalError, match=message):
        verify_graph(change(parse_graph(TEXT)))


def test_error_shows_the_node_and_its_surroundings() -> None:
    graph = parse_graph(TEXT)
    broken = graph.replace(nodes=(graph.nodes[1], graph.nodes[0], graph.nodes[2]))
    with pytest.raises(InternalError) as caught:
        verify_graph(broken)
    assert "'relu'" in str(caught.value) or "relu" in caught.value.what
    assert "%a: float32[N, 2] = Add(%x, %k)" in str(caught.value)
    assert caught.value.exit_code == 70 and FLOAT32.name in str(caught.value)
