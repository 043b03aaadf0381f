"""How an 8-bit Winograd convolution is cut up, where its parts lie, and what it costs.

Tiles, blocks of tiles, register tiles and passes are those of the float32 one (kernels/conv/winograd_plan.py). Input
channels go by *pairs* of blocks of the layout, which fill a vector of int16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group
from meta_infer.kernels.conv.conv_shape import ConvShape, any_conv_of
from meta_infer.kernels.conv.winograd_plan import (
    Cycles,
    WinogradConv,
    best_tile,
    cost_of,
    cut_chunks,
    fits_winograd,
    odd_lines,
    usual_tiles,
)
from meta_infer.kernels.conv_chunks import l1_bytes, l2_bytes
from meta_infer.kernels.int8.dot_path import PAIRS, pairs_of
from meta_infer.kernels.int8.dot_tile import most_columns, step_cost
from meta_infer.kernels.int8.int8_operands import Int8Operands, int8_operands
from meta_infer.kernels.int8.winograd_int8_transforms import INTEGER_TRANSFORMS, transform_weights
from meta_infer.support.dtypes import INT16, INT32

_MOST_VECTORS = 4
_ENOUGH_TILES, _MOST_TILES = 16, 64

# On an out-of-order core; and the share of step_cost's pace that a loop reaches where pairs have the pace of PAIRS.
_CYCLES = Cycles(2.0, 3.5, 30.0, 0.14, 0.06)
_LONG_LOOP = 0.72


@dataclass(frozen=True)
class Int8Winograd:
    """A convolution with everything chosen: `cut` counts passes over input channels (`in_pass`) in pairs of blocks."""

    operands: Int8Operands
    cut: WinogradConv

    @property
    def pairs(self) -> int:
        """Pairs of input blocks."""
        return -(-self.cut.in_blocks // 2)

    @property
    def deep(self) -> int:
        """Channels of a pair."""
        return 2 * self.cut.block

    @property
    def input_pitch(self) -> int:
        """Elements from point to point of the transformed input, an odd number of cache lines (winograd_plan.py)."""
        return odd_lines(self.pairs * self.cut.slots * self.deep, INT16.bytes)

    @property
    def output_pitch(self) -> int:
        """Elements from point to point of the products."""
        return odd_lines(self.cut.pass_blocks * self.cut.slots * self.cut.block, INT32.bytes)

    @property
    def half_input(self) -> int:
        """Elements of a row of tiles of one pair, transformed in one direction."""
        return self.cut.side * self.cut.half_columns * self.deep

    @property
    def half_output(self) -> int:
        """Elements of the products of one output block, transformed in one direction."""
        return self.cut.m * self.cut.side * self.cut.slots * self.cut.block

    @property
    def own_input(self) -> int:
        """Elements of transformed input in scratch: none when a launch of its own makes it."""
        return 0 if self.cut.is_shared else self.cut.points * self.input_pitch

    @property
    def scratch_bytes(self) -> int:
        words = self.cut.points * self.output_pitch + self.half_output
        return words * INT32.bytes + (self.own_input + self.half_input) * INT16.bytes

    @property
    def weight_elements(self) -> int:
        """Transformed weights, the padding channels included."""
        return self.cut.points * self.cut.out_blocks * self.unit

    @property
    def unit(self) -> int:
        """Weights of an output block at a point."""
        return self.pairs * self.deep * self.cut.block


def largest_sum(operands: Int8Operands) -> int:
    """No output, whatever the activations, is larger than this in magnitude.

    Activations less their zero point z lie in [low - z, high - z], an interval that holds 0; a z that is not known
    may be anything of their type, and the bound is linear in it.
    """
    low, high = operands.x.dtype.range
    weights = operands.weights.astype(np.int64).reshape(operands.weights.shape[0], -1)
    up, down = np.maximum(weights, 0).sum(1), np.maximum(-weights, 0).sum(1)
    points = (operands.zero,) if isinstance(operands.zero, int) else (low, high)
    return max(int(np.maximum(up * (high - z) + down * (z - low), down * (high - z) + up * (z - low)).max())
               for z in points)


def winograd_problem(group: Group, profile: Profile) -> tuple[ConvShape, Int8Operands] | None:
    """3x3, stride 1, no dilation, no groups, channels known at build; None for anything else."""
    operands, found = int8_operands(group), any_conv_of(group)
    if operands is None or found is None or profile.lanes(INT32) == 1 or not fits_winograd(found):
        return None
    if min(*found.begin, *found.end) < 0:
        return None
    return replace(found, bias=None), operands


def is_exact(operands: Int8Operands, m: int) -> bool:
    """Whether F(m, 3) gives all results: transformed operands fit int16, results follow from their f^2-fold."""
    t = INTEGER_TRANSFORMS[m]
    if largest_sum(operands) >= t.most:
        return False
    low, high = INT16.range
    largest = int(np.abs(np.array(t.weight)).sum(1).max()) ** 2 * int(np.abs(operands.weights.astype(np.int64)).max())
    if largest > high:
        made = transform_weights(operands.weights, m)
        return bool(made.min() >= low and made.max() <= high)
    return True


def plan_int8_winograd(conv: ConvShape, operands: Int8Operands, m: int, profile: Profile) -> Int8Winograd:
    """The rule's choice of everything for F(m x m, 3 x 3)."""
    block = profile.lanes(INT32)
    cut = WinogradConv(conv, m, block, 1, 1, 1, 1, 1, is_ahead=False, is_shared=False, is_at_load=True)
    tiles = usual_tiles(conv, m, conv.y.shape[0])
    shapes = [(v, c) for v in range(1, min(_MOST_VECTORS, cut.out_blocks) + 1)
              for c in range(1, most_columns(v, PAIRS, profile) + 1)]
    vectors, columns = best_tile(shapes, cut.out_blocks, tiles if isinstance(cut.tiles, int) else None, step_cost)
    each = cut.points * block * (cut.in_blocks * INT16.bytes + cut.out_blocks * INT32.bytes)
    nominal = max(_ENOUGH_TILES, min(l2_bytes(profile) // 2 // each, _MOST_TILES))
    groups, out_pass = cut_chunks(cut.out_blocks, vectors, -(-tiles // columns), columns, nominal, profile)
    chosen = Int8Winograd(operands, replace(cut, vectors=vectors, columns=columns, groups=groups, out_pass=out_pass))
    in_passes = min(chosen.pairs, -(-chosen.unit * vectors * INT16.bytes // l1_bytes(profile)))
    return replace(chosen, cut=replace(
        chosen.cut, in_pass=-(-chosen.pairs // in_passes), is_shared=chosen.cut.passes > 1,
        is_ahead=chosen.weight_elements * INT16.bytes > l2_bytes(profile) // 2))


def expected_cost(plan: Int8Winograd, profile: Profile) -> float:
    """Float32 operations at peak speed that would take as long as one image."""
    cut = plan.cut
    step = sum(step_cost(v, cut.columns) for v in cut.sizes) / _LONG_LOOP * PAIRS.pace / pairs_of(profile).pace
    return cost_of(cut, plan.pairs, step, plan.weight_elements * INT16.bytes, _CYCLES, profile)
