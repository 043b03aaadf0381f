"""Weights that stay in 4 and 8 bits on their way to a product: what is recognised, and that it computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.load import load_profile
from meta_infer.ir.graph import Attr, Graph, Node, Value
from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.computed_by import kernels_take
from meta_infer.passes.check_rewrite import results_differ
from meta_infer.passes.fold_constants import fold_constants
from meta_infer.passes.keep_narrow_weights import keep_narrow_weights
from meta_infer.passes.legalize import legalize
from meta_infer.passes.verify_types import verify
from meta_infer.support.dtypes import FLOAT32, INT4, INT8, UINT8, DType

DEPTH, COLUMNS = 48, 20
RNG = np.random.default_rng(8)


def graph_of(dtype: DType, scale: np.ndarray, zero: np.ndarray | None = None, *, turned: bool = False,
             op: str = "MatMul", attrs: dict[str, Attr] | None = None, summand: bool = False) -> Graph:
    """x times dequantised weights; `turned`: they lie [N, K] and are transposed before the product."""
    shape = (COLUMNS, DEPTH) if turned else (DEPTH, COLUMNS)
    q = RNG.integers(*dtype.range, shape, endpoint=True).astype(dtype.numpy)
    constants = {"q": q, "s": scale.astype(np.float32)}
    rows = Symbol("M", 1, 9).dim
    values = {"x": Value("x", FLOAT32, (rows, DEPTH)), "q": Value("q", dtype, shape),
              "s": Value("s", FLOAT32, scale.shape), "f": Value("f", FLOAT32, shape), "w": Value("w", FLOAT32, shape),
              "y": Value("y", FLOAT32, (rows, COLUMNS), origin="y")}
    nodes = [Node("Cast", ("q",), ("f",), {"to": FLOAT32}, ("dq",))]
    made = "f"
    if zero is not None:
        constants["z"] = zero.astype(np.float32)
        values |= {"z": Value("z", FLOAT32, zero.shape), "d": Value("d", FLOAT32, shape)}
        nodes.append(Node("Sub", ("f", "z"), ("d",), {}, ("dq",)))
        made = "d"
    nodes.append(Node("Mul", (made, "s"), ("w",), {}, ("dq",)))
    right = "w"
    if turned and op == "MatMul":
        values["t"] = Value("t", FLOAT32, (DEPTH, COLUMNS))
        nodes.append(Node("Transpose", ("w",), ("t",), {"perm": (1, 0)}, ("t",)))
        right = "t"
    inputs = ("x", right)
    if summand:
        constants["c"] = RNG.standard_normal(COLUMNS).astype(np.float32)
        values["c"] = Value("c", FLOAT32, (COLUMNS,))
        inputs = (*inputs, "c")
    nodes.append(Node(op, inputs, ("y",), attrs or {}, ("product",)))
    return Graph("main", ("x",), ("y",), tuple(nodes), values, constants)


def scales(*shape: int) -> np.ndarray:
    return RNG.uniform(0.01, 0.1, shape)


def points(dtype: DType, *shape: int) -> np.ndarray:
    return RNG.integers(*dtype.range, shape, endpoint=True)


def blocks(array: np.ndarray) -> np.ndarray:
    """One row for each 16 of the depth."""
    return np.repeat(array, 16, 0)


GEMM: dict[str, Attr] = {"transA": 0, "transB": 1, "alpha": 1.0, "beta": 1.0}
CASES = {
    "one scale": graph_of(INT8, scales()),
    "by column": graph_of(INT8, scales(1, COLUMNS)),
    "zero points": graph_of(UINT8, scales(1, COLUMNS), points(UINT8, 1, COLUMNS)),
    "transposed": graph_of(INT8, scales(COLUMNS, 1), points(INT8, COLUMNS, 1), turned=True),
    "gemm": graph_of(INT8, scales(COLUMNS, 1), turned=True, op="Gemm", attrs=GEMM, summand=True),
    "blocks of four bits": graph_of(INT4, blocks(scales(3, COLUMNS)), blocks(points(INT4, 3, COLUMNS))),
}


@pytest.mark.parametrize("name", CASES)
def test_weights_stay(name: str) -> None:
    before = CASES[name]
    verify(before)
    after = keep_narrow_weights(before)
    verify(after)
    assert [node.op for node in after.nodes] == ["MatMulNBits", *(["Add"] if name == "gemm" else [])]
    assert all(after.constants[n].nbytes <= DEPTH * COLUMNS * 4 // 3 for n in after.nodes[0].inputs[1:])
    assert after.values["y"].origin == "y"
    assert results_differ(before, after, 0, {"M": 3}) is None
    profile = load_profile("native")
    assert legalize(after, profile, takes=kernels_take((profile,))) is after
    plain = fold_constants(legalize(after, profile))
    assert "MatMulNBits" not in {node.op for node in plain.nodes}
    assert results_differ(before, plain, 0, {"M": 3}) is None


def test_what_does_not_fit_is_left() -> None:
    odd = graph_of(INT8, np.repeat(scales(6, COLUMNS), 8, 0))
    scaled = graph_of(INT8, scales(COLUMNS, 1), turned=True, op="Gemm", attrs={**GEMM, "alpha": 2.0}, summand=True)
    for graph in (odd, scaled):
        assert keep_narrow_weights(graph) is graph
