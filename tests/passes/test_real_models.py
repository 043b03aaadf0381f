"""The pipeline on real models: every rewrite is checked, and the result still computes what ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from meta_infer.frontend.import_model import import_model
from meta_infer.ops.execute import execute_graph
from meta_infer.passes.covers import propose_covers
from meta_infer.passes.pipeline import canonicalize

TOLERANCE = 1e-4
CASES = [
    ("crnn_bilstm", (1, 33), {"LogSoftmax", "LSTM"}, set()),
    ("crnn_bilstm", (2, 64), {"LogSoftmax", "LSTM"}, set()),
    ("minilm_l6", (1, 1), {"LayerNormalization", "Gelu"}, {"Erf", "Shape", "Identity"}),
    ("minilm_l6", (2, 7), {"LayerNormalization", "Gelu", "Attention"}, {"Erf", "Softmax", "Transpose"}),
    ("bert_mini_s128", (1, 128), {"Attention"}, {"Softmax", "Transpose"}),
    ("vit_tiny_patch16_224", (1, 224), {"Attention"}, {"Softmax", "Slice"}),
]


def inputs_of(session: onnxruntime.InferenceSession, sizes: tuple[int, int]) -> dict[str, np.ndarray]:
    """Random inputs, the first and the last named dimension of each having `sizes`."""
    rng = np.random.default_rng(0)
    arrays = {}
    for info in session.get_inputs():
        named = [i for i, dim in enumerate(info.shape) if not isinstance(dim, int)]
        shape = [dim if isinstance(dim, int) else 1 for dim in info.shape]
        for axis in named:
            shape[axis] = sizes[0] if axis == 0 else sizes[1]
        is_float = info.type == "tensor(float)"
        arrays[info.name] = rng.standard_normal(shape).astype(np.float32) if is_float else rng.integers(0, 2, shape)
    return arrays


@pytest.mark.parametrize("name, sizes, present, absent", CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_results_stay(name: str, sizes: tuple[int, int], present: set[str], absent: set[str],
                      real_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = real_model(name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    arrays = inputs_of(session, sizes)
    monkeypatch.setenv("META_INFER_VERIFY", "1")
    graph = canonicalize(import_model(path))
    ops = {node.op for node in graph.nodes}
    assert present <= ops and not absent & ops
    assert sum(len(group.nodes) for group in propose_covers(graph)) == len(graph.nodes)
    found = execute_graph(graph, arrays)
    for output, wanted in zip(found.values(), session.run(None, arrays), strict=True):
        assert output.shape == wanted.shape
        assert np.abs(output - wanted).max() <= TOLERANCE * np.abs(wanted).max()


@pytest.mark.parametrize("name, groups", [
    ("resnet18", {"Conv+Relu": 9, "Conv+Add+Relu": 8, "Gemm": 1}),
    ("mobilenetv2", {"Conv+Clip": 35, "Conv+Add": 10, "Gemm": 1}),
    ("minilm_l6", {"MatMul+Add+Gelu": 6, "MatMul+Add+Add": 12, "Attention": 6}),
])
def test_known_models_fuse_as_they_should(name: str, groups: dict[str, int], real_model: Callable[[str], Path]) -> None:
    labels = [group.label for group in propose_covers(canonicalize(import_model(real_model(name))))]
    assert {label: labels.count(label) for label in groups} == groups
