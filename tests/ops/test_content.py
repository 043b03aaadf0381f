"""Chains of integer ops that compute shapes: they fold, symbolically, and leave only the views they feed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer.frontend.import_model import import_model
from meta_infer.ir.graph import Graph
from meta_infer.ops.execute import execute_graph
from tests.ops.onnx_case import session_of

FLOAT = TensorProto.FLOAT


def graph_of(folder: Path, nodes: list[onnx.NodeProto], constants: dict[str, object],
             shape: tuple[str | int, ...] = ("batch", "seq", 12), spec: str = "") -> Graph:
    """Import a model from x to y and check it against ONNX Runtime at two sizes."""
    initialisers = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x", FLOAT, shape)],
                              [helper.make_empty_tensor_value_info("y")], initialisers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "chain.onnx")
    found = import_model(folder / "chain.onnx", {"x": spec} if spec else None)
    session = session_of(model)
    for batch, seq in ((1, 1), (3, 8)):
        sizes = {"batch": batch, "seq": seq}
        x = np.random.default_rng(seq).uniform(-1, 1, [sizes.get(d, d) for d in shape]).astype(np.float32)
        (expected,) = session.run(None, {"x": x})
        (y,) = execute_graph(found, {"x": x}).values()
        assert y.shape == expected.shape
        np.testing.assert_allclose(y, expected, 1e-5, 1e-6)
    return found


def n(op: str, inputs: str, outputs: str, **attrs: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


def shown(graph: Graph) -> tuple[list[str], str]:
    return [node.op for node in graph.nodes], ", ".join(map(str, graph.values[graph.outputs[0]].shape))


def test_heads_are_split_by_a_shape_chain(tmp_path: Path) -> None:
    nodes = [n("Shape", "x", "s"), n("Gather", "s zero", "b", axis=0), n("Gather", "s one", "t", axis=0),
             n("Unsqueeze", "b axes", "b1"), n("Unsqueeze", "t axes", "t1"),
             n("Concat", "b1 t1 heads minus", "shape", axis=0), n("Reshape", "x shape", "y")]
    graph = graph_of(tmp_path, nodes, {"zero": 0, "one": 1, "axes": [0], "heads": [3], "minus": [-1]})
    assert shown(graph) == (["Reshape"], "batch, seq, 3, 4")


def test_arithmetic_of_sizes(tmp_path: Path) -> None:
    nodes = [n("Shape", "x", "s"), n("Slice", "s zero one", "b"), n("Slice", "s one two", "t"), n("Mul", "b t", "bt"),
             n("Slice", "s two three", "c"), n("Div", "c four", "q"), n("Concat", "bt four q", "shape", axis=0),
             n("Reshape", "x shape", "y")]
    graph = graph_of(tmp_path, nodes, {"zero": [0], "one": [1], "two": [2], "three": [3], "four": [4]})
    assert shown(graph) == (["Reshape"], "batch*seq, 4, 3")


def test_reduce_prod_and_squeeze(tmp_path: Path) -> None:
    nodes = [n("Shape", "x", "s", start=1), n("ReduceProd", "s", "p", keepdims=0), n("Unsqueeze", "p axes", "p1"),
             n("Concat", "minus p1", "shape", axis=0), n("Reshape", "x shape", "y")]
    graph = graph_of(tmp_path, nodes, {"axes": [0], "minus": [-1]})
    assert shown(graph) == (["Reshape"], "batch, 12*seq")


def test_class_token_is_expanded(tmp_path: Path) -> None:
    """Exporters write Expand(token, Where(shape == -1, ones, shape))."""
    nodes = [n("Shape", "x", "s"), n("Gather", "s zero", "b", axis=0), n("Unsqueeze", "b axes", "b1"),
             n("Concat", "b1 minus minus", "wanted", axis=0), n("Shape", "wanted", "rank"),
             n("ConstantOfShape", "rank", "ones", value=numpy_helper.from_array(np.array([1]))),
             n("Mul", "ones minus", "minuses"), n("Equal", "wanted minuses", "same"),
             n("Where", "same ones wanted", "shape"), n("Expand", "token shape", "wide"),
             n("Concat", "wide x", "y", axis=1)]
    token = np.arange(12, dtype=np.float32).reshape(1, 1, 12)
    graph = graph_of(tmp_path, nodes, {"zero": 0, "axes": [0], "minus": [-1], "token": token})
    assert shown(graph) == (["Expand", "Concat"], "batch, seq + 1, 12")


def test_positions_are_sliced_by_length(tmp_path: Path) -> None:
    nodes = [n("Shape", "x", "s"), n("Gather", "s one", "t", axis=0), n("Unsqueeze", "t axes", "t1"),
             n("Slice", "table zero t1 axes", "positions"), n("Add", "x positions", "y")]
    table = np.random.default_rng(0).uniform(-1, 1, (64, 12)).astype(np.float32)
    graph = graph_of(tmp_path, nodes, {"one": 1, "axes": [0], "zero": [0], "table": table},
                     spec="?,1..64,12")
    assert shown(graph)[1] == "batch, seq, 12"


def test_states_of_a_dynamic_batch(tmp_path: Path) -> None:
    nodes = [n("Shape", "x", "s"), n("Gather", "s zero", "b", axis=0), n("Unsqueeze", "b axes", "b1"),
             n("Concat", "b1 width", "shape", axis=0), n("ConstantOfShape", "shape", "state"),
             n("ReduceMean", "x", "m", axes=[1], keepdims=0), n("Concat", "state m", "y", axis=1)]
    graph = graph_of(tmp_path, nodes, {"zero": 0, "axes": [0], "width": [5]})
    assert shown(graph)[1] == "batch, 17"


def test_sizes_computed_in_float(tmp_path: Path) -> None:
    """Older exporters: Shape -> Cast(float) -> Mul -> Floor -> Cast(int) -> Resize."""
    nodes = [n("Shape", "x", "s"), n("Slice", "s two four", "hw"), n("Cast", "hw", "f", to=FLOAT), n("Mul", "f k", "g"),
             n("Floor", "g", "h"), n("Cast", "h", "i", to=TensorProto.INT64), n("Slice", "s zero two", "bc"),
             n("Concat", "bc i", "sizes", axis=0),
             helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest", nearest_mode="floor",
                              coordinate_transformation_mode="asymmetric")]
    graph = graph_of(tmp_path, nodes, {"zero": [0], "two": [2], "four": [4], "k": np.array([2, 2], np.float32)},
                     ("batch", 3, "seq", 4))
    assert shown(graph) == (["Resize"], "batch, 3, 2*seq, 8")
    assert graph.nodes[0].attrs["scales"] == (1.0, 1.0, 2.0, 2.0)


def test_range_of_a_dynamic_length(tmp_path: Path) -> None:
    nodes = [n("Shape", "x", "s"), n("Gather", "s one", "t", axis=0), n("Range", "zero t one", "r"),
             n("Cast", "r", "f", to=FLOAT), n("Unsqueeze", "f axes", "g"), n("Mul", "x g", "y")]
    graph = graph_of(tmp_path, nodes, {"zero": 0, "one": 1, "axes": [1]})
    assert shown(graph)[1] == "batch, seq, 12"


def test_split_concat_of_shapes(tmp_path: Path) -> None:
    nodes = [n("Shape", "x", "s"), n("Split", "s parts", "bt c"), n("Concat", "c bt", "shape", axis=0),
             n("Reshape", "x shape", "y")]
    graph = graph_of(tmp_path, nodes, {"parts": [2, 1]})
    assert shown(graph) == (["Reshape"], "12, batch, seq")


@pytest.mark.parametrize("shape", [[0, -1], [-1, 12], [0, 0, -1]])
def test_minus_one_and_zero(tmp_path: Path, shape: list[int]) -> None:
    graph = graph_of(tmp_path, [n("Reshape", "x shape", "y")], {"shape": shape})
    expected = {(0, -1): "batch, 12*seq", (-1, 12): "batch*seq, 12", (0, 0, -1): "batch, seq, 12"}
    assert shown(graph)[1] == expected[tuple(shape)]
