"""Models of operator sets before 7."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from meta_infer.frontend.import_model import import_model
from meta_infer.ops.execute import execute_graph
from meta_infer.support.errors import UnsupportedError


def saved(path: Path, node: onnx.NodeProto, *shapes: tuple[int, ...], opset: int = 6) -> Path:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
              for name, shape in zip(node.input, shapes, strict=True)]
    graph = helper.make_graph([node], "old", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes[0])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)
    path.write_bytes(model.SerializeToString())
    return path


def test_broadcasting_by_attribute(tmp_path: Path) -> None:
    node = helper.make_node("Add", ["a", "b"], ["y"], broadcast=1, axis=1)
    notes: list[str] = []
    graph = import_model(saved(tmp_path / "m.onnx", node, (2, 3, 4), (3,)), note=notes.append)
    a, b = np.random.rand(2, 3, 4).astype(np.float32), np.random.rand(3).astype(np.float32)
    (y,) = execute_graph(graph, {"a": a, "b": b}).values()
    np.testing.assert_array_equal(y, a + b[:, None])
    assert notes == ["opset 6 was converted to 7 by onnx.version_converter"]


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_slopes_of_channels(tmp_path: Path, shape: tuple[int, ...]) -> None:
    graph = import_model(saved(tmp_path / "m.onnx", helper.make_node("PRelu", ["x", "s"], ["y"]), shape, (3,)))
    x, s = np.random.standard_normal(shape).astype(np.float32), np.random.rand(3).astype(np.float32)
    (y,) = execute_graph(graph, {"x": x, "s": s}).values()
    slopes = s.reshape(3, *(1,) * (len(shape) - 2))
    np.testing.assert_array_equal(y, np.where(x < 0, x * slopes, x))


def test_what_onnx_cannot_convert_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("Add", ["a", "b"], ["y"], broadcast=1)
    with pytest.raises(UnsupportedError, match="opset 6 is older than 7, and onnx cannot convert it"):
        import_model(saved(tmp_path / "m.onnx", node, (2, 3), (4,)))


def test_dimensions_with_names_stay(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "old",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, None])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3, None])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=3), path)
    graph_found = import_model(path, {"x": "1..4,3,1..9"})
    assert [str(dim) for dim in graph_found.values[graph_found.inputs[0]].shape] == ["N", "3", "x_d2"]
