"""Pad by amounts that are computed from sizes, as exporters write 'to a multiple of 8'."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from meta_infer.frontend.import_model import import_model
from meta_infer.ir.graph import walk_nodes
from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.movement.pad import PAD
from meta_infer.ops.execute import execute_graph
from tests.kernels.harness import check_case, make_group
from tests.ops.onnx_case import session_of


def to_a_multiple(path: Path, mode: str) -> onnx.ModelProto:
    """x [n, w] padded behind to a multiple of 8 along w: (8 - w % 8) % 8."""
    constants = {"one": np.array([1], np.int64), "eight": np.array([8], np.int64),
                 "front": np.zeros(3, np.int64)}
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "one"], ["w"], axis=0),
             helper.make_node("Mod", ["w", "eight"], ["r"]), helper.make_node("Sub", ["eight", "r"], ["d"]),
             helper.make_node("Mod", ["d", "eight"], ["m"]),
             helper.make_node("Concat", ["front", "m"], ["p"], axis=0),
             helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "w"])],
                              [helper.make_empty_tensor_value_info("y")],
                              [numpy_helper.from_array(a, n) for n, a in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, path)
    return model


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_amounts_from_sizes(mode: str, tmp_path: Path) -> None:
    model = to_a_multiple(tmp_path / "pad.onnx", mode)
    graph, session = import_model(tmp_path / "pad.onnx"), session_of(model)
    assert any(node.op == "Pad" for _, node in walk_nodes(graph))      # one Pad, nothing is found while running
    for width in (8, 9, 31):
        x = np.random.default_rng(width).standard_normal((2, width)).astype(np.float32)
        (found,) = execute_graph(graph, {"x": x}).values()
        np.testing.assert_array_equal(found, session.run(None, {"x": x})[0])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_kernel(mode: str) -> None:
    """Amounts of either sign that follow the size: w - 5 in front of one axis, 5 - w behind the other."""
    w = Symbol("w", 3, 40).dim
    for size in (3, 5, 8):
        x = np.random.default_rng(size).standard_normal((size, size)).astype(np.float32)
        pads = (w - 5, 0, 0, 5 - w) if mode == "constant" else (w - 3, 0, 0, 0)
        if mode == "reflect":
            pads = (0, w - 3, 2, 0)
        case = make_group("Pad", {"x": x}, {"pads": pads, "mode": mode, "value": 2.5}, shapes={"x": (w, w)})
        assert check_case(case, PAD) == 1


@pytest.mark.parametrize("fixed", [True, False])
def test_center_crop_pad(fixed: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for shape, sizes, axes in (((4, 7, 3), (6, 3), [0, 1]), ((5, 5), (2, 8), None), ((4, 7, 3), (2, 10), [-1, 1]),
                               ((1, 6), (4, 1), [0, 1])):
        x, wanted = rng.standard_normal(shape).astype(np.float32), np.array(sizes, np.int64)
        inputs = {"x": x} if fixed else {"x": x, "s": wanted}
        node = helper.make_node("CenterCropPad", ["x", "s"], ["y"], **({} if axes is None else {"axes": axes}))
        graph = helper.make_graph(
            [node], "g", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                          for n, a in inputs.items()], [helper.make_empty_tensor_value_info("y")],
            [numpy_helper.from_array(wanted, "s")] if fixed else [])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        onnx.save(model, tmp_path / "crop.onnx")
        (found,) = execute_graph(import_model(tmp_path / "crop.onnx"), inputs).values()
        np.testing.assert_array_equal(found, ReferenceEvaluator(model).run(None, inputs)[0])
