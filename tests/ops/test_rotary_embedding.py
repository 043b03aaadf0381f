"""RotaryEmbedding of ONNX in every form against onnx's own evaluator."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from meta_infer.frontend.import_model import import_model
from meta_infer.ops.execute import execute_graph
from meta_infer.passes.pipeline import canonicalize
from meta_infer.support.errors import MetaInferError


def model_of(arrays: dict[str, np.ndarray], **attrs: int) -> onnx.ModelProto:
    node = helper.make_node("RotaryEmbedding", list(arrays), ["y"], name="the_node", **attrs)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(
        n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in arrays.items()],
        [helper.make_empty_tensor_value_info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def arrays_of(packed: bool, ids: bool, half: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    rng, (batch, heads, steps, size) = np.random.default_rng(half), (2, 3, 5, 8)
    shape = (batch, steps, heads * size) if packed else (batch, heads, steps, size)
    cache = (20, half) if ids else (batch, steps, half)
    arrays = {"x": rng.standard_normal(shape), "cos": rng.standard_normal(cache), "sin": rng.standard_normal(cache)}
    given = {n: a.astype(dtype) for n, a in arrays.items()}
    return given | ({"ids": rng.integers(0, 20, (batch, steps))} if ids else {})


@pytest.mark.parametrize("packed, ids, turned, interleaved", product((0, 1), (0, 1), (0, 2, 6), (0, 1)))
def test_forms(packed: int, ids: int, turned: int, interleaved: int, tmp_path: Path) -> None:
    arrays = arrays_of(bool(packed), bool(ids), (turned or 8) // 2)
    heads = {"num_heads": 3} if packed else {}
    model = model_of(arrays, rotary_embedding_dim=turned, interleaved=interleaved, **heads)
    onnx.save(model, tmp_path / "model.onnx")
    graph = import_model(tmp_path / "model.onnx")
    np.testing.assert_allclose(execute_graph(graph, arrays)["y"], ReferenceEvaluator(model).run(None, arrays)[0],
                               1e-6, 1e-6)
    assert "Transpose" not in {node.op for node in canonicalize(graph).nodes}


@pytest.mark.parametrize("change, attrs, problem", [
    ({}, {"rotary_embedding_dim": 6}, "should end in 3"), ({}, {"rotary_embedding_dim": 3}, "in pairs"),
    ({"x": (2, 5, 24)}, {}, "share out"), ({"x": (2, 8)}, {}, "3 or 4 dimensions"), ({"cos": (2, 5, 4)}, {}, "input 1"),
])
def test_what_does_not_fit_is_named(change: dict[str, tuple[int, ...]], attrs: dict[str, int], problem: str,
                                    tmp_path: Path) -> None:
    arrays = arrays_of(False, True, 4) | {n: np.zeros(shape, np.float32) for n, shape in change.items()}
    onnx.save(model_of(arrays, **attrs), tmp_path / "model.onnx")
    with pytest.raises(MetaInferError, match=problem) as caught:
        import_model(tmp_path / "model.onnx")
    assert "the_node" in str(caught.value)
