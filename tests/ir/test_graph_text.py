"""The text form of graphs: everything survives printing and parsing; what is no graph is refused by line."""

from __future__ import annotations

import math

import numpy as np
import pytest

from meta_infer.ir.graph import Attr, Graph, Node, Quant, Value, free_names, walk_graphs
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.ir.graph_text import constant_table, print_graph
from meta_infer.ir.same_graph import difference
from meta_infer.ir.shapes import Dim, Symbol, ceildiv, dim_max, dim_min
from meta_infer.ir.verify_graph import verify_graph
from meta_infer.support.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT4, INT8, INT64, UINT8, DType

SYMBOLS = (Symbol("N", 1, 8), Symbol("width_2", 32, 640, 32), Symbol("T", 0, 1 << 20))
ODD_NAMES = ("x", "onnx::Add_3", "/model/layer.0/Add_output_0", "a b", 'quo"te', "line\nbreak", "_", "const", "symbol",
             "//", "12", "1.5", "inf", "é", "%", "a//b", "graph", "1e5", "-", "[N]", "in")


def random_dim(rng: np.random.Generator, depth: int = 2) -> Dim:
    if depth == 0 or rng.random() < 0.3:
        return int(rng.integers(0, 70)) if rng.random() < 0.5 else SYMBOLS[rng.integers(len(SYMBOLS))].dim
    a, b = random_dim(rng, depth - 1), random_dim(rng, depth - 1)
    makers = (lambda: a + b, lambda: a * b, lambda: a - b, lambda: ceildiv(a, int(rng.integers(1, 9))),
              lambda: dim_min(a, b), lambda: dim_max(a, b), lambda: -a)
    return makers[rng.integers(len(makers))]()


def random_attr(rng: np.random.Generator, depth: int = 2) -> Attr:
    choices: list[Attr] = [None, True, False, 0, 1, -7, 1 << 62, 0.0, -0.0, 1.0, 1e-45, 1e300, math.pi, math.inf,
                           -math.inf, "", "text", 'quo"te\n', "[1]", FLOAT32, BOOL, INT4, random_dim(rng)]
    if depth and rng.random() < 0.4:
        return tuple(random_attr(rng, depth - 1) for _ in range(rng.integers(0, 4)))
    return choices[rng.integers(len(choices))]


def random_constant(rng: np.random.Generator) -> tuple[DType, np.ndarray]:
    dtype = (FLOAT16, FLOAT32, FLOAT64, INT8, INT64, UINT8, BOOL)[rng.integers(7)]
    shape = [(), (1,), (0, 3), (2, 3), (4, 4), (3, 2, 7)][rng.integers(6)]
    drawn = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3)
    array = np.array(drawn if dtype.is_float else rng.integers(0, 100, shape)).astype(dtype.numpy)
    if dtype.is_float and array.size > 3:
        array.reshape(-1)[:3] = (np.inf, -0.0, np.nan)
    return dtype, array


class Maker:
    """Random graphs with unique names over the region tree."""

    def __init__(self, seed: int) -> None:
        self.rng, self.count = np.random.default_rng(seed), 0

    def name(self) -> str:
        self.count += 1
        return f"{ODD_NAMES[self.rng.integers(len(ODD_NAMES))]}{self.count}"

    def value(self, dtype: DType = FLOAT32, shape: tuple[Dim, ...] | None = None) -> Value:
        rng = self.rng
        shape = tuple(random_dim(rng) for _ in range(rng.integers(0, 4))) if shape is None else shape
        origin = self.name() if rng.random() < 0.5 else None
        quant = Quant((0.1, 1e-9), (0, -128), 1, 32) if rng.random() < 0.1 else None
        quant = Quant((0.5,), (3,)) if rng.random() < 0.1 else quant
        return Value(self.name(), dtype, shape, origin, quant)

    def graph(self, visible: list[str], depth: int) -> Graph:
        rng = self.rng
        values = [self.value() for _ in range(rng.integers(0, 3))]
        inputs, constants = [v.name for v in values], {}
        for _ in range(rng.integers(0, 3)):
            dtype, array = random_constant(rng)
            values.append(self.value(dtype, array.shape))
            constants[values[-1].name] = array
        known, nodes = [*visible, *(v.name for v in values)], []
        for _ in range(rng.integers(1, 5)):
            regions = tuple(self.graph(known, depth - 1) for _ in range(rng.integers(0, 3))) if depth else ()
            made = [self.value() if i == 0 or rng.random() < 0.7 else None for i in range(rng.integers(1, 4))]
            values += [v for v in made if v]
            reads = tuple(str(rng.choice(known)) if known and rng.random() < 0.8 else "" for _ in range(3))
            attrs = {f"attr{i}": random_attr(rng) for i in range(rng.integers(0, 4))}
            nodes.append(Node("Op", reads, tuple(v.name if v else "" for v in made), attrs,
                              tuple(self.name() for _ in range(rng.integers(0, 3))), regions))
            known += [v.name for v in made if v]
        outputs = tuple(str(rng.choice(known)) for _ in range(rng.integers(1, 3)))
        graph = Graph(self.name(), tuple(inputs), outputs, tuple(nodes), {v.name: v for v in values}, constants)
        return graph.replace(captures=free_names(graph))


