"""Sliding windows of convolution and pooling: output sizes, and numpy views of the windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meta_infer.ir.graph import Shape
from meta_infer.ir.shapes import Dim, bounds, ceildiv, dim_min, evaluate, symbols_of
from meta_infer.ops.broadcast import is_found
from meta_infer.ops.opdef import ShapeError

Ints = tuple[int, ...]


def span(kernel: int, dilation: int) -> int:
    """Input elements from the first to the last tap of a window."""
    return (kernel - 1) * dilation + 1


def output_size(size: Dim, kernel: int, stride: int, begin: int, end: int, dilation: int, ceil: bool = False) -> Dim:
    """Number of windows along one axis. Raises ShapeError when not even one fits.

    Of a size that only data tells there may be none: an axis of 0 elements has no window of 1. With `ceil` a last
    partial window counts too, unless it would start in the end padding (as ONNX Runtime and PyTorch do); it may be the
    only one.
    """
    room = size + begin + end - span(kernel, dilation)
    least = -stride if is_found(size) else 1 - stride if ceil else 0
    if bounds(room)[1] < least:
        raise ShapeError(f"window of {span(kernel, dilation)} does not fit into {size} with padding {begin}, {end}")
    if evaluate(room, {symbol.name: symbol.lo for symbol in symbols_of(room)}) < least:
        raise ShapeError(f"window of {span(kernel, dilation)} does not fit into {size} with padding {begin}, {end} "
                         f"at the smallest sizes in range; raise the lower end of the range")
    if not ceil:
        return room // stride + 1
    return dim_min(ceildiv(room, stride), ceildiv(size + begin, stride) - 1) + 1


def output_sizes(sizes: Shape, kernel: Ints, strides: Ints, pads: Ints, dilations: Ints, ceil: bool = False) -> Shape:
    n = len(kernel)
    if len(sizes) != n or len(strides) != n or len(pads) != 2 * n or len(dilations) != n:
        raise ShapeError(f"a window of {n} dimensions does not fit an input with {len(sizes)} spatial dimensions")
    if min((*kernel, *strides, *dilations), default=1) < 1:
        raise ShapeError(f"kernel {kernel}, strides {strides} and dilations {dilations} must be positive")
    return tuple(output_size(s, kernel[i], strides[i], pads[i], pads[n + i], dilations[i], ceil)
                 for i, s in enumerate(sizes))


def windows_of(x: np.ndarray, kernel: Ints, strides: Ints, dilations: Ints, counts: Ints) -> np.ndarray:
    """A view [n, c, *counts, *kernel] of x [n, c, *spatial], which must be padded enough."""
    steps = x.strides[2:]
    outer = tuple(s * stride for s, stride in zip(steps, strides, strict=True))
    inner = tuple(s * dilation for s, dilation in zip(steps, dilations, strict=True))
    return np.lib.stride_tricks.as_strided(x, (*x.shape[:2], *counts, *kernel), (*x.strides[:2], *outer, *inner),
                                           writeable=False)


def pad_spatial(x: np.ndarray, pads: Ints, value: float, extra: Sequence[int] = ()) -> np.ndarray:
    """x [n, c, *spatial] with padding; negative pads crop. `extra` is added behind the end padding."""
    n = x.ndim - 2
    behind = tuple(extra) or (0,) * n
    crop = tuple(slice(max(-pads[i], 0), x.shape[2 + i] - max(-pads[n + i], 0)) for i in range(n))
    grow = [(max(pads[i], 0), max(pads[n + i], 0) + behind[i]) for i in range(n)]
    return np.pad(x[(slice(None), slice(None), *crop)], [(0, 0), (0, 0), *grow], constant_values=value)
