"""Requests to the programs that run packages without Python, and their answers: see runtime/c/mi_driver_package.h."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence

import numpy as np

from meta_infer.backends.base import Execution
from meta_infer.runtime.feeds import as_input, check_names
from meta_infer.runtime.reader import Package, Target

_MAGIC = int.from_bytes(b"MI-REQ1", "little")
_REQUEST = struct.Struct("<16q")
_RECORD = struct.Struct("<24q")                       # rank, bytes, 16 dims, unused
_PADDING = 64


def request_of(package: Package, target: Target, batches: Sequence[Mapping[str, np.ndarray]], threads: int, runs: int,
               seconds: int = 0) -> bytes:
    """What the programs read: numbers, then every input as a record and its padded data.

    `seconds` is the most that the program may take for all of it, 0 for no limit. Raises InputError.
    """
    places = [number for name in (target.code, target.plan, target.weights) for number in package.place(name)]
    parts = [_REQUEST.pack(_MAGIC, threads, runs, len(batches), len(package.inputs), len(package.outputs), *places,
                           seconds, *[0] * 3)]
    for batch in batches:
        check_names(batch, package.inputs)
        for tensor in package.inputs:
            array = as_input(batch[tensor.name], tensor, package.symbols)
            shape = (*array.shape, *[0] * (16 - array.ndim))
            parts += [_RECORD.pack(array.ndim, array.nbytes, *shape, *[0] * 6), array.tobytes(),
                      bytes(-array.nbytes % _PADDING)]
    return b"".join(parts)


def read_answer(package: Package, data: bytes, batches: int, runs: int) -> Execution:
    """What runtime/c/mi_driver.c wrote."""
    outputs, seconds, at = [], [], 0
    for _ in range(batches):
        seconds += [nanoseconds / 1e9 for nanoseconds in struct.unpack_from(f"<{runs}q", data, at)]
        at += 8 * runs
        found = {}
        for tensor in package.outputs:
            rank, size, *rest = _RECORD.unpack_from(data, at)
            at += _RECORD.size
            shape = rest[:rank]
            found[tensor.name] = np.frombuffer(data, tensor.numpy, math.prod(shape), at).reshape(shape).copy()
            at += size
        outputs.append(found)
    return Execution(tuple(outputs), tuple(seconds))
