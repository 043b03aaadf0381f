"""The roofline estimate against figures worked out by hand."""

from __future__ import annotations

import pytest

from meta_infer.cost.roofline import estimate_precision, plan_seconds
from meta_infer.hardware.load import parse_profile
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Node, Value
from meta_infer.ir.group import Group, Plan, PlannedGroup, Variant
from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.support.dtypes import FLOAT32


def chip(figures: str, bandwidth: str = "") -> Profile:
    links = f"links: [{{from: ram, to: npu0, bandwidth: {bandwidth}}}]" if bandwidth else ""
    return parse_profile(f"name: chip\ndevices: [{{name: npu0, kind: npu{figures}}}]\n"
                         f"memories: [{{name: ram, kind: main, size: 1 GiB}}]\n{links}\n", "chip")


def matmul_plan(m: Dim, k: int, n: int) -> Plan:
    values = {name: Value(name, FLOAT32, shape) for name, shape in (("a", (m, k)), ("b", (k, n)), ("c", (m, n)))}
    node = Node("MatMul", ("a", "b"), ("c",), {})
    group = Group(node, ("a", "b"), ("c",), values)
    graph = Graph("g", values, ("a", "b"), ("c",), (node,), {})
    return Plan(graph, (PlannedGroup(group, Variant("gemm", "x", {}, {})),), {})


FAST = ", compute_units: 10, clock_ghz: 1.0, macs_per_cycle: {fp16: 200, fp32: 100}"      # 10^12 MAC/s in fp32


def test_bound_by_operations() -> None:
    assert plan_seconds(matmul_plan(100, 1000, 1000), chip(FAST), "fp32") == pytest.approx(1e8 / 1e12)
    assert plan_seconds(matmul_plan(100, 1000, 1000), chip(FAST), "fp16") == pytest.approx(1e8 / 2e12)


def test_bound_by_bytes() -> None:
    elements = 1000 + 1000 * 10 + 10
    assert plan_seconds(matmul_plan(1, 1000, 10), chip(FAST, "1 GB/s"), "fp32") == pytest.approx(elements * 4 / 1e9)
    assert plan_seconds(matmul_plan(1, 1000, 10), chip(FAST, "1 GB/s"), "int8") == pytest.approx(elements / 1e9)


def test_dynamic_dims_count_at_their_upper_bound() -> None:
    batch = Symbol("batch", 1, 64).dim
    assert plan_seconds(matmul_plan(batch, 8, 8), chip(FAST), "fp32") == plan_seconds(matmul_plan(64, 8, 8), chip(FAST),
                                                                                      "fp32")


def test_a_profile_that_says_nothing() -> None:
    assert plan_seconds(matmul_plan(8, 8, 8), chip(""), "fp32") is None


def test_precision() -> None:
    listed = chip(", precision: [int8, fp16]")
    assert [estimate_precision(listed, w) for w in ("fp16", "auto", "fp32")] == ["fp16", "int8", "int8"]
    assert estimate_precision(chip(""), "auto") == "fp32"
    assert estimate_precision(chip(", precision: [tf32, bf16]"), "auto") == "bf16", "tf32 is not a type of tensors"
