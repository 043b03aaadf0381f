"""Which groups of several anchors the plan without a search takes, with made-up costs."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Attr, Graph, Node, Value
from meta_infer.ir.group import PLAIN, Group, Plan, Variant
from meta_infer.kernels.guess import passing_cost
from meta_infer.passes.alternatives import propose_alternatives
from meta_infer.passes.covers import propose_covers
from meta_infer.search.alternatives import LAUNCH_COST, MARGIN
from meta_infer.search.default_plan import default_plan
from meta_infer.search.exclude import without_excluded
from meta_infer.support.dtypes import FLOAT32
from tests.kernels.harness import make_profile

PROFILE = make_profile()


def graph_of() -> Graph:
    """y = 1x1(depthwise(1x1(x)))"""
    attrs: dict[str, Attr] = {"kernel_shape": (1, 1), "strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1),
                              "group": 1}
    nodes = (Node("Conv", ("x", "w"), ("a",), attrs), Node("Conv", ("a", "v"), ("b",), {**attrs, "group": 8}),
             Node("Conv", ("b", "w"), ("y",), attrs))
    values = {name: Value(name, FLOAT32, (1, 8, 10, 10)) for name in "xaby"}
    arrays = {"w": np.ones((8, 8, 1, 1), np.float32), "v": np.ones((8, 1, 1, 1), np.float32)}
    values |= {name: Value(name, FLOAT32, array.shape) for name, array in arrays.items()}
    return Graph("g", ("x",), ("y",), nodes, values, arrays)


def planned(costs: dict[int, float], excluded: tuple[str, ...] = ()) -> list[str]:
    """Labels of the groups, when a group of n anchors has a variant of cost `costs[n]`."""
    def variants(group: Group, profile: Profile) -> list[Variant]:
        count = len(group.nodes)
        return [Variant(f"made_up_{count}", "v", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs},
                        cost=costs[count])] if count in costs else []

    def warn(text: str) -> None:
        raise AssertionError(text)

    plan: Plan = default_plan(graph_of(), PROFILE, propose_covers, without_excluded(variants, excluded, warn),
                              propose_alternatives)
    return [planned.group.label for planned in plan.groups]


PASSING = passing_cost(graph_of().values["a"], PROFILE)


def test_taken_when_it_saves() -> None:
    assert planned({1: 1e6}) == ["Conv"] * 3
    assert planned({1: 1e6, 2: 1.5e6}) == ["Conv", "Conv+Conv"]
    assert planned({1: 1e6, 3: 2e6}) == ["Conv+Conv+Conv"]
    assert planned({1: 1e6, 2: 1.5e6, 3: 2e6}) == ["Conv+Conv+Conv"], "the one that saves more"


@pytest.mark.parametrize("beyond, labels", [(-1.0, ["Conv", "Conv+Conv"]), (1.0, ["Conv"] * 3)])
def test_launches_and_memory_count_and_guesses_are_rough(beyond: float, labels: list[str]) -> None:
    assert planned({1: 1e6, 2: 2e6 * (1 - MARGIN) + LAUNCH_COST + PASSING + beyond}) == labels


def test_excluded() -> None:
    assert planned({1: 1e6, 2: 1.5e6}, ("made_up_2",)) == ["Conv"] * 3
