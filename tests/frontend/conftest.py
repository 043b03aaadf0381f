"""Small ONNX models, saved where a test can import them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

MakeModel = Callable[..., Path]


def tensor_info(name: str, shape: Sequence[int | str | None] | None, dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def build_model(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], *,
                constants: dict[str, np.ndarray] | None = None, opset: int = 17, ir_version: int = 8,
                **more: Any) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    value_info = more.pop("value_info", [])
    graph = helper.make_graph(list(nodes), "small", list(inputs), list(outputs), initializers, value_info=value_info)
    opsets = more.pop("opset_imports", [helper.make_opsetid("", opset)])
    return helper.make_model(graph, ir_version=ir_version, opset_imports=opsets, **more)


@pytest.fixture
def make_model(tmp_path: Path) -> MakeModel:
    """make_model(nodes, inputs, outputs, constants=, opset=, ...) -> the path of a saved model."""
    def make(*args: Any, edit: Callable[[onnx.ModelProto], None] | None = None, **more: Any) -> Path:
        model = build_model(*args, **more)
        if edit is not None:
            edit(model)
        path = tmp_path / "small.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return make


@pytest.fixture
def info() -> Callable[..., Any]:
    """info(name, shape, dtype) -> ValueInfoProto"""
    return tensor_info
