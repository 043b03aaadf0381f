"""Groups of several anchors: what is proposed, what must not be, and that taking them leaves a cover that runs."""

from __future__ import annotations

import pytest

from meta_infer.ir.graph import Graph
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.ir.group import Group
from meta_infer.passes.alternatives import Alternative, propose_alternatives, take_alternatives
from meta_infer.passes.covers import propose_covers
from meta_infer.passes.verify_types import verify
from meta_infer.support.errors import InternalError

T = "float32[1, 2, 4, 4]"
S = "float32[1, 2, 1, 1]"
WEIGHTS = ", ".join(["1.0"] * 18)
DENSE = "{dilations = (1, 1), group = 1, kernel_shape = (1, 1), pads = (0, 0, 0, 0), strides = (1, 1)}"
DEPTHWISE = "{dilations = (1, 1), group = 2, kernel_shape = (3, 3), pads = (1, 1, 1, 1), strides = (1, 1)}"
POOL = "{ceil_mode = 0, dilations = (1, 1), kernel_shape = (2, 2), pads = (0, 0, 0, 0), strides = (2, 2)}"


def graph_of(body: str, outputs: str = "%y") -> Graph:
    text = f"""graph main(%x: {T}) -> ({outputs}) {{
      const %w: float32[2, 2, 1, 1] = (1.0, 2.0, 3.0, 4.0)
      const %v: float32[2, 1, 3, 3] = ({WEIGHTS})
      {body.replace('T]', T).replace('S]', S)}
    }}"""
    graph = parse_graph(text)
    verify(graph)
    return graph


