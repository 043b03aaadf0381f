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
