"""Covers: what fuses, what must not, and that every cover can run in the order given."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.graph import Graph, Node, Value, walk_graphs
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.ir.group import Group
from meta_infer.passes.covers import build_group, propose_covers
from meta_infer.passes.verify_types import verify
from meta_infer.support.dtypes import FLOAT32

ATTRS = "{dilations = (1, 1), group = 1, kernel_shape = (1, 1), pads = (0, 0, 0, 0), strides = (1, 1)}"
T = "float32[1, 2, 4, 4]"
HEAD = f"""graph main(%x: {T}, %r: {T}) -> (%y) {{
  const %w: float32[2, 2, 1, 1] = (1.0, 2.0, 3.0, 4.0)
  const %k: float32[2, 1, 1] = (1.0, 2.0)
  %c: {T} = Conv(%x, %w) {ATTRS} from ("conv")
"""


def conv_graph(body: str, outputs: str = "%y") -> Graph:
    graph = parse_graph(HEAD.replace("-> (%y)", f"-> ({outputs})") + body.replace("T]", T) + "\n}")
    verify(graph)
    return graph


def check_legal(graph: Graph, groups: tuple[Group, ...]) -> None:
    """Every node once; groups in an order in which they run; one value leaves, inner values are read inside only."""
    covered = [node for group in groups for node in group.nodes]
    assert sorted(map(id, covered)) == sorted(map(id, graph.nodes))
    known = {*graph.inputs, *graph.constants, *graph.captures}
    for group in groups:
        assert known.issuperset(group.inputs), f"{group.label} runs before its inputs are there"
        inside = set(group.inputs)
        for node in group.nodes:
            assert inside.issuperset(node.reads)
            inside.update(node.outputs)
        known.update(group.outputs)
        made = {name for node in group.nodes for name in node.outputs if name}
        outside = [node for node in graph.nodes if not any(node is inner for inner in group.nodes)]
        read = {name for node in outside for name in node.reads} | set(graph.outputs)
        assert set(group.outputs) == made & read
        assert len(group.nodes) == 1 or len(group.outputs) == 1
        assert set(group.values) == {*group.inputs, *made}
        shapes = {group.values[name].shape for name in made}
        assert len(group.nodes) == 1 or len(shapes) == 1


def labels(graph: Graph, disabled: frozenset[str] = frozenset()) -> list[str]:
    groups = propose_covers(graph, disabled)
    check_legal(graph, groups)
    return [group.label for group in groups]


def test_conv_add_relu() -> None:
    graph = conv_graph("%s: T] = Add(%c, %r) %y: T] = Relu(%s)")
    (group,) = propose_covers(graph)
    assert group.label == "Conv+Add+Relu" and group.anchor.op == "Conv"
    assert group.inputs == ("x", "w", "r") and group.outputs == ("y",)
    assert set(group.constants) == {"w"} and group.prologue == () and group.origins == ("conv",)


def test_disabled() -> None:
    graph = conv_graph("%s: T] = Add(%c, %r) %y: T] = Relu(%s)")
    assert labels(graph, frozenset({"fuse_epilogue"})) == ["Conv", "Add+Relu"]
    assert labels(graph, frozenset({"fuse_epilogue", "fuse_elementwise"})) == ["Conv", "Add", "Relu"]
    assert labels(graph, frozenset({"fuse_elementwise"})) == ["Conv+Add+Relu"]


def test_second_reader_ends_the_epilogue() -> None:
    assert labels(conv_graph("%s: T] = Relu(%c) %t: T] = Transpose(%s) {perm = (0, 1, 2, 3)} %y: T] = Add(%s, %t)"
                             )) == ["Conv+Relu", "Transpose", "Add"]


def test_graph_output_ends_the_epilogue() -> None:
    assert labels(conv_graph("%y: T] = Relu(%c)", "%y, %c")) == ["Conv", "Relu"]
    assert labels(conv_graph("%s: T] = Relu(%c) %y: T] = Exp(%s)", "%s, %y")) == ["Conv+Relu", "Exp"]


def test_diamond_joins_whole() -> None:
    body = "%a: T] = Softplus(%c) %b: T] = Tanh(%a) %y: T] = Mul(%c, %b)"
    assert labels(conv_graph(body)) == ["Conv+Softplus+Tanh+Mul"]
    assert labels(conv_graph(body, "%y, %a")) == ["Conv", "Softplus", "Tanh+Mul"]


def test_operand_that_depends_on_the_anchor_stays_out() -> None:
    """y = c + transpose(relu(c)): the Add cannot run with the Conv, one operand comes later."""
    graph = conv_graph("%a: T] = Relu(%c) %t: T] = Transpose(%a) {perm = (0, 1, 3, 2)} %y: T] = Add(%c, %t)")
    assert labels(graph) == ["Conv", "Relu", "Transpose", "Add"]


def test_operand_that_broadcasts_up_stays_out() -> None:
    big = "float32[3, 2, 4, 4]"
    graph = parse_graph(HEAD.replace(f"%r: {T}", f"%r: {big}") + f"%y: {big} = Add(%c, %r)\n}}")
    assert labels(graph) == ["Conv", "Add"]


def test_operand_that_is_broadcast_is_fine() -> None:
    assert labels(conv_graph("%s: T] = Mul(%k, %c) %y: T] = Clip(%s) {max = 6.0, min = 0.0}")) == ["Conv+Mul+Clip"]


def test_residual_of_two_convs_goes_to_one() -> None:
    graph = conv_graph(f"%d: T] = Conv(%r, %w) {ATTRS} %s: T] = Add(%c, %d) %y: T] = Relu(%s)")
    assert sorted(labels(graph)) == ["Conv", "Conv+Add+Relu"]


def test_heavy_anchor_wins_over_pooling() -> None:
    pool = "{ceil_mode = 0, dilations = (1, 1), kernel_shape = (1, 1), pads = (0, 0, 0, 0), strides = (1, 1)}"
    graph = conv_graph(f"%p: T] = MaxPool(%r) {pool} %d: T] = Conv(%r, %w) {ATTRS} %y: T] = Add(%p, %d)")
    assert "Conv+Add" in labels(graph) and "MaxPool" in labels(graph)


def test_views_and_data_movement_stand_alone() -> None:
    graph = parse_graph("""graph main(%x: float32[2, 3]) -> (%y) {
      %a: float32[6] = Reshape(%x) {shape = (6,)}
      %b: float32[6] = Relu(%a)
      %c: float32[12] = Concat(%b, %a) {axis = 0}
      %d: float32[12] = Exp(%c)
      %e: float32[3, 4] = Reshape(%d) {shape = (3, 4)}
      %y: float32[4, 3] = Transpose(%e) {perm = (1, 0)}
    }""")
    assert labels(graph) == ["Reshape", "Relu", "Concat", "Exp", "Reshape", "Transpose"]


def test_elementwise_takes_what_feeds_it() -> None:
    graph = parse_graph("""graph main(%x: float32[N, 8], %z: float32[N, 8], %b: float32[8]) -> (%y) {
      symbol N in [1, 8] step 1
      %s: float32[8] = Exp(%b)
      %a: float32[N, 8] = Exp(%x)
      %t: float32[N, 8] = Tanh(%z)
      %u: float32[N, 8] = Add(%a, %t)
      %y: float32[N, 8] = Mul(%u, %s)
    }""")
    assert sorted(labels(graph)) == ["Exp", "Exp+Tanh+Add+Mul"]


def test_gemm_bias_activation_and_softmax() -> None:
    graph = parse_graph("""graph main(%x: float32[N, 4], %m: float32[N, 4]) -> (%y) {
      symbol N in [1, 8] step 1
      const %w: float32[4, 4] = (1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0)
      const %b: float32[4] = (1.0, 2.0, 3.0, 4.0)
      %p: float32[N, 4] = MatMul(%x, %w)
      %q: float32[N, 4] = Add(%p, %b)
      %g: float32[N, 4] = Gelu(%q) {approximate = "none"}
      %s: float32[N, 4] = Softmax(%g) {axis = 1}
      %y: float32[N, 4] = Mul(%s, %m)
    }""")
    assert labels(graph) == ["MatMul+Add+Gelu", "Softmax+Mul"]


def test_regions() -> None:
    graph = parse_graph("""graph main(%c: bool[], %x: float32[2]) -> (%y) {
      const %k: float32[2] = (1.0, 2.0)
      %y: float32[2] = If(%c) regions {
        region then() captures (%x, %k) -> (%t) {
          %s: float32[2] = Mul(%x, %k)
          %t: float32[2] = Exp(%s)
        }
        region else() captures (%x) -> (%x) {
        }
      }
    }""")
    (group,) = propose_covers(graph)
    assert group.label == "If" and group.inputs == ("c", "x", "k") and group.outputs == ("y",)
    region = graph.nodes[0].regions[0]
    (inner,) = propose_covers(region, root=graph)
    assert inner.label == "Mul+Exp" and inner.inputs == ("x", "k") and set(inner.constants) == {"k"}


def test_build_group_puts_the_anchors_inputs_first() -> None:
    graph = conv_graph("%s: T] = Add(%r, %c) %y: T] = Mul(%s, %k)")
    group = build_group(graph, graph.nodes, graph.nodes[0])
    assert group.inputs == ("x", "w", "r", "k") and group.outputs == ("y",)


def random_graph(seed: int) -> Graph:
    """Elementwise ops, transposes and reductions of random operands of two shapes, some of them outputs."""
    rng = np.random.default_rng(seed)
    shapes = {"x0": (3, 4), "x1": (3, 4), "x2": (1, 4)}
    nodes: list[Node] = []
    for i in range(int(rng.integers(3, 25))):
        name, a, b = f"v{i}", *(str(rng.choice(list(shapes))) for _ in range(2))
        kind = rng.random()
        if kind < 0.35:
            nodes.append(Node(str(rng.choice(["Relu", "Tanh", "Neg"])), (a,), (name,)))
            shapes[name] = shapes[a]
        elif kind < 0.8:
            nodes.append(Node(str(rng.choice(["Add", "Mul", "Max"])), (a, b), (name,)))
            shapes[name] = max(shapes[a], shapes[b])
        elif kind < 0.9:
            nodes.append(Node("Softmax", (a,), (name,), {"axis": 1}))
            shapes[name] = shapes[a]
        else:
            nodes.append(Node("ReduceSum", (a,), (name,), {"axes": (0,), "keepdims": True}))
            shapes[name] = (1, 4)
    unread = [n.outputs[0] for n in nodes if not any(n.outputs[0] in m.inputs for m in nodes)]
    outputs = [*unread, *(n.outputs[0] for n in nodes if rng.random() < 0.1)]
    return Graph("random", ("x0", "x1", "x2"), tuple(dict.fromkeys(outputs)), tuple(nodes),
                 {name: Value(name, FLOAT32, shape) for name, shape in shapes.items()})


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_have_legal_covers(seed: int) -> None:
    graph = random_graph(seed)
    verify(graph)
    for disabled in (frozenset[str](), frozenset({"fuse_epilogue"}), frozenset({"fuse_elementwise"})):
        check_legal(graph, propose_covers(graph, disabled))
    assert [g.name for g in walk_graphs(graph)] == ["random"]
