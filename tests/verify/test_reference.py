"""The reference runtime, as this project uses it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer import compare
from meta_infer.api import build
from meta_infer.frontend.import_model import import_model
from meta_infer.verify.reference import choose_reference


def test_onnx_runtime_reports_to_nobody(tmp_path: Path) -> None:
    """It keeps what it is going to send in the user's cache folder."""
    environment = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", "import meta_infer.verify.reference"], check=True,
                   env={**environment, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)})
    assert not list(tmp_path.iterdir())


def info(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.mark.parametrize("external", [False, True])
def test_repeated_node_names(external: bool, tmp_path: Path) -> None:
    """ONNX Runtime refuses them, in regions as well; names mean nothing, so that it computes the model without them."""
    name = "twice"
    branches = {key: helper.make_graph([helper.make_node(op, ["b"], [f"m_{key}"], name=name),
                                        helper.make_node("Relu", [f"m_{key}"], [key], name=name)],
                                       key, [], [info(key, 300)])
                for key, op in (("then_branch", "Neg"), ("else_branch", "Abs"))}
    nodes = [helper.make_node("Add", ["x", "w"], ["a"], name=name), helper.make_node("Abs", ["a"], ["b"], name=name),
             helper.make_node("If", ["c"], ["y"], name="once", **branches)]
    weight = np.arange(300, dtype=np.float32)
    graph = helper.make_graph(nodes, "g", [info("x", 300), info("c", kind=TensorProto.BOOL)], [info("y", 300)],
                              [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=external, location="w.bin", size_threshold=0)
    reference = choose_reference(tmp_path / "m.onnx", import_model(tmp_path / "m.onnx"))
    assert not reference.why
    (y,) = reference.run({"x": -2 * weight, "c": np.array(False)})
    np.testing.assert_array_equal(y, weight)
    build(tmp_path / "m.onnx", output=tmp_path / "m.bin")
    result = compare(tmp_path / "m.bin", layers=True)
    assert not result.note and result.first_beyond is None
