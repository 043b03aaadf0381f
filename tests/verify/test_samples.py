"""The sizes at which a package is verified."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from meta_infer import build, compare
from meta_infer.frontend.import_model import import_model
from meta_infer.ir.graph import Graph
from meta_infer.ir.shapes import Symbol, evaluate
from meta_infer.verify.samples import (
    MOST_INPUT_BYTES,
    MOST_VALUE_BYTES,
    sample_reach,
    sampled_sizes,
    shape_points,
)


def save(path: Path) -> Path:
    """y = the sums over the rows of x [h, w] times its transpose: a tensor of h * h elements on the way."""
    nodes = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("MatMul", ["x", "t"], ["p"]),
             helper.make_node("ReduceMax", ["p"], ["y"], axes=[1])]
    graph = helper.make_graph(nodes, "square", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["h", "w"])],
                              [helper.make_empty_tensor_value_info("y")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def bytes_at(graph: Graph, dims: dict[str, int]) -> list[int]:
    """Of the input, then of the largest value."""
    sizes = []
    for value in graph.values.values():
        size = 4
        for dim in value.shape:
            size *= evaluate(dim, dims)
        sizes.append(size)
    return [sizes[list(graph.values).index(graph.inputs[0])], max(sizes)]


@pytest.mark.parametrize("shape", ["1..20000,1..20000", "1..100000,1..9", "7..7,1..100000000", "1..29996:7,3"])
def test_no_sample_exceeds_the_limits(shape: str, tmp_path: Path) -> None:
    """And the largest one is not far below them."""
    graph = import_model(save(tmp_path / "m.onnx"), {"x": shape})
    points = shape_points(graph.input_symbols, 3, sample_reach(graph))
    assert points[0] == {s.name: s.lo for s in graph.input_symbols.values()}
    given, most = bytes_at(graph, points[-1])
    assert given <= MOST_INPUT_BYTES and most <= MOST_VALUE_BYTES
    assert given > 0.9 * MOST_INPUT_BYTES or most > 0.9 * MOST_VALUE_BYTES
    assert "of more than 64 MiB" in sampled_sizes(graph, 3) and not sampled_sizes(graph, 1)


def test_small_ranges_are_sampled_whole(tmp_path: Path) -> None:
    graph = import_model(save(tmp_path / "m.onnx"), {"x": "1..40,2..90:4"})
    assert sample_reach(graph) == 1.0 and not sampled_sizes(graph, 3)
    assert shape_points(graph.input_symbols, 3)[-1] == {"h": 40, "w": 90}
    assert shape_points({}, 3) == [{}]


def test_the_smallest_sizes_are_kept_whatever_they_take(tmp_path: Path) -> None:
    graph = import_model(save(tmp_path / "m.onnx"), {"x": "20000..30000,5000..5001"})
    points = shape_points(graph.input_symbols, 2, sample_reach(graph))
    assert sample_reach(graph) == 0.0 and points[-1] == {"h": 20000, "w": 5000}
    assert shape_points({"n": Symbol("n", 3, 9)}, 2, 0.0) == [{"n": 3}, {"n": 3}]


def test_build_and_compare_say_what_they_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_infer.verify.samples.MOST_VALUE_BYTES", 40_000)
    result = build(save(tmp_path / "m.onnx"), shape=["x=1..20000,5"], output=tmp_path / "m.bin")
    assert any("samples are compared at h 1..100 of 1..20000" in text for text in result.report["warnings"])
    assert {c.dims["h"] for c in result.comparisons} == {1, 51, 100}
    assert "samples are compared at h 1..100" in compare(tmp_path / "m.bin").note
