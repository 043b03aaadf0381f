"""Every op in every dtype that its ONNX schema allows, in one package per dtype, against onnx's reference evaluator.

Where the evaluator fails (it computes in numpy, which lacks some of these), the op's own reference in float64 stands
for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, compose, defs, helper
from onnx.reference import ReferenceEvaluator

from meta_infer.api import build
from meta_infer.ops.opdef import OpDef, Sample
from meta_infer.ops.registry import OPS
from meta_infer.runtime.session import load
from tests.ops.onnx_case import model_of, onnx_inputs

OPSET = 25
LARGEST = 200                                            # elements of a sample
TOLERANCE = {"bfloat16": 2e-2, "float16": 4e-3, "float64": 1e-6}
DTYPES = ["bfloat16", "float16", "float64", "int8", "uint8", "uint32", "uint64"]
OTHERWISE = {
    "Cast": "tests/build/test_narrow_types.py", "GridSample": "its coordinates are of another type",
    "LSTM": "long to compile", "GRU": "long to compile", "RNN": "long to compile"}
"""Ops that are tested elsewhere, or would take most of the time."""


def smallest_sample(op: OpDef) -> Sample | None:
    """The first small sample with elements and an ONNX spelling that newest opsets share."""
    for sample in op.samples(np.random.default_rng(1)):
        arrays = [a for a in onnx_inputs(sample) if a is not None]
        if sample.onnx_op != "-" and not sample.opset and arrays and all(0 < a.size <= LARGEST for a in arrays):
            return sample
    return None


def converted(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return np.abs(array).astype(dtype) if dtype.kind == "u" else array.astype(dtype)


def in_dtype(op: OpDef, sample: Sample, dtype: np.dtype) -> tuple[ModelProto, dict[str, np.ndarray]] | None:
    """The sample with every input that shares the type of the first one cast to `dtype`; None if the op lacks it."""
    name = sample.onnx_op or op.name
    if not defs.has(name, OPSET, ""):
        return None
    schema = defs.get_schema(name, OPSET, "")
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    kind = schema.inputs[0].type_str
    word = {"float64": "double"}.get(dtype.name, dtype.name)
    if f"tensor({word})" not in allowed.get(kind, ()):
        return None
    model = model_of(op, sample, max(schema.min_output, 1))
    feeds = {}
    for i, array in enumerate(onnx_inputs(sample)):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        if array is not None and formal.type_str == kind:
            array = converted(array, dtype)
        if array is not None:
            feeds[f"in{i}"] = array
    for value in model.graph.input:
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(feeds[value.name].dtype)
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", OPSET))
    return model, feeds


def expected(op: OpDef, sample: Sample, model: ModelProto, feeds: dict[str, np.ndarray], dtype: np.dtype
             ) -> list[np.ndarray]:
    wide = {n: a.astype(np.float64) if a.dtype == dtype and dtype.name in TOLERANCE else a for n, a in feeds.items()}
    copy = ModelProto()
    copy.CopyFrom(model)
    for value in copy.graph.input:
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(wide[value.name].dtype)
    with np.errstate(all="ignore"):
        for candidate, arrays in ((copy, wide), (model, feeds)):
            try:
                return [np.asarray(a) for a in ReferenceEvaluator(candidate).run(None, arrays)]
            except Exception:  # noqa: BLE001 - numpy lacks this op in this type, in any way
                continue
        first = next(a for a in sample.inputs if a is not None).dtype
        own = [converted(a, dtype).astype(np.float64) if a is not None and a.dtype == first else a
               for a in sample.inputs]
        return list(op.reference(sample.attrs, own))


@pytest.mark.parametrize("name", DTYPES)
def test_every_op(name: str, tmp_path: Path) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    cases: list[tuple[OpDef, Sample, ModelProto, dict[str, np.ndarray]]] = []
    for op in OPS:
        sample = None if op.is_control_flow or op.name in OTHERWISE else smallest_sample(op)
        found = None if sample is None else in_dtype(op, sample, dtype)
        if sample is not None and found is not None:
            cases.append((op, sample, *found))
    graphs = [compose.add_prefix_graph(model.graph, f"{op.name}_") for op, _, model, _ in cases]
    merged = helper.make_graph([n for g in graphs for n in g.node], "all", [v for g in graphs for v in g.input],
                               [v for g in graphs for v in g.output])
    model = helper.make_model(merged, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    build(tmp_path / "m.onnx", output=tmp_path / "m.bin", verify=False)
    feeds: dict[str, Any] = {f"{op.name}_{n}": a for op, *_, arrays in cases for n, a in arrays.items()}
    with load(tmp_path / "m.bin", threads=1) as session:
        results = session.run(None, feeds)
    wrong, left = [], iter(results)
    for op, sample, case, arrays in cases:
        for want in expected(op, sample, case, arrays, dtype):
            got = next(left)
            near = TOLERANCE.get(got.dtype.name, 1e-5 if got.dtype == np.float32 else 0)
            same = got.shape == want.shape and np.allclose(
                got.astype(np.float64), want.astype(got.dtype).astype(np.float64), near, near, equal_nan=True)
            if not same:
                wrong.append(f"{op.name}: {got.reshape(-1)[:5]} instead of {want.reshape(-1)[:5]}")
    assert not wrong, "\n".join(wrong)
    assert len(cases) >= 20
