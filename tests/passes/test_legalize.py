"""Legalize: decompositions, the host fallback and the refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.passes.check_rewrite import results_differ
from meta_infer.passes.decisions import Decision, counted_ops, group_decisions, listed, native_decisions
from meta_infer.passes.legalize import host_nodes, legalize
from meta_infer.passes.verify_types import verify
from meta_infer.support.errors import UnsupportedError

REDUCE = """graph main(%x: float32[N, 5] @"x") -> (%y) {
  symbol N in [1, 8] step 1
  %y: float32[N] @"y" = OP(%x) {axes = (1,), keepdims = false} from ("reduce")
}
"""


@pytest.fixture(scope="module")
def native() -> Profile:
    return load_profile("native")


def on_device(profile: Profile, *words: str) -> Profile:
    return replace(profile, name="npu", supported_ops=frozenset(words))


@pytest.mark.parametrize("op", ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"])
def test_decomposes_what_has_no_kernel(op: str, native: Profile) -> None:
    before = parse_graph(REDUCE.replace("OP", op))
    after = legalize(before, native)
    verify(after)
    assert op not in {node.op for node in after.nodes}
    assert all(node.origins == ("reduce",) for node in after.nodes) and after.values["y"].origin == "y"
    if op != "ReduceLogSum":                              # the logarithm of a negative sum is NaN on both sides
        assert results_differ(before, after) is None


def test_ops_with_kernels_stay(native: Profile) -> None:
    graph = parse_graph(REDUCE.replace("OP", "ReduceSum"))
    assert legalize(graph, native) is graph
    assert legalize(graph, native, anchors={"ReduceSum"}) is graph


def test_no_way_down_is_refused(native: Profile) -> None:
    with pytest.raises(UnsupportedError, match="ReduceSum") as caught:
        legalize(parse_graph(REDUCE.replace("OP", "ReduceSum")), native, anchors=())
    assert "reduce" in caught.value.what and caught.value.hint and caught.value.exit_code == 4
    assert "backend" in caught.value.problem


def test_decomposes_for_a_device_that_has_the_pieces(native: Profile) -> None:
    graph = parse_graph(REDUCE.replace("OP", "ReduceSumSquare"))
    warnings: list[str] = []
    device = on_device(native, "elementwise_mul", "reduce_sum")
    after = legalize(graph, device, warnings.append, anchors={"ReduceSumSquare", "ReduceSum"})
    assert [node.op for node in after.nodes] == ["Mul", "ReduceSum"] and not warnings
    after = legalize(graph, on_device(native, "relu"), warnings.append, anchors={"ReduceSumSquare", "ReduceSum"})
    assert [node.op for node in after.nodes] == ["ReduceSumSquare"]
    assert len(warnings) == 1 and "reduce" in warnings[0] and "supported_ops" in warnings[0]


def test_host_fallback_warns_by_profile_words(native: Profile) -> None:
    attrs = "{dilations = (1, 1), group = 2, kernel_shape = (1, 1), pads = (0, 0, 0, 0), strides = (1, 1)}"
    graph = parse_graph(f"""graph main(%x: float32[1, 2, 3, 3]) -> (%y) {{
      const %w: float32[2, 1, 1, 1] = (1.0, 2.0)
      %c: float32[1, 2, 3, 3] = Conv(%x, %w) {attrs} from ("conv")
      %r: float32[1, 2, 3, 3] = Relu(%c) from ("relu")
      %f: float32[1, 18] = Reshape(%r) {{shape = (1, 18)}} from ("flatten")
      %y: float32[1, 18] = Softmax(%f) {{axis = 1}} from ("softmax")
    }}""")
    device = on_device(native, "conv2d", "relu")
    assert [node.origins for node in host_nodes(graph, device)] == [("conv",), ("softmax",)]
    assert host_nodes(graph, on_device(native, "depthwise_conv2d", "relu", "softmax")) == ()
    warnings: list[str] = []
    assert legalize(graph, device, warnings.append) is graph
    assert len(warnings) == 2


def test_what_is_impossible_is_recorded_before_it_is_refused(native: Profile) -> None:
    record: list[Decision] = []
    with pytest.raises(UnsupportedError):
        legalize(parse_graph(REDUCE.replace("OP", "ReduceSum")), native, anchors=(), record=record)
    (decision,) = record
    assert (decision.op, decision.nodes, decision.verdict, decision.field) == (
        "ReduceSum", ("reduce",), "impossible", "backend")
    assert "no kernel computes ReduceSum" in decision.detail


def test_what_is_left_is_native(native: Profile) -> None:
    before, record = parse_graph(REDUCE.replace("OP", "ReduceL2")), list[Decision]()
    after = legalize(before, native, record=record)
    assert [(d.op, d.verdict, d.detail) for d in record] == [("ReduceL2", "decomposed", "Mul, ReduceSum, Sqrt")]
    assert native_decisions(before, after, native, record, str.lower) == []
    kept = parse_graph(REDUCE.replace("OP", "ReduceMax"))
    (left,) = native_decisions(kept, legalize(kept, native), native, (), str.lower)
    assert (left.verdict, left.detail, left.nodes) == ("native", "reducemax", ("reduce",))


def test_equal_decisions_are_grouped_and_the_worst_come_first() -> None:
    native, host = Decision("Relu", ("a",), "native", "fine"), Decision("Tanh", ("t",), "host", "no", "supported_ops")
    first, second = group_decisions([native, host, replace(native, nodes=("b", "c"))])
    assert (first.op, first.field) == ("Tanh", "supported_ops")
    assert second.nodes == ("a", "b", "c") and second.count == 2
    assert listed(second.nodes, 1) == "a and 2 more" and counted_ops(["Add", "Mul", "Add"]) == "Add (x2), Mul"
