"""Narrow types: computed in wide ones, and gone but for the borders once legalized."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.load import load_profile
from meta_infer.ir.graph import walk_graphs
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.ops.execute import execute_graph
from meta_infer.passes.legalize import legalize
from meta_infer.passes.store_narrow import store_narrow
from meta_infer.passes.verify_types import verify
from meta_infer.passes.widen_narrow import widen_narrow
from meta_infer.support.dtypes import BFLOAT16, INT4, dtype_named

ADD = """graph net(%x: bfloat16[2, 3], %y: bfloat16[3]) -> (%t) {
  %s: bfloat16[2, 3] = Add(%x, %y)
  %t: bfloat16[3, 2] = Transpose(%s) {perm = (1, 0)}
}
"""


def test_arithmetic_is_widened_and_moves_are_not() -> None:
    graph = widen_narrow(parse_graph(ADD))
    assert [node.op for node in graph.nodes] == ["Cast", "Cast", "Add", "Cast", "Transpose"]
    assert graph.values[graph.nodes[-1].inputs[0]].dtype == BFLOAT16
    verify(graph)


def test_only_borders_stay_narrow() -> None:
    graph = legalize(parse_graph(ADD), load_profile("native"))
    verify(graph)
    narrow = {name for name, value in graph.values.items() if value.dtype.is_narrow}
    assert narrow == {*graph.inputs, *graph.outputs}
    ops = [node.op for node in graph.nodes]
    assert ops.count("BitCast") == 3 and ops.count("FromBits") == 2 and ops.count("ToBits") == 1 and "Cast" not in ops
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(BFLOAT16.numpy) for shape in ((2, 3), (3,)))
    (found,) = execute_graph(graph, dict(zip(graph.inputs, (x, y), strict=True))).values()
    wanted = (x.astype(np.float32) + y.astype(np.float32)).astype(BFLOAT16.numpy).T
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize(("source", "to"), [
    ("int4", "uint8"), ("float32", "int4"), ("int4", "float8e5m2"), ("bfloat16", "bool"), ("bool", "bfloat16"),
    ("int64", "bfloat16"), ("float64", "float4e2m1"), ("uint2", "int4"), ("bfloat16", "float8e4m3fn"),
    ("float8e8m0", "float64"), ("bfloat16", "int64"), ("uint16", "bfloat16")])
def test_a_cast_keeps_its_meaning(source: str, to: str) -> None:
    """What the steps give is what the Cast itself gives."""
    graph = parse_graph(f"graph net(%x: {source}[40]) -> (%y) {{\n  %y: {to}[40] = Cast(%x) {{to = {to}}}\n}}\n")
    stored = store_narrow(graph)
    verify(stored)
    assert not any(value.dtype.is_narrow for name, value in stored.values.items()
                   if name not in (*stored.inputs, *stored.outputs))
    numbers = np.random.default_rng(3).integers(0 if source[0] == "u" else -3, 4, 40)
    given = np.abs(numbers) + 1 if source == "float8e8m0" else numbers
    x = given.astype(np.float32).astype(dtype_named(source).numpy)
    (wanted,), (found,) = (execute_graph(g, {g.inputs[0]: x}).values() for g in (graph, stored))
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))


def test_regions_and_constants_are_stored_too() -> None:
    graph = parse_graph("""graph net(%c: bool[], %x: int4[2]) -> (%y) {
  const %w: int8[2] = (1, 2)
  %n: int4[2] = Cast(%w) {to = int4}
  %y: int4[2] = If(%c) regions {
    region then() captures (%x) -> (%a) {
      %a: int4[2] = Identity(%x)
    }
    region else() captures (%n) -> (%n) {
    }
  }
}
""")
    stored = store_narrow(graph)
    verify(stored)
    inner = [value for holder in walk_graphs(stored) if holder is not stored for value in holder.values.values()]
    assert inner and all(value.dtype == INT4.storage for value in inner)
