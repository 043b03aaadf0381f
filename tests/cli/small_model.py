"""A small ONNX model with a dynamic batch: x[batch, 12] -> relu(x w + b) -> softmax."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write_model(path: Path, *, op: str = "Relu") -> Path:
    """`op` replaces the Relu, for models that do not build."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((12, 20)), "b": rng.standard_normal(20)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], name="matmul"),
        helper.make_node("Add", ["product", "b"], ["sum"], name="bias"),
        helper.make_node(op, ["sum"], ["hidden"], name="activation"),
        helper.make_node("Softmax", ["hidden"], ["y"], name="softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 20])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path
