"""The reference executor: dimensions, promotion to float64, layers, control flow, and inputs that do not fit."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from meta_infer.ir.graph import Graph, Node, Value, free_names
from meta_infer.ir.shapes import Symbol
from meta_infer.ops.execute import execute_graph, execute_layers
from meta_infer.support.dtypes import BOOL, FLOAT32, FLOAT64, INT64, DType
from meta_infer.support.errors import InputError, InternalError

N = Symbol("n", 2, 10, 2)
M = Symbol("m", 1, 9)


def graph_of(nodes: list[Node], values: list[Value], inputs: list[str], outputs: list[str],
             constants: dict[str, np.ndarray] | None = None) -> Graph:
    return Graph("g", tuple(inputs), tuple(outputs), tuple(nodes), {v.name: v for v in values}, constants or {})


def chain() -> Graph:
    """y = reshape(relu(x) + b): [n, m] -> [n * m]"""
    shape = (N.dim, M.dim)
    values = [Value("x", FLOAT32, shape, "x"), Value("b", FLOAT32, ()), Value("r", FLOAT32, shape, "relu"),
              Value("s", FLOAT32, shape, None), Value("y", FLOAT32, (N.dim * M.dim,), "out")]
    nodes = [Node("Relu", ("x",), ("r",)), Node("Add", ("r", "b"), ("s",)),
             Node("Reshape", ("s",), ("y",), {"shape": (N.dim * M.dim,)})]
    return graph_of(nodes, values, ["x"], ["y", "x", "b"], {"b": np.array(0.1, np.float32)})


@pytest.mark.parametrize("shape", [(2, 1), (10, 9), (4, 3)])
def test_symbols_take_their_values_from_the_inputs(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    outputs = execute_graph(chain(), {"x": x})
    np.testing.assert_array_equal(outputs["y"], (np.maximum(x, 0) + np.float32(0.1)).reshape(-1))
    assert outputs["x"] is x and outputs["b"] == np.float32(0.1)


def test_float64_promotes_every_float() -> None:
    x = np.full((2, 1), 1e-9, np.float32)
    outputs = execute_graph(chain(), {"x": x}, FLOAT64)
    assert all(array.dtype == np.float64 for array in outputs.values())
    assert outputs["y"][0] == np.float64(np.float32(0.1)) + np.float64(np.float32(1e-9)) != np.float32(0.1)


def test_casts_are_promoted_too_and_integers_are_not() -> None:
    values = [Value("i", INT64, (2,)), Value("f", FLOAT32, (2,)), Value("j", INT64, (2,))]
    nodes = [Node("Cast", ("i",), ("f",), {"to": FLOAT32}), Node("Cast", ("f",), ("j",), {"to": INT64})]
    graph = graph_of(nodes, values, ["i"], ["f", "j"])
    outputs = execute_graph(graph, {"i": np.array([1, (1 << 40) + 1])}, FLOAT64)
    assert outputs["f"].dtype == np.float64 and outputs["j"].tolist() == [1, (1 << 40) + 1]


def test_layers_are_named_by_their_onnx_tensor() -> None:
    x = np.ones((2, 2), np.float32)
    _, layers = execute_layers(chain(), {"x": x})
    assert set(layers) == {"relu", "out"}
    _, layers = execute_layers(chain(), {"x": x}, origins={"relu"})
    assert set(layers) == {"relu"}


def test_a_value_is_freed_after_its_last_use() -> None:
    """A chain of 64 steps over 1 MB never holds more than a few of its tensors."""
    shape = (1 << 18,)
    names = ["x", *(f"v{i}" for i in range(64))]
    nodes = [Node("Neg", (a,), (b,)) for a, b in zip(names, names[1:], strict=False)]
    graph = graph_of(nodes, [Value(n, FLOAT32, shape) for n in names], ["x"], [names[-1]])
    x = np.ones(shape, np.float32)
    tracemalloc.start()
    execute_graph(graph, {"x": x})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * x.nbytes


@pytest.mark.parametrize(("inputs", "problem"), [
    ({}, "is missing"),
    ({"x": np.zeros((2, 2), np.float32), "z": np.zeros(1)}, "does not exist"),
    ({"x": np.zeros((2, 2), np.float64)}, "is float64, the model wants float32"),
    ({"x": np.zeros(2, np.float32)}, "has rank 1"),
    ({"x": np.zeros((3, 2), np.float32)}, "axis 0 is 3, outside n"),
    ({"x": np.zeros((12, 2), np.float32)}, "axis 0 is 12, outside n"),
    ({"x": np.zeros((2, 0), np.float32)}, "axis 1 is 0, outside m"),
])
def test_inputs_that_do_not_fit(inputs: dict[str, np.ndarray], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        execute_graph(chain(), inputs)


def test_inputs_that_disagree() -> None:
    values = [Value("a", FLOAT32, (M.dim,)), Value("b", FLOAT32, (M.dim,)), Value("y", FLOAT32, (M.dim,))]
    graph = graph_of([Node("Add", ("a", "b"), ("y",))], values, ["a", "b"], ["y"])
    with pytest.raises(InputError, match=r"has shape \[3\], the model wants \[2\]"):
        execute_graph(graph, {"a": np.zeros(2, np.float32), "b": np.zeros(3, np.float32)})


@pytest.mark.parametrize(("dtype", "shape"), [(FLOAT32, (3,)), (INT64, (2,)), (FLOAT32, (2, 1))])
def test_a_type_that_the_reference_contradicts(dtype: DType, shape: tuple[int, ...]) -> None:
    graph = graph_of([Node("Relu", ("x",), ("y",))], [Value("x", FLOAT32, (2,)), Value("y", dtype, shape)],
                     ["x"], ["y"])
    with pytest.raises(InternalError, match="inferred was"):
        execute_graph(graph, {"x": np.zeros(2, np.float32)})


def loop_graph() -> Graph:
    """The body doubles `v`, which it carries, and adds the captured `k`; it stops when M runs out."""
    inner = {name: Value(name, dtype, shape) for name, dtype, shape in (
        ("i", INT64, ()), ("go", BOOL, ()), ("v", FLOAT32, (2,)), ("d", FLOAT32, (2,)), ("w", FLOAT32, (2,)))}
    body = Graph("body", ("i", "go", "v"), ("go", "w", "i"),
                 (Node("Add", ("v", "v"), ("d",)), Node("Add", ("d", "k"), ("w",))), inner)
    body = body.replace(captures=free_names(body))
    trips = Symbol("trips", 0, 100)
    values = [Value("M", INT64, ()), Value("k", FLOAT32, (2,)), Value("x", FLOAT32, (2,)),
              Value("last", FLOAT32, (2,)), Value("steps", INT64, (trips.dim,))]
    attrs = {"iteration": (Symbol("i", 0, 99).dim,), "trips": (trips.dim,), "shapes": ((2,), (trips.dim,)),
             "contents": (None,), "reverse": ()}
    node = Node("Loop", ("M", "", "x"), ("last", "steps"), attrs, regions=(body,))
    return graph_of([node], values, ["M", "k", "x"], ["last", "steps"])


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_loops(trips: int) -> None:
    k, x = np.array([1, -1], np.float32), np.array([3, 4], np.float32)
    outputs = execute_graph(loop_graph(), {"M": np.array(trips), "k": k, "x": x})
    want = x
    for _ in range(trips):
        want = want + want + k
    np.testing.assert_array_equal(outputs["last"], want)
    assert outputs["steps"].dtype == np.int64 and outputs["steps"].tolist() == list(range(trips))
