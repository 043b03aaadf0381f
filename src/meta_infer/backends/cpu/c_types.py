"""How loop IR types and constants are spelled in C.

Vectors are GCC/clang vector extensions with short names: `f32x8`, `i64x4`, `u8x16`. Lanes of bool are integer masks
(0 or all ones) of the width of the elements that were compared, so that `select` is one blend.
"""

from __future__ import annotations

import re

import numpy as np

from meta_infer.ir.loop import Type
from meta_infer.support.dtypes import DType
from meta_infer.support.errors import UnsupportedError

_SCALARS = {
    "float16": "_Float16", "float32": "float", "float64": "double",
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "bool": "bool",
}
_LETTER = {"float": "f", "int": "i", "uint": "u", "bool": "u"}

KEYWORDS = frozenset("""auto bool break case char const continue default do double else enum extern float for goto if
    inline int long main memcpy memset register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while asm typeof true false bufs dims begin end scratch linux unix i386""".split())
"""Words a register or buffer must not be called: C's own, and the names every generated function uses."""

_HELPER_NAME = re.compile(r"^(?:[fiu]\d+(?:x\d+)?(?:_u)?|\w*_[fiu]\d+(?:x\d+)?|INLINE|UNROLL|PRAGMA|u?int\d+_t)$")


def scalar_type(dtype: DType) -> str:
    """C type of one register element. Raises UnsupportedError for types this target cannot compute with."""
    if dtype.name not in _SCALARS:
        raise UnsupportedError(f"no C type for {dtype}", what="CPU code generator",
                               hint="cast the tensor to float32 or int8 in the model")
    return _SCALARS[dtype.name]


def memory_type(dtype: DType) -> str:
    """C type of one element in memory: bool is one byte that holds 0 or 1."""
    return "uint8_t" if dtype.kind == "bool" else scalar_type(dtype)


def short_name(dtype: DType, lanes: int = 1) -> str:
    """`f32`, `f32x8`: the suffix of helper functions and the name of vector types."""
    scalar_type(dtype)
    return f"{_LETTER[dtype.kind]}{dtype.bits}" + (f"x{lanes}" if lanes > 1 else "")


def mask_name(bits: int, lanes: int) -> str:
    """Type of `lanes` bools that came from elements of `bits` bits."""
    return f"i{bits}x{lanes}"


def identifier(name: str, taken: set[str]) -> str:
    """A C identifier for an IR name, distinct from `taken` (to which it is added), keywords and helper names."""
    text = name if name.isidentifier() and name.isascii() else re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    if text[0].isdigit() or text[0] == "_" or text.startswith("mi_"):
        text = "v" + text
    while text in taken or text in KEYWORDS or _HELPER_NAME.match(text):
        text += "_"
    taken.add(text)
    return text


def literal(value: int | float | bool, type: Type) -> str:
    """A scalar constant as a C literal that has exactly its value, rounded once to the type."""
    dtype = type.dtype
    if dtype.is_float:
        return _float_literal(float(value), dtype)
    if dtype.kind == "bool":
        return "true" if value else "false"
    number = int(value)
    if dtype.kind == "uint":
        number &= (1 << dtype.bits) - 1
        return f"{number}ULL" if dtype.bits == 64 else f"{number}U"
    if number == -(1 << 63):
        return "(-9223372036854775807LL - 1)"
    return str(number) if -(1 << 31) < number < (1 << 31) else f"{number}LL"


def _float_literal(value: float, dtype: DType) -> str:
    if np.isnan(value):
        return '__builtin_nan("")' if dtype.bits == 64 else '__builtin_nanf("")'
    if np.isinf(value):
        return ("-" if value < 0 else "") + ("__builtin_inf()" if dtype.bits == 64 else "__builtin_inff()")
    with np.errstate(over="ignore"):
        rounded = np.dtype(dtype.numpy).type(value)
    if np.isinf(rounded):
        return _float_literal(float(rounded), dtype)
    text = repr(float(rounded)) if dtype.bits == 64 else str(np.float32(rounded))
    return text if dtype.bits == 64 else text + "f"
