"""Kernels of an artifact without the runtime, callable from Python: for tests, checks and measuring one kernel.

Code runs in this process. Only load what this machine can execute.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

_SIZE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class _Entry(ctypes.Structure):
    """mi_kernel of runtime/c/mi_kernel.h."""

    _fields_ = [("name", ctypes.c_char_p), ("chunks", _SIZE), ("scratch", _SIZE), ("run", _RUN)]


def _int64s(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * max(len(values), 1))(*values)


class LoadedModule:
    """The kernel table of a shared object that `compile_module` made from `emit_module` sources alone."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        count = ctypes.c_int32.in_dll(self._library, "mi_kernel_count").value
        table = (_Entry * max(count, 1)).in_dll(self._library, "mi_kernels")
        self._entries = {entry.name.decode(): entry for entry in table[:count]}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def chunks(self, name: str, dims: Sequence[int] = ()) -> int:
        """Chunks of a kernel for these values of its dims."""
        return int(self._entries[name].chunks(_int64s(dims)))

    def scratch(self, name: str, dims: Sequence[int] = ()) -> int:
        """Bytes of scratch that one thread needs."""
        return int(self._entries[name].scratch(_int64s(dims)))

    def address(self, name: str) -> int:
        """Where the kernel's entry in the table lies, for C code that calls it."""
        return ctypes.addressof(self._entries[name])

    def run(self, name: str, addresses: Sequence[int], dims: Sequence[int] = (), begin: int = 0,
            end: int | None = None, scratch: int = 0) -> None:
        """Chunks [begin, end) on buffers given by address; `scratch` is the address of 64-byte aligned memory."""
        buffers = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        last = self.chunks(name, dims) if end is None else end
        self._entries[name].run(buffers, _int64s(dims), begin, last, scratch)

    def eval_dims(self, symbols: Sequence[int], count: int) -> list[int]:
        """The `count` dims of the program for these values of its symbols."""
        dims = _int64s([0] * count)
        self._library.mi_eval_dims(_int64s(symbols), dims)
        return list(dims)[:count]
