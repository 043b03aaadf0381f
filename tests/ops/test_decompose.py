"""Every decomposition against the op's reference: on all samples, and with dynamic sizes where it takes them."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from meta_infer.ir.graph import Graph, Node, Shape, Value
from meta_infer.ir.shapes import Symbol
from meta_infer.ops.execute import execute_graph
from meta_infer.ops.infer import constant_type, counted_symbols, infer_node
from meta_infer.ops.opdef import OpDef, Sample, TensorType
from meta_infer.ops.registry import OPS, op_named
from meta_infer.support.dtypes import dtype_of

DECOMPOSED = [op for op in OPS if op.decompose is not None]


def decomposed(op: OpDef, sample: Sample, dims: dict[int, Shape] | None = None) -> Graph | None:
    """The decomposition of one node as a graph; input 0 is fed, others too unless they are scalars."""
    assert op.decompose is not None
    names, types, constants = [], {}, {}
    for i, array in enumerate(sample.inputs):
        names.append(f"in{i}" if array is not None else "")
        if array is not None:
            types[names[i]] = TensorType(dtype_of(array), (dims or {}).get(i, array.shape))
            if op.name == "Range":
                constants[names[i]] = array
    fresh = (f"t{i}" for i in count())
    node = Node(op.name, tuple(names), ("out",), sample.attrs, ("origin",))
    out = infer_node(node, types, constants, counted_symbols())[0]

    def constant(array: np.ndarray, hint: str) -> str:
        name = f"{hint}_{next(fresh)}"
        constants[name], types[name] = array, constant_type(array)
        return name

    nodes = op.decompose(node, lambda hint: next(fresh), constant, {**types, "out": out})
    if nodes is None:
        return None
    for made in nodes:
        assert made.origins == ("origin",)
        types.update(zip(made.outputs, infer_node(made, types, constants, counted_symbols()), strict=True))
    assert (types["out"].dtype, types["out"].shape) == (out.dtype, out.shape)
    values = {name: Value(name, t.dtype, t.shape) for name, t in types.items()}
    inputs = tuple(n for n in names if n and n not in constants)
    return Graph("g", inputs, ("out",), nodes, values, constants)


@pytest.mark.parametrize("op", DECOMPOSED, ids=lambda op: op.name)
def test_decomposition_computes_the_same(op: OpDef) -> None:
    done = 0
    for sample in op.samples(np.random.default_rng(9)):
        graph = decomposed(op, sample)
        if graph is None:
            continue
        done += 1
        feeds = {f"in{i}": a for i, a in enumerate(sample.inputs) if a is not None and f"in{i}" in graph.inputs}
        (expected,) = op.reference(sample.attrs, sample.inputs)
        found = execute_graph(graph, feeds)["out"]
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5, equal_nan=True, err_msg=str(sample))
    assert done > 2


@pytest.mark.parametrize("name", ["BatchNormalization", "ReduceLogSumExp", "ReduceL2"])
def test_decomposition_of_dynamic_sizes(name: str) -> None:
    """Every dim of the first input becomes a symbol; channels of the normalisation stay fixed."""
    op, done = op_named(name), 0
    for sample in op.samples(np.random.default_rng(10)):
        x = sample.inputs[0]
        assert x is not None
        if 0 in x.shape:
            continue
        fixed = name == "BatchNormalization"
        dims = tuple(d if fixed and i == 1 else Symbol(f"d{i}", 1, 70).dim for i, d in enumerate(x.shape))
        graph = decomposed(op, sample, {0: dims})
        if graph is None or max(x.shape) > 70:
            continue
        done += 1
        feeds = {f"in{i}": a for i, a in enumerate(sample.inputs) if a is not None}
        (expected,) = op.reference(sample.attrs, sample.inputs)
        np.testing.assert_allclose(execute_graph(graph, feeds)["out"], expected, 1e-4, 1e-5)
    assert done > 2


def test_log_sum_exp_of_nothing_but_minus_infinity() -> None:
    rows = np.full((2, 3), -np.inf, np.float32)
    graph = decomposed(op_named("ReduceLogSumExp"), Sample((rows,), {"axes": (1,), "keepdims": True}))
    assert graph is not None and np.isneginf(execute_graph(graph, {"in0": rows})["out"]).all()
