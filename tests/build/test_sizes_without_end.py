"""Dimensions nobody gave a range: memory is planned for usual sizes, and larger ones run as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer import build, load

RNG = np.random.default_rng(5)


def weights(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(RNG.standard_normal(shape).astype(np.float32), name)


def images(path: Path) -> Path:
    """Two convolutions, a residual, a pool, a product: every size of batch, height and width."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["a"], ["r"]),
             helper.make_node("Conv", ["r", "v"], ["b"], pads=[1, 1, 1, 1]),
             helper.make_node("Add", ["b", "r"], ["c"]),
             helper.make_node("Conv", ["c", "u"], ["d"], strides=[2, 2], pads=[1, 1, 1, 1]),
             helper.make_node("GlobalAveragePool", ["d"], ["e"]), helper.make_node("Flatten", ["e"], ["f"]),
             helper.make_node("MatMul", ["f", "g"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])]
    graph = helper.make_graph(
        nodes, "images", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "height", "width"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])],
        [weights("w", 16, 3, 3, 3), weights("v", 16, 16, 3, 3), weights("u", 24, 16, 3, 3), weights("g", 24, 5)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def tokens(path: Path) -> Path:
    """A causal mask over a length: Shape, Range and Trilu of it, and a product of every row with every row."""
    nodes = [helper.make_node("Shape", ["x"], ["s"], start=1, end=2),
             helper.make_node("Squeeze", ["s", "zero"], ["n"]),
             helper.make_node("Range", ["zero_", "n", "one"], ["i"]),
             helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("Unsqueeze", ["f", "last"], ["column"]),
             helper.make_node("Add", ["x", "column"], ["z"]),
             helper.make_node("Transpose", ["z"], ["t"], perm=[0, 2, 1]),
             helper.make_node("MatMul", ["z", "t"], ["m"]), helper.make_node("Trilu", ["m"], ["k"], upper=0),
             helper.make_node("MatMul", ["k", "z"], ["y"])]
    constants = [numpy_helper.from_array(np.array(value, np.int64), name)
                 for name, value in (("zero", [0]), ("zero_", 0), ("one", 1), ("last", [1]))]
    graph = helper.make_graph(
        nodes, "tokens", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "sequence", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", 8])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize(("make", "shapes"), [
    (images, [(1, 3, 32, 32), (2, 3, 640, 40), (11, 3, 33, 47), (1, 3, 700, 900), (8, 3, 64, 64)]),
    (tokens, [(1, 1, 8), (8, 512, 8), (9, 3, 8), (1, 900, 8), (20, 600, 8), (2, 5, 8)]),
])
@pytest.mark.parametrize("arena", ["", "separate", "poison"])
def test_as_onnx_runtime(make: object, shapes: list[tuple[int, ...]], arena: str, tmp_path: Path,
                         monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(tmp_path / "model.onnx")                               # type: ignore[operator]
    result = build(model, output=tmp_path / "model.bin")
    assert any("runs too, in memory obtained then" in warning for warning in result.report["warnings"])
    monkeypatch.setenv("META_INFER_ARENA", arena)
    reference = onnxruntime.InferenceSession(model)
    with load(tmp_path / "model.bin", threads=2) as session:
        for _ in range(2):
            for shape in shapes:
                x = RNG.standard_normal(shape).astype(np.float32)
                (got,), (want,) = session.run(None, {"x": x}), reference.run(None, {"x": x})
                assert got.shape == want.shape
                np.testing.assert_allclose(got, want, 1e-4, 1e-4 * float(np.abs(want).max()))
