"""Operands computed while running that no run can obey: an error of the run, never an invented result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from meta_infer import build, load
from meta_infer.support.errors import InputError

from .test_runtime_operands import Case, model_of

X = np.arange(6, dtype=np.float32)


def at(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# a case that fits, and operands of the same shapes that do not
CASES: dict[str, tuple[Case, list[tuple[np.ndarray, ...]]]] = {
    "expand": (("Expand", (X[:2], at(2)), (1,), {}), [(X[:2], at(3)), (X[:2], at(0))]),
    "split": (("Split", (X, at(2, 4)), (1, 1), {}), [(X, at(2, 3)), (X, at(-1, 7)), (X, at(7, -1))]),
    "slice": (("Slice", (X, at(0), at(6), at(0), at(2)), (1,), {}), [(X, at(0), at(6), at(0), at(0))]),
    "range": (("Range", (np.array(0), np.array(5), np.array(2)), (1,), {}), [(np.array(0), np.array(5), np.array(0))]),
    "reduce": (("ReduceSum", (X.reshape(2, 3), at(1)), (1,), {"keepdims": 0}),
               [(X.reshape(2, 3), at(2)), (X.reshape(2, 3), at(-3))]),
    "reshape": (("Reshape", (X, at(2, 3)), (2,), {}), [(X, at(2, 2)), (X, at(4, -1)), (X, at(7, 1))]),
}


def test_errors_of_the_run(tmp_path: Path) -> None:
    model, feeds = model_of({name: fits for name, (fits, _) in CASES.items()})
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    build(path, output=tmp_path / "model.bin", verify=False)
    with load(tmp_path / "model.bin", threads=1) as session:
        session.run(None, feeds)
        for name, (_, wrong) in CASES.items():
            for operands in wrong:
                given = {f"{name}.{i}": array for i, array in enumerate(operands)}
                with pytest.raises(InputError):
                    session.run(None, {**feeds, **given})
        session.run(None, feeds)                             # and the session goes on


def test_more_than_there_is_to_pick(tmp_path: Path) -> None:
    """TopK of a list that nobody gave a range: k is 100, so lists of 100 and more fit."""
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=0)], "best",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["anchors"])],
        [helper.make_tensor_value_info("v", TensorProto.FLOAT, [100]),
         helper.make_tensor_value_info("i", TensorProto.INT64, [100])],
        [helper.make_tensor("k", TensorProto.INT64, [1], [100])])
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
                     .SerializeToString())
    build(path, output=tmp_path / "model.bin", verify=False)
    with load(tmp_path / "model.bin", threads=2) as session:
        for count in (100, 150, 8400):
            x = np.random.default_rng(count).permutation(count).astype(np.float32)
            values, places = session.run(None, {"x": x})
            np.testing.assert_array_equal(values, np.arange(count - 1, count - 101, -1, dtype=np.float32))
            np.testing.assert_array_equal(x[places], values)
        with pytest.raises(InputError, match="fewer than k elements"):
            session.run(None, {"x": np.zeros(99, np.float32)})
