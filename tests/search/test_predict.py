"""Groups of a lowered plan, each with the caches as the groups before it left them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer import api
from meta_infer.backends.registry import backend_for
from meta_infer.build_config import make_config
from meta_infer.cost.features import crossings
from meta_infer.cost.model import ANY, CostModel
from meta_infer.frontend.import_model import import_model
from meta_infer.hardware.load import load_profile
from meta_infer.ir.graph import names_of
from meta_infer.ir.group import Plan
from meta_infer.ir.program import Call, Program, walk_commands
from meta_infer.lower.lower_graph import lower_graph
from meta_infer.passes.pipeline import canonicalize
from meta_infer.search.predict import DISPATCH, GroupPrediction, predict_groups
from meta_infer.support.trace import Trace
from tests.search.test_search import small_model

PROFILE = load_profile("x86-64-v3")
FARTHEST, ROOM = crossings(PROFILE)[-1]


def lowered(model: Path) -> tuple[Plan, Program]:
    imported = import_model(model)
    graph = canonicalize(imported, frozenset())
    plan = api.plan_target(make_config({"model": model}, "build"), graph, PROFILE, Trace())
    names = (names_of(imported, wanted) for wanted in (imported.inputs, imported.outputs))
    return plan, lower_graph(plan, PROFILE, backend_for(PROFILE).lower, *names)


def predicted(model: Path, cost: CostModel | None = None) -> list[GroupPrediction]:
    return predict_groups(*lowered(model), PROFILE, cost or CostModel.of(PROFILE, ()), {})


def products(folder: Path, *widths: int) -> Path:
    """A chain of products of one row with square matrices."""
    nodes, weights, name = [], [], "x"
    for i, width in enumerate(widths):
        nodes.append(helper.make_node("MatMul", [name, f"w{i}"], [f"y{i}"]))
        weights.append(numpy_helper.from_array(np.ones((widths[max(i - 1, 0)], width), np.float32), f"w{i}"))
        name = f"y{i}"
    graph = helper.make_graph(nodes, "products",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, widths[0]])],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, widths[-1]])], weights)
    path = folder / "products.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_every_call_of_a_run_is_in_one_group(tmp_path: Path) -> None:
    found = predicted(small_model(tmp_path))
    plan, program = lowered(small_model(tmp_path))
    commands = list(walk_commands(program.commands[program.prepares:]))
    calls = [i for i, command in enumerate(commands) if isinstance(command, Call)]
    assert sorted(i for group in found for i in group.commands) == calls
    kernels = {planned.variant.kernel for planned in plan.groups} | {"reorder"}
    assert all(group.seconds > 0 and group.kernel in kernels for group in found)


def test_weights_come_from_where_all_of_the_network_fits(tmp_path: Path) -> None:
    few = predicted(products(tmp_path, 256, 256))
    width = int((ROOM / 4) ** 0.5 * 1.2) // 64 * 64                     # a matrix larger than the last cache
    many = predicted(products(tmp_path, width, width, 256))
    assert sum(group.features.bytes[FARTHEST] for group in few) == 0, "it runs again and again: a cache holds it"
    large = max(many, key=lambda group: group.features.bytes[FARTHEST])
    assert large.features.bytes[FARTHEST] == pytest.approx(4 * width * width, rel=0.1)
    second = next(group for group in many if group is not large and group.kernel != "reorder")
    assert second.features.bytes[FARTHEST] >= 4 * width * 256 * 0.9, "what lies between two runs of it is larger too"


def test_what_networks_were_timed_to_take_replaces_the_walk(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    cost = CostModel.of(PROFILE, ())
    alone = predicted(model, replace(cost, context={ANY: 1.0}))
    twice = predicted(model, replace(cost, context={ANY: 2.0}))
    assert [group.kernel for group in alone] == [group.kernel for group in twice]
    for one, two in zip(alone, twice, strict=True):
        assert one.features == two.features
        assert two.seconds == pytest.approx(2 * one.seconds - DISPATCH * len(one.commands))


def test_the_same_is_predicted_each_time(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    assert predicted(model) == predicted(model)
