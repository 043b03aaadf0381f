"""A whole package with auto_pad SAME of dynamic sizes, odd and even ones, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from meta_infer import build, load
from tests.ops.onnx_case import session_of
from tests.ops.test_auto_pad import model_of


def test_paths_that_halve_any_size(tmp_path: Path) -> None:
    """A residual block behind a pool, then depthwise windows and an average that leaves the padding out."""
    rng = np.random.default_rng(3)
    same = {"strides": [2, 2], "auto_pad": "SAME_UPPER"}
    constants = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in
                 (("w", (16, 3, 3, 3)), ("v", (16, 3, 1, 1)), ("t", (16, 1, 5, 3)))}
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], **same), helper.make_node("Conv", ["x", "v"], ["b"], **same),
             helper.make_node("MaxPool", ["x"], ["m"], kernel_shape=[2, 2], **same),
             helper.make_node("Conv", ["m", "v"], ["c"]), helper.make_node("Sum", ["a", "b", "c"], ["d"]),
             helper.make_node("Conv", ["d", "t"], ["e"], group=16, strides=[3, 2], auto_pad="SAME_LOWER"),
             helper.make_node("AveragePool", ["e"], ["y"], kernel_shape=[3, 2], **same)]
    model = model_of(nodes, 3, constants)
    onnx.save(model, tmp_path / "m.onnx")
    package = build(str(tmp_path / "m.onnx"), shape=["x=1..2,?,3..70,3..70"], output=str(tmp_path / "m.bin"))
    session, peer = load(package.path), session_of(model)
    for i, size in enumerate(((3, 3), (4, 9), (17, 32), (33, 70), (64, 64))):
        x = rng.standard_normal((1 + i % 2, 3, *size)).astype(np.float32)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], peer.run(None, {"x": x})[0], 1e-4, 1e-4)
