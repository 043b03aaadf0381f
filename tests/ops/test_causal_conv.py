"""CausalConvWithState in every combination of operands against onnx's own evaluator."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_specs
from meta_infer.ops.execute import execute_graph
from meta_infer.support.errors import MetaInferError


def model_of(arrays: dict[str, np.ndarray], length: int | str, **attrs: str) -> onnx.ModelProto:
    names = [n if n in arrays else "" for n in ("x", "w", "b", "past")]
    while not names[-1]:
        names.pop()
    node = helper.make_node("CausalConvWithState", names, ["y", "state"], name="the_node", **attrs)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(
        n, helper.np_dtype_to_tensor_dtype(a.dtype), (*a.shape[:2], length) if n == "x" else a.shape)
        for n, a in arrays.items()], [helper.make_empty_tensor_value_info(o) for o in ("y", "state")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=12)


@pytest.mark.parametrize("width, bias, past, activation", product((1, 2, 4), (0, 1), (0, 1), ("none", "silu")))
def test_agrees_with_onnx(width: int, bias: int, past: int, activation: str, tmp_path: Path) -> None:
    """The length is dynamic; shorter than the kernel, too."""
    rng, graph = np.random.default_rng(width), None
    for length in (1, 3, 40):
        arrays = {"x": rng.standard_normal((2, 5, length)), "w": rng.standard_normal((5, 1, width))}
        arrays |= {"b": rng.standard_normal(5)} if bias else {}
        arrays |= {"past": rng.standard_normal((2, 5, width - 1))} if past else {}
        given = {n: a.astype(np.float32) for n, a in arrays.items()}
        if graph is None:
            onnx.save(model_of(given, "length", activation=activation), tmp_path / "model.onnx")
            graph = import_model(tmp_path / "model.onnx", parse_shape_specs(("x=?,?,1..64",)))
        want = ReferenceEvaluator(model_of(given, length, activation=activation)).run(None, given)
        found = execute_graph(graph, given)
        np.testing.assert_allclose(found["y"], want[0], 1e-5, 1e-6)
        np.testing.assert_array_equal(found["state"], want[1])


def test_an_unknown_activation_is_named(tmp_path: Path) -> None:
    arrays = {"x": np.zeros((1, 2, 3), np.float32), "w": np.zeros((2, 1, 2), np.float32)}
    onnx.save(model_of(arrays, 3, activation="relu"), tmp_path / "model.onnx")
    with pytest.raises(MetaInferError, match="activation 'relu'") as caught:
        import_model(tmp_path / "model.onnx")
    assert "the_node" in str(caught.value)
