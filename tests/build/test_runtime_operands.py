"""Operands that decide shapes and come as inputs of the model: whole packages against ONNX Runtime.

All nodes of a test stand in one model, so that it is compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

from meta_infer import build, load

RNG = np.random.default_rng(7)
X = RNG.standard_normal((2, 3, 4)).astype(np.float32)
_TYPES = {"f": TensorProto.FLOAT, "d": TensorProto.DOUBLE, "i": TensorProto.INT32, "l": TensorProto.INT64}


def at(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def scalar(value: float, dtype: type = np.int64) -> np.ndarray:
    return np.array(value, dtype)


# op, operands (None = absent), rank of each output, attributes
Case = tuple[str, tuple[np.ndarray | None, ...], tuple[int, ...], dict[str, Any]]
CASES: dict[str, Case] = {
    "reshape": ("Reshape", (X, at(0, -1)), (2,), {}),
    "reshape to other sizes": ("Reshape", (X, at(4, 2, 3)), (3,), {}),
    "reshape of nothing": ("Reshape", (X[:0], at(3, 0)), (2,), {"allowzero": 1}),
    "squeeze": ("Squeeze", (X[:1, :, None], at(2, 0)), (2,), {}),
    "unsqueeze": ("Unsqueeze", (X, at(0, -1)), (5,), {}),
    "reduce": ("ReduceSum", (X, at(1)), (3,), {}),
    "reduce two": ("ReduceMean", (X, at(-3, 2)), (1,), {"keepdims": 0}),
    "reduce all": ("ReduceMax", (X, at(0, 1, 2)), (0,), {"keepdims": 0}),
    "reduce norm": ("ReduceL2", (X, at(-1)), (3,), {}),
    "reduce exponentials": ("ReduceLogSumExp", (X, at(-1)), (2,), {"keepdims": 0}),
    "slice": ("Slice", (X, at(0, 1), at(2, 3)), (3,), {}),
    "slice backwards": ("Slice", (X, at(-1, 5), at(-20, -4), at(2, 1), at(-2, -1)), (3,), {}),
    "slice far": ("Slice", (X, at(1), at(2**63 - 1), at(-1), at(1)), (3,), {}),
    "slice nothing": ("Slice", (X, at(3), at(1), at(1)), (3,), {}),
    "split": ("Split", (X, at(1, 0, 3)), (3, 3, 3), {"axis": 2}),
    "expand": ("Expand", (X, at(5, 1, 3, 4)), (4,), {}),
    "expand up": ("Expand", (X[:, :1], at(3, 1)), (3,), {}),
    "tile": ("Tile", (X, at(2, 0, 3)), (3,), {}),
    "tile more": ("Tile", (X, at(2, 1, 3)), (3,), {}),
    "fill": ("ConstantOfShape", (at(2, 0, 3),), (3,), {}),
    **{f"pad {mode}": ("Pad", (X, at(1, 0, 2, 0, 2, 1)), (3,), {"mode": mode})
       for mode in ("constant", "reflect", "edge")},
    "pad some axes": ("Pad", (X, at(1, -1, 0, 3), scalar(7.5, np.float32), at(-1, 0)), (3,), {}),
    "range": ("Range", (scalar(3), scalar(17), scalar(4)), (1,), {}),
    "range down": ("Range", (scalar(10), scalar(-7), scalar(-3)), (1,), {}),
    "range of nothing": ("Range", tuple(scalar(v, np.int32) for v in (10, 17, -3)), (1,), {}),
    "range of floats": ("Range", tuple(scalar(v, np.float32) for v in (0.5, 3.1, 0.25)), (1,), {}),
}


def model_of(cases: Mapping[str, Case]) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """One model with a node per case, and its feeds."""
    nodes, inputs, outputs = [], [], []
    feeds: dict[str, np.ndarray] = {}
    for name, (op, operands, ranks, attrs) in cases.items():
        names = []
        for i, array in enumerate(operands):
            names.append("" if array is None else f"{name}.{i}")
            if array is not None:
                feeds[names[-1]] = array
                inputs.append(helper.make_tensor_value_info(names[-1], _TYPES[array.dtype.char], array.shape))
        made = [f"{name}:{i}" for i in range(len(ranks))]
        dtype = TensorProto.FLOAT if op == "ConstantOfShape" else _TYPES[operands[0].dtype.char]  # type: ignore[union-attr]
        outputs += [helper.make_tensor_value_info(out, dtype, [None] * rank)
                    for out, rank in zip(made, ranks, strict=True)]
        nodes.append(helper.make_node(op, names, made, name, **attrs))
    graph = helper.make_graph(nodes, "operands", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), feeds


@pytest.mark.parametrize("threads", [1, 2])
def test_as_onnx_runtime(tmp_path: Path, threads: int) -> None:
    model, feeds = model_of(CASES)
    path, package = tmp_path / "operands.onnx", tmp_path / "operands.bin"
    path.write_bytes(model.SerializeToString())
    wanted = onnxruntime.InferenceSession(path).run(None, feeds)
    build(path, output=package, verify=False)
    with load(package, threads=threads) as session:
        got = session.run(None, feeds)
        again = session.run(None, feeds)
    for value, have, twice, want in zip(model.graph.output, got, again, wanted, strict=True):
        assert (have.shape, have.dtype) == (want.shape, want.dtype), value.name
        np.testing.assert_allclose(have, want, 1e-5, 1e-6, err_msg=value.name)
        np.testing.assert_array_equal(have, twice, err_msg=value.name)
