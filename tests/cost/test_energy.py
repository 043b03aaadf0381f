"""Energy by a profile's power figures, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.cost.energy import Energy, plan_joules
from meta_infer.hardware.load import parse_profile
from meta_infer.ir.graph import Graph, Node, Value
from meta_infer.ir.group import PLAIN, Format, Group, Plan, PlannedGroup, Variant, blocked
from meta_infer.ir.shapes import Symbol
from meta_infer.support.dtypes import FLOAT32

CHIP = "name: chip\ndevices: [{name: cpu0, kind: cpu}]\nmemories: [{name: ram, kind: main, size: 1 GiB}]\n"
POWER = "power: {static_w: 2, joules_per_mac: {fp32: 1.0e-12}, joules_per_byte: {ram: 1.0e-10}}\n"


def gemm(m: int = 10, packed: int = 0) -> tuple[Graph, Group, Variant]:
    weights = np.zeros((20, 30), np.float32)
    values = {name: Value(name, FLOAT32, shape) for name, shape in (("a", (m, 20)), ("w", (20, 30)), ("c", (m, 30)))}
    node = Node("MatMul", ("a", "w"), ("c",), {})
    group = Group(node, ("a", "w"), ("c",), values, {"w": weights})
    graph = Graph("g", ("a",), ("c",), (node,), values, {"w": weights})
    return graph, group, Variant("gemm", "x", {"a": PLAIN}, {"c": PLAIN}, packed_bytes=packed)


def test_a_profile_without_power_has_no_energy() -> None:
    graph, group, variant = gemm()
    plan = Plan(graph, (PlannedGroup(group, variant),), {"a": Format(FLOAT32), "c": Format(FLOAT32)})
    assert Energy.of(parse_profile(CHIP, "chip")) is None
    assert Energy.of(parse_profile(CHIP + "power: {}\n", "chip")) is None
    assert plan_joules(plan, parse_profile(CHIP, "chip"), "fp32", 1.0, {}) is None


def test_work_and_time_of_a_group() -> None:
    _, group, variant = gemm()
    energy = Energy.of(parse_profile(CHIP + POWER, "chip"))
    assert energy is not None
    moved = 4 * (10 * 20 + 20 * 30 + 10 * 30)
    expected = 10 * 20 * 30 * 1e-12 + moved * 1e-10
    assert energy.group(group, variant) == pytest.approx(expected)
    assert energy.group(group, variant, 0.5) == pytest.approx(expected + 1.0)
    packed = gemm(packed=4000)[2]
    assert energy.group(group, packed) == pytest.approx(expected + (4000 - 2400) * 1e-10)


def test_a_plan_pays_a_conversion_once() -> None:
    graph, group, variant = gemm()
    energy = Energy(2.0, 0.0, 1e-10)
    wanted = Variant("gemm", "x", {"a": blocked(8)}, {"c": PLAIN})
    formats = {"a": Format(FLOAT32), "c": Format(FLOAT32)}
    plain = Plan(graph, (PlannedGroup(group, variant),), formats)
    twice = Plan(graph, (PlannedGroup(group, wanted), PlannedGroup(group, wanted)), formats)
    converted = 4 * (10 * 20 + 10 * 24) * 1e-10
    alone = energy.plan(plain, 1.0) - 2.0
    assert energy.plan(twice, 1.0) == pytest.approx(2.0 + 2 * alone + converted)


def test_sizes_add_up() -> None:
    symbol = Symbol("M", 1, 100)
    values = {name: Value(name, FLOAT32, (symbol.dim, 8)) for name in ("a", "b")}
    group = Group(Node("Relu", ("a",), ("b",), {}), ("a",), ("b",), values)
    both = Energy(0.0, 0.0, 1e-10, ({"M": 3}, {"M": 5}))
    assert both.group(group) == pytest.approx((3 + 5) * 2 * 8 * 4 * 1e-10)
