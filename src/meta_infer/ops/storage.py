"""Tensors as the bits that hold them: BitCast, and FromBits and ToBits between narrow types and their storage.

    %x: float32[4] = FromBits(%b: uint16[4]) {of = bfloat16}
    %b: uint16[4] = ToBits(%x: float32[4]) {of = bfloat16, round_mode = 'up', saturate = true}

The last two exist after passes/store_narrow.py only: no kernel sees a narrow type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.loop import Expr, bitcast, cast, maximum, minimum
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, bool_of, dtype_attr, text_of
from meta_infer.ops.elementwise import UNARY_SHAPES, floats, ints
from meta_infer.ops.importing import core_node, unsupported
from meta_infer.ops.narrow_floats import ROUND_MODES, decode, encode, encode_array, to_odd_float32
from meta_infer.ops.onnx_dtypes import onnx_dtype
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
from meta_infer.support.dtypes import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    NARROW_FLOATS,
    NARROW_INTS,
    UINT8,
    UINT32,
    DType,
    as_storage,
)

MOVES = frozenset({
    "Cast", "BitCast", "Reshape", "Identity", "Transpose", "Concat", "Slice", "Expand", "Tile", "Gather",
    "GatherElements", "GatherND", "Compress", "ReverseSequence", "OneHot", "TensorScatter", "Where", "Trilu",
    "Shape", "Size", "If", "Loop", "Scan",
})
"""Ops that copy elements whatever they mean. An op that is not listed is right as well, at the cost of two casts."""

# --- BitCast --------------------------------------------------------------------------------------------------


def _infer_bitcast(ctx: InferContext) -> tuple[TensorType, ...]:
    x, to = ctx.input(0), dtype_attr(ctx.node.attrs, "to")
    if x.dtype.bytes != to.bytes:
        raise ShapeError(f"{x.dtype} and {to} have different sizes")
    return (TensorType(to, x.shape),)


def _bitcast(attrs: Mapping[str, Attr], arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    assert arrays[0] is not None
    return (np.ascontiguousarray(arrays[0]).reshape(arrays[0].shape).view(dtype_attr(attrs, "to").numpy),)


def _import_bitcast(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    to, x = onnx_dtype(node, "to"), ctx.type_of(node.inputs[0]).dtype
    if x.bits != to.bits:
        raise unsupported(node, f"{x} has {x.bits} bits, {to} has {to.bits}", "reinterpret as a type of equal width")
    return (core_node(node, "BitCast", node.inputs, node.outputs, to=to),)


def _bitcast_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for to in (INT32, UINT32, FLOAT32):
        for shape in UNARY_SHAPES:
            yield Sample((floats(rng, shape),), {"to": to}, onnx_op="-")
    yield Sample((ints(rng, (3, 5), np.int16),), {"to": FLOAT16}, onnx_op="-")
    yield Sample((ints(rng, (3, 5), np.int8),), {"to": UINT8}, onnx_op="-")
    yield Sample((floats(rng, (7,)).astype(np.float16),), {"to": INT16}, onnx_op="-")


# --- narrow types and their storage ---------------------------------------------------------------------------


def wide_of(dtype: DType) -> DType:
    """The type in which a narrow type is computed: it holds all its numbers."""
    return FLOAT32 if dtype.is_float else INT32


def _infer_from(ctx: InferContext) -> tuple[TensorType, ...]:
    x, of = ctx.input(0), dtype_attr(ctx.node.attrs, "of")
    if x.dtype != of.storage:
        raise ShapeError(f"{of} is stored as {of.storage}, not {x.dtype}")
    return (TensorType(wide_of(of), x.shape),)


def _infer_to(ctx: InferContext) -> tuple[TensorType, ...]:
    x, of = ctx.input(0), dtype_attr(ctx.node.attrs, "of")
    if x.dtype != wide_of(of) and not (of.is_float and x.dtype == FLOAT64):
        raise ShapeError(f"{x.dtype} has no direct way to {of}")
    return (TensorType(of.storage, x.shape),)


def _from_bits(attrs: Mapping[str, Attr], arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    of = dtype_attr(attrs, "of")
    assert arrays[0] is not None
    return (np.ascontiguousarray(arrays[0]).reshape(arrays[0].shape).view(of.numpy).astype(wide_of(of).numpy),)


def _to_bits(attrs: Mapping[str, Attr], arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    of = dtype_attr(attrs, "of")
    assert arrays[0] is not None
    if not of.is_float:
        x = np.clip(arrays[0], *of.range) if bool_of(attrs, "saturate", False) else arrays[0]
        return ((x & ((1 << of.bits) - 1)).astype(of.storage.numpy),)
    found = encode_array(arrays[0], of, bool_of(attrs, "saturate", False), text_of(attrs, "round_mode", "up"))
    return (as_storage(np.ascontiguousarray(found).reshape(found.shape)),)


def _from_expr(attrs: Mapping[str, Attr], args: Sequence[Expr]) -> Expr:
    of, bits = dtype_attr(attrs, "of"), cast(args[0], UINT32)
    if of.is_float:
        return decode(bits, of)
    if of.kind == "uint":
        return bitcast(bits & ((1 << of.bits) - 1), INT32)
    return (bitcast(bits, INT32) << (32 - of.bits)) >> (32 - of.bits)


def _to_expr(attrs: Mapping[str, Attr], args: Sequence[Expr]) -> Expr:
    of, x = dtype_attr(attrs, "of"), args[0]
    if not of.is_float:
        low, high = of.range
        kept = maximum(minimum(x, high), low) if bool_of(attrs, "saturate", False) else x
        return cast(bitcast(kept, UINT32) & ((1 << of.bits) - 1), of.storage)
    near = to_odd_float32(x) if x.type.dtype == FLOAT64 else x
    found = encode(near, of, bool_of(attrs, "saturate", False), text_of(attrs, "round_mode", "up"))
    return cast(found, of.storage)


def _from_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for of in (*NARROW_FLOATS, *NARROW_INTS):
        codes = np.arange(1 << of.bits, dtype=of.storage.numpy)[::1 if of.bytes == 1 else 97]
        yield Sample((codes,), {"of": of}, onnx_op="-")


def _to_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for of in NARROW_INTS:
        for saturate in (True, False):
            yield Sample((ints(rng, (3, 50), np.int32, -40, 40),), {"of": of, "saturate": saturate}, onnx_op="-")
    for of in NARROW_FLOATS:
        for saturate in (True, False):
            for mode in ROUND_MODES if of.name == "float8e8m0" else ROUND_MODES[:1]:
                attrs: dict[str, Attr] = {"of": of, "saturate": saturate, "round_mode": mode}
                yield Sample((_spread(rng, of),), attrs, onnx_op="-")
                yield Sample((_spread(rng, of).astype(np.float64) * (1 + 2.0 ** -30),), attrs, onnx_op="-")


def _spread(rng: np.random.Generator, of: DType) -> np.ndarray:
    """Numbers of all sizes, every number of the type, the middles between neighbours, and special values."""
    codes = np.arange(1 << 8, dtype=np.uint8) if of.bytes == 1 else rng.integers(0, 1 << 16, 500).astype(np.uint16)
    exact = np.ascontiguousarray(codes).view(of.numpy).astype(np.float32)
    with np.errstate(all="ignore"):
        near = exact * np.float32(1 + 2.0 ** -of.bits)
        middles = (exact[1:] + exact[:-1]) / 2
    random = rng.standard_normal(300).astype(np.float32) * np.float32(2.0) ** rng.integers(-60, 60, 300)
    odd = np.array([0.0, np.inf, np.nan, 3e38, 1e-40, 2.0 ** -127, 2.0 ** -149], np.float32)
    found = np.concatenate([exact, near, middles, random, odd, -odd]).astype(np.float32)
    return found if of.name != "float8e8m0" else np.abs(found)


def _one_flop(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return product(outputs[0].shape)


BIT_CAST = OpDef("BitCast", _infer_bitcast, _bitcast, _bitcast_samples,
                 (OnnxImport("BitCast", 26, convert=_import_bitcast),), flops=lambda attrs, inputs, outputs: 0,
                 is_view=True)
FROM_BITS = OpDef("FromBits", _infer_from, _from_bits, _from_samples, expr=_from_expr, flops=_one_flop)
TO_BITS = OpDef("ToBits", _infer_to, _to_bits, _to_samples, expr=_to_expr, flops=_one_flop)

OPS: tuple[OpDef, ...] = (BIT_CAST, FROM_BITS, TO_BITS)
