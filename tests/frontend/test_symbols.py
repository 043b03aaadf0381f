"""`--shape` texts, and how the model's dimensions and the user's meet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from meta_infer.frontend.default_ranges import ENDLESS
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import DimRange, parse_shape_spec
from meta_infer.ir.graph import Graph
from meta_infer.ir.shapes import Symbol
from meta_infer.support.errors import MetaInferError, ModelError, UsageError


@pytest.mark.parametrize(("text", "name", "dims"), [
    ("x=1,3,48,32..960", "x", (1, 3, 48, DimRange(32, 960))),
    ("x=32..960:32", "x", (DimRange(32, 960, 32),)),
    (" x = 1 , ? ", "x", (1, None)),
    ("x=", "x", ()),
    ("a=b=2", "a=b", (2,)),
    ("x=0", "x", (0,)),
    ("x=4..4", "x", (DimRange(4, 4),)),
    ("onnx::in.0/x:0=7", "onnx::in.0/x:0", (7,)),
])
def test_shape_texts(text: str, name: str, dims: tuple[object, ...]) -> None:
    assert parse_shape_spec(text) == (name, dims)


@pytest.mark.parametrize(("text", "problem"), [
    ("x", "must be NAME=DIM"), ("=1,2", "must be NAME=DIM"), ("x=1,,2", "cannot read the dimension ''"),
    ("x=a", "cannot read the dimension 'a'"), ("x=-1", "cannot read"), ("x=1.5", "cannot read"),
    ("x=8..4", "range 8..4 is empty"), ("x=1..8:0", "multiple of 0"), ("x=48..960:32", "960 is not 48 plus"),
    ("x=1...5", "cannot read"), ("x=²", "cannot read"), ("x=99999999999", "over the largest"), ("", "must be"),
])
def test_shape_texts_that_make_no_sense(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        parse_shape_spec(text)
    assert caught.value.hint


def relu_chain(make_model: Callable[..., Path], info: Callable[..., Any], *shapes: Any) -> Path:
    inputs = [info(f"x{i}", shape) for i, shape in enumerate(shapes)]
    nodes = [helper.make_node("Relu", [f"x{i}"], [f"y{i}"]) for i in range(len(shapes))]
    return make_model(nodes, inputs, [info(f"y{i}", None) for i in range(len(shapes))])


def shape_of(graph: Graph, name: str) -> tuple[object, ...]:
    return graph.values[name].shape


def test_equal_names_share_a_symbol_and_others_do_not(make_model: Any, info: Any) -> None:
    path = relu_chain(make_model, info, ["n", "n", "m"], ["m", None, None], ["?", "?", 3])
    graph = import_model(path, {"x0": (DimRange(2, 9), None, 5)})
    n = Symbol("n", 2, 9).dim
    assert shape_of(graph, "x0") == (n, n, 5)
    x1, x2 = shape_of(graph, "x1"), shape_of(graph, "x2")
    assert x1[0] == 5 and x1[1] != x1[2]
    assert x2[0] != x2[1] and x2[2] == 3
    assert set(graph.symbols) == {"n", "x1_d1", "x1_d2", "x2_d0", "x2_d1"}


def test_odd_names_become_identifiers(make_model: Any, info: Any) -> None:
    path = relu_chain(make_model, info, ["p2o.Dim.0", "p2o Dim 0", "9", "长度"], ["p2o.Dim.0"])
    graph = import_model(path)
    assert all(name.isidentifier() and name.isascii() for name in graph.symbols)
    assert len(graph.symbols) == 4
    assert shape_of(graph, "x0")[0] == shape_of(graph, "x1")[0]


def test_a_range_nobody_gave_is_noted(make_model: Any, info: Any) -> None:
    notes: list[str] = []
    path = relu_chain(make_model, info, ["batch", 3, "height", "W"], [None, "seq"])
    graph = import_model(path, {"x0": "?,?,64..128:64,?"}, notes.append)
    assert graph.symbols["batch"] == Symbol("batch", 1, ENDLESS) and graph.symbols["batch"].usual == 8
    assert graph.symbols["height"] == Symbol("height", 64, 128, 64)
    assert graph.symbols["W"] == Symbol("W", 1, ENDLESS) and graph.symbols["W"].usual == 640
    assert notes == [
        "input 'x0': no range given, taking x0=1..8,?,?,1..640; more of axis 0 and axis 3 runs too, in memory "
        "obtained then; set it with --shape x0=LO..HI,?,?,LO..HI",
        "input 'x1': no range given, taking x1=1..8,1..512; more of axis 0 and axis 1 runs too, in memory "
        "obtained then; set it with --shape x1=LO..HI,LO..HI"]


def test_a_negative_size_is_an_unknown_one(make_model: Any, info: Any) -> None:
    graph = import_model(relu_chain(make_model, info, [-1, 3]))
    assert graph.symbols["x0_d0"] == Symbol("x0_d0", 1, ENDLESS)


def test_a_size_of_zero_and_a_scalar(make_model: Any, info: Any) -> None:
    graph = import_model(relu_chain(make_model, info, ["n", 3], []), {"x0": (0, 3), "x1": ()})
    assert shape_of(graph, "y0") == (0, 3) and shape_of(graph, "y1") == ()


def test_an_unknown_rank_needs_the_user(make_model: Any, info: Any) -> None:
    path = relu_chain(make_model, info, None)
    with pytest.raises(ModelError, match="rank is unknown") as caught:
        import_model(path)
    assert "--shape x0=" in caught.value.hint
    assert shape_of(import_model(path, {"x0": "2,1..4"}), "y0")[0] == 2


@pytest.mark.parametrize(("shapes", "error", "problem"), [
    ({"x9": "1,3"}, UsageError, "no such input"),
    ({"x0": "1"}, UsageError, "has 1 dimensions, the model declares 2"),
    ({"x0": "1,4"}, UsageError, "is 4, but the model fixes it at 3"),
    ({"x0": "1,3..5"}, UsageError, "is 3..5, but the model fixes it at 3"),
    ({"x0": "1,3", "x1": "2,3"}, UsageError, "input 'x0' axis 0"),
])
def test_shapes_that_contradict_the_model_or_each_other(make_model: Any, info: Any, shapes: dict[str, str],
                                                       error: type[MetaInferError], problem: str) -> None:
    path = relu_chain(make_model, info, ["n", 3], ["n", 3])
    with pytest.raises(error, match=problem) as caught:
        import_model(path, shapes)
    assert caught.value.hint