def proposed(graph: Graph, disabled: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    return [(one.fusion, one.group.label) for one in propose_alternatives(graph, propose_covers(graph), disabled)]


SEPARABLE = f"%d: T] = Conv(%x, %v) {DEPTHWISE} %c: T] = Relu(%d) %p: T] = Conv(%c, %w) {DENSE} "


def test_separable_and_inverted() -> None:
    graph = graph_of(f"%e: T] = Conv(%x, %w) {DENSE} %r: T] = Relu(%e) %d: T] = Conv(%r, %v) {DEPTHWISE} "
                     f"%p: T] = Conv(%d, %w) {DENSE} %y: T] = Add(%p, %x)")
    assert proposed(graph) == [("fuse_conv_chain", "Conv+Conv+Add"), ("fuse_conv_chain", "Conv+Relu+Conv+Conv+Add")]
    assert proposed(graph, frozenset({"fuse_conv_chain"})) == []
    two, three = propose_alternatives(graph, propose_covers(graph))
    assert two.replaces == ("d", "y") and three.replaces == ("r", "d", "y")
    assert three.group.anchor.outputs == ("p",)
    assert [node.op for node in three.group.prologue] == ["Conv", "Relu", "Conv"]
    assert three.group.inputs == ("w", "x", "v") and three.group.outputs == ("y",)


def test_gate_and_pool() -> None:
    gated = graph_of(f"%g: S] = GlobalAveragePool(%x) %f: S] = Conv(%g, %w) {DENSE} %a: S] = Relu(%f) "
                     f"%h: S] = Conv(%a, %w) {DENSE} %s: S] = Sigmoid(%h) %m: T] = Mul(%x, %s) %y: T] = Conv(%m, %w) "
                     f"{DENSE}")
    assert proposed(gated) == [("fuse_conv_chain", "Mul+Conv"),
                               ("fuse_squeeze", "GlobalAveragePool+Conv+Relu+Conv+Sigmoid")]
    half = "float32[1, 2, 2, 2]"
    pooled = graph_of(f"%c: T] = Conv(%x, %w) {DENSE} %r: T] = Relu(%c) %y: {half} = MaxPool(%r) {POOL}")
    assert proposed(pooled) == [("fuse_conv_pool", "Conv+Relu+MaxPool")]


@pytest.mark.parametrize("body, outputs", [
    (SEPARABLE + "%y: T] = Add(%p, %c)", "%y"),                                    # a second reader
    (SEPARABLE + "%y: T] = Relu(%p)", "%y, %c"),                                   # the graph yields it
    (f"%c: T] = Conv(%x, %w) {DENSE} %y: T] = Conv(%c, %w) {DENSE}", "%y"),         # nothing depthwise
    (f"%c: T] = Relu(%x) %d: T] = Transpose(%c) {{perm = (0, 1, 3, 2)}} %y: T] = Conv(%d, %w) {DENSE}", "%y"),
])
def test_not_proposed(body: str, outputs: str) -> None:
    assert proposed(graph_of(body, outputs)) == []


def runs(graph: Graph, groups: tuple[Group, ...]) -> None:
    known = {*graph.inputs, *graph.constants}
    for group in groups:
        assert known.issuperset(group.inputs), f"{group.label} runs before its inputs are there"
        known.update(group.outputs)
    assert known.issuperset(graph.outputs)
    assert sorted(id(node) for group in groups for node in group.nodes) == sorted(map(id, graph.nodes))


def test_taken_where_the_last_part_stood() -> None:
    graph = graph_of(f"{SEPARABLE} %q: T] = Conv(%x, %w) {DENSE} %y: T] = Add(%p, %q)")
    plain = propose_covers(graph)
    (one,) = propose_alternatives(graph, plain)
    groups = take_alternatives(plain, [one])
    runs(graph, groups)
    assert len(groups) == len(plain) - 1 and take_alternatives(plain, []) == plain


def test_overlap() -> None:
    graph = graph_of(f"%e: T] = Conv(%x, %w) {DENSE} %d: T] = Conv(%e, %v) {DEPTHWISE} %y: T] = Conv(%d, %w) {DENSE}")
    plain = propose_covers(graph)
    both: tuple[Alternative, ...] = propose_alternatives(graph, plain)
    with pytest.raises(InternalError, match="two alternatives"):
        take_alternatives(plain, both)
    for one in both:
        runs(graph, take_alternatives(plain, [one]))


def test_channel_shuffle() -> None:
    """The slices leave; what reads the first of them may stand before the second."""
    four, five, one = "float32[1, 4, 4, 4]", "float32[1, 2, 2, 4, 4]", "steps = (1, 1, 1, 1), sizes = (1, 2, 4, 4)"
    graph = graph_of(f"%a: T] = Relu(%x) %c: {four} = Concat(%x, %a) {{axis = 1}} "
                     f"%r: {five} = Reshape(%c) {{shape = (1, 2, 2, 4, 4)}} "
                     f"%t: {five} = Transpose(%r) {{perm = (0, 2, 1, 3, 4)}} "
                     f"%s: {four} = Reshape(%t) {{shape = (1, 4, 4, 4)}} "
                     f"%k: T] = Slice(%s) {{starts = (0, 0, 0, 0), {one}}} %p: T] = Conv(%k, %w) {DENSE} "
                     f"%l: T] = Slice(%s) {{starts = (0, 2, 0, 0), {one}}} %y: T] = Add(%p, %l)")
    plain = propose_covers(graph)
    short, full = propose_alternatives(graph, plain)
    assert short.group.label == "Concat+Reshape+Transpose+Reshape" and short.group.anchor.op == "Transpose"
    assert full.group.outputs == ("k", "l") and full.group.anchor.outputs == ("l",)
    for one_taken in (short, full):
        runs(graph, take_alternatives(plain, [one_taken]))
    read_twice = graph_of(f"%r: {five.replace('2, 2, 4', '2, 1, 4')} = Reshape(%x) {{shape = (1, 2, 1, 4, 4)}} "
                          f"%t: float32[1, 1, 2, 4, 4] = Transpose(%r) {{perm = (0, 2, 1, 3, 4)}} "
                          "%s: T] = Reshape(%t) {shape = (1, 2, 4, 4)} %y: float32[1, 1, 2, 4, 4] = Exp(%t)",
                          "%y, %s")
    assert proposed(read_twice) == []
