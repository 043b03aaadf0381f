"""Moves: what each kind makes of a graph, what it must leave alone, and that both sides compute the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Node
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.passes.check_rewrite import results_differ, text_difference
from meta_infer.passes.covers import propose_covers
from meta_infer.passes.moves import MOVES, Move, apply_moves, propose_moves
from meta_infer.passes.pipeline import check_pass_names
from meta_infer.passes.verify_types import verify
from meta_infer.support.errors import InternalError, UsageError
from tests.kernels.harness import make_profile

from .move_graphs import RECIPES, Maker

PROFILE = replace(make_profile("x86-64-v3"), l2_bytes=2048)
NO_L2 = replace(PROFILE, l2_bytes=None)
SEEDS = 40


def moved(graph: Graph, name: str, profile: Profile | None = PROFILE) -> tuple[Move, ...]:
    """The moves of one kind."""
    return propose_moves(graph, frozenset(MOVES) - {name}, profile)


def shown(graph: Graph) -> list[str]:
    """'Op[shape]' of every node."""
    return [f"{node.op}{list(graph.values[node.outputs[0]].shape)}" for node in graph.nodes]


def the_one(graph: Graph, name: str, profile: Profile | None = PROFILE) -> Graph:
    (move,) = moved(graph, name, profile)
    return apply_moves(graph, [move])


def is_sound(graph: Graph, moves: tuple[Move, ...], seed: int) -> None:
    after = apply_moves(graph, moves)
    assert after.outputs == graph.outputs and after.inputs == graph.inputs
    kinds = {move.move for move in moves}
    assert results_differ(graph, after, seed) is None, kinds
    assert text_difference(after) is None
    assert sum(len(group.nodes) for group in propose_covers(after)) == len(after.nodes)
    for name in graph.values.keys() & after.values.keys():
        assert (graph.values[name].shape, graph.values[name].origin) == (after.values[name].shape,
                                                                         after.values[name].origin)
    moving = {origin for node in graph.nodes if node.op in ("Transpose", "Reshape") for origin in node.origins}
    origins = {origin for node in graph.nodes for origin in node.origins} - moving
    assert {origin for node in after.nodes for origin in node.origins} >= origins


@pytest.mark.parametrize("name", MOVES)
def test_random_graphs(name: str) -> None:
    """Every move alone, and as many together as do not overlap; each kind is found in most of its graphs."""
    found = 0
    for recipe in RECIPES[name]:
        for seed in range(SEEDS):
            graph = recipe(Maker(seed))
            profile = replace(PROFILE, aligned_channel=8) if seed % 2 else PROFILE
            moves = propose_moves(graph, profile=profile)
            found += any(move.move == name for move in moves)
            for move in moves:
                is_sound(graph, (move,), seed)
            taken: list[Move] = []
            for move in sorted(moves, key=lambda move: move.move != name):
                if {key for other in taken for key in other.removes}.isdisjoint(move.removes):
                    taken.append(move)
            is_sound(graph, tuple(taken), seed)
            made = [value for move in moves for value in move.values]
            assert len(set(made)) == len(made) and not graph.values.keys() & set(made)
    assert found > 0.5 * SEEDS * len(RECIPES[name])


def test_moves_of_a_moved_graph() -> None:
    """A search may go on from what a move made."""
    for seed in range(SEEDS):
        graph = after = RECIPES["pad_channels"][0](Maker(seed))
        for _ in range(3):
            moves = propose_moves(after, profile=PROFILE)
            after = apply_moves(after, moves[:1])
        assert results_differ(graph, after, seed) is None


# --- what each kind makes --------------------------------------------------------------------------------------


def test_merged_convolutions() -> None:
    m = Maker(0)
    x = m.input(1, 4, 9, 9)
    a, b = m.conv(x, 4, bias=True), m.conv(x, 6, bias=False)
    for name in (a, b):
        m.conv(m.add("Relu", name), 2, (3, 3))
    graph = m.finish()
    after = the_one(graph, "merge_parallel", None)
    assert shown(after)[:4] == ["Conv[1, 10, 9, 9]", "Relu[1, 10, 9, 9]", "Slice[1, 4, 9, 9]", "Slice[1, 6, 9, 9]"]
    assert len(after.nodes) == len(graph.nodes)
    bias = after.constants[after.nodes[0].inputs[2]]
    assert np.array_equal(bias, [*graph.constants["c1"], *[0] * 6])
    assert after.nodes[2].outputs == ("v2",) and after.nodes[0].origins == ("node0", "node2", "node1", "node4")


def test_merged_into_the_concat_that_reads_them() -> None:
    m = Maker(0)
    x = m.input(1, 4, 9, 9)
    a, b, c = m.conv(x, 4), m.conv(x, 6), m.conv(x, 2, (3, 3), pads=(1, 1, 1, 1))
    graph = m.finish(m.add("Concat", c, b, a, axis=1))
    after = the_one(graph, "merge_parallel")
    assert shown(after) == ["Conv[1, 10, 9, 9]", "Conv[1, 2, 9, 9]", "Concat[1, 12, 9, 9]"]
    assert np.array_equal(after.constants[after.nodes[0].inputs[1]][:6], graph.constants[graph.nodes[1].inputs[1]])
    alone = the_one(_concat_of_two(), "merge_parallel")
    assert shown(alone) == ["Conv[1, 10, 9, 9]"] and alone.nodes[0].outputs == alone.outputs


def _concat_of_two() -> Graph:
    m = Maker(0)
    x = m.input(1, 4, 9, 9)
    return m.finish(m.add("Concat", m.conv(x, 4), m.conv(x, 6), axis=1))


def test_merged_projections_are_heads_of_one_tensor() -> None:
    m = Maker(0)
    x = m.input(2, 5, 16)
    q, k, v = (m.add("Reshape", m.add("Add", m.add("MatMul", x, m.const(16, 3 * 8)), m.const(24)), shape=(2, 5, 3, 8))
               for _ in range(3))
    graph = m.finish(m.add("Attention", q, k, v, scale=0.3, q_order="bshd", k_order="bshd", v_order="bshd"))
    after = the_one(graph, "merge_parallel")
    assert shown(after) == ["MatMul[2, 5, 72]", "Add[2, 5, 72]", "Reshape[2, 5, 9, 8]", "Attention[2, 3, 5, 8]"]
    attrs = after.nodes[-1].attrs
    assert [(attrs[f"{part}_first"], attrs[f"{part}_heads"]) for part in "qkv"] == [(0, 3), (3, 3), (6, 3)]
    assert after.nodes[-1].outputs == graph.nodes[-1].outputs


def test_split_by_channel() -> None:
    m = Maker(0)
    x = m.input(1, 32, 9, 9)
    graph = m.finish(m.add("Relu", m.conv(x, 40, bias=True)))
    by_output, by_input = moved(graph, "split_conv")
    assert shown(apply_moves(graph, [by_output])) == ["Conv[1, 16, 9, 9]", "Relu[1, 16, 9, 9]"] * 2 + [
        "Conv[1, 8, 9, 9]", "Relu[1, 8, 9, 9]", "Concat[1, 40, 9, 9]"]
    assert shown(apply_moves(graph, [by_input])) == ["Slice[1, 16, 9, 9]"] * 2 + ["Conv[1, 40, 9, 9]"] * 2 + [
        "Add[1, 40, 9, 9]", "Relu[1, 40, 9, 9]"]
    assert moved(graph, "split_conv", NO_L2) == moved(graph, "split_conv", None) == ()
    with pytest.raises(InternalError, match="v0: two moves take one node"):
        apply_moves(graph, [by_output, by_input])
    with pytest.raises(InternalError, match="not there"):
        apply_moves(apply_moves(graph, [by_output]), [by_input])


def test_split_by_the_parts_of_a_concat() -> None:
    m = Maker(0)
    graph = m.finish(m.conv(m.add("Concat", m.input(1, 3, 9, 9), m.input(1, 5, 9, 9), axis=1), 4, bias=True))
    after = the_one(graph, "split_conv", NO_L2)
    assert shown(after) == ["Conv[1, 4, 9, 9]", "Conv[1, 4, 9, 9]", "Add[1, 4, 9, 9]"]
    assert [len(node.inputs) for node in after.nodes] == [3, 2, 2]


def test_padded_up_to_the_convolution_that_takes_them() -> None:
    m = Maker(0)
    y = m.add("Sigmoid", m.conv(m.input(1, 8, 9, 9), 6, bias=True))
    y = m.add("Relu", m.conv(y, 6, (3, 3), pads=(1, 1, 1, 1), group=6))
    graph = m.finish(m.conv(y, 16, (3, 3)))
    (move,) = moved(graph, "pad_channels")
    after = apply_moves(graph, [move])
    assert shown(after) == ["Conv[1, 8, 9, 9]", "Sigmoid[1, 8, 9, 9]", "Conv[1, 8, 9, 9]", "Relu[1, 8, 9, 9]",
                            "Conv[1, 16, 7, 7]"]
    assert after.nodes[2].attrs["group"] == 8
    assert not after.constants[after.nodes[4].inputs[1]][:, 6:].any()
    assert move.waste == pytest.approx(8 / 6 - 1) and not move.approximate


def test_padded_and_cut() -> None:
    m = Maker(0)
    y = m.conv(m.input(1, 8, 9, 9), 6, bias=True)
    z = m.add("Relu", y)
    graph = m.finish(m.add("Add", m.conv(z, 6, (1, 1)), z))
    first, second = moved(graph, "pad_channels")
    assert shown(apply_moves(graph, [first]))[:3] == ["Conv[1, 8, 9, 9]", "Relu[1, 8, 9, 9]", "Slice[1, 6, 9, 9]"]
    assert apply_moves(graph, [first]).nodes[2].outputs == ("v1",)
    both = apply_moves(graph, [first, second])
    assert results_differ(graph, both) is None and len(both.nodes) == len(graph.nodes) + 2
    assert moved(graph, "pad_channels", replace(PROFILE, aligned_channel=32)) == ()     # more than twice the work


def test_padded_inputs() -> None:
    m = Maker(0)
    graph = m.finish(m.conv(m.input(1, 12, 9, 9), 16))
    assert moved(graph, "pad_channels") == ()
    (move,) = moved(graph, "pad_channels", replace(PROFILE, aligned_channel=16))
    assert shown(apply_moves(graph, [move])) == ["Pad[1, 16, 9, 9]", "Conv[1, 16, 9, 9]"]
    assert move.waste == pytest.approx(16 / 12 - 1)


@pytest.mark.parametrize("op, attrs", [("Log", {}), ("Reciprocal", {})])
def test_padding_channels_stay_finite(op: str, attrs: dict[str, float]) -> None:
    """0 * inf would be NaN in every sum: the channels are cut off before such a node."""
    m = Maker(0)
    graph = m.finish(m.conv(m.add(op, m.conv(m.input(1, 8, 3, 3), 6, bias=True), **attrs), 16))
    (move,) = moved(graph, "pad_channels")
    assert shown(apply_moves(graph, [move]))[:2] == ["Conv[1, 8, 3, 3]", "Slice[1, 6, 3, 3]"]


def test_convolutions_become_products_where_channels_lie_last() -> None:
    m = Maker(0)
    t = m.add("Transpose", m.input(1, 5, 7, 8), perm=(0, 3, 1, 2))
    y = m.conv(m.add("Relu", m.conv(t, 4, bias=True)), 3, bias=False)
    last = m.add("Transpose", y, perm=(0, 2, 3, 1))
    graph = m.finish(last)
    after = the_one(graph, "conv_to_matmul")
    assert shown(after) == ["MatMul[1, 5, 7, 4]", "Add[1, 5, 7, 4]", "Relu[1, 5, 7, 4]", "MatMul[1, 5, 7, 3]"]
    assert after.outputs == (last,)
    back = the_one(m.finish(t, y), "conv_to_matmul")
    assert shown(back)[0] == "Transpose[1, 8, 5, 7]" and shown(back)[-2:] == ["Transpose[1, 3, 5, 7]",
                                                                             "Transpose[1, 5, 7, 3]"]


def test_convolutions_become_products_at_one_place() -> None:
    m = Maker(0)
    y = m.add("Relu", m.conv(m.input(2, 8, 7, 7), 4, (7, 7), bias=True))
    graph = m.finish(m.add("Sigmoid", m.conv(y, 8)))
    assert shown(the_one(graph, "conv_to_matmul")) == ["Reshape[2, 392]", "Gemm[2, 4]", "Relu[2, 4]", "Gemm[2, 8]",
                                                       "Sigmoid[2, 8]", "Reshape[2, 8, 1, 1]"]


def test_products_become_convolutions() -> None:
    m = Maker(0)
    flat = m.add("Reshape", m.add("GlobalAveragePool", m.input(1, 8, 7, 7)), shape=(1, 8))
    graph = m.finish(m.add("Gemm", flat, m.const(8, 10), m.const(10), alpha=1.0, beta=1.0, transA=False, transB=False))
    assert shown(the_one(graph, "matmul_to_conv")) == ["GlobalAveragePool[1, 8, 1, 1]", "Conv[1, 10, 1, 1]",
                                                      "Reshape[1, 10]"]
    m = Maker(0)
    y = m.add("Transpose", m.input(1, 8, 5, 7), perm=(0, 2, 3, 1))
    y = m.add("Relu", m.add("Add", m.const(4), m.add("MatMul", y, m.const(8, 4))))
    graph = m.finish(m.add("Transpose", m.add("MatMul", y, m.const(4, 6)), perm=(0, 3, 1, 2)))
    after = the_one(graph, "matmul_to_conv")
    assert shown(after) == ["Conv[1, 4, 5, 7]", "Relu[1, 4, 5, 7]", "Conv[1, 6, 5, 7]"]
    assert [len(node.inputs) for node in after.nodes] == [3, 1, 2]


# --- what must be left alone ------------------------------------------------------------------------------------


def two_inputs(m: Maker) -> None:
    for _ in range(2):
        m.conv(m.input(1, 4, 5, 5), 8)


def grouped(m: Maker) -> None:
    x = m.input(1, 4, 5, 5)
    for _ in range(2):
        m.conv(x, 4, group=2)


def weights_at_run_time(m: Maker) -> None:
    x, w = m.input(1, 4, 5, 5), m.input(4, 4, 1, 1)
    for _ in range(2):
        m.add("Conv", x, w, kernel_shape=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1)
    m.add("MatMul", m.input(1, 2, 3, 4), m.input(4, 4))


def products_alone(m: Maker) -> None:
    m.add("MatMul", m.add("MatMul", m.input(1, 5, 6, 8), m.const(8, 8)), m.const(8, 8))


def second_operand(m: Maker) -> None:
    x = m.input(4, 4)
    for _ in range(2):
        m.add("MatMul", m.const(4, 4), x)


@pytest.mark.parametrize("build", [two_inputs, grouped, weights_at_run_time, products_alone, second_operand])
def test_nothing_to_move(build: Callable[[Maker], None]) -> None:
    m = Maker(0)
    build(m)
    assert propose_moves(m.finish(), profile=NO_L2) == ()


def test_inner_values_that_others_read_stay() -> None:
    """A chain ends where a value of it is read twice or is an output of the graph."""
    m = Maker(0)
    t = m.add("Transpose", m.input(1, 5, 7, 8), perm=(0, 3, 1, 2))
    y = m.conv(t, 4)
    m.conv(m.add("Relu", y), 3, (3, 3))
    (move,) = moved(m.finish(y), "conv_to_matmul")
    assert move.removes == ("v1", "v0") or move.removes == ("v0", "v1")
    assert move.nodes[-1].outputs == (y,)


def test_sizes_that_values_tell_are_waited_for() -> None:
    graph = parse_graph("""graph main(%x: float32[N, 4, 1, 1]) -> (%y) {
      symbol N in [1, 9] step 1
      const %w: float32[2, 4, 1, 1] = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
      %y: float32[N, 2, 1, 1] = Conv(%x, %w) {dilations = (1, 1), group = 1, kernel_shape = (1, 1), pads = (0, 0, 0, 0),
 strides = (1, 1)}
    }""")
    after = the_one(graph, "conv_to_matmul")
    assert [node.op for node in after.nodes] == ["Reshape", "Gemm", "Reshape"]
    for size in (1, 2, 9):
        assert results_differ(graph, after, 0, {"N": size}) is None


# --- switches, regions ------------------------------------------------------------------------------------------


def test_switches() -> None:
    graph = _concat_of_two()
    assert propose_moves(graph, frozenset(MOVES), PROFILE) == ()
    assert apply_moves(graph, []) is graph
    assert check_pass_names(MOVES) == set(MOVES)
    with pytest.raises(UsageError, match="did you mean 'merge_parallel'"):
        check_pass_names(["merge_paralel"])
    assert not any(move.approximate for seed in range(5) for move in propose_moves(
        RECIPES["pad_channels"][0](Maker(seed)), profile=PROFILE))


def test_in_a_region() -> None:
    """What a branch captures is typed by the graph around it, and new names differ from those outside."""
    attrs = "{dilations = (1, 1), group = 1, kernel_shape = (1, 1), pads = (0, 0, 0, 0), strides = (1, 1)}"
    graph = parse_graph(f"""graph main(%x: float32[1, 2, 3, 3], %c: bool[]) -> (%y) {{
      const %w: float32[2, 2, 1, 1] = (1.0, 2.0, 3.0, 4.0)
      const %v: float32[2, 2, 1, 1] = (5.0, 6.0, 7.0, 8.0)
      %conv: float32[1, 2, 3, 3] = Relu(%x)
      %y: float32[1, 2, 3, 3] = If(%c) regions {{
        region then() captures (%conv, %w, %v) -> (%s) {{
          %a: float32[1, 2, 3, 3] = Conv(%conv, %w) {attrs}
          %b: float32[1, 2, 3, 3] = Conv(%conv, %v) {attrs}
          %s: float32[1, 2, 3, 3] = Add(%a, %b)
        }}
        region else() captures (%conv) -> (%o) {{
          %o: float32[1, 2, 3, 3] = Exp(%conv)
        }}
      }}
    }}""")
    verify(graph)
    assert propose_moves(graph, profile=PROFILE) == ()
    branch = graph.nodes[1]
    (move,) = propose_moves(branch.regions[0], profile=PROFILE, root=graph)
    assert move.move == "merge_parallel" and not graph.values.keys() & move.values.keys()
    region = apply_moves(branch.regions[0], [move])
    assert region.captures == ("conv",)
    node: Node = replace(branch, regions=(region, branch.regions[1]))
    kept = {name: value for name, value in graph.values.items() if name not in ("w", "v")}
    after = graph.replace(nodes=(graph.nodes[0], node), values=kept, constants={})
    verify(after)
    assert results_differ(graph, after) is None
