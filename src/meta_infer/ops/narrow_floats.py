"""Floats of 16 bits and fewer that C lacks: their formats, and conversion from and to float32 by bit operations.

    bfloat16 [s eeeeeeee mmmmmmm]   float8e4m3fn [s eeee mmm]   float8e8m0 [eeeeeeee]   float4e2m1 [s ee m]

Rounding is to nearest, ties to even; what lies beyond the largest number follows the Cast tables of the ONNX
specification, and the formats are those of "FP8 formats for deep learning" (arXiv 2209.05433), its *fnuz* variants
(arXiv 2206.02915), and the OCP microscaling specification 1.0 (float8e8m0, float6, float4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meta_infer.ir.loop import Expr, Type, bitcast, cast, const, minimum, select, unary
from meta_infer.support.dtypes import (
    BFLOAT16,
    FLOAT4E2M1,
    FLOAT6E2M3,
    FLOAT6E3M2,
    FLOAT8E4M3FN,
    FLOAT8E4M3FNUZ,
    FLOAT8E5M2,
    FLOAT8E5M2FNUZ,
    FLOAT8E8M0,
    FLOAT32,
    UINT32,
    DType,
)

ROUND_MODES = ("up", "down", "nearest")
"""How float8e8m0 rounds: away from zero, to zero, or to the nearest with ties up."""


@dataclass(frozen=True)
class Format:
    """Bits of a signed format. Codes are without the sign: `largest` of the largest number, `beyond` of what is
    larger, and `nan` (None: the format has none, NaN becomes -0). `unsigned_zero`: -0 is 0, and NaN has its code."""

    exponent: int
    mantissa: int
    bias: int
    largest: int
    beyond: int
    nan: int | None
    unsigned_zero: bool = False


FORMATS: Mapping[DType, Format] = {
    BFLOAT16: Format(8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    FLOAT8E4M3FN: Format(4, 3, 7, 0x7E, 0x7F, 0x7F),
    FLOAT8E4M3FNUZ: Format(4, 3, 8, 0x7F, 0x80, 0x80, True),
    FLOAT8E5M2: Format(5, 2, 15, 0x7B, 0x7C, 0x7E),
    FLOAT8E5M2FNUZ: Format(5, 2, 16, 0x7F, 0x80, 0x80, True),
    FLOAT6E2M3: Format(2, 3, 1, 0x1F, 0x1F, None),
    FLOAT6E3M2: Format(3, 2, 3, 0x1F, 0x1F, None),
    FLOAT4E2M1: Format(2, 1, 1, 0x07, 0x07, None),
}
_SATURATED = frozenset({FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ})
"""Formats whose overflow the `saturate` attribute decides."""

_INFINITY, _MANTISSA = 0x7F800000, 23                    # of float32
_BIAS = 127


def decode(bits: Expr, dtype: DType) -> Expr:
    """float32 lanes of the numbers of type `dtype` that uint32 lanes `bits` hold."""
    if dtype == FLOAT8E8M0:
        smallest = select(bits.eq(0), const(1 << 22, bits.type), bits << _MANTISSA)
        return bitcast(select(bits.eq(0xFF), const(0x7FC00000, bits.type), smallest), FLOAT32)
    if dtype == BFLOAT16:
        return bitcast(bits << 16, FLOAT32)
    form = FORMATS[dtype]
    width = form.exponent + form.mantissa
    code, sign = bits & ((1 << width) - 1), (bits >> width) & 1
    normal = (code << (_MANTISSA - form.mantissa)) + ((_BIAS - form.bias) << _MANTISSA)
    step = const(2.0 ** (1 - form.bias - form.mantissa), Type(FLOAT32, bits.type.lanes))
    number = select(code.lt(1 << form.mantissa), bitcast(cast(code, FLOAT32) * step, UINT32), normal)
    if form.beyond == form.largest + 1 and form.beyond != form.nan:             # infinity, and NaN above it
        odd = select(code.eq(form.beyond), const(_INFINITY, bits.type), const(0x7FC00000, bits.type))
        number = select(code.ge(form.beyond), odd, number)
    elif form.nan is not None and not form.unsigned_zero:
        number = select(code.eq(form.nan), const(0x7FC00000, bits.type), number)
    signed = number | (sign << 31)
    if form.unsigned_zero:
        signed = select((bits & 0xFF).eq(0x80), const(0x7FC00000, bits.type), signed)
    return bitcast(signed, FLOAT32)


def encode(x: Expr, dtype: DType, saturate: bool = True, round_mode: str = "up") -> Expr:
    """uint32 lanes that hold the float32 lanes `x` as type `dtype`; see the module for rounding and overflow."""
    bits = bitcast(x, UINT32)
    size = bits & 0x7FFFFFFF
    if dtype == FLOAT8E8M0:
        return _encode_exponent(size, saturate, round_mode)
    form = FORMATS[dtype]
    drop = _MANTISSA - form.mantissa
    rounded = (size + ((1 << (drop - 1)) - 1) + ((size >> drop) & 1)) >> drop
    code = rounded - ((_BIAS - form.bias) << form.mantissa)
    if dtype != BFLOAT16:                                # its small numbers are those of float32
        # Adding a power of two whose last bit is worth one step of the subnormals rounds to such steps.
        power = (1 - form.bias + drop + _BIAS) << _MANTISSA
        magic = bitcast(const(power, bits.type), FLOAT32)
        small = bitcast(bitcast(size, FLOAT32) + magic, UINT32) - power
        code = select(size.lt((1 - form.bias + _BIAS) << _MANTISSA), small, code)
    top = form.largest if saturate and dtype in _SATURATED else form.beyond
    # A number of the size of infinity wraps around in no format, since NaN is dealt with apart.
    code = select(code.gt(form.largest), const(top, bits.type), code)
    sign = (bits >> 31) << (form.exponent + form.mantissa)
    if form.unsigned_zero:
        code = select(code.eq(0) | code.eq(0x80), code, code | sign)
        return select(size.gt(_INFINITY), const(0x80, bits.type), code)
    if form.nan is None:
        return select(size.gt(_INFINITY), const(1 << (form.exponent + form.mantissa), bits.type), code | sign)
    return select(size.gt(_INFINITY), const(form.nan, bits.type), code) | sign


def _encode_exponent(size: Expr, saturate: bool, round_mode: str) -> Expr:
    """float8e8m0: the exponent alone; the sign is dropped."""
    exponent, rest = size >> _MANTISSA, size & ((1 << _MANTISSA) - 1)
    one, zero = const(1, size.type), const(0, size.type)
    if round_mode == "up":
        exponent = exponent + select(rest.gt(0), one, zero)
    elif round_mode == "nearest":                        # of subnormals only those above the half, which is a number
        half = select(exponent.eq(0), const(1 << 22, size.type), const((1 << 22) - 1, size.type))
        exponent = exponent + select(rest.gt(half), one, zero)
    code = minimum(exponent, 0xFE if saturate else 0xFF)
    return select(size.gt(_INFINITY), const(0xFF, size.type), code)


def to_odd_float32(x: Expr) -> Expr:
    """float64 lanes as float32, rounded to odd: a second rounding, to fewer bits, then gives what one would give."""
    near = cast(x, FLOAT32)
    back, bits = cast(near, x.type.dtype), bitcast(near, UINT32)
    step = select(unary("abs", back).gt(unary("abs", x)), const(0xFFFFFFFF, bits.type), const(1, bits.type))
    exact = back.eq(x) | x.ne(x)
    odd = select((bits & 1).eq(1), bits, bits + step)
    # Beyond the largest float32 the result is infinity, whose size is even: the largest float32, which is odd.
    return bitcast(select(exact, bits, odd), FLOAT32)


def encode_array(x: np.ndarray, dtype: DType, saturate: bool = True, round_mode: str = "up") -> np.ndarray:
    """An array of any number as an array of the narrow float `dtype`, by the same rules."""
    wide = _to_odd_array(x) if x.dtype == np.float64 else x.astype(np.float32)
    if dtype == FLOAT8E8M0:
        return _encode_exponent_array(np.abs(wide), saturate, round_mode)
    found = wide.astype(dtype.numpy)
    if dtype in FORMATS and FORMATS[dtype].nan is None:
        return np.where(np.isnan(wide), np.array(-0.0, np.float32).astype(dtype.numpy), found)
    if saturate and dtype in _SATURATED:
        form = FORMATS[dtype]
        largest = float(np.array(form.largest, np.uint8).view(dtype.numpy))
        beyond = ~np.isnan(wide) & ~(np.abs(found.astype(np.float32)) <= largest)
        found = np.where(beyond, np.copysign(np.float32(largest), wide).astype(dtype.numpy), found)
    return found


def _to_odd_array(x: np.ndarray) -> np.ndarray:
    near = x.astype(np.float32)
    with np.errstate(invalid="ignore"):
        back = near.astype(np.float64)
        exact = (back == x) | np.isnan(x)
        bits = near.view(np.uint32)
        step = np.where(np.abs(back) > np.abs(x), np.uint32(0xFFFFFFFF), np.uint32(1))
    return np.asarray(np.where(exact | (bits & 1 == 1), bits, bits + step)).view(np.float32)


def _encode_exponent_array(size: np.ndarray, saturate: bool, round_mode: str) -> np.ndarray:
    bits = np.asarray(size).view(np.uint32)
    exponent, rest = bits >> 23, bits & 0x7FFFFF
    half = np.where(exponent == 0, np.uint32(1 << 22), np.uint32((1 << 22) - 1))
    steps = {"up": rest > 0, "nearest": rest > half, "down": np.zeros(bits.shape, bool)}[round_mode]
    code = np.minimum(exponent + steps, 0xFE if saturate else 0xFF)
    return np.where(np.isnan(size), 0xFF, code).astype(np.uint8).view(FLOAT8E8M0.numpy)
