"""A small model of If and Loop whose bodies read values from outside, with a dynamic size and a counted loop."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper

from tests.build.tiny_models import constant, info, model, node, weights


def if_and_loop() -> onnx.ModelProto:
    """state [rows, 8] goes `extra + 3` times through a Loop; an If in its body, and one behind it, choose the way.

    The loop's body captures `mixed` (computed outside) and `limit`; its If captures a carried value of the body and
    `mixed`; the last If captures the loop's result. `extra` is an input, so the number of passes is known when
    running only, and with it the first size of the scan output.
    """
    grow = helper.make_graph([node("Add", ["state", "mixed"], ["grown"]), node("Tanh", ["grown"], ["g"])],
                             "grow", [], [info("g", ["rows", 8])])
    shrink = helper.make_graph([node("Mul", ["state", "half"], ["s"])], "shrink", [], [info("s", ["rows", 8])])
    body = helper.make_graph(
        [node("Mod", ["i", "two"], ["parity"]), node("Equal", ["parity", "zero"], ["even"]),
         node("If", ["even"], ["branch"], then_branch=grow, else_branch=shrink),
         node("MatMul", ["branch", "w"], ["next"]),
         node("ReduceSum", ["next"], ["row"], keepdims=0),
         node("Less", ["row", "limit"], ["go_on"])],
        "body", [info("i", [], T.INT64), info("go", [], T.BOOL), info("state", ["rows", 8])],
        [info("go_on", [], T.BOOL), info("next", ["rows", 8]), info("row", [])])
    negate = helper.make_graph([node("Sub", ["mixed", "last"], ["n"])], "negate", [], [info("n", ["rows", 8])])
    keep = helper.make_graph([node("Sigmoid", ["last"], ["k"])], "keep", [], [info("k", ["rows", 8])])
    return model(
        [node("MatMul", ["x", "w"], ["mixed"]),
         node("Add", ["extra", "three"], ["passes"]),
         node("Loop", ["passes", "", "x"], ["last", "sums"], body=body),
         node("ReduceMax", ["x"], ["top"], keepdims=0), node("Greater", ["top", "half"], ["high"]),
         node("If", ["high"], ["y"], then_branch=negate, else_branch=keep)],
        [info("x", ["rows", 8]), info("extra", [], T.INT64)], [info("y", ["rows", 8]), info("sums", ["passes"])],
        [weights("w", 8, 8), constant("two", np.array(2, np.int64)), constant("zero", np.array(0, np.int64)),
         constant("three", np.array(3, np.int64)), constant("half", np.array(0.5, np.float32)),
         constant("limit", np.array(1e6, np.float32))])
