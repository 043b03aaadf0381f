"""Element types of tensors, and how they map to numpy."""

from __future__ import annotations

from dataclasses import dataclass

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
        """Bytes of one element in memory; sub-byte types are stored packed, so this is an error for them."""
        if self.bits < 8:
            raise ValueError(f"{self.name} is packed: ask for nbytes(count) instead")
        return self.bits // 8

    def nbytes(self, count: int) -> int:
        """Bytes that `count` elements take, sub-byte types packed and rounded up to a whole byte."""
        return (count * self.bits + 7) // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def numpy(self) -> np.dtype:
        """The numpy dtype; bfloat16 and 4-bit types have none in plain numpy and raise KeyError."""
        return _NUMPY[self.name]


FLOAT16 = DType("float16", "float", 16)
FLOAT32 = DType("float32", "float", 32)
FLOAT64 = DType("float64", "float", 64)
BFLOAT16 = DType("bfloat16", "float", 16)
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

ALL = (FLOAT16, FLOAT32, FLOAT64, BFLOAT16, INT4, UINT4, INT8, INT16, INT32, INT64,
       UINT8, UINT16, UINT32, UINT64, BOOL)
_BY_NAME = {t.name: t for t in ALL}
_NUMPY = {t.name: np.dtype(t.name) for t in ALL if t.name not in ("bfloat16", "int4", "uint4")}


def dtype_named(name: str) -> DType:
    """The DType called `name` ('float32', 'int64', ...). Raises KeyError for an unknown name."""
    return _BY_NAME[name]


def dtype_of(array: np.ndarray | np.dtype) -> DType:
    """The DType of a numpy array or dtype. Raises KeyError for one the compiler does not know."""
    dtype = array if isinstance(array, np.dtype) else array.dtype
    return _BY_NAME[dtype.name]
