"""Bits of integers: BitShift, BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from meta_infer.ir.loop import Expr, bitcast, const, maximum, minimum, select, unary
from meta_infer.ops.attrs import Attrs, text_of
from meta_infer.ops.elementwise import BINARY_SHAPES, UNARY_SHAPES, elementwise, ints
from meta_infer.ops.opdef import OnnxImport, OpDef, Sample
from meta_infer.support.dtypes import DType, dtype_named

_DTYPES = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)


def _is_integer(dtype: DType) -> bool:
    return dtype.is_integer


def _shift(attrs: Attrs, x: np.ndarray, by: np.ndarray) -> np.ndarray:
    """A count outside [0, bits) leaves what the sign fills in: -1 for a negative x shifted right, else 0."""
    bits = x.dtype.itemsize * 8
    inside = (by >= 0) & (by < bits)
    safe = np.where(inside, by, 0).astype(x.dtype)
    if text_of(attrs, "direction") == "RIGHT":
        return np.where(inside, x >> safe, np.where(x < 0, -1, 0).astype(x.dtype)).astype(x.dtype)
    return np.where(inside, x << safe, 0).astype(x.dtype)


def _shift_expr(attrs: Attrs, x: Expr, by: Expr) -> Expr:
    dtype = x.type.dtype
    last = const(dtype.bits - 1, x.type)
    inside = by.le(last) if dtype.kind == "uint" else by.ge(0) & by.le(last)
    zero = const(0, x.type)
    safe = minimum(by, last) if dtype.kind == "uint" else minimum(maximum(by, zero), last)
    if text_of(attrs, "direction") == "RIGHT":
        return select(inside, x >> safe, zero if dtype.kind == "uint" else x >> last)
    bits = dtype_named(f"uint{dtype.bits}")                  # a sign shifted out is no overflow of an unsigned
    return select(inside, bitcast(bitcast(x, bits) << bitcast(safe, bits), dtype), zero)


def _whole_range(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max, shape, dtype, endpoint=True))


def _shift_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for dtype in _DTYPES:
        bits, signed = np.iinfo(dtype).bits, np.iinfo(dtype).min < 0
        for direction in ("LEFT", "RIGHT"):
            x = _whole_range(rng, (3, 1, 7), dtype)
            inside = not signed and (dtype in (np.uint8, np.uint32, np.uint64))   # what ONNX Runtime has kernels for
            by = ints(rng, (4, 7), dtype, 0 if inside or not signed else -3, bits - 1 if inside else bits + 3)
            yield Sample((x, by), {"direction": direction}, onnx_op="" if inside else "-")
    yield Sample((ints(rng, (0, 3), np.uint8, 0, 9), ints(rng, (1, 3), np.uint8, 0, 7)), {"direction": "LEFT"})


def _pairs(rng: np.random.Generator) -> Iterable[Sample]:
    for a, b in BINARY_SHAPES:
        yield Sample((_whole_range(rng, a, np.int32), _whole_range(rng, b, np.int32)))
    for dtype in _DTYPES:
        yield Sample((_whole_range(rng, (3, 1, 5), dtype), _whole_range(rng, (4, 5), dtype)))


def _singles(rng: np.random.Generator) -> Iterable[Sample]:
    for shape in UNARY_SHAPES:
        yield Sample((_whole_range(rng, shape, np.int64),))
    for dtype in _DTYPES:
        yield Sample((_whole_range(rng, (3, 5), dtype),))


def _bitwise(name: str, reference: Callable[..., np.ndarray], expr: Callable[[Expr, Expr], Expr]) -> OpDef:
    return elementwise(name, 2, lambda attrs, a, b: reference(a, b), lambda attrs, a, b: expr(a, b), _pairs,
                       takes=_is_integer, onnx=(OnnxImport(name, 18),))


BIT_SHIFT = elementwise("BitShift", 2, _shift, _shift_expr, _shift_samples, takes=_is_integer,
                        onnx=(OnnxImport("BitShift", 11),), cost=4)
BITWISE_AND = _bitwise("BitwiseAnd", np.bitwise_and, lambda a, b: a & b)
BITWISE_OR = _bitwise("BitwiseOr", np.bitwise_or, lambda a, b: a | b)
BITWISE_XOR = _bitwise("BitwiseXor", np.bitwise_xor, lambda a, b: a ^ b)
BITWISE_NOT = elementwise("BitwiseNot", 1, lambda attrs, x: np.invert(x), lambda attrs, x: unary("not", x), _singles,
                          takes=_is_integer, onnx=(OnnxImport("BitwiseNot", 18),))

OPS: tuple[OpDef, ...] = (BIT_SHIFT, BITWISE_AND, BITWISE_OR, BITWISE_XOR, BITWISE_NOT)
