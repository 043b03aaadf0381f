"""What a report keeps of a group reads back as the same work: same text, same operations, same floor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meta_infer.cost.floor import MachineRates, MemoryRate, bounds, everything
from meta_infer.ir.graph import Graph, Quant
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.ir.group import Group
from meta_infer.ir.group_text import group_text
from meta_infer.report.group_work import LONGEST, group_of, work_of

RATES = MachineRates(1e11, (MemoryRate("L1", 32 << 10, 2e11), everything("memory", 2e10)))
CONV = """
graph g(%x: float32[N, 16, H, 14] @"image", %w: float32[32, 16, 3, 3], %b: float32[32]) -> (%y) {
  symbol N in [1, 8] step 1
  symbol H in [8, 64] step 8
  %c: float32[N, 32, H, 14] = Conv(%x, %w, %b) {auto_pad = "NOTSET", dilations = (1, 1), group = 1,
                                                kernel_shape = (3, 3), pads = (1, 1, 1, 1), strides = (1, 1)} from ("a")
  %y: float32[N, 32, H, 14] @"out" = Relu(%c) from ("b", "c")
}
"""


def group(text: str, weights: tuple[str, ...] = (), anchor: int = 0) -> Group:
    graph: Graph = parse_graph(text)
    values = graph.values
    inline = {name: array for name, array in graph.constants.items()}
    large = {name: np.ones(tuple(int(d) for d in values[name].shape), np.float32) for name in weights}
    inputs = tuple(dict.fromkeys(name for node in graph.nodes for name in node.inputs
                                 if name in graph.inputs or name in inline))
    return Group(graph.nodes[anchor], inputs, graph.outputs, values, {**inline, **large}, graph.nodes[:anchor],
                 graph.nodes[anchor + 1:])


def check(made: Group, sizes: dict[str, int]) -> Group:
    work = work_of(made)
    assert work is not None
    found = group_of(work)
    assert group_text(found) == group_text(made)
    assert [n.op for n in found.nodes] == [n.op for n in made.nodes] and found.anchor.op == made.anchor.op
    assert found.inputs == made.inputs and set(found.constants) == set(made.constants)
    assert bounds(found, sizes, RATES, 1e6) == bounds(made, sizes, RATES, 1e6)
    return found


def test_a_convolution_of_dynamic_size() -> None:
    found = check(group(CONV, ("w", "b")), {"N": 2, "H": 24})
    assert found.origins == () and not any(value.origin for value in found.values.values())
    assert found.constants["w"].shape == (32, 16, 3, 3) and not found.constants["w"].any()


def test_small_constants_keep_their_contents() -> None:
    text = """
    graph g(%x: float32[4, 8]) -> (%y) {
      const %scale: float32[] = (0.5,)
      %y: float32[4, 8] = Mul(%x, %scale)
    }"""
    assert check(group(text), {}).constants["scale"] == np.float32(0.5)


def test_nodes_before_the_anchor() -> None:
    text = """
    graph g(%x: float32[1, 8], %w: float32[8, 4]) -> (%y) {
      %p: float32[1, 8] = Relu(%x)
      %y: float32[1, 4] = MatMul(%p, %w)
    }"""
    assert [node.op for node in check(group(text, ("w",), anchor=1), {}).prologue] == ["Relu"]


def test_quantisation_is_left_out() -> None:
    made = group(CONV, ("w", "b"))
    values = {**made.values, "x": replace(made.values["x"], quant=Quant((0.1,) * 4000, (0,) * 4000, 1, 0))}
    work = work_of(replace(made, values=values))
    assert work is not None and "quant" not in work["graph"] and len(work["graph"]) < 1000


def test_what_has_no_short_text() -> None:
    made = group(CONV, ("w", "b"))
    long = replace(made.anchor, attrs={**made.anchor.attrs, "note": "x" * LONGEST})
    assert work_of(replace(made, anchor=long)) is None


@pytest.mark.parametrize("work", [
    {}, {"graph": "no graph", "anchor": 0, "inputs": [], "weights": []}, None, [],
    {"graph": "graph g() -> () {}", "anchor": 0, "inputs": [], "weights": []},
    {"graph": "graph g(%x: float32[2]) -> (%y) { %y: float32[2] = NoSuchOp(%x) }", "anchor": 0, "inputs": ["x"],
     "weights": []},
    {"graph": "graph g(%x: float32[2]) -> (%y) { %y: float32[2] = Relu(%x) }", "anchor": 0, "inputs": ["x"],
     "weights": ["w"]},
])
def test_what_was_never_written_is_refused(work: object) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        group_of(work)  # type: ignore[arg-type]
