"""Every way a model can break the specification, one tiny model each, and what the message says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper

from meta_infer.frontend.check_model import find_problems
from meta_infer.frontend.import_model import import_model
from meta_infer.support.errors import MetaInferError, ModelError, UnsupportedError

MakeModel = Callable[..., Path]
node = helper.make_node


@pytest.fixture
def problem_of(make_model: MakeModel, info: Callable[..., Any]) -> Callable[..., MetaInferError]:
    """The error of importing a model of these nodes, with inputs x and z and output y of shape [2, 3]."""
    def run(*nodes: Any, **more: Any) -> MetaInferError:
        shape = [2, 3]
        inputs = more.pop("inputs", [info("x", shape), info("z", shape)])
        outputs = more.pop("outputs", [info("y", None)])
        with pytest.raises(MetaInferError) as caught:
            import_model(make_model(nodes, inputs, outputs, **more))
        assert caught.value.hint, "every error says what to try"
        return caught.value

    return run


# --- versions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [defs.onnx_opset_version() + 1, 1000])
def test_an_opset_out_of_range(problem_of: Any, opset: int) -> None:
    error = problem_of(node("Relu", ["x"], ["y"]), opset=opset)
    assert isinstance(error, UnsupportedError)
    assert f"opset {opset}" in error.problem and "convert_version" in error.hint


@pytest.mark.parametrize("opset", [7, defs.onnx_opset_version()])
def test_the_oldest_and_the_newest_opset(make_model: MakeModel, info: Any, opset: int) -> None:
    graph = import_model(make_model([node("Relu", ["x"], ["y"])], [info("x", [2])], [info("y", [2])], opset=opset))
    assert [n.op for n in graph.nodes] == ["Relu"]


def test_ir_versions(problem_of: Any) -> None:
    error = problem_of(node("Relu", ["x"], ["y"]), ir_version=onnx.IR_VERSION + 1)
    assert isinstance(error, UnsupportedError) and "IR version" in error.problem
    assert "no IR version" in problem_of(node("Relu", ["x"], ["y"]), ir_version=0).problem


def test_opset_imports(problem_of: Any) -> None:
    relu = node("Relu", ["x"], ["y"])
    assert "no opset_import" in problem_of(relu, opset_imports=[]).problem
    twice = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx", 18)]
    assert "twice" in problem_of(relu, opset_imports=twice).problem
    error = problem_of(node("Relu", ["x"], ["y"], domain="com.acme"))
    assert "'com.acme', which opset_import does not list" in error.problem


# --- ops --------------------------------------------------------------------------------------------------------


def test_an_op_nobody_knows_names_the_nearest(problem_of: Any) -> None:
    error = problem_of(node("Relu", ["x"], ["a"]), node("Sigmoidd", ["a"], ["y"]))
    assert isinstance(error, UnsupportedError)
    assert error.what == "node #1 (Sigmoidd)" and "'Sigmoid'" in error.hint
    error = problem_of(node("relu", ["x"], ["y"], name="act"))
    assert error.what == "node 'act' (relu)" and "'Relu'" in error.hint


def test_an_op_of_another_domain(problem_of: Any) -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    error = problem_of(node("FancyOp", ["x"], ["y"], domain="com.acme"), opset_imports=opsets)
    assert isinstance(error, UnsupportedError) and "domain 'com.acme'" in error.problem


def test_an_op_that_came_later_or_left(problem_of: Any) -> None:
    error = problem_of(node("Gelu", ["x"], ["y"]))
    assert isinstance(error, ModelError)
    assert "only since opset 20" in error.problem and "convert_version(model, 20)" in error.hint
    error = problem_of(node("Upsample", ["x", "z"], ["y"]), opset=11)
    assert "removed in opset 10" in error.problem


def test_a_real_op_without_importer(problem_of: Any) -> None:
    error = problem_of(node("StringNormalizer", ["x"], ["y"]))
    assert isinstance(error, UnsupportedError) and "'StringNormalizer' (version 10)" in error.problem


# --- attributes -------------------------------------------------------------------------------------------------


def test_attributes(problem_of: Any) -> None:
    error = problem_of(node("Relu", ["x"], ["y"], slope=0.5))
    assert "attribute 'slope' is unknown to version 14 of Relu" in error.problem
    error = problem_of(node("LeakyRelu", ["x"], ["y"], alpha=1))
    assert "'alpha' is of type int, it must be float" in error.problem
    error = problem_of(node("Softmax", ["x"], ["y"], axis="last"))
    assert "'axis' is of type string, it must be int" in error.problem
    error = problem_of(node("Cast", ["x"], ["y"]))
    assert "required attribute 'to' is missing" in error.problem
    twice = node("LeakyRelu", ["x"], ["y"], alpha=0.1)
    twice.attribute.append(twice.attribute[0])
    assert "'alpha' stands twice" in problem_of(twice).problem
    refers = node("LeakyRelu", ["x"], ["y"], alpha=0.1)
    refers.attribute[0].ref_attr_name = "outer"
    assert "'outer' outside of a function" in problem_of(refers).problem


def test_attributes_are_judged_by_the_models_own_opset(make_model: MakeModel, problem_of: Any, info: Any) -> None:
    squeeze = node("Squeeze", ["x"], ["y"], axes=[0])
    graph = import_model(make_model([squeeze], [info("x", [1, 3])], [info("y", [3])], opset=12))
    assert graph.values["y"].shape == (3,)
    assert "'axes' is unknown to version 13" in problem_of(squeeze, opset=13).problem


def test_notes_of_tools_and_untyped_attributes_pass(make_model: MakeModel, info: Any) -> None:
    leaky = node("LeakyRelu", ["x"], ["y"], alpha=0.25, _note="made by a tool")
    for attribute in leaky.attribute:
        if attribute.name == "alpha":
            attribute.type = 0                           # IR version 1 did not write types
    graph = import_model(make_model([leaky], [info("x", [2])], [info("y", [2])]))
    assert graph.nodes[0].attrs["alpha"] == 0.25


# --- operands ---------------------------------------------------------------------------------------------------


def test_operand_counts(problem_of: Any) -> None:
    error = problem_of(node("Add", ["x"], ["y"]))
    assert "has 1 inputs, Add needs at least 2" in error.problem and "'B'" in error.hint
    assert "takes at most 1" in problem_of(node("Relu", ["x", "z"], ["y"])).problem
    assert "required input 0 ('A') is missing" in problem_of(node("Add", ["", "x"], ["y"])).problem
    assert "required input 1 ('inputs') is missing" in problem_of(node("Concat", ["x", ""], ["y"], axis=0)).problem
    assert "outputs" in problem_of(node("Relu", ["x"], ["y", "b"])).problem
    assert "has no output" in problem_of(node("Relu", ["x"], ["y"]), node("Relu", ["x"], [""])).problem


def test_element_types(problem_of: Any, info: Any) -> None:
    both = [info("x", [2, 3]), info("z", [2, 3], TensorProto.INT64)]
    error = problem_of(node("Add", ["x", "z"], ["y"], name="sum"), inputs=both)
    assert error.what == "node 'sum' (Add)"
    assert "input 1 is int64 but input 0 is float32" in error.problem and "Cast" in error.hint
    error = problem_of(node("Erf", ["b"], ["y"]), inputs=[info("b", [2], TensorProto.BOOL)])
    assert "is bool, which version 13 of Erf does not take" in error.problem


def test_shapes_that_do_not_fit(problem_of: Any, info: Any) -> None:
    error = problem_of(node("Relu", ["x"], ["a"]), node("Add", ["a", "z"], ["y"], name="sum"),
                       inputs=[info("x", [2, 3]), info("z", [2, 4])])
    assert isinstance(error, ModelError) and error.what == "node 'sum' (Add)"
    assert "a: float32[2, 3], z: float32[2, 4]" in error.problem


# --- names and order --------------------------------------------------------------------------------------------


def test_undeclared_tensors(problem_of: Any, info: Any) -> None:
    error = problem_of(node("Relu", ["xx"], ["y"]))
    assert error.what == "node #0 (Relu)" and "'xx', which nothing declares" in error.problem
    assert "did you mean 'x'?" in error.hint
    error = problem_of(node("Relu", ["x"], ["a"]))
    assert error.what == "output of the graph" and "'y'" in error.problem


def test_names_defined_twice(problem_of: Any, info: Any) -> None:
    relu = node("Relu", ["x"], ["y"])
    error = problem_of(node("Relu", ["x"], ["y"]), node("Relu", ["z"], ["y"], name="again"))
    assert error.what == "node 'again' (Relu)" and "already an output of node #0" in error.problem
    assert "already an input" in problem_of(node("Relu", ["z"], ["x"]), relu).problem
    error = problem_of(relu, node("Relu", ["x"], ["w"]), constants={"w": np.ones(2, np.float32)})
    assert "already an initialiser" in error.problem
    assert "input 'x' is declared twice" in problem_of(relu, inputs=[info("x", [2]), info("x", [2])]).problem
    assert "output 'y' is listed twice" in problem_of(relu, outputs=[info("y", [2]), info("y", [2])]).problem
    assert "has no output" in problem_of(relu, outputs=[]).problem

    def double(model: onnx.ModelProto) -> None:
        model.graph.initializer.append(model.graph.initializer[0])

    error = problem_of(relu, constants={"w": np.ones(2, np.float32)}, edit=double)
    assert "initialiser 'w' stands twice" in error.problem


def test_a_cycle_is_named(problem_of: Any) -> None:
    error = problem_of(node("Add", ["x", "c"], ["a"], name="first"), node("Relu", ["a"], ["b"], name="second"),
                       node("Neg", ["b"], ["c"], name="third"), node("Relu", ["c"], ["y"]))
    assert isinstance(error, ModelError) and "cyclic" in error.problem
    order = ("first", "second", "third")
    assert all(f"'{name}'" in error.problem for name in order) and "#3" not in error.problem
    places = [error.problem.index(f"'{name}'") for name in order]
    assert sorted(range(3), key=places.__getitem__) in ([0, 1, 2], [1, 2, 0], [2, 0, 1])
    assert "cyclic" in problem_of(node("Add", ["x", "y"], ["y"], name="loop")).problem


def test_any_order_without_a_cycle_is_sorted(make_model: MakeModel, info: Any) -> None:
    nodes = [node("Neg", ["b"], ["y"]), node("Abs", ["a"], ["b"]), node("Relu", ["x"], ["a"])]
    graph = import_model(make_model(nodes, [info("x", [2])], [info("y", [2])]))
    assert [n.op for n in graph.nodes] == ["Relu", "Abs", "Neg"]


# --- declared types ---------------------------------------------------------------------------------------------


def test_declared_shapes_that_conflict(problem_of: Any, info: Any) -> None:
    relu = node("Relu", ["x"], ["y"])
    error = problem_of(relu, outputs=[info("y", [2, 4])])
    assert isinstance(error, ModelError)
    assert "shape conflict: declared [2, 4], but the graph computes [2, 3]" in error.problem
    assert "'y'" in error.what
    assert "shape conflict" in problem_of(relu, outputs=[info("y", [2])]).problem
    assert "type conflict" in problem_of(relu, outputs=[info("y", [2, 3], TensorProto.INT64)]).problem
    nodes = (node("Relu", ["x"], ["a"], name="r"), node("Neg", ["a"], ["y"]))
    error = problem_of(*nodes, value_info=[info("a", [7, 3])])
    assert "node 'r' (Relu), output 'a'" in error.what and "[7, 3]" in error.problem


def test_a_static_size_outside_the_range_conflicts(problem_of: Any, make_model: MakeModel, info: Any) -> None:
    relu, x = node("Relu", ["x"], ["y"]), info("x", ["batch", 3])
    assert "shape conflict" in problem_of(relu, inputs=[x], outputs=[info("y", [100, 3])]).problem
    graph = import_model(make_model([relu], [x], [info("y", [4, 3])]))
    assert str(graph.values["y"].shape[0]) == "batch"


def test_stale_symbolic_declarations_yield_to_inference(make_model: MakeModel, info: Any) -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Concat", ["a", "a"], ["y"], axis=0)]
    path = make_model(nodes, [info("x", ["n", 3])], [info("y", ["n", "k"])], value_info=[info("a", ["old", None])])
    graph = import_model(path)
    assert [str(d) for d in graph.values["y"].shape] == ["2*n", "3"]


# --- subgraphs and other kinds ----------------------------------------------------------------------------------


def test_errors_inside_a_subgraph_say_where(problem_of: Any, info: Any) -> None:
    def branch(*nodes: Any) -> Any:
        return helper.make_graph(nodes, "b", [], [info("r", None)])

    cond = info("c", [], TensorProto.BOOL)
    good, bad = branch(node("Relu", ["x"], ["r"])), branch(node("Relu", ["nowhere"], ["r"]))
    error = problem_of(node("If", ["c"], ["y"], name="choose", then_branch=good, else_branch=bad),
                       inputs=[cond, info("x", [2])])
    assert error.what == "node #0 (Relu) in else_branch of node 'choose' (If)"
    clash = branch(node("Add", ["x", info("z", [2]).name], ["r"]))
    error = problem_of(node("If", ["c"], ["y"], name="choose", then_branch=good, else_branch=clash),
                       inputs=[cond, info("x", [2]), info("z", [3])])
    assert "in else_branch of node 'choose' (If)" in error.what and "float32[3]" in error.problem
    cyclic = branch(node("Add", ["x", "y"], ["r"]))
    error = problem_of(node("If", ["c"], ["y"], name="choose", then_branch=good, else_branch=cyclic),
                       inputs=[cond, info("x", [2])])
    assert "cyclic" in error.problem


def test_inputs_that_are_no_tensors(problem_of: Any) -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    error = problem_of(node("Relu", ["x"], ["y"]), inputs=[helper.make_value_info("x", kind)])
    assert isinstance(error, UnsupportedError) and "is a sequence" in error.problem and "'x'" in error.what
    error = problem_of(node("Relu", ["x"], ["y"]), inputs=[onnx.ValueInfoProto(name="x")])
    assert "declares no type" in error.problem


def test_sparse_initialisers(problem_of: Any) -> None:
    def add(model: onnx.ModelProto) -> None:
        model.graph.sparse_initializer.add().values.name = "s"

    error = problem_of(node("Relu", ["x"], ["y"]), edit=add)
    assert isinstance(error, UnsupportedError) and "'s'" in error.what


def test_all_problems_are_found_at_once(make_model: MakeModel, info: Any) -> None:
    nodes = [node("Nope", ["x"], ["a"]), node("Relu", ["x"], ["b"], slope=1.0), node("Add", ["b"], ["y"])]
    proto = onnx.load(make_model(nodes, [info("x", [2])], [info("y", [2])]))
    assert [e.what for e in find_problems(proto)] == ["node #0 (Nope)", "node #1 (Relu)", "node #2 (Add)"]
