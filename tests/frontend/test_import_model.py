"""What a model becomes: folded shape chains, provenance, regions, inlined functions and branches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer.frontend.import_model import import_model
from meta_infer.ir.graph import free_names, walk_graphs
from meta_infer.ir.verify_graph import verify_graph
from meta_infer.ops.execute import execute_graph
from meta_infer.support.errors import ModelError

MakeModel = Callable[..., Path]
node = helper.make_node
INT64, BOOL = TensorProto.INT64, TensorProto.BOOL


def int64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_names_are_tokens_and_origins_keep_the_original(make_model: MakeModel, info: Any) -> None:
    nodes = [node("Relu", ["in put"], ["a b"], name="first node"), node("Neg", ["a b"], ["a_b"]),
             node("Abs", ["a_b"], ["出"], name="third")]
    graph = import_model(make_model(nodes, [info("in put", [2])], [info("出", [2])]))
    verify_graph(graph)
    assert graph.inputs == ("in_put",)
    assert [graph.values[n.outputs[0]].origin for n in graph.nodes] == ["a b", "a_b", "出"]
    assert len({n.outputs[0] for n in graph.nodes}) == 3
    assert all(name.isascii() and " " not in name for name in graph.values)
    assert [n.origins for n in graph.nodes] == [("first node",), ("Neg_1",), ("third",)]


def test_a_shape_chain_folds_to_symbolic_dims(make_model: MakeModel, info: Any) -> None:
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Gather", ["s", "one"], ["c"]),
        node("Mul", ["n", "c"], ["nc"]), node("Unsqueeze", ["nc", "axis"], ["nc1"]),
        node("Concat", ["nc1", "tail"], ["target"], axis=0), node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": np.array(0), "one": np.array(1), "axis": int64(0), "tail": int64(-1)}
    path = make_model(nodes, [info("x", ["n", 6, "w"])], [info("y", None)], constants=constants)
    graph = import_model(path)
    verify_graph(graph)
    assert [n.op for n in graph.nodes] == ["Reshape"]
    assert [str(d) for d in graph.nodes[0].attrs["shape"]] == ["6*n", "w"]
    assert not graph.constants
    x = np.random.default_rng(0).normal(size=(3, 6, 40)).astype(np.float32)
    np.testing.assert_array_equal(execute_graph(graph, {"x": x})["y"], x.reshape(18, 40))


def test_a_static_shape_chain_folds_to_a_constant(make_model: MakeModel, info: Any) -> None:
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "last"], ["d"]),
             node("Cast", ["d"], ["f"], to=TensorProto.FLOAT), node("Sqrt", ["f"], ["r"]),
             node("Div", ["x", "r"], ["y"])]
    graph = import_model(make_model(nodes, [info("x", ["n", 16])], [info("y", None)],
                                    constants={"last": np.array(-1)}))
    assert [n.op for n in graph.nodes] == ["Div"]
    assert graph.constants["r"] == 4 and graph.values["r"].origin == "r"


def test_folding_small_constants_and_views_only(make_model: MakeModel, info: Any) -> None:
    big = np.ones((300, 300), np.float32)
    nodes = [node("Sqrt", ["four"], ["two"]), node("Mul", ["x", "two"], ["a"]), node("Identity", ["big"], ["same"]),
             node("Neg", ["big"], ["negative"]), node("MatMul", ["a", "same"], ["b"]),
             node("Add", ["b", "negative"], ["y"])]
    graph = import_model(make_model(nodes, [info("x", [300, 300])], [info("y", None)],
                                    constants={"four": np.array(4, np.float32), "big": big, "unused": big}))
    verify_graph(graph)
    assert [n.op for n in graph.nodes] == ["Mul", "Neg", "MatMul", "Add"]
    assert set(graph.constants) == {"two", "same", "big"}
    assert graph.constants["two"] == 2 and graph.values["two"].origin == "two"
    assert np.shares_memory(graph.constants["same"], graph.constants["big"])


def test_an_output_may_be_an_input_or_a_constant(make_model: MakeModel, info: Any) -> None:
    nodes = [node("Shape", ["x"], ["s"]), node("Relu", ["x"], ["y"])]
    outputs = [info("s", [2], INT64), info("x", [2, 3]), info("y", None), info("w", [1])]
    graph = import_model(make_model(nodes, [info("x", [2, 3])], outputs, constants={"w": np.ones(1, np.float32)}))
    verify_graph(graph)
    assert graph.outputs == ("s", "x", "y", "w") and [n.op for n in graph.nodes] == ["Relu"]
    x = np.ones((2, 3), np.float32)
    assert execute_graph(graph, {"x": x})["s"].tolist() == [2, 3]


def test_an_initialised_input_is_a_constant_unless_overridden(make_model: MakeModel, info: Any) -> None:
    path = make_model([node("Add", ["x", "b"], ["y"])], [info("x", [2]), info("b", [2])], [info("y", [2])],
                      constants={"b": np.ones(2, np.float32)})
    assert import_model(path).inputs == ("x",)
    assert import_model(path, {"b": (2,)}).inputs == ("x", "b")


def test_unused_nodes_and_outputs_vanish(make_model: MakeModel, info: Any) -> None:
    nodes = [node("Dropout", ["x"], ["d", "mask"]), node("Relu", ["d"], ["y"]), node("Neg", ["x"], ["dead"]),
             node("Abs", ["dead"], ["deader"])]
    graph = import_model(make_model(nodes, [info("x", [2]), info("idle", [3])], [info("y", [2])]))
    verify_graph(graph)
    assert {n.op for n in graph.nodes} <= {"Identity", "Relu"}
    assert graph.inputs == ("x", "idle")


@pytest.mark.parametrize("attrs", [
    {"value": numpy_helper.from_array(np.array([1.5, 2.5], np.float32))},
    {"value_float": 1.5}, {"value_floats": [1.5, 2.5]},
])
def test_every_kind_of_constant(make_model: MakeModel, info: Any, attrs: dict[str, Any]) -> None:
    nodes = [node("Constant", [], ["c"], **attrs), node("Add", ["x", "c"], ["y"])]
    graph = import_model(make_model(nodes, [info("x", [2])], [info("y", [2])]))
    assert [n.op for n in graph.nodes] == ["Add"] and graph.constants["c"].flat[0] == 1.5
    assert graph.constants["c"].dtype == np.float32


def test_defaults_are_those_of_the_models_opset(make_model: MakeModel, info: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)

    def softmax(opset: int) -> np.ndarray:
        path = make_model([node("Softmax", ["x"], ["y"])], [info("x", [2, 3, 4])], [info("y", None)], opset=opset)
        return execute_graph(import_model(path), {"x": x})["y"]

    np.testing.assert_allclose(softmax(11).sum((1, 2)), 1, rtol=1e-5)      # axis 1 and all that follow
    np.testing.assert_allclose(softmax(13).sum(-1), 1, rtol=1e-5)          # the last axis


# --- functions --------------------------------------------------------------------------------------------------


def function(name: str, nodes: list[Any], attributes: tuple[str, ...] = ()) -> Any:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, ["a"], ["b"], nodes, opsets, list(attributes))


def local_opsets() -> list[Any]:
    return [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]


def test_functions_of_the_model_are_inlined(make_model: MakeModel, info: Any) -> None:
    leaky = node("LeakyRelu", ["t"], ["b"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=1)
    inner = function("Inner", [node("Neg", ["a"], ["t"]), leaky], ("slope",))
    outer = function("Outer", [node("Inner", ["a"], ["u"], domain="local", slope=0.5), node("Abs", ["u"], ["b"])])
    nodes = [node("Outer", ["x"], ["m"], domain="local"), node("Outer", ["m"], ["y"], domain="local")]
    graph = import_model(make_model(nodes, [info("x", [2])], [info("y", [2])], functions=[outer, inner],
                                    opset_imports=local_opsets()))
    verify_graph(graph)
    assert [n.op for n in graph.nodes] == ["Neg", "LeakyRelu", "Abs"] * 2
    assert graph.nodes[1].attrs["alpha"] == 0.5


def test_functions_that_call_themselves(make_model: MakeModel, info: Any) -> None:
    ping = function("Ping", [node("Pong", ["a"], ["b"], domain="local")])
    pong = function("Pong", [node("Ping", ["a"], ["b"], domain="local")])
    path = make_model([node("Ping", ["x"], ["y"], domain="local")], [info("x", [2])], [info("y", [2])],
                      functions=[ping, pong], opset_imports=local_opsets())
    with pytest.raises(ModelError, match="calls itself") as caught:
        import_model(path)
    assert "local.Ping" in caught.value.what


def test_an_op_without_importer_becomes_the_body_that_onnx_gives_it(make_model: MakeModel, info: Any) -> None:
    path = make_model([node("MeanVarianceNormalization", ["x"], ["y"])], [info("x", [2, 3, 4, 5])],
                      [info("y", None)], opset=13)
    graph = import_model(path)
    x = np.random.default_rng(0).normal(3, 2, (2, 3, 4, 5)).astype(np.float32)
    y = execute_graph(graph, {"x": x})["y"]
    np.testing.assert_allclose(y.mean((0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(y.std((0, 2, 3)), 1, rtol=1e-3)


def test_a_body_bears_the_name_of_its_node(make_model: MakeModel, info: Any) -> None:
    """Two calls in a row, one between other nodes, and one in a branch."""
    call = "MeanVarianceNormalization"
    branch = helper.make_graph([node(call, ["a"], ["r"], name="inner")], "then", [], [info("r", None)])
    other = helper.make_graph([node("Neg", ["a"], ["r"], name="minus")], "else", [], [info("r", None)])
    nodes = [node(call, ["x"], ["m"], name="first"), node(call, ["m"], ["n"], name="second"),
             node("Relu", ["n"], ["t"], name="relu"), node(call, ["t"], ["a"], name="third"),
             node("If", ["c"], ["y"], then_branch=branch, else_branch=other, name="choose")]
    graph = import_model(make_model(nodes, [info("x", [2, 3, 4, 5]), info("c", [], BOOL)], [info("y", None)],
                                    opset=13))
    names = list(dict.fromkeys(origin for n in graph.nodes for origin in n.origins))
    assert names == ["first", "second", "relu", "third", "choose"]
    inner = graph.nodes[-1].regions
    assert [{origin for n in region.nodes for origin in n.origins} for region in inner] == [{"inner"}, {"minus"}]


# --- subgraphs --------------------------------------------------------------------------------------------------


def if_model(make_model: MakeModel, info: Any, cond: Any, **more: Any) -> Path:
    """y = relu(a) + w if c else -a + w, with a = |x|; both branches use the same inner names."""
    w = numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    then = helper.make_graph([node("Relu", ["a"], ["t"]), node("Add", ["t", "w"], ["r"])], "then", [],
                             [info("r", None)], [w])
    other = helper.make_graph([node("Neg", ["a"], ["t"]), node("Add", ["t", "w"], ["r"])], "else", [],
                              [info("r", None)], [w])
    nodes = [node("Abs", ["x"], ["a"]), node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="choose")]
    inputs = [info("x", [2])] + ([cond] if cond is not None else [])
    return make_model(nodes, inputs, [info("y", [2])], **more)


def test_if_becomes_regions_that_capture(make_model: MakeModel, info: Any) -> None:
    graph = import_model(if_model(make_model, info, info("c", [], BOOL)))
    verify_graph(graph)
    choose = graph.nodes[-1]
    assert choose.op == "If" and len(choose.regions) == 2
    names = [name for g in walk_graphs(graph) for name in g.values]
    assert len(names) == len(set(names))
    for region in choose.regions:
        assert region.captures == free_names(region) == ("a",)
        assert len(region.constants) == 1
    x = np.array([-3, 4], np.float32)
    assert execute_graph(graph, {"x": x, "c": np.array(True)})["y"].tolist() == [4, 6]
    assert execute_graph(graph, {"x": x, "c": np.array(False)})["y"].tolist() == [-2, -2]


@pytest.mark.parametrize("cond", [True, False])
def test_if_of_a_known_condition_becomes_its_branch(make_model: MakeModel, info: Any, cond: bool) -> None:
    path = if_model(make_model, info, None, constants={"c": np.array(cond)})
    graph = import_model(path)
    verify_graph(graph)
    assert "If" not in {n.op for n in graph.nodes} and graph.outputs == ("y",)
    want = [4, 6] if cond else [-2, -2]
    assert execute_graph(graph, {"x": np.array([-3, 4], np.float32)})["y"].tolist() == want


def loop_model(make_model: MakeModel, info: Any) -> Path:
    """Loop: s += i * a, stop when s[0] > limit; collects s. `a` and `limit` come from outside."""
    body = helper.make_graph([
        node("Cast", ["i"], ["f"], to=TensorProto.FLOAT), node("Mul", ["a", "f"], ["step"]),
        node("Add", ["s", "step"], ["s_out"]), node("Gather", ["s_out", "zero"], ["head"]),
        node("LessOrEqual", ["head", "limit"], ["again"]), node("Identity", ["s_out"], ["row"]),
    ], "body", [info("i", [], INT64), info("go", [], BOOL), info("s", [3])],
        [info("again", [], BOOL), info("s_out", [3]), info("row", [3])],
        [numpy_helper.from_array(np.array(0), "zero")])
    nodes = [node("Neg", ["x"], ["n"]), node("Abs", ["n"], ["a"]),
             node("Loop", ["trips", "", "start"], ["last", "rows"], body=body, name="walk")]
    return make_model(nodes, [info("x", [3]), info("trips", [], INT64), info("limit", [])],
                      [info("last", [3]), info("rows", None)], constants={"start": np.zeros(3, np.float32)})


@pytest.mark.parametrize(("trips", "limit"), [(4, 100.0), (9, 5.0), (1, 100.0), (0, 100.0)])
def test_loop_captures_carries_and_collects(make_model: MakeModel, info: Any, trips: int, limit: float) -> None:
    graph = import_model(loop_model(make_model, info))
    verify_graph(graph)
    walk = graph.nodes[-1]
    assert walk.op == "Loop" and set(walk.regions[0].captures) == {"a", "limit"}
    x = np.array([-1, 2, 0], np.float32)
    got = execute_graph(graph, {"x": x, "trips": np.array(trips), "limit": np.array(limit, np.float32)})
    total, rows = np.zeros(3, np.float32), []
    for i in range(trips):
        total = total + abs(x) * i
        rows.append(total)
        if not total[0] <= limit:
            break
    np.testing.assert_array_equal(got["last"], total)
    np.testing.assert_array_equal(got["rows"], np.reshape(rows, (-1, 3)).astype(np.float32))


def test_subgraphs_within_subgraphs(make_model: MakeModel, info: Any) -> None:
    deep = helper.make_graph([node("Add", ["m", "x"], ["r"])], "deep", [], [info("r", None)])
    flat = helper.make_graph([node("Neg", ["m"], ["r"])], "flat", [], [info("r", None)])
    middle = helper.make_graph(
        [node("Relu", ["x"], ["m"]), node("If", ["d"], ["q"], then_branch=deep, else_branch=flat)],
        "middle", [], [info("q", None)])
    plain = helper.make_graph([node("Identity", ["x"], ["q"])], "plain", [], [info("q", None)])
    graph = import_model(make_model(
        [node("If", ["c"], ["y"], then_branch=middle, else_branch=plain)],
        [info("x", ["n"]), info("c", [], BOOL), info("d", [], BOOL)], [info("y", None)]))
    verify_graph(graph)
    assert set(graph.nodes[0].regions[0].captures) == {"x", "d"}
    x = np.array([-1, 2, 5], np.float32)
    for c, d, want in ((True, True, np.maximum(x, 0) + x), (True, False, -np.maximum(x, 0)), (False, True, x)):
        got = execute_graph(graph, {"x": x, "c": np.array(c), "d": np.array(d)})["y"]
        np.testing.assert_array_equal(got, want)


def test_a_loop_body_with_the_wrong_number_of_inputs(make_model: MakeModel, info: Any) -> None:
    body = helper.make_graph([node("Identity", ["go"], ["again"])], "body",
                             [info("i", [], INT64), info("go", [], BOOL)], [info("again", [], BOOL)])
    path = make_model([node("Loop", ["", "", "x"], ["y"], body=body, name="walk")], [info("x", [2])],
                      [info("y", [2])])
    with pytest.raises(ModelError, match="takes 2 inputs, the node gives it 3") as caught:
        import_model(path)
    assert caught.value.what == "body of node 'walk' (Loop)"
