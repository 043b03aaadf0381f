"""Reading numpy's files, and saying what is wrong with one.

The format (numpy/lib/format.py) is read here and not by numpy.load, because that trusts a file: it reserves whatever
size a header claims, and a damaged header can end in any exception. Only numbers and truth values are arrays here.
"""

from __future__ import annotations

import ast
import io
import lzma
import math
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from meta_infer.support.errors import InputError

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 10000
_MOST_DIMS = 64
_KEYS = {"descr", "fortran_order", "shape"}
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, NotImplementedError, RuntimeError,
               TypeError, KeyError, struct.error, OSError)
"""What zipfile raises for damaged archives, encrypted members and methods it does not know."""


class UnreadableArrays(Exception):
    """A file or member that holds no arrays; its text says why."""


def load_arrays(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    """The array of an .npy file, or those of an .npz file by name. Raises InputError naming the file."""
    what, hint = f"file {path}", "write numbers or truth values with numpy.save or numpy.savez"
    try:
        with path.open("rb") as file:
            if file.read(4) == b"PK\3\4":
                return read_arrays(file)
            file.seek(0)
            return _read_array(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        raise InputError("no such file", what=what, hint="check the path") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", what=what, hint="check the path") from error
    except UnreadableArrays as error:
        raise InputError(f"is not a readable .npy or .npz file: {error}", what=what, hint=hint) from error


def read_arrays(file: IO[bytes]) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name. Raises UnreadableArrays."""
    arrays = {}
    try:
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                if not member.filename.endswith(".npy"):
                    raise UnreadableArrays(f"its member {member.filename!r} is no array")
                with archive.open(member) as data:
                    arrays[member.filename.removesuffix(".npy")] = _read_array(data, member.file_size)
    except MemoryError:
        raise UnreadableArrays("its arrays do not fit in memory") from None
    except _BROKEN_ZIP as error:
        raise UnreadableArrays(f"its archive is damaged: {str(error) or type(error).__name__}") from error
    return arrays


def _read_array(file: IO[bytes], size: int) -> np.ndarray:
    """One array from `size` bytes: magic, version, length of the header, header, elements."""
    start = file.read(8)
    if start[:6] != _MAGIC:
        raise UnreadableArrays("it holds Python objects or anything else")
    wide = start[6:7] > b"\1"
    length = file.read(4 if wide else 2)
    header_bytes = int.from_bytes(length, "little")
    if len(length) != (4 if wide else 2) or header_bytes > _LONGEST_HEADER:
        raise UnreadableArrays("its header is damaged")
    dtype, fortran, shape = _header(file.read(header_bytes))
    wanted = math.prod(shape) * dtype.itemsize
    held = size - 8 - len(length) - header_bytes
    if wanted > held:
        raise UnreadableArrays(f"its shape {shape} takes {wanted} bytes, it holds {max(held, 0)}")
    try:
        data = file.read(wanted)
        if len(data) != wanted:
            raise UnreadableArrays("it is cut short")
        return np.frombuffer(bytearray(data), dtype).reshape(shape, order="F" if fortran else "C")
    except MemoryError:
        raise UnreadableArrays(f"an array of shape {shape} does not fit in memory") from None


def _header(text: bytes) -> tuple[np.dtype, bool, tuple[int, ...]]:
    """Element type, whether the order is Fortran's, and shape."""
    try:
        fields: Any = ast.literal_eval(text.decode("latin1").strip())
        if not isinstance(fields, dict) or set(fields) != _KEYS or not isinstance(fields["descr"], str):
            raise UnreadableArrays("its header is damaged, or it holds records")
        dtype, fortran, shape = np.dtype(fields["descr"]), fields["fortran_order"], fields["shape"]
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise UnreadableArrays(f"its header is damaged: {error}") from error
    sizes = isinstance(shape, tuple) and len(shape) <= _MOST_DIMS and all(type(n) is int and n >= 0 for n in shape)
    if not sizes or type(fortran) is not bool:
        raise UnreadableArrays(f"its header is damaged: shape {str(shape)[:80]}, fortran_order {str(fortran)[:80]}")
    if dtype.kind not in "biufc":
        raise UnreadableArrays(f"it holds {dtype}, neither numbers nor truth values")
    return dtype, fortran, shape


def arrays_of(data: bytes | memoryview) -> dict[str, np.ndarray]:
    """The arrays of an .npz file in memory. Raises UnreadableArrays."""
    return read_arrays(io.BytesIO(data))
