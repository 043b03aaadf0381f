"""Inferred types against references, with fixed and with symbolic dims, and the errors of operands that do not fit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.shapes import Dim, Symbol, bounds, evaluate, substitute
from meta_infer.ops.opdef import InferContext, OpDef, Sample, ShapeError, TensorType
from meta_infer.ops.registry import OPS, op_named
from meta_infer.support.dtypes import FLOAT32, INT64, dtype_of

FOUND = "found"
"""In the names of symbols for sizes that only running tells."""
WITH_SAMPLES = [op for op in OPS if not op.is_control_flow]
B, S = Symbol("b", 1, 64).dim, Symbol("s", 1, 512).dim
N, M = Symbol("n", 2, 8).dim, Symbol("m", 9, 20).dim


def type_of(array: np.ndarray | None) -> TensorType | None:
    return None if array is None else TensorType(dtype_of(array), array.shape)


def infer(op: OpDef, types: list[TensorType | None], attrs: Mapping[str, Attr],
          constants: Mapping[int, np.ndarray] | None = None) -> tuple[TensorType, ...]:
    names = tuple("" if t is None else f"in{i}" for i, t in enumerate(types))
    return op.infer(InferContext(Node(op.name, names, ("out",), attrs), tuple(types), constants or {},
                                 fresh_symbol=lambda hint, lo, hi: Symbol(f"{FOUND}_{hint}", lo, hi).dim))


def fits(inferred: TensorType, shape: tuple[int, ...]) -> bool:
    """Whether a result of `shape` is as inferred; sizes that only running tells must be in their range."""
    return len(inferred.shape) == len(shape) and all(
        bounds(dim)[0] <= size <= bounds(dim)[1] if FOUND in str(dim) else dim == size
        for dim, size in zip(inferred.shape, shape, strict=True))


def constants_of(sample: Sample) -> dict[int, np.ndarray]:
    return {i: a for i, a in enumerate(sample.inputs) if a is not None}


@pytest.mark.parametrize("op", WITH_SAMPLES, ids=lambda op: op.name)
def test_inferred_is_what_the_reference_gives(op: OpDef) -> None:
    for sample in op.samples(np.random.default_rng(0)):
        results = op.reference(sample.attrs, sample.inputs)
        types = [type_of(a) for a in sample.inputs]
        found = infer(op, types, sample.attrs, constants_of(sample))
        assert [(t.dtype, t.shape) for t in found] == [(dtype_of(r), r.shape) for r in results], sample
        if op.name != "Range":
            assert all(map(fits, infer(op, types, sample.attrs), [r.shape for r in results])), sample


@pytest.mark.parametrize("op", WITH_SAMPLES, ids=lambda op: op.name)
def test_known_contents_are_those_of_the_reference(op: OpDef) -> None:
    for sample in op.samples(np.random.default_rng(1)):
        results = op.reference(sample.attrs, sample.inputs)
        for t, r in zip(infer(op, [type_of(a) for a in sample.inputs], sample.attrs, constants_of(sample)), results,
                        strict=True):
            if t.content is not None:
                assert r.ndim <= 1
                assert t.content == tuple(r.reshape(-1).tolist()), sample


@pytest.mark.parametrize("op", WITH_SAMPLES, ids=lambda op: op.name)
def test_a_symbolic_dim_gives_a_shape_that_holds(op: OpDef) -> None:
    """Each dim of each input in turn becomes a symbol; the inferred shape must be right at the real size."""
    for sample in op.samples(np.random.default_rng(2)):
        expected = [r.shape for r in op.reference(sample.attrs, sample.inputs)]
        for i, array in enumerate(sample.inputs):
            if array is None or array.dtype == np.int64:
                continue
            for axis, size in enumerate(array.shape):
                types = [type_of(a) for a in sample.inputs]
                shape: list[Dim] = [*array.shape]
                shape[axis] = Symbol("d", 1, 1000).dim
                types[i] = TensorType(dtype_of(array), tuple(shape))
                try:
                    found = infer(op, types, sample.attrs, {k: v for k, v in constants_of(sample).items() if k != i})
                except ShapeError:
                    continue                             # the op needs that size fixed
                at = {"d": max(size, 1)}
                there = [TensorType(t.dtype, tuple(substitute(d, at) for d in t.shape)) for t in found]
                assert size == 0 or all(map(fits, there, expected)), (sample, i, axis)


@pytest.mark.parametrize("op", WITH_SAMPLES, ids=lambda op: op.name)
def test_flops_are_a_number_of_fixed_shapes(op: OpDef) -> None:
    assert op.flops is not None
    for sample in op.samples(np.random.default_rng(3)):
        types = [type_of(a) for a in sample.inputs]
        count = op.flops(sample.attrs, types, infer(op, types, sample.attrs, constants_of(sample)))
        assert isinstance(count, int) and count >= 0


def f32(*shape: Dim) -> TensorType:
    return TensorType(FLOAT32, shape)


@pytest.mark.parametrize(("a", "b", "expected"), [
    ((B, S, 384), (384,), (B, S, 384)),
    ((B, 1, 1, S), (B, 12, S, S), (B, 12, S, S)),
    ((B, 1), (1, S), (B, S)),
    ((), (S,), (S,)),
    ((B + S,), (S + B,), (B + S,)),
    ((0,), (1,), (0,)),
])
def test_broadcasting_of_symbolic_dims(a: tuple[Dim, ...], b: tuple[Dim, ...], expected: tuple[Dim, ...]) -> None:
    for left, right in ((a, b), (b, a)):
        assert infer(op_named("Add"), [f32(*left), f32(*right)], {})[0].shape == expected


@pytest.mark.parametrize(("op", "types", "attrs", "message"), [
    ("Add", [f32(3), f32(4)], {}, r"\[3\] and \[4\].*3 and 4"),
    ("Add", [f32(B), f32(S)], {}, "b and s cannot be proven equal"),
    ("Add", [f32(N), f32(M)], {}, "n and m differ"),
    ("Add", [f32(N), f32(9)], {}, "n and 9"),
    ("Add", [f32(B), f32(5)], {}, "b and 5 agree for some of the sizes"),
    ("Concat", [f32(B, 3), f32(5, 3)], {"axis": 1}, "agree for some"),
    ("Reshape", [f32(B, 16)], {"shape": (16,)}, "for some of the sizes"),
    ("Add", [f32(3), TensorType(INT64, (3,))], {}, "float32, int64"),
    ("MatMul", [f32(2, 3), f32(4, 5)], {}, r"\[2, 3\] and \[4, 5\]"),
    ("MatMul", [f32(), f32(4, 5)], {}, "at least one dimension"),
    ("Gemm", [f32(2, 3), f32(4, 5)], {"transA": 0, "transB": 1}, "3 and 5"),
    ("Conv", [f32(1, 4, 8, 8), f32(8, 3, 3, 3)], {"kernel_shape": (3, 3)}, "4 channels.*needs 3"),
    ("Conv", [f32(1, 3, 2, 2), f32(8, 3, 3, 3)], {"kernel_shape": (3, 3)}, "does not fit"),
    ("Conv", [f32(1, 3, 8, 8), f32(8, 3, 3, 3), f32(7)], {"kernel_shape": (3, 3)}, r"bias \[7\]"),
    ("Concat", [f32(2, 3), f32(3, 3)], {"axis": 1}, "dimension 0: dimensions 2 and 3 differ"),
    ("Concat", [f32(B, 3), f32(S, 3)], {"axis": 1}, "cannot be proven equal"),
    ("Concat", [f32(2), f32(2, 2)], {"axis": 0}, "rank"),
    ("Reshape", [f32(2, 3)], {"shape": (5,)}, "number of elements"),
    ("Transpose", [f32(2, 3)], {"perm": (0, 0)}, "does not permute"),
    ("Slice", [f32(5)], {"starts": (3,), "sizes": (3,), "steps": (1,)}, "leaves a dimension"),
    ("Gather", [f32(5), TensorType(INT64, (1,), (5,))], {"axis": 0}, "index 5"),
    ("Softmax", [f32(5)], {"axis": 1}, "axis 1"),
    ("Pad", [f32(5)], {"pads": (5, 0), "mode": "reflect"}, "reflect more"),
    ("Pad", [f32(5)], {"pads": (-3, -3)}, "crop more"),
    ("LayerNormalization", [f32(5), f32(3)], {"axis": 0}, "broadcast"),
    ("BatchNormalization", [f32(1, 3), f32(4), f32(4), f32(4), f32(4)], {}, "3 and 4 differ"),
    ("LSTM", [f32(5, 1, 3), f32(1, 8, 4), f32(1, 8, 2)], {"hidden_size": 2}, r"W \[1, 8, 4\] should be \[1, 8, 3\]"),
    ("Relu", [None], {}, "input 0 is required"),
])
def test_operands_that_do_not_fit(op: str, types: list[TensorType | None], attrs: dict[str, Attr],
                                  message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        infer(op_named(op), types, attrs)


def test_shapes_of_symbolic_images() -> None:
    h = Symbol("h", 32, 960, 32).dim
    attrs: dict[str, Attr] = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    (y,) = infer(op_named("Conv"), [f32(B, 3, h, 224), f32(8, 3, 3, 3)], attrs)
    assert (y.shape[:2], y.shape[3], evaluate(y.shape[2], {"h": 64})) == ((B, 8), 112, 32)
    (y,) = infer(op_named("MaxPool"), [f32(B, 3, h, 7)], {"kernel_shape": (2, 2), "strides": (2, 2), "ceil_mode": 1})
    assert (y.shape[3], evaluate(y.shape[2], {"h": 96})) == (4, 48)
