"""Tiles of output blocks of a grouped convolution, and the input channel blocks that each of them reaches.

    groups of 16 -> 16, blocks of 8:    parts = groups, a tile reaches the two input blocks of its own group
    groups of 12 -> 12, blocks of 8:    one part; the block of channels 8..15 is of two groups and reaches blocks 0..2

Where groups are no multiples of a block, weights between channels of different groups are zero. That wastes less than
half of the work for groups wider than two blocks; narrow groups are for `conv_lanes`. A value that is no number then
spreads to the neighbouring groups of its tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Expr, minimum
from meta_infer.kernels.conv.conv_taps import TapConv
from meta_infer.kernels.conv.conv_tile import OutRun, OutTiles, split_evenly


@dataclass(frozen=True)
class Reach:
    """How output blocks of `block` channels meet input blocks of `in_block`: `parts` alike, each of `out_blocks`
    output and `in_blocks` input blocks; tiles of a mixed part reach `most_in` input blocks or fewer."""

    taps: TapConv
    block: int
    in_block: int
    vectors: int

    @property
    def is_mixed(self) -> bool:
        conv = self.taps.conv
        return conv.group > 1 and bool(self.taps.out_per_group % self.block or self.taps.in_per_group % self.in_block)

    @property
    def parts(self) -> int:
        return 1 if self.is_mixed else self.taps.conv.group

    @property
    def out_blocks(self) -> int:
        return -(-self.taps.out_per_group * self.taps.conv.group // self.parts // self.block)

    @property
    def in_blocks(self) -> int:
        return -(-self.taps.in_per_group * self.taps.conv.group // self.parts // self.in_block)

    def tiles(self, columns: int) -> OutTiles:
        """The tiles of a part: the fewest of at most `vectors` blocks, larger ones first."""
        sizes = split_evenly(self.out_blocks, min(self.vectors, self.out_blocks))
        runs, tile, block = [], 0, 0
        for vectors in sorted(set(sizes), reverse=True):
            count = sizes.count(vectors)
            runs.append(OutRun(tile, count, block, vectors, columns))
            tile, block = tile + count, block + count * vectors
        return OutTiles(tuple(runs))

    def range_of(self, block: int, vectors: int) -> tuple[int, int]:
        """Input blocks [first, last) of a part that the tile of `vectors` blocks from `block` on reaches."""
        if not self.is_mixed:
            return 0, self.in_blocks
        taps = self.taps
        channels = min((block + vectors) * self.block, taps.out_per_group * taps.conv.group)
        first = block * self.block // taps.out_per_group * taps.in_per_group
        last = ((channels - 1) // taps.out_per_group + 1) * taps.in_per_group
        return first // self.in_block, -(-last // self.in_block)

    def range_at(self, b: Builder, block: Expr, vectors: int) -> tuple[Expr | int, Expr | int]:
        """The same in code: (first, count)."""
        if not self.is_mixed:
            return 0, self.in_blocks
        taps = self.taps
        channels = minimum((block + vectors) * self.block, taps.out_per_group * taps.conv.group)
        first = b.let(block * self.block // taps.out_per_group * taps.in_per_group // self.in_block, "in_first")
        last = ((channels - 1) // taps.out_per_group + 1) * taps.in_per_group
        return first, b.let((last + (self.in_block - 1)) // self.in_block - first, "in_count")

    def _starts(self) -> Sequence[tuple[int, int]]:
        """(first block, vectors) of the tiles of a part."""
        starts, block = [], 0
        for vectors in self.tiles(1).sizes:
            starts.append((block, vectors))
            block += vectors
        return starts

    @property
    def most_in(self) -> int:
        ranges = [self.range_of(*start) for start in self._starts()]
        return max(last - first for first, last in ranges)

    @property
    def steps(self) -> int:
        """Vectors of weights that all tiles multiply: the executed work of one position, in blocks of results."""
        total = 0
        for block, vectors in self._starts():
            first, last = self.range_of(block, vectors)
            total += vectors * (last - first) * self.in_block
        return total * self.taps.taps * self.parts

    @property
    def block_weights(self) -> int:
        """Packed weights of one output block."""
        return self.most_in * self.taps.taps * self.in_block * self.block

    @property
    def packed_elements(self) -> int:
        return self.parts * self.out_blocks * self.block_weights

    def pack(self, weight: np.ndarray) -> np.ndarray:
        """[OC, IC of a group, tap] -> [part][tile][input block][tap][in_block][vectors][block], flat, zero where no
        weight is."""
        taps, width = self.taps, self.most_in * self.in_block
        groups = taps.conv.group if self.is_mixed else 1              # of a part
        packed = []
        for part in range(self.parts):
            for block, vectors in self._starts():
                tile = np.zeros((vectors * self.block, width, taps.taps), np.float32)
                start, shift = block * self.block, self.range_of(block, vectors)[0] * self.in_block
                stop = min(start + vectors * self.block, taps.out_per_group * groups)
                for group in range(start // taps.out_per_group, (stop - 1) // taps.out_per_group + 1):
                    low = max(start, group * taps.out_per_group)
                    high = min(stop, (group + 1) * taps.out_per_group)
                    at = group * taps.in_per_group - shift
                    own = weight[part * taps.out_per_group + low:part * taps.out_per_group + high]
                    tile[low - start:high - start, at:at + taps.in_per_group] = own
                split = tile.reshape(vectors, self.block, self.most_in, self.in_block, taps.taps)
                packed.append(split.transpose(2, 4, 3, 0, 1).reshape(-1))
        return np.concatenate(packed)
