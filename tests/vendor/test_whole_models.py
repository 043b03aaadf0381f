"""Small models as ONNX Runtime's own tools leave them: optimised with fused ops, and quantised in each of its ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnxruntime import quantization

from .one_model import run_package_on, run_peer
from .small_models import classifier, encoder, feeds_of

ONE_STEP = 1 / 85
"""Of a tensor in 8 bits over its largest element: a range that is not symmetric has larger steps than 1/127 of it."""
INT8, UINT8 = quantization.QuantType.QInt8, quantization.QuantType.QUInt8
QDQ, OPERATORS = quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator
MODELS: dict[str, Callable[[], onnx.ModelProto]] = {"classifier": classifier, "encoder": encoder}


class Samples(quantization.CalibrationDataReader):
    """What activations are calibrated on."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._left: Iterator[dict[str, np.ndarray]] = (feeds_of(model, 4, seed) for seed in range(100, 108))

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._left, None)


def optimised(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """`model` as ONNX Runtime writes it with every fusion that ties it to no machine."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath, options.log_severity_level = str(path), 4
    ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return onnx.load(path)


def static(model: onnx.ModelProto, folder: Path, form: quantization.QuantFormat, weights: quantization.QuantType,
           per_channel: bool) -> onnx.ModelProto:
    before, after = folder / "float.onnx", folder / "quantised.onnx"
    onnx.save(model, before)
    quantization.quantize_static(before, after, Samples(model), quant_format=form, weight_type=weights,
                                 activation_type=UINT8, per_channel=per_channel,
                                 reduce_range=weights == INT8)
    return onnx.load(after)


def ops_of(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node}


def compare(model: onnx.ModelProto, plain: onnx.ModelProto, folder: Path, tolerance: float) -> None:
    """Both sides' results on two batches differ by at most `tolerance` of the largest element."""
    batches = [feeds_of(plain, batch, batch) for batch in (3, 1)]
    for feeds, found in zip(batches, run_package_on(model, batches, folder), strict=True):
        for ours, theirs in zip(found, run_peer(model, feeds), strict=True):
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
            assert np.abs(ours - theirs).max() <= tolerance * np.abs(theirs).max()


def test_optimised_encoder(tmp_path: Path) -> None:
    model = encoder()
    fused = optimised(model, tmp_path / "fused.onnx")
    assert {"FusedMatMul", "SkipLayerNormalization", "BiasGelu"} & ops_of(fused)
    compare(fused, model, tmp_path, 1e-5)


def test_optimised_classifier(tmp_path: Path) -> None:
    model = classifier()
    fused = optimised(model, tmp_path / "fused.onnx")
    assert "FusedConv" in ops_of(fused)
    compare(fused, model, tmp_path, 1e-5)


@pytest.mark.parametrize(("name", "form", "kind"), [
    ("classifier", QDQ, UINT8), ("classifier", OPERATORS, INT8), ("encoder", QDQ, INT8), ("encoder", OPERATORS, UINT8)],
    ids=str)
def test_static(name: str, form: quantization.QuantFormat, kind: quantization.QuantType, tmp_path: Path) -> None:
    """Sums in another order may round the other way: one step of the last activation at most."""
    model = MODELS[name]()
    quantised = static(model, tmp_path, form, kind, per_channel=kind == INT8)
    wanted = "QLinearConv" if name == "classifier" else "QLinearMatMul"
    assert (wanted if form == OPERATORS else "QuantizeLinear") in ops_of(quantised)
    compare(quantised, model, tmp_path, ONE_STEP)


def test_quantised_and_optimised(tmp_path: Path) -> None:
    """A model in QuantizeLinear/DequantizeLinear form, whose pairs the optimiser has fused into quantised ops."""
    model = classifier()
    quantised = static(model, tmp_path, QDQ, INT8, per_channel=True)
    fused = optimised(quantised, tmp_path / "fused.onnx")
    assert {"QLinearConv", "QLinearAdd", "QLinearConcat"} <= ops_of(fused)
    compare(fused, model, tmp_path, ONE_STEP)


@pytest.mark.parametrize("name", MODELS)
def test_dynamic(name: str, tmp_path: Path) -> None:
    """Activations quantised while running; the encoder as the optimiser fuses that."""
    model = MODELS[name]()
    before, after = tmp_path / "float.onnx", tmp_path / "quantised.onnx"
    onnx.save(model, before)
    quantization.quantize_dynamic(before, after, weight_type=UINT8)
    quantised = onnx.load(after)
    assert ops_of(quantised) & {"MatMulInteger", "ConvInteger"} and "DynamicQuantizeLinear" in ops_of(quantised)
    if name == "encoder":
        quantised = optimised(quantised, tmp_path / "fused.onnx")
        assert {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"} & ops_of(quantised)
    compare(quantised, model, tmp_path, ONE_STEP)
