"""A convolution, plain or transposed, as taps: which input position each output position meets at each kernel place.

    Conv            y[q]         meets x[q * stride + (k * dilation - begin)]           for every k
    ConvTranspose   y[s * q + r] meets x[q + (r + begin - k * dilation) / s]            for every k where s divides

The outputs of a transposed convolution fall into phases r, each a small convolution of stride 1 with a part of the
taps; a plain convolution has one phase. Both are `q * in_step + place` for a list of places, so that one loop nest
computes either. Every tap belongs to exactly one phase.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product as combinations

import numpy as np

from meta_infer.ir.graph import Shape
from meta_infer.ir.group import Group
from meta_infer.ir.shapes import Dim, ceildiv, usual_upper
from meta_infer.kernels.conv.conv_shape import ConvShape, conv_of


@dataclass(frozen=True)
class AxisPhase:
    """Outputs `first`, `first` + out_step, ... of one axis; each tap is (place, number within the kernel)."""

    first: int
    taps: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class TapConv:
    """A convolution of two spatial axes or more; a missing one is an axis of size 1 in front of the others."""

    conv: ConvShape
    is_transposed: bool

    def _all(self, values: tuple[int, ...], missing: int) -> tuple[int, ...]:
        return (missing,) * (2 - len(values)) + values

    @cached_property
    def kernel(self) -> tuple[int, ...]:
        return self._all(self.conv.kernel, 1)

    @cached_property
    def in_step(self) -> tuple[int, ...]:
        """Input positions from one q to the next."""
        return (1,) * len(self.kernel) if self.is_transposed else self._all(self.conv.strides, 1)

    @cached_property
    def out_step(self) -> tuple[int, ...]:
        """Output positions from one q to the next."""
        return self._all(self.conv.strides, 1) if self.is_transposed else (1,) * len(self.kernel)

    @property
    def in_spatial(self) -> Shape:
        return (1,) * (2 - len(self.conv.kernel)) + self.conv.in_spatial

    @property
    def out_spatial(self) -> Shape:
        return (1,) * (2 - len(self.conv.kernel)) + self.conv.out_spatial

    @property
    def q_spatial(self) -> tuple[Dim, ...]:
        """Positions of the largest phase."""
        return tuple(ceildiv(size, step) for size, step in zip(self.out_spatial, self.out_step, strict=True))

    @cached_property
    def axes(self) -> tuple[tuple[AxisPhase, ...], ...]:
        """The phases of every axis."""
        return tuple(tuple(self._axis(axis)) for axis in range(len(self.kernel)))

    def _axis(self, axis: int) -> Iterator[AxisPhase]:
        begin, dilation = self._all(self.conv.begin, 0)[axis], self._all(self.conv.dilations, 1)[axis]
        for first in range(self.out_step[axis]):
            reach = [first + begin - k * dilation if self.is_transposed else k * dilation - begin
                     for k in range(self.kernel[axis])]
            step = self.out_step[axis]
            yield AxisPhase(first, tuple((r // step, k) for k, r in enumerate(reach) if r % step == 0))

    def places(self, axis: int) -> tuple[int, int]:
        """The least and the largest place of an axis over all phases."""
        found = [place for phase in self.axes[axis] for place, _ in phase.taps]
        return min(found), max(found)

    @property
    def phases(self) -> Iterator[tuple[AxisPhase, ...]]:
        return combinations(*self.axes)

    @property
    def phase_count(self) -> int:
        return int(np.prod(self.out_step))

    @property
    def has_border(self) -> bool:
        """Whether any output may meet what is no input."""
        if self.is_transposed:
            return any(self.places(axis) != (0, 0) for axis in range(len(self.kernel))) or any(
                q != size for q, size in zip(self.q_spatial, self.in_spatial, strict=True))
        return any(self.conv.begin) or any(self.conv.end)

    @property
    def in_per_group(self) -> int:
        """Input channels of a group."""
        shape = self.conv.weight.shape
        return int(shape[0]) // self.conv.group if self.is_transposed else int(shape[1])   # type: ignore[arg-type]

    @property
    def out_per_group(self) -> int:
        """Output channels of a group."""
        shape = self.conv.weight.shape
        return int(shape[1]) if self.is_transposed else int(shape[0]) // self.conv.group   # type: ignore[arg-type]

    @property
    def taps(self) -> int:
        return self.conv.taps

    @property
    def multiplies(self) -> float:
        """Multiply-adds of one image, at a phase's largest size; dynamic sizes count as usual ones."""
        total = float(self.taps * self.in_per_group * self.out_per_group * self.conv.group)
        for size in self.q_spatial:
            total *= usual_upper(size)
        return total

    def dense_weights(self, weight: np.ndarray) -> np.ndarray:
        """The weights as [output channel, input channel of its group, tap]."""
        if not self.is_transposed:
            return weight.reshape(weight.shape[0], weight.shape[1], -1)
        split = weight.reshape(self.conv.group, self.in_per_group, self.out_per_group, -1)
        return split.transpose(0, 2, 1, 3).reshape(-1, self.in_per_group, self.taps)


def taps_of(group: Group) -> TapConv | None:
    """The group's convolution of float32 with constant weights and channels known at build, else None."""
    is_transposed = group.anchor.op == "ConvTranspose"
    if is_transposed and group.prologue:              # zeros around its input are no pads
        return None
    conv = conv_of(group)
    if conv is None or 0 in conv.y.shape or 0 in conv.x.shape or not conv.kernel:
        return None
    if not isinstance(conv.in_channels, int) or not isinstance(conv.out_channels, int):
        return None
    found = TapConv(conv, is_transposed)
    return found if found.in_per_group * conv.group == conv.in_channels else None


def flops_of(taps: TapConv) -> Dim:
    """Floating-point operations that the convolution asks for."""
    if not taps.is_transposed:
        return taps.conv.flops
    total: Dim = 2 * taps.taps * taps.out_per_group
    for dim in taps.conv.x.shape:
        total = total * dim
    return total
