"""Matrix products: MatMul (numpy semantics, any rank from 1) and Gemm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, bool_of, float_of
from meta_infer.ops.broadcast import broadcast_shapes, same_dim, text
from meta_infer.ops.elementwise import floats, ints
from meta_infer.ops.importing import attr_float, attr_int, core_node
from meta_infer.ops.opdef import (
    ImportContext,
    InferContext,
    OnnxImport,
    OnnxNode,
    OpDef,
    Sample,
    ShapeError,
    TensorType,
)

Arrays = Sequence[np.ndarray | None]


def _contracted(a: Dim, b: Dim, shapes: str) -> Dim:
    try:
        return same_dim(a, b)
    except ShapeError as error:
        raise ShapeError(f"inner dimensions of {shapes}: {error}") from None


def _infer_matmul(ctx: InferContext) -> tuple[TensorType, ...]:
    a, b = ctx.input(0), ctx.input(1)
    if a.dtype != b.dtype:
        raise ShapeError(f"operands have different dtypes: {a.dtype}, {b.dtype}")
    if not a.shape or not b.shape:
        raise ShapeError("operands must have at least one dimension")
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    _contracted(left[-1], right[-2], f"{text(a.shape)} and {text(b.shape)}")
    rows = (left[-2],) if len(a.shape) > 1 else ()
    columns = (right[-1],) if len(b.shape) > 1 else ()
    return (TensorType(a.dtype, (*broadcast_shapes(left[:-2], right[:-2]), *rows, *columns)),)


def _matmul(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    a, b = arrays[0], arrays[1]
    assert a is not None and b is not None
    return (np.asarray(np.matmul(a, b)),)


def _matmul_flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    a = inputs[0]
    assert a is not None
    return 2 * product(outputs[0].shape) * a.shape[-1]


def _infer_gemm(ctx: InferContext) -> tuple[TensorType, ...]:
    a, b, c = ctx.input(0), ctx.input(1), ctx.optional(2)
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise ShapeError(f"operands must be matrices, not {text(a.shape)} and {text(b.shape)}")
    if a.dtype != b.dtype or (c is not None and c.dtype != a.dtype):
        raise ShapeError("operands have different dtypes")
    m, k = reversed(a.shape) if bool_of(ctx.node.attrs, "transA", False) else a.shape
    k_b, n = reversed(b.shape) if bool_of(ctx.node.attrs, "transB", False) else b.shape
    _contracted(k, k_b, f"{text(a.shape)} and {text(b.shape)}")
    if c is not None and len(broadcast_shapes((m, n), c.shape)) != 2:
        raise ShapeError(f"addend {text(c.shape)} does not broadcast to {text((m, n))}")
    return (TensorType(a.dtype, (m, n)),)


def _gemm(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    a, b = arrays[0], arrays[1]
    assert a is not None and b is not None
    left = a.T if bool_of(attrs, "transA", False) else a
    right = b.T if bool_of(attrs, "transB", False) else b
    result = left @ right
    alpha, beta = (result.dtype.type(float_of(attrs, name, 1.0)) for name in ("alpha", "beta"))
    result = alpha * result
    c = arrays[2] if len(arrays) > 2 else None
    return (np.asarray(result if c is None else result + beta * c),)


def _gemm_flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    a = inputs[0]
    assert a is not None
    return 2 * product(outputs[0].shape) * a.shape[0 if bool_of(attrs, "transA", False) else 1]


def _import_gemm(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """c broadcasts to the product since opset 7 and is optional since 11: the core op allows both."""
    return (core_node(node, "Gemm", node.inputs, node.outputs, alpha=attr_float(node, "alpha", 1.0),
                      beta=attr_float(node, "beta", 1.0), transA=attr_int(node, "transA"),
                      transB=attr_int(node, "transB")),)


def _matmul_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for a, b in (((3, 4), (4, 5)), ((1, 1), (1, 1)), ((7,), (7,)), ((7,), (7, 3)), ((3, 7), (7,)),
                 ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (1, 3, 4, 5)),
                 ((5,), (2, 5, 3)), ((0, 4), (4, 5)), ((3, 0), (0, 5)), ((17, 33), (33, 9))):
        yield Sample((floats(rng, a, -1, 1), floats(rng, b, -1, 1)))
    yield Sample((ints(rng, (3, 4), np.int32), ints(rng, (4, 5), np.int32)))


def _gemm_samples(rng: np.random.Generator) -> Iterable[Sample]:
    plain = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
    for m, k, n in ((3, 4, 5), (1, 1, 1), (17, 33, 9), (0, 4, 5)):
        for c in (None, (m, n), (n,), (1, n), (m, 1), (1,), ()):
            addend = None if c is None else floats(rng, c)
            yield Sample((floats(rng, (m, k), -1, 1), floats(rng, (k, n), -1, 1), addend), plain)
    for trans_a in (0, 1):
        for trans_b in (0, 1):
            a, b = (4, 3) if trans_a else (3, 4), (5, 4) if trans_b else (4, 5)
            yield Sample((floats(rng, a), floats(rng, b), floats(rng, (5,))),
                         {"alpha": 0.5, "beta": -2.0, "transA": trans_a, "transB": trans_b}, opset=9)


MATMUL = OpDef("MatMul", _infer_matmul, _matmul, _matmul_samples, (OnnxImport("MatMul", 1),), flops=_matmul_flops)
GEMM = OpDef("Gemm", _infer_gemm, _gemm, _gemm_samples, (OnnxImport("Gemm", 7, convert=_import_gemm),),
             flops=_gemm_flops)

OPS: tuple[OpDef, ...] = (MATMUL, GEMM)
