"""How a Winograd convolution is cut up: tiles of a block, register tiles, passes over output channels; what it costs.

A *tile* is m x m outputs, a *point* one of the (m+2)^2 places of a transformed tile. A *block* is `groups` times
`columns` tiles, neighbours in the order image, row, column; a *pass* is some output channels of a block: a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.shapes import Dim, ceildiv, product, usual_upper
from meta_infer.kernels.blocked import blocks
from meta_infer.kernels.conv.conv_shape import ConvShape
from meta_infer.kernels.conv.conv_tile import most_columns, simd_registers, split_evenly
from meta_infer.kernels.conv.winograd_transforms import TAPS
from meta_infer.kernels.conv_chunks import FAR_CYCLES, LINE_BYTES, NEAR_CYCLES, l1_bytes, l2_bytes
from meta_infer.support.dtypes import FLOAT32

# Multiply-adds in flight that keep two pipes of latency 4 busy, as on every out-of-order core of the catalog.
_IN_FLIGHT = 8
# Tiles of a block for which loading the transformed weights costs little beside using them.
_ENOUGH_TILES = 24
_MOST_TILES = 64
_CHUNKS_PER_CORE = 4

# The share of its peak that a long loop of multiply-adds reaches.
_LONG_LOOP = 0.95


@dataclass(frozen=True)
class Cycles:
    """What things cost on an out-of-order core, in cycles."""

    input: float                  # a vector of the input's transform, per point
    output: float                 # one of the output's
    tile: float                   # the beginning and end of a register tile
    far: float                    # a byte of weights from memory
    near: float                   # and from the last-level cache


_CYCLES = Cycles(4.5, 3.5, 40.0, FAR_CYCLES, NEAR_CYCLES)


@dataclass(frozen=True)
class OutRun:
    """`count` register tiles of `vectors` output blocks; the first one is `tile`, at output block `block`."""

    tile: int
    count: int
    block: int
    vectors: int


@dataclass(frozen=True)
class WinogradConv:
    """A convolution with everything chosen."""

    conv: ConvShape
    m: int
    block: int                    # channels of a block of the layout
    vectors: int                  # the widest register tile: output blocks ...
    columns: int                  # ... by tiles
    groups: int                   # register tiles side by side in a block of tiles
    out_pass: int                 # register tiles, in output channels, of a pass
    in_pass: int                  # input blocks whose products are summed before the sums are stored
    is_ahead: bool                # weights are asked for one register tile before their use
    is_shared: bool               # a launch of its own transforms the input, for all passes
    is_at_load: bool = False      # weights are transformed when the package is loaded

    @property
    def side(self) -> int:
        return self.m + TAPS - 1

    @property
    def points(self) -> int:
        return self.side**2

    @property
    def slots(self) -> int:
        """Tiles of a block."""
        return self.columns * self.groups

    @property
    def in_blocks(self) -> int:
        return blocks(self.conv.in_channels, self.block)

    @property
    def out_blocks(self) -> int:
        return blocks(self.conv.out_channels, self.block)

    @property
    def tile_rows(self) -> Dim:
        return ceildiv(self.conv.out_spatial[0], self.m)

    @property
    def tile_columns(self) -> Dim:
        return ceildiv(self.conv.out_spatial[1], self.m)

    @property
    def tiles(self) -> Dim:
        """Tiles of all images."""
        return self.conv.y.shape[0] * self.tile_rows * self.tile_columns

    @property
    def tile_blocks(self) -> Dim:
        return ceildiv(self.tiles, self.slots)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Output blocks of each register tile, larger ones first."""
        return tuple(split_evenly(self.out_blocks, self.vectors))

    @cached_property
    def runs(self) -> tuple[OutRun, ...]:
        runs, tile, block = [], 0, 0
        for vectors in sorted(set(self.sizes), reverse=True):
            count = self.sizes.count(vectors)
            runs.append(OutRun(tile, count, block, vectors))
            tile, block = tile + count, block + count * vectors
        return tuple(runs)

    @property
    def passes(self) -> int:
        return -(-len(self.sizes) // self.out_pass)

    @property
    def pass_blocks(self) -> int:
        """Output blocks of the largest pass."""
        return sum(self.sizes[:self.out_pass])

    @property
    def input_pitch(self) -> int:
        """Elements from point to point of transformed input, an odd number of cache lines: else the points of a tile,
        written one after another, would share few sets of the cache.

        Input that is not shared lies where the products go: those of a point take the place of the point before.
        """
        wide = self.in_blocks if self.is_shared else max(self.in_blocks, self.pass_blocks)
        return odd_lines(wide * self.slots * self.block, FLOAT32.bytes)

    @property
    def output_pitch(self) -> int:
        """Elements from point to point of the products."""
        if not self.is_shared:
            return self.input_pitch
        return odd_lines(self.pass_blocks * self.slots * self.block, FLOAT32.bytes)

    @property
    def product_elements(self) -> int:
        """Scratch for the products, and for the input that they replace."""
        return (self.points + (not self.is_shared)) * self.output_pitch

    @property
    def half_columns(self) -> int:
        """Columns of input that a block's tiles read when they lie in one row."""
        return self.slots * self.m + self.side - self.m

    @property
    def half_elements(self) -> int:
        """Tiles transformed in one direction: a row's input of one block of channels, or its products."""
        return max(self.side * self.half_columns, self.m * self.side * self.slots) * self.block

    @property
    def scratch_bytes(self) -> int:
        return (self.product_elements + self.half_elements) * 4

    @property
    def packed_elements(self) -> int:
        """Weights in the package."""
        return self.weight_elements // self.points * TAPS**2 if self.is_at_load else self.weight_elements

    @property
    def weight_elements(self) -> int:
        """Transformed weights, the padding channels included."""
        return self.points * self.in_blocks * self.out_blocks * self.block**2


def odd_lines(elements: int, size: int) -> int:
    """At least `elements` of `size` bytes that fill an odd number of cache lines."""
    return (-(-elements * size // LINE_BYTES) | 1) * LINE_BYTES // size


def fits_winograd(conv: ConvShape) -> bool:
    """3x3, stride 1, no dilation, no groups, channels known at build."""
    if conv.kernel != (TAPS, TAPS) or conv.group != 1 or 0 in conv.y.shape:
        return False
    if conv.strides != (1, 1) or conv.dilations != (1, 1):
        return False
    return isinstance(conv.in_channels, int) and isinstance(conv.out_channels, int)


def usual_tiles(conv: ConvShape, m: int, images: Dim) -> int:
    """Tiles of so many images, at the sizes that are usual where they are dynamic."""
    return usual_upper(product((images, *(ceildiv(d, m) for d in conv.out_spatial))))


def step_cost(vectors: int, columns: int) -> float:
    """Cycles of one input channel in a register tile; loads of weights weigh more, they may come from L2."""
    return max(vectors * columns, _IN_FLIGHT, vectors + columns) / 2 + 0.05 * vectors


def best_tile(shapes: Sequence[tuple[int, int]], out_blocks: int, tiles: int | None,
              cost: Callable[[int, int], float]) -> tuple[int, int]:
    """The (vectors, columns) of `shapes` with the least predicted time for so many tiles (None: any).

    `cost` is that of one input channel in a register tile.
    """
    def total(shape: tuple[int, int]) -> float:
        vectors, columns = shape
        per_group = sum(cost(v, columns) for v in split_evenly(out_blocks, vectors))
        return per_group * (-(-tiles // columns) if tiles is not None else 1 / columns)

    return min(shapes, key=lambda shape: (total(shape), -shape[0] * shape[1]))


def cut_chunks(out_blocks: int, vectors: int, all_groups: int, columns: int, nominal: int,
               profile: Profile) -> tuple[int, int]:
    """(register tiles side by side in a block of about `nominal` tiles, register tiles of a pass).

    Where one pass for each block of tiles gives too few chunks, the output channels are cut into passes.
    """
    register_tiles = len(split_evenly(out_blocks, vectors))
    groups = -(-all_groups // max(1, round(all_groups * columns / nominal)))
    passes = round(_CHUNKS_PER_CORE * profile.max_workers / -(-all_groups // groups))
    return groups, -(-register_tiles // max(1, min(register_tiles, passes)))


def _nominal_tiles(m: int, channels: int, profile: Profile) -> int:
    """Tiles of a block that amortise the loads of weights, and stay in half of L2 where the channels are few."""
    fitting = l2_bytes(profile) // 2 // ((m + TAPS - 1)**2 * channels * 4)
    return max(_ENOUGH_TILES, min(fitting, _MOST_TILES))


def plan_winograd(conv: ConvShape, m: int, profile: Profile) -> WinogradConv:
    """The rule's choice of everything for F(m x m, 3 x 3).

    Where one pass for each block of tiles gives too few chunks, the output channels are cut into passes, which share
    the transformed input.
    """
    block = profile.lanes(FLOAT32)
    in_blocks, out_blocks = blocks(conv.in_channels, block), blocks(conv.out_channels, block)
    tiles = usual_tiles(conv, m, conv.y.shape[0])
    registers = simd_registers(profile)
    shapes = [(v, c) for v in range(1, min(4, out_blocks) + 1) for c in range(1, most_columns(v, registers) + 1)]
    is_static = isinstance(product(conv.y.shape), int)
    vectors, columns = best_tile(shapes, out_blocks, tiles if is_static else None, step_cost)
    nominal = _nominal_tiles(m, max(in_blocks, out_blocks) * block, profile)
    groups, out_pass = cut_chunks(out_blocks, vectors, -(-tiles // columns), columns, nominal, profile)
    per_tile = in_blocks * block * block * vectors * 4                    # bytes of weights at a point
    in_passes = min(in_blocks, -(-per_tile // l1_bytes(profile)))
    plan = WinogradConv(conv, m, block, vectors, columns, groups, out_pass, -(-in_blocks // in_passes),
                        is_ahead=False, is_shared=False)
    return replace(plan, is_ahead=plan.weight_elements * 4 > l2_bytes(profile) // 2, is_shared=plan.passes > 1)


def expected_cost(plan: WinogradConv, profile: Profile) -> float:
    """Operations at peak speed that would take as long as one image."""
    step = sum(step_cost(v, plan.columns) for v in plan.sizes) / _LONG_LOOP
    return cost_of(plan, plan.in_blocks, step, plan.weight_elements * 4, _CYCLES, profile)


def cost_of(cut: WinogradConv, inputs: int, step: float, weight_bytes: int, cycles: Cycles, profile: Profile) -> float:
    """The same from the cycles of a channel in all register tiles, `step`: products and weights arrive side by side,
    the better the less there is of the other; both transforms come on top. `inputs` are vectors of input channels."""
    images = cut.conv.images
    tiles = usual_tiles(cut.conv, cut.m, images)
    tile_blocks, groups = -(-tiles // cut.slots), -(-tiles // cut.columns)
    products = cut.points * groups * (inputs * cut.block * step + len(cut.sizes) * cycles.tile)
    near = cycles.near if weight_bytes > l2_bytes(profile) // 2 else 0.0
    loads = weight_bytes * (cycles.far + (tile_blocks - 1) * near)
    transforms = cut.points * tiles * (inputs * cycles.input + cut.out_blocks * cycles.output)
    return (float(np.hypot(products, loads)) + transforms) * 4 * cut.block / images
