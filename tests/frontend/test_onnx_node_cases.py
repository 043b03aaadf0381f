"""The test cases that ONNX ships for its own ops: whatever imports must compute what they expect."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
from onnx import numpy_helper

from meta_infer.frontend.import_model import import_model
from meta_infer.ir.graph import Graph
from meta_infer.ir.verify_graph import verify_graph
from meta_infer.ops.execute import execute_graph
from meta_infer.support.errors import ModelError, UnsupportedError

SLOW_TO_MAKE = {"averagepool", "lppool", "maxpool"}
TOLERANCES = {"bfloat16": (2e-2, 2e-2), "float16": (1e-2, 1e-2), "float32": (1e-3, 1e-5), "float64": (1e-6, 1e-8)}
KNOWN = {
    "test_resize_downsample_scales_linear_align_corners": "ONNX scales by the size before rounding; we by the real one",
    "test_resize_downsample_scales_cubic_align_corners": "as above",
    "test_celu_bfloat16": "numpy has no bfloat16",
    "test_celu_bfloat16_expanded": "numpy has no bfloat16",
    "test_range_bfloat16_type_positive_delta": "numpy has no bfloat16",
    "test_reduce_max_empty_set": "the reference of ReduceMax takes no empty sets",
    "test_reduce_max_empty_set_bool": "as above",
    "test_reduce_min_empty_set": "as above",
    "test_reduce_log_sum_exp_empty_set": "as above",
    **{f"test_bernoulli{kind}{body}": "random numbers: another draw" for kind in ("", "_double", "_seed")
       for body in ("", "_expanded")},
}


def all_cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.random.seed(0)                                # the cases draw from numpy's global generator
        for module in pkgutil.iter_modules(node_cases.__path__):
            if module.name not in SLOW_TO_MAKE:
                importlib.import_module(f"{node_cases.__name__}.{module.name}")
    return list(node_cases._NodeTestCases)


def imported(model: onnx.ModelProto, inputs: list[np.ndarray], path: Path) -> Graph | None:
    """The graph of a case, its small operands made constants if need be; None when it is not supported."""
    path.write_bytes(model.SerializeToString())
    try:
        return import_model(path)
    except (UnsupportedError, ModelError):               # a ModelError: branches whose ranks the operand decides
        frozen = onnx.ModelProto()
        frozen.CopyFrom(model)
        for value, array in list(zip(model.graph.input, inputs, strict=True))[1:]:
            if array.ndim <= 1 and array.size <= 64:
                frozen.graph.initializer.append(numpy_helper.from_array(array, value.name))
        path.write_bytes(frozen.SerializeToString())
    try:
        return import_model(path)
    except UnsupportedError:
        return None


def difference(graph: Graph, inputs: dict[str, np.ndarray], wanted: list[np.ndarray]) -> str:
    outputs = execute_graph(graph, {name: inputs[str(graph.values[name].origin)] for name in graph.inputs})
    for name, want in zip(graph.outputs, wanted, strict=True):
        got = outputs[name]
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"{got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
        rtol, atol = TOLERANCES.get(got.dtype.name, (0, 0))
        if not np.allclose(got.astype(float), want.astype(float), rtol, atol, equal_nan=True):
            return f"largest deviation {abs(got.astype(float) - want.astype(float)).max()}"
    return ""


def test_what_imports_computes_what_onnx_expects(tmp_path: Path) -> None:
    wrong, compared = [], 0
    for case in all_cases():
        inputs, wanted = case.data_sets[0]
        if case.name in KNOWN or not all(isinstance(array, np.ndarray) for array in (*inputs, *wanted)):
            continue
        try:
            graph = imported(case.model, inputs, tmp_path / "case.onnx")
            if graph is None:
                continue
            verify_graph(graph)
            names = [value.name for value in case.model.graph.input]
            problem = difference(graph, dict(zip(names, inputs, strict=True)), wanted)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        compared += 1
        if problem:
            wrong.append(f"{case.name}: {problem}")
    assert not wrong, "\n".join(wrong)
    assert compared > 900
