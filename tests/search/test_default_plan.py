"""Which variant the plan without a search takes, on groups whose variants are made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Node, Value
from meta_infer.ir.group import PLAIN, Group, Layout, Plan, Variant, blocked
from meta_infer.passes.covers import propose_covers
from meta_infer.search.default_plan import CONVERSION_COST, RISK_LIMIT, default_plan
from meta_infer.support.dtypes import FLOAT32
from meta_infer.support.errors import UnsupportedError
from tests.kernels.harness import make_profile

SIZE = 8 * 10 * 10
B8 = blocked(8)


def graph_of(op: str) -> Graph:
    """y = op(x) for a heavy op (a convolution by 1x1 weights) or a pooling."""
    values = {name: Value(name, FLOAT32, (1, 8, 10, 10)) for name in ("x", "y")}
    if op != "Conv":
        return Graph("g", ("x",), ("y",), (Node(op, ("x",), ("y",), {"kernel_shape": (1, 1), "strides": (1, 1)}),),
                     values)
    weights = np.ones((8, 8, 1, 1), np.float32)
    attrs = {"kernel_shape": (1, 1), "strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "group": 1}
    return Graph("g", ("x",), ("y",), (Node("Conv", ("x", "w"), ("y",), attrs),),
                 values | {"w": Value("w", FLOAT32, weights.shape)}, {"w": weights})


def variant(name: str, cost: float = 0.0, x: Layout = PLAIN, risk: float = 0.0) -> Variant:
    return Variant("made_up", name, {"x": x}, {"y": x}, cost=cost, risk=risk)


def chosen(op: str, *offered: Variant) -> str:
    def variants(group: Group, profile: Profile) -> tuple[Variant, ...]:
        return offered

    plan: Plan = default_plan(graph_of(op), make_profile(), propose_covers, variants)
    return plan.groups[0].variant.name


def test_the_first_without_a_guess() -> None:
    assert chosen("Conv", variant("a"), variant("b", cost=1.0)) == "a"


def test_the_least_guess_of_those_that_have_one() -> None:
    assert chosen("Conv", variant("a", cost=3.0), variant("b", cost=2.0), variant("c")) == "b"
    assert chosen("Conv", variant("a", cost=2.0), variant("b", cost=2.0)) == "a", "ties go to the earlier"


def test_a_conversion_counts() -> None:
    conversion = CONVERSION_COST * SIZE * 4
    plain, faster = variant("plain", cost=1000.0 + conversion), variant("faster", cost=1001.0, x=B8)
    assert chosen("Conv", plain, faster) == "plain"
    assert chosen("Conv", plain, replace(faster, cost=999.0)) == "faster"


@pytest.mark.parametrize("op", ["Conv", "MaxPool"])
def test_what_risks_accuracy_is_not_taken(op: str) -> None:
    risky = variant("risky", cost=1.0, risk=RISK_LIMIT * 1.01)
    assert chosen(op, risky, variant("sound", cost=5.0, risk=RISK_LIMIT)) == "sound"
    with pytest.raises(UnsupportedError):
        chosen(op, risky)


def test_light_groups_take_what_converts_least() -> None:
    assert chosen("MaxPool", variant("blocked", x=B8), variant("plain")) == "plain"


@pytest.mark.parametrize("reader, layout", [("Conv", B8), ("MaxPool", PLAIN)])
def test_of_equal_conversions_what_readers_take(reader: str, layout: Layout) -> None:
    """x -> Relu -> y -> reader -> z; the reader's own variants say what y should be."""
    graph = graph_of(reader)
    values = graph.values | {"z": Value("z", FLOAT32, (1, 8, 10, 10))}
    last = replace(graph.nodes[0], inputs=("y", *graph.nodes[0].inputs[1:]), outputs=("z",))
    graph = replace(graph, nodes=(Node("Relu", ("x",), ("y",)), last), values=values, outputs=("z",))

    def variants(group: Group, profile: Profile) -> tuple[Variant, ...]:
        if group.anchor.op == "Relu":
            return tuple(Variant("made_up", str(out), {"x": PLAIN}, {"y": out}) for out in (PLAIN, B8))
        return (Variant("made_up", "reader", {"y": layout}, {"z": PLAIN}),)

    assert default_plan(graph, make_profile(), propose_covers, variants).formats["y"].layout == layout
