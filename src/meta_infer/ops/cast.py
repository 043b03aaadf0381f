"""Cast: numeric conversion to another dtype. Floats truncate to integers, everything but zero is true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.loop import Expr, cast, const, select
from meta_infer.ir.loop import Type as RegisterType
from meta_infer.ir.shapes import Dim, bounds, product
from meta_infer.ops.attrs import Attrs, dtype_attr
from meta_infer.ops.elementwise import UNARY_SHAPES, bools, floats, ints
from meta_infer.ops.importing import core_node, unsupported
from meta_infer.ops.opdef import ImportContext, InferContext, OnnxImport, OnnxNode, OpDef, Sample, TensorType
from meta_infer.support.dtypes import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
)

ONNX_DTYPES: Mapping[int, DType] = {
    1: FLOAT32, 2: UINT8, 3: INT8, 4: UINT16, 5: INT16, 6: INT32, 7: INT64, 9: BOOL, 10: FLOAT16, 11: FLOAT64,
    12: UINT32, 13: UINT64}
"""TensorProto.DataType numbers (onnx.proto3) of the dtypes that computations may use."""


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, to = ctx.input(0), dtype_attr(ctx.node.attrs, "to")
    content = ctx.content(0)
    return (TensorType(to, x.shape, None if content is None else _content(content, to)),)


def _content(content: tuple[Dim, ...], to: DType) -> tuple[Dim, ...] | None:
    """The elements in dtype `to`; None when one does not fit, or is not known to be zero or not.

    Symbolic sizes are taken to fit: their declared ranges are often far wider than what anybody runs.
    """
    if to == BOOL:
        signs = [0 if c == 0 else 1 if bounds(c)[0] > 0 or bounds(c)[1] < 0 else None for c in content]
        return None if None in signs else tuple(s for s in signs if s is not None)
    if to.is_float:
        low, high = -(1 << 24), 1 << 24                  # every integer up to here is exact in float32
    else:
        info = np.iinfo(to.numpy)
        low, high = int(info.min), int(info.max)
    fits = all(low <= c <= high for c in content if isinstance(c, int))
    return content if fits and to != FLOAT16 else None


def _reference(attrs: Mapping[str, Attr], arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, to = arrays[0], dtype_attr(attrs, "to")
    assert x is not None
    with np.errstate(invalid="ignore"):
        return (x.astype(to.numpy),)


def _expr(attrs: Mapping[str, Attr], args: Sequence[Expr]) -> Expr:
    x, to = args[0], dtype_attr(attrs, "to")
    if x.type.dtype == to:
        return x
    if to == BOOL:
        return x.ne(const(0, x.type))
    if x.type.dtype == BOOL:
        type = RegisterType(to, x.type.lanes)
        return select(x, const(1, type), const(0, type))
    return cast(x, to)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return product(outputs[0].shape)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    number = node.attrs.get("to")
    if number not in ONNX_DTYPES:
        raise unsupported(node, f"conversion to ONNX data type {number} is not supported",
                          "cast to float32, float16, an integer or bool")
    return (core_node(node, "Cast", node.inputs, node.outputs, to=ONNX_DTYPES[number]),)  # type: ignore[index]


def _import_like(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    to = ctx.type_of(node.inputs[1]).dtype
    return (core_node(node, "Cast", node.inputs[:1], node.outputs, to=to),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for to in (INT32, INT64, BOOL, FLOAT32):
        for shape in UNARY_SHAPES:
            yield Sample((floats(rng, shape, -50, 50),), {"to": to})
        yield Sample((ints(rng, (3, 5), low=-1, high=1),), {"to": to})
        yield Sample((ints(rng, (3, 5), np.int32),), {"to": to})
        yield Sample((bools(rng, (7,)),), {"to": to})
    yield Sample((np.array([2**40 + 5, -1, 7], np.int64),), {"to": INT32})
    yield Sample((np.array([-0.0, 0.0, 0.5, -0.5, 1.99, -1.99], np.float32),), {"to": INT64})
    yield Sample((np.array([-0.0, 0.0, 0.25, np.nan, np.inf], np.float32),), {"to": BOOL})


CAST = OpDef("Cast", _infer, _reference, _samples,
             (OnnxImport("Cast", 6, convert=_import), OnnxImport("CastLike", 15, convert=_import_like)),
             _expr, _flops, keeps_zero=True)

OPS: tuple[OpDef, ...] = (CAST,)
