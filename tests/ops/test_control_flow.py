"""If and Loop: types of their regions' outputs, captures, trip counts, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer.frontend.import_model import import_model
from meta_infer.ir.graph import Graph
from meta_infer.ir.shapes import bounds
from meta_infer.ops.execute import execute_graph
from meta_infer.support.errors import ModelError
from tests.ops.onnx_case import session_of

F, I64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name: str, kind: int, shape: list[int | str] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def body(name: str, nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto],
         outputs: list[onnx.ValueInfoProto], **constants: object) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, inputs, outputs,
                             [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()])


def check(folder: Path, graph: onnx.GraphProto, *feeds: dict[str, np.ndarray]) -> Graph:
    """Import, and compare with ONNX Runtime on each of the feeds."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    found = import_model(folder / "model.onnx")
    session = session_of(model)
    for feed in feeds:
        for a, b in zip(execute_graph(found, feed).values(), session.run(None, feed), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, 1e-5, 1e-6)
    return found


def if_graph(then: onnx.GraphProto, other: onnx.GraphProto) -> onnx.GraphProto:
    node = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=then, else_branch=other)
    return body("main", [node], [info("c", B, []), info("x", F, ["n", 3])], [info("y", F, None)])


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_if_captures_outer_values(tmp_path: Path) -> None:
    then = body("t", [helper.make_node("Relu", ["x"], ["p"])], [], [info("p", F, None)])
    other = body("e", [helper.make_node("Add", ["x", "k"], ["q"])], [], [info("q", F, None)], k=np.float32(2))
    found = check(tmp_path, if_graph(then, other), *({"c": np.array(v), "x": X} for v in (True, False)))
    assert [node.op for node in found.nodes] == ["If"]
    assert found.nodes[0].origins == ("choice",)
    assert str(found.values[found.outputs[0]].shape[0]) == "n"


def test_if_with_branches_of_different_sizes(tmp_path: Path) -> None:
    then = body("t", [helper.make_node("Concat", ["x", "x"], ["p"], axis=1)], [], [info("p", F, None)])
    other = body("e", [helper.make_node("Identity", ["x"], ["q"])], [], [info("q", F, None)])
    found = check(tmp_path, if_graph(then, other), *({"c": np.array(v), "x": X} for v in (True, False)))
    assert bounds(found.values[found.outputs[0]].shape[1]) == (3, 6)


def test_if_with_branches_of_different_rank_is_refused(tmp_path: Path) -> None:
    then = body("t", [helper.make_node("Flatten", ["x"], ["p"], axis=0)], [], [info("p", F, None)])
    other = body("e", [helper.make_node("ReduceSum", ["x"], ["q"], keepdims=0)], [], [info("q", F, None)])
    with pytest.raises(ModelError, match="then_branch.*else_branch"):
        check(tmp_path, if_graph(then, other))


def loop_graph(nodes: list[onnx.NodeProto], cond_out: str, carried: str = "h1", **constants: object) -> onnx.GraphProto:
    """m iterations of a body over h (from x) that yields `h1` and scans `row`."""
    inner = body("b", nodes, [info("i", I64, []), info("going", B, []), info("h", F, ["n", 3])],
                 [info(cond_out, B, []), info(carried, F, None), info("row", F, None)], **constants)
    node = helper.make_node("Loop", ["m", "", "x"], ["last", "rows"], name="loop", body=inner)
    return body("main", [node], [info("m", I64, []), info("x", F, ["n", 3])],
                [info("last", F, None), info("rows", F, None)])


def step(*more: onnx.NodeProto) -> list[onnx.NodeProto]:
    """h1 = 0.5 h + x, row = sum of h1: reads x of the graph around it."""
    return [helper.make_node("Mul", ["h", "half"], ["g"]), helper.make_node("Add", ["g", "x"], ["h1"]),
            helper.make_node("ReduceSum", ["h1"], ["row"], keepdims=0), *more]


FEEDS = [{"m": np.array(m, np.int64), "x": X} for m in (0, 1, 4)]


def test_loop_with_scans_and_captures(tmp_path: Path) -> None:
    graph = loop_graph(step(helper.make_node("Identity", ["going"], ["on"])), "on", half=np.float32(0.5))
    found = check(tmp_path, graph, *FEEDS)
    last, rows = (found.values[name] for name in found.outputs)
    assert str(last.shape[0]) == "n" and last.shape[1] == 3
    assert len(rows.shape) == 1 and bounds(rows.shape[0])[0] == 0


def test_loop_that_stops_by_its_condition(tmp_path: Path) -> None:
    nodes = step(helper.make_node("Less", ["row", "limit"], ["on"]))
    check(tmp_path, loop_graph(nodes, "on", half=np.float32(0.5), limit=np.float32(25)), *FEEDS)


def test_loop_of_known_length(tmp_path: Path) -> None:
    graph = loop_graph(step(helper.make_node("Identity", ["going"], ["on"])), "on", half=np.float32(0.5))
    del graph.input[0]
    graph.initializer.append(numpy_helper.from_array(np.array(3, np.int64), "m"))
    found = check(tmp_path, graph, {"x": X})
    assert found.values[found.outputs[1]].shape == (3,)


def test_loop_that_grows_a_carried_value(tmp_path: Path) -> None:
    """A constant growth needs no symbol inside: the size is computed from the number of the pass."""
    nodes = [helper.make_node("Concat", ["h", "x"], ["h1"], axis=1), helper.make_node("Identity", ["going"], ["on"]),
             helper.make_node("ReduceSum", ["h1"], ["row"], keepdims=0)]
    found = check(tmp_path, loop_graph(nodes, "on"), *FEEDS)
    body = found.nodes[-1].regions[0]
    assert str(body.values[body.inputs[2]].shape[1]) == "3*i + 3"


def test_loop_that_changes_a_rank_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("ReduceSum", ["h"], ["h1"], keepdims=0), helper.make_node("Identity", ["going"], ["on"]),
             helper.make_node("Identity", ["h1"], ["row"])]
    with pytest.raises(ModelError, match="carried value 0.*must not change"):
        check(tmp_path, loop_graph(nodes, "on"))
