"""Memory of a run's outputs: the caller's arrays, fresh ones, and copies of what stayed in the session's memory."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meta_infer.runtime import native
from meta_infer.runtime.reader import Tensor
from meta_infer.support.errors import InputError


@dataclass(frozen=True)
class Size:
    """What one output takes: `bytes` at most; exactly `shape` unless only running can tell."""

    shape: tuple[int, ...]
    bytes: int
    exact: bool

    @property
    def pooled(self) -> bool:
        """Whether it has no useful bound, and lies in the session's memory after a run."""
        return self.bytes < 0


def is_late(tensor: Tensor, symbols: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether the shape mentions a symbol that no input gives."""
    names = {name for dim in tensor.shape if isinstance(dim, str) for name in re.findall(r"[^\W\d]\w*", dim)}
    return any(name in symbols and not symbols[name]["given"] for name in names)


def room_for(tensor: Tensor, size: Size, given: np.ndarray | None) -> np.ndarray:
    """Memory for one output: the array given, or a fresh one; flat when the shape is not known yet."""
    dtype = tensor.numpy
    if given is None:
        return np.empty(size.shape if size.exact else max(size.bytes, 0) // dtype.itemsize, dtype)
    fits = given.shape == size.shape if size.exact else given.nbytes >= size.bytes
    if given.dtype != dtype or not fits or not (given.flags.c_contiguous and given.flags.writeable):
        shape = "" if size.pooled else f" of shape {list(size.shape)} ({size.bytes} bytes)"
        raise InputError(f"must be a writable dense {dtype} array{shape}", what=f"array for output {tensor.name!r}")
    return given


def taken(tensor: Tensor, slot: native.Tensor, given: np.ndarray | None) -> np.ndarray:
    """A copy of what a run left in the session's memory: in the array given, which must hold it, or in a fresh one."""
    shape = tuple(slot.shape[:slot.rank])
    if given is not None and given.nbytes < slot.bytes:
        raise InputError(f"has {given.nbytes} bytes, this run's result of shape {list(shape)} takes {slot.bytes}",
                         what=f"array for output {tensor.name!r}")
    array = np.empty(shape, tensor.numpy) if given is None else given
    ctypes.memmove(array.ctypes.data, slot.data, slot.bytes)
    return array


def cut_to_shape(array: np.ndarray, shape: tuple[int, ...], own: bool) -> np.ndarray:
    """The output in its final shape. A fresh array made for an upper bound is copied, so that it does not stay."""
    if array.shape == shape:
        return array
    part = array.reshape(-1)[:math.prod(shape)].reshape(shape)
    return part.copy() if own else part
