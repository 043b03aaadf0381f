"""Call frames: the arguments of a C call for inputs of one combination of shapes, all filled in but the addresses.

Between two runs the kernels have filled the caches with their own data, so whatever Python does around a run is read
from memory again: ten times slower than a loop without kernels suggests. What depends on shapes alone is kept here.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from meta_infer.runtime import native
from meta_infer.runtime.outputs import Size

Shapes = tuple[tuple[int, ...], ...]
FRAMES_KEPT = 256

_addressof, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer


@dataclass(frozen=True, slots=True)
class Frame:
    """`takes` and `gives` are the slots of `inputs` and `outputs`; `arguments` the addresses of both."""

    inputs: ctypes.Array
    outputs: ctypes.Array
    error: native.Error
    sizes: list[Size]
    exact: bool                # every output has its shape before the run
    pooled: bool               # some output stays in the session's memory
    takes: tuple[native.Tensor, ...]
    gives: tuple[tuple[native.Tensor, tuple[int, ...], np.dtype], ...]
    arguments: tuple[int, int]
    failure: int               # address of `error`


def make_frame(inputs: ctypes.Array, outputs: ctypes.Array, error: native.Error, sizes: list[Size],
               dtypes: list[np.dtype]) -> Frame:
    """A frame of slots of which the runtime has filled the shapes."""
    gives = tuple((slot, size.shape, dtype) for slot, size, dtype in zip(outputs, sizes, dtypes, strict=False))
    return Frame(inputs, outputs, error, sizes, all(size.exact for size in sizes), any(size.pooled for size in sizes),
                 tuple(inputs), gives, (_addressof(inputs), _addressof(outputs)), _addressof(error))


class IdleFrames:
    """Frames that no run is using, by the shapes of all inputs. Taking and giving back are single steps of a list."""

    def __init__(self) -> None:
        self.by_shapes: dict[Shapes, list[Frame]] = {}

    def take(self, shapes: Shapes) -> Frame | None:
        try:
            return self.by_shapes[shapes].pop()
        except LookupError:
            return None

    def give_back(self, shapes: Shapes, frame: Frame) -> None:
        if shapes not in self.by_shapes and len(self.by_shapes) >= FRAMES_KEPT:
            self.by_shapes.clear()
        self.by_shapes.setdefault(shapes, []).append(frame)


def address_of(array: np.ndarray) -> int:
    """Where the data of a dense array begins. `array.ctypes.data` says so too, and takes three times as long."""
    try:
        return _addressof(_from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):       # read-only, empty, or of a type that no buffer describes
        return array.ctypes.data
