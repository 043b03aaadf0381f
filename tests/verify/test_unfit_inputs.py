"""Models that do not take random inputs: their shape operands come from the user."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from meta_infer import build, compare, load
from meta_infer.verify.reference import UnfitInputs


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = Reshape(x, s): no s of zeros and ones fits."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["y"])], "unfit",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [7, 11]),
         helper.make_tensor_value_info("s", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_it_is_built_and_said_to_be_unverified(model: Path) -> None:
    result = build(model)
    assert any("not verified" in warning for warning in result.report["warnings"])
    assert result.path is not None
    x = np.arange(77, dtype=np.float32).reshape(7, 11)
    with load(result.path) as session:
        y, = session.run(None, {"x": x, "s": np.array([-1])})
    np.testing.assert_array_equal(y, x.reshape(-1))
    with pytest.raises(UnfitInputs, match="does not take the random inputs"):
        compare(result.path)


def test_a_loop_that_does_not_end_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loop while x < 0, with an x that no pass changes: random inputs end it or never do."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["state"], ["next"]), helper.make_node("Less", ["state", "never"], ["go"])],
        "body", [helper.make_tensor_value_info("i", TensorProto.INT64, []),
                 helper.make_tensor_value_info("c", TensorProto.BOOL, []),
                 helper.make_tensor_value_info("state", TensorProto.FLOAT, [])],
        [helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("next", TensorProto.FLOAT, [])],
        [helper.make_tensor("never", TensorProto.FLOAT, [], [1e9])])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)], "endless",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
        [helper.make_tensor("yes", TensorProto.BOOL, [], [True])])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    monkeypatch.setattr("meta_infer.verify.reference.LONGEST", 0.5)
    warnings = build(path).report["warnings"]
    assert any("has not ended on random inputs" in warning for warning in warnings)
