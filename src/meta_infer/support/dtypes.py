"""Element types of tensors, and how they map to numpy.

Types that plain numpy lacks ("narrow" ones: bfloat16, floats of 8 bits and fewer, integers of 4 and 2 bits) are numpy
types of the package ml_dtypes. They lie one element in a byte, two bytes for bfloat16, in the low bits of an unsigned
integer: their `storage`. Where ml_dtypes is not installed, `numpy` is the dtype of the storage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np


@dataclass(frozen=True)
class DType:
    """One element type. `kind` is one of 'float', 'int', 'uint', 'bool'; `bits` may be below 8."""

    name: str
    kind: str
    bits: int

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:         # hashed a million times when kernels are compared: one field is enough
        return hash(self.name)

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory; types below 8 bits take one."""
        return max(self.bits, 8) // 8

    def nbytes(self, count: int) -> int:
        """Bytes that `count` elements take."""
        return count * self.bytes

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def range(self) -> tuple[int, int]:
        """The lowest and the highest number of an integer type. Raises ValueError for others."""
        if not self.is_integer:
            raise ValueError(f"{self.name} is no integer type")
        half = 1 << (self.bits - 1)
        return (-half, half - 1) if self.kind == "int" else (0, 2 * half - 1)

    @property
    def is_narrow(self) -> bool:
        """Whether plain numpy and C lack it, so that it is computed in another type."""
        return self.name in _ML_NAMES

    @property
    def storage(self) -> DType:
        """The type of the element's memory: an unsigned integer for narrow types, else itself."""
        if not self.is_narrow:
            return self
        return UINT16 if self.bytes == 2 else UINT8

    @property
    def numpy(self) -> np.dtype:
        """The numpy dtype: of ml_dtypes for narrow types, of their storage where that package is not installed."""
        return _NUMPY[self.name] if not self.is_narrow else _ml_dtype(self)


FLOAT16 = DType("float16", "float", 16)
FLOAT32 = DType("float32", "float", 32)
FLOAT64 = DType("float64", "float", 64)
BFLOAT16 = DType("bfloat16", "float", 16)
FLOAT8E4M3FN = DType("float8e4m3fn", "float", 8)
FLOAT8E4M3FNUZ = DType("float8e4m3fnuz", "float", 8)
FLOAT8E5M2 = DType("float8e5m2", "float", 8)
FLOAT8E5M2FNUZ = DType("float8e5m2fnuz", "float", 8)
FLOAT8E8M0 = DType("float8e8m0", "float", 8)
FLOAT6E2M3 = DType("float6e2m3", "float", 6)
FLOAT6E3M2 = DType("float6e3m2", "float", 6)
FLOAT4E2M1 = DType("float4e2m1", "float", 4)
INT2 = DType("int2", "int", 2)
UINT2 = DType("uint2", "uint", 2)
INT4 = DType("int4", "int", 4)
UINT4 = DType("uint4", "uint", 4)
INT8 = DType("int8", "int", 8)
INT16 = DType("int16", "int", 16)
INT32 = DType("int32", "int", 32)
INT64 = DType("int64", "int", 64)
UINT8 = DType("uint8", "uint", 8)
UINT16 = DType("uint16", "uint", 16)
UINT32 = DType("uint32", "uint", 32)
UINT64 = DType("uint64", "uint", 64)
BOOL = DType("bool", "bool", 8)

NARROW_FLOATS = (BFLOAT16, FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ, FLOAT8E8M0, FLOAT6E2M3,
                 FLOAT6E3M2, FLOAT4E2M1)
NARROW_INTS = (INT4, UINT4, INT2, UINT2)
ALL = (FLOAT16, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, BOOL, *NARROW_FLOATS,
       *NARROW_INTS)
_BY_NAME = {t.name: t for t in ALL}
_ML_NAMES = {t.name: t.name for t in (*NARROW_INTS, BFLOAT16)} | {
    "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz", "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz", "float8e8m0": "float8_e8m0fnu", "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn", "float4e2m1": "float4_e2m1fn"}
"""What ml_dtypes calls the narrow types."""
_NUMPY = {t.name: np.dtype(t.name) for t in ALL if t.name not in _ML_NAMES}
_BY_NUMPY = {dtype.name: _BY_NAME[name] for name, dtype in _NUMPY.items()} | {
    theirs: _BY_NAME[name] for name, theirs in _ML_NAMES.items()}


@cache
def _ml_dtype(dtype: DType) -> np.dtype:
    try:
        import ml_dtypes  # only here: a package runs with numpy alone
    except ImportError:
        return dtype.storage.numpy
    return np.dtype(getattr(ml_dtypes, _ML_NAMES[dtype.name]))


def dtype_named(name: str) -> DType:
    """The DType called `name` ('float32', 'int64', ...). Raises KeyError for an unknown name."""
    return _BY_NAME[name]


def dtype_of(array: np.ndarray | np.dtype) -> DType:
    """The DType of a numpy array or dtype. Raises KeyError for one the compiler does not know."""
    dtype = array if isinstance(array, np.dtype) else array.dtype
    return _BY_NUMPY[dtype.name]


def as_storage(array: np.ndarray) -> np.ndarray:
    """An array of a narrow type as the unsigned integers that hold it; any other array as it is."""
    dtype = dtype_of(array)
    return array.view(dtype.storage.numpy) if dtype.is_narrow else array
