"""Small ONNX models whose sizes only running can tell, and no input bounds, with inputs of several sizes."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper

from tests.build.tiny_models import constant, info, model, node


def loop_that_grows() -> onnx.ModelProto:
    """A carried value one longer after each pass, and a row of every pass; the caller says how many passes."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["go2"]), node("Concat", ["v", "one"], ["v2"], axis=0),
         node("Add", ["w", "x"], ["w2"]), node("Identity", ["w2"], ["row"])],
        "body", [info("i", [], T.INT64), info("go", [], T.BOOL), info("v", [None]), info("w", [3])],
        [info("go2", [], T.BOOL), info("v2", [None]), info("w2", [3]), info("row", [3])])
    return model([node("Loop", ["m", "", "x", "x"], ["grown", "last", "rows"], body=body),
                  node("Relu", ["rows"], ["e"], name="relu"), node("ReduceSum", ["e"], ["s"], keepdims=0)],
                 [info("m", [], T.INT64), info("x", [3])], [info("grown", [None]), info("e", [None, 3]), info("s", [])],
                 [constant("one", np.ones(1, np.float32))])


def expand_and_tile() -> onnx.ModelProto:
    """Shapes that are inputs: chains of views, kernels and outputs of sizes without a bound."""
    return model([node("Expand", ["x", "shape"], ["wide"]), node("Sigmoid", ["wide"], ["h"]),
                  node("Transpose", ["h"], ["t"], perm=[1, 0]), node("Reshape", ["t", "flat"], ["f"]),
                  node("MatMul", ["t", "h"], ["p"]), node("ReduceMax", ["f"], ["top"], keepdims=0)],
                 [info("x", [1, 4]), info("shape", [2], T.INT64)],
                 [info("h", [None, 4]), info("f", [None]), info("p", [4, 4]), info("top", [])],
                 [constant("flat", np.array([-1], np.int64))])


def passes(m: int) -> dict[str, np.ndarray]:
    return {"m": np.array(m), "x": np.arange(-1, 2, dtype=np.float32)}


def shaped(rows: int) -> dict[str, np.ndarray]:
    return {"x": np.arange(4, dtype=np.float32)[None] - 2, "shape": np.array([rows, 4])}


CASES = {"loop_that_grows": (loop_that_grows, [passes(m) for m in (3, 0, 1, 300, 3)]),
         "expand_and_tile": (expand_and_tile, [shaped(n) for n in (5, 1, 3000, 5)])}
