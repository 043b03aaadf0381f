"""DFT, STFT, windows and mel weights against numpy: any length, both directions, sizes known early or late."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from meta_infer.frontend.import_model import import_model
from meta_infer.ops.execute import execute_graph


def run(tmp_path: Path, op: str, inputs: Mapping[str, np.ndarray | None], opset: int, known: tuple[str, ...] = (),
        **attrs: Any) -> tuple[np.ndarray, onnx.ModelProto]:
    """The node as the compiler understands it (graph IR executed by references), and its model."""
    given = {name: array for name, array in inputs.items() if array is not None}
    node = helper.make_node(op, [n if a is not None else "" for n, a in inputs.items()], ["y"], **attrs)
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for n, a in given.items() if n not in known]
    tensors = [onnx.numpy_helper.from_array(given[n], n) for n in known]
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y")], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    imported = import_model(path)
    feeds = {name: given[imported.values[name].origin or name] for name in imported.inputs}
    return execute_graph(imported, feeds)[imported.outputs[0]], model


def parts(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1)


@pytest.mark.parametrize("length", [1, 2, 7, 12, 64, 2048, 2310, 4099, 6000])
@pytest.mark.parametrize("inverse", [0, 1])
def test_complex_transform_of_any_length(length: int, inverse: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(length)
    x = rng.normal(size=(2, length)) + 1j * rng.normal(size=(2, length))
    found, _ = run(tmp_path, "DFT", {"x": parts(x)}, 20, inverse=inverse)
    np.testing.assert_allclose(found, parts(np.fft.ifft(x) if inverse else np.fft.fft(x)), 1e-8, 1e-8)


@pytest.mark.parametrize("length", [1, 2, 9, 16, 4098, 5001])
def test_real_transform_gives_half_a_spectrum_and_back(length: int, tmp_path: Path) -> None:
    x = np.random.default_rng(length).normal(size=(3, length))
    found, _ = run(tmp_path, "DFT", {"x": x[..., None]}, 20, onesided=1)
    np.testing.assert_allclose(found, parts(np.fft.rfft(x)), 1e-8, 1e-8)
    back, _ = run(tmp_path, "DFT", {"x": found, "n": np.array(length)}, 20, ("n",), onesided=1, inverse=1)
    np.testing.assert_allclose(back[..., 0], x, 1e-8, 1e-8)


@pytest.mark.parametrize("known", [(), ("n",), ("axis",), ("n", "axis")])
@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("length", [3, 5, 8])
def test_axis_and_length_from_inputs(known: tuple[str, ...], axis: int, length: int, tmp_path: Path) -> None:
    """Both may be known only while running; a signal is cut or padded with zeros."""
    x = np.random.default_rng(5).normal(size=(4, 5, 6, 1))
    inputs = {"x": x, "n": np.array(length), "axis": np.array(axis)}
    found, _ = run(tmp_path, "DFT", inputs, 20, known, onesided=1)
    place = axis if axis >= 0 else 2
    np.testing.assert_allclose(found, parts(np.fft.rfft(x[..., 0], length, place)), 1e-10, 1e-10)


def test_float16_and_float32_come_back_as_they_were(tmp_path: Path) -> None:
    x = np.random.default_rng(6).normal(size=(1, 10, 1))
    for dtype, tolerance in ((np.float32, 1e-5), (np.float16, 2e-2)):
        found, _ = run(tmp_path, "DFT", {"x": x.astype(dtype)}, 17, axis=1)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, parts(np.fft.fft(x[..., 0])), tolerance, tolerance)


@pytest.mark.parametrize("known", [(), ("step", "length")])
@pytest.mark.parametrize(("length", "step"), [(16, 8), (7, 3), (16, 40), (50, 1)])
def test_stft(known: tuple[str, ...], length: int, step: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    signal, window = rng.normal(size=(2, 50, 1)).astype(np.float32), rng.uniform(size=length).astype(np.float32)
    inputs = {"signal": signal, "step": np.array(step), "window": window, "length": np.array(length)}
    found, _ = run(tmp_path, "STFT", inputs, 17, known)
    frames = np.stack([signal[:, s:s + length, 0] for s in range(0, 50 - length + 1, step)], 1)
    np.testing.assert_allclose(found, parts(np.fft.rfft(frames * window)), 1e-4, 1e-4)


@pytest.mark.parametrize("known", [(), ("bins", "length", "rate", "low", "high")])
@pytest.mark.parametrize(("bins", "length", "rate", "low", "high"), [
    (8, 16, 8192, 0.0, 4096.0), (40, 512, 16000, 20.0, 7600.0), (1, 8, 8000, 0.0, 4000.0),
    (80, 400, 16000, 0.0, 8000.0)])
def test_mel_weights(known: tuple[str, ...], bins: int, length: int, rate: int, low: float, high: float,
                     tmp_path: Path) -> None:
    inputs = {"bins": np.array(bins), "length": np.array(length), "rate": np.array(rate),
              "low": np.array(low, np.float32), "high": np.array(high, np.float32)}
    found, model = run(tmp_path, "MelWeightMatrix", inputs, 17, known)
    want = ReferenceEvaluator(model).run(None, {k: v for k, v in inputs.items() if k not in known})[0]
    np.testing.assert_allclose(found, want, 1e-6, 1e-6)


@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("size", [2, 3, 400])
def test_windows_whose_size_is_data(op: str, periodic: int, size: int, tmp_path: Path) -> None:
    found, model = run(tmp_path, op, {"n": np.array(size)}, 17, periodic=periodic)
    np.testing.assert_allclose(found, ReferenceEvaluator(model).run(None, {"n": np.array(size)})[0], 1e-4, 1e-5)
