"""Faults that random graphs have found stay corrected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, parser

from .found_by_fuzz import FOUND
from .fuzz import check
from .random_graphs import Case


@pytest.mark.parametrize("name", FOUND)
def test_package_equals_onnx_runtime(name: str, tmp_path: Path) -> None:
    opset, text = FOUND[name]
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')
    random, inputs = np.random.default_rng(1), {}
    for info in model.graph.input:
        kind = info.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        drawn = np.asarray(random.standard_normal(shape) * 3)
        inputs[info.name] = [drawn.astype(helper.tensor_dtype_to_np_dtype(kind.elem_type))]
    verdict = check(Case(model, inputs, inputs), tmp_path)
    assert verdict.kind == "ok", verdict.detail