@pytest.mark.parametrize("seed", range(60))
def test_round_trip(seed: int) -> None:
    graph = Maker(seed).graph([], 2)
    verify_graph(graph)
    text = print_graph(graph)
    read = parse_graph(text, constant_table(graph))
    assert difference(graph, read) is None
    assert print_graph(read) == text
    assert read.symbols == graph.symbols


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name(name: str) -> None:
    graph = Graph(name, (name,), (name,), (), {name: Value(name, FLOAT32, (), name)})
    assert difference(graph, parse_graph(print_graph(graph))) is None


def test_big_constants_need_the_table() -> None:
    array = np.arange(100, dtype=np.float32)
    graph = Graph("g", (), ("w",), (), {"w": Value("w", FLOAT32, (100,))}, {"w": array})
    assert "#" in print_graph(graph) and len(constant_table(graph)) == 1
    with pytest.raises(ValueError, match="%w.*not in the table"):
        parse_graph(print_graph(graph))


def test_equal_looking_attributes_differ() -> None:
    def graph(attr: Attr) -> Graph:
        return Graph("g", (), ("y",), (Node("Op", (), ("y",), {"a": attr}),), {"y": Value("y", FLOAT32, ())})

    kinds: list[Attr] = [1, 1.0, True, "1", (1,), (1.0,), 0, 0.0, -0.0, False, None, ()]
    for i, a in enumerate(kinds):
        for j, b in enumerate(kinds):
            assert (difference(graph(a), graph(b)) is None) == (i == j)
            assert (print_graph(graph(a)) == print_graph(graph(b))) == (i == j)


def test_comments_and_free_layout() -> None:
    text = """graph g(%x: float32[2] // the input
        ) -> (%y) { // comment with %names { and (
        %y:float32[2]=Relu(%x)from("a",)}"""
    graph = parse_graph(text)
    assert graph.nodes[0].origins == ("a",) and [g.name for g in walk_graphs(graph)] == ["g"]


@pytest.mark.parametrize("text, message", [
    ("", "line 1: expected 'graph'"),
    ("graph g() -> () {\n  ;\n}", "line 2: cannot read"),
    ("graph g() -> () {", "expected"),
    ("graph g() -> () {\n}\n}", "line 3: expected nothing after"),
    ("graph g(%x: float33[2]) -> () {\n}", "line 1: expected an element type, found 'float33'"),
    ("graph g(%x: float32[M]) -> () {\n}", "line 1: expected dimensions of declared symbols"),
    ("graph g(%x: float32[2 +]) -> () {\n}", "line 1: expected dimensions of declared symbols"),
    ("graph g(%x: float32) -> () {\n}", "line 1: expected \\[dims\\]"),
    ("graph g(%x: float32[], %x: float32[]) -> () {\n}", "%x is defined twice"),
    ("graph g() -> () {\n  const %w: float32[2] = (1.0, 2.0, 3.0)\n}", "elements of a constant"),
    ("graph g() -> () {\n\n  %y: float32[] Relu(%x)\n}", "line 3: expected '='"),
    ("graph g() -> () {\n  %y: float32[] = Relu(%x) {a = ?}\n}", "line 2: cannot read"),
    ('graph g() -> () {\n  %y: float32[] = Relu(%x) from (a)\n}', "line 2: expected a quoted string"),
])
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_graph(text)
