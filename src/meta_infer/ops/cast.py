"""Cast: numeric conversion to another dtype. Floats truncate to integers, everything but zero is true.

`saturate` (default false): numbers beyond the range of an integer or 8-bit float become its nearest end, NaN of an
integer the lowest. Without it they are undefined in integers, and infinity or NaN in floats. `round_mode` is that of
float8e8m0. Narrow types are converted by FromBits and ToBits, which passes/store_narrow.py puts in place of a Cast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.loop import Expr, cast, const, maximum, minimum, select
from meta_infer.ir.loop import Type as RegisterType
from meta_infer.ir.shapes import Dim, bounds, product
from meta_infer.ops.attrs import Attrs, bool_of, dtype_attr, text_of
from meta_infer.ops.elementwise import UNARY_SHAPES, bools, floats, ints
from meta_infer.ops.importing import attr_int, attr_text, core_node
from meta_infer.ops.narrow_floats import encode_array
from meta_infer.ops.onnx_dtypes import onnx_dtype
from meta_infer.ops.opdef import ImportContext, InferContext, OnnxImport, OnnxNode, OpDef, Sample, TensorType
from meta_infer.ops.quantize import IMPORTS as QUANTIZE_IMPORTS
from meta_infer.ops.storage import wide_of
from meta_infer.support.dtypes import (
    BOOL,
    FLOAT8E8M0,
    FLOAT16,
    FLOAT32,
    INT8,
    INT32,
    INT64,
    UINT8,
    UINT64,
    DType,
    dtype_of,
)


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
    # Every integer up to 2^24 is exact in float32.
    low, high = (-(1 << 24), 1 << 24) if to.is_float else to.range
    fits = all(low <= c <= high for c in content if isinstance(c, int))
    return content if fits and to != FLOAT16 and not to.is_narrow else None


def _reference(attrs: Mapping[str, Attr], arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, to, saturate = arrays[0], dtype_attr(attrs, "to"), bool_of(attrs, "saturate", False)
    assert x is not None
    if dtype_of(x).is_narrow:
        x = x.astype(wide_of(dtype_of(x)).numpy)
    with np.errstate(invalid="ignore", over="ignore"):
        if to.is_narrow and to.is_float:
            return (encode_array(x, to, saturate, text_of(attrs, "round_mode", "up")),)
        if saturate and to.is_integer:
            x = _clamped(x, to)
        return ((x.astype(INT32.numpy) if to.is_narrow else x).astype(to.numpy),)


def _clamped(x: np.ndarray, to: DType) -> np.ndarray:
    """Integers of the range of `to`; of floats NaN is the lowest."""
    low, high = to.range
    if x.dtype.kind != "f":
        info = np.iinfo(x.dtype) if x.dtype.kind != "b" else np.iinfo(np.uint8)
        return np.asarray(np.clip(x, max(low, int(info.min)), min(high, int(info.max))))
    wide = np.trunc(x.astype(np.float64))
    beyond = [wide >= high, ~(wide > low)]
    inside = np.where(beyond[0] | beyond[1], 0, wide).astype(UINT64.numpy if to.kind == "uint" else INT64.numpy)
    return np.asarray(np.select(beyond, [inside.dtype.type(high), inside.dtype.type(low)], inside))


def _expr(attrs: Mapping[str, Attr], args: Sequence[Expr]) -> Expr:
    x, to = args[0], dtype_attr(attrs, "to")
    if x.type.dtype == to:
        return x
    if to == BOOL:
        return x.ne(const(0, x.type))
    if x.type.dtype == BOOL:
        type = RegisterType(to, x.type.lanes)
        return select(x, const(1, type), const(0, type))
    return _clamped_expr(x, to) if to.is_integer and bool_of(attrs, "saturate", False) else cast(x, to)


def _clamped_expr(x: Expr, to: DType) -> Expr:
    low, high = to.range
    if x.type.dtype == FLOAT16:
        x = cast(x, FLOAT32)
    if not x.type.dtype.is_float:
        least, most = x.type.dtype.range
        x = maximum(x, const(low, x.type)) if least < low else x
        return cast(minimum(x, const(high, x.type)) if most > high else x, to)
    bits = 24 if x.type.dtype == FLOAT32 else 53         # of the significand: the largest number not above `high`
    top = high if to.bits <= bits else (high >> (to.bits - bits)) << (to.bits - bits)
    inside = cast(minimum(maximum(x, float(low)), float(top)), to)      # `maximum` gives its second operand for NaN
    return inside if top == high else select(x.gt(float(top)), const(high, inside.type), inside)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return product(outputs[0].shape)


def cast_attrs(to: DType, saturate: bool, round_mode: str = "up") -> dict[str, Attr]:
    """Attributes of the Cast that ONNX's attributes mean: `saturate` concerns floats of 8 bits."""
    attrs: dict[str, Attr] = {"to": to}
    if to.is_float and to.bits == 8:
        attrs["saturate"] = saturate
    if to == FLOAT8E8M0:
        attrs["round_mode"] = round_mode
    return attrs


def _cast(node: OnnxNode, to: DType) -> Iterable[Node]:
    attrs = cast_attrs(to, bool(attr_int(node, "saturate", 1)), attr_text(node, "round_mode", "up"))
    return (core_node(node, "Cast", node.inputs[:1], node.outputs, **attrs),)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return _cast(node, onnx_dtype(node, "to"))


def _import_like(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return _cast(node, ctx.type_of(node.inputs[1]).dtype)


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
    odd = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1e30, -1e30, 254.6, 127.5, -128.5, -0.9, 2147483520.0])
    for to in (INT8, UINT8, INT32, INT64, UINT64):
        for x in (odd.astype(np.float32), odd, np.array([-300, 300, 5, -1], np.int32)):
            yield Sample((x,), {"to": to, "saturate": True}, onnx_op="-")


CAST = OpDef("Cast", _infer, _reference, _samples,
             (OnnxImport("Cast", 6, convert=_import), OnnxImport("CastLike", 15, convert=_import_like),
              *QUANTIZE_IMPORTS),
             _expr, _flops, keeps_zero=True)

OPS: tuple[OpDef, ...] = (CAST,)
