"""Random ops: distributions, seeds, dtypes, sizes known while running; Dropout in all its modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from meta_infer.frontend.import_model import import_model
from meta_infer.ops.execute import execute_graph


def draw(tmp_path: Any, op: str, arrays: dict[str, np.ndarray], opset: int = 22, outputs: int = 1, name: str = "node",
         known: tuple[str, ...] = (), dynamic: bool = False, **attrs: Any) -> list[np.ndarray]:
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, list(arrays), made, name=name, **attrs)
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype),
                                           [f"d{i}" for i in range(a.ndim)] if dynamic else a.shape)
             for n, a in arrays.items() if n not in known]
    tensors = [onnx.numpy_helper.from_array(arrays[n], n) for n in known]
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info(m) for m in made], tensors)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    imported = import_model(path)
    feeds = {n: arrays[imported.values[n].origin or n] for n in imported.inputs}
    found = execute_graph(imported, feeds)
    return [found[n] for n in imported.outputs]


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_distributions(dtype: int, tmp_path: Any) -> None:
    (u,) = draw(tmp_path, "RandomUniform", {}, shape=[100, 200], low=-1.0, high=3.0, seed=4.0, dtype=dtype)
    assert u.dtype == helper.tensor_dtype_to_np_dtype(dtype) and u.min() >= -1 and u.max() <= 3
    assert abs(u.mean(dtype=np.float64) - 1) < 0.03
    (z,) = draw(tmp_path, "RandomNormal", {}, shape=[100, 200], mean=2.0, scale=0.5, seed=4.0, dtype=dtype)
    wide = (z.astype(np.float64) - 2) / 0.5
    assert abs(wide.mean()) < 0.03 and abs(wide.std() - 1) < 0.03 and abs((wide**3).mean()) < 0.06


def test_seeds(tmp_path: Any) -> None:
    """A seed gives the same numbers; without one the node's name decides."""
    a, b = (draw(tmp_path, "RandomUniform", {}, shape=[9], seed=7.0, name=n)[0] for n in ("a", "b"))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(a, np.random.RandomState(7).random_sample(9), 1e-6)
    c, d, e = (draw(tmp_path, "RandomUniform", {}, shape=[9], name=n)[0] for n in ("a", "b", "a"))
    assert not np.array_equal(c, d)
    np.testing.assert_array_equal(c, e)


@pytest.mark.parametrize("dynamic", [False, True])
def test_like_takes_shape_and_dtype(dynamic: bool, tmp_path: Any) -> None:
    for op in ("RandomUniformLike", "RandomNormalLike"):
        for shape in ((3, 5), (1, 2), (8, 1)):
            (y,) = draw(tmp_path, op, {"x": np.zeros(shape, np.float64)}, seed=1.0, dynamic=dynamic)
            assert y.shape == shape and y.dtype == np.float64 and np.isfinite(y).all()


def test_bernoulli_and_multinomial(tmp_path: Any) -> None:
    p = np.repeat(np.array([0.0, 0.25, 1.0], np.float32), 4000).reshape(3, 4000)
    (y,) = draw(tmp_path, "Bernoulli", {"p": p}, seed=1.0, dtype=TensorProto.BOOL)
    assert y.dtype == np.bool_ and not y[0].any() and y[2].all() and abs(y[1].mean() - 0.25) < 0.03
    logits = np.log(np.array([[0.1, 0.2, 0.7], [1.0, 1e-30, 1e-30]], np.float32))
    (picks,) = draw(tmp_path, "Multinomial", {"x": logits}, seed=1.0, sample_size=4000, dtype=TensorProto.INT64)
    assert picks.shape == (2, 4000) and picks.dtype == np.int64 and not picks[1].any()
    np.testing.assert_allclose(np.bincount(picks[0], minlength=3) / 4000, [0.1, 0.2, 0.7], atol=0.03)


@pytest.mark.parametrize("known", [(), ("r",), ("t",), ("r", "t")])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("ratio", [0.0, 0.25, 0.9])
def test_dropout(known: tuple[str, ...], training: bool, ratio: float, tmp_path: Any) -> None:
    x = np.random.default_rng(3).normal(size=(4, 100)).astype(np.float32)
    arrays = {"x": x, "r": np.array(ratio, np.float32), "t": np.array(training)}
    y, mask = draw(tmp_path, "Dropout", arrays, outputs=2, known=known, seed=9)
    kept = np.random.RandomState(9).random_sample(x.shape) >= np.float32(ratio) if training else np.ones(x.shape, bool)
    np.testing.assert_array_equal(mask, kept)
    np.testing.assert_allclose(y, np.where(kept, x / (1 - ratio) if training else x, 0), 1e-6)


def test_dropout_before_training_mode_has_a_full_mask(tmp_path: Any) -> None:
    x = np.ones((2, 3), np.float32)
    for opset, dtype in ((7, np.float32), (10, np.bool_)):
        y, mask = draw(tmp_path, "Dropout", {"x": x}, opset, outputs=2, ratio=0.3)
        assert mask.dtype == dtype and mask.all() and np.array_equal(y, x)
