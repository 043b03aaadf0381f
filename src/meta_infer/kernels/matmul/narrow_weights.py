"""Weights of 2, 4 or 8 bits in the order in which a product takes them out of 32-bit words.

    word[c] of column c:  field i, of `bits` bits from bit i * bits on, is the weight of step i of the word

Masked out and converted to float32, field i is 2^(i * bits) times the weight, exactly; activations scaled by the
inverse power make up for that, so that no shift is needed. The highest field comes out signed: it is stored as the
weight minus 2^(bits - 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meta_infer.ir.graph import Value
from meta_infer.ir.group import Group
from meta_infer.ops.attrs import int_of
from meta_infer.ops.matmul_nbits import unpack_bits
from meta_infer.support.dtypes import FLOAT32, UINT8


@dataclass(frozen=True)
class NarrowWeights:
    """`q` [N, K] are the weights as stored, `scales` and `zeros` [N, blocks] belong to `size` neighbours of K each.

    `zero` is the zero point that all of them have in common, None when there are several.
    """

    x: Value
    q: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray
    zero: float | None
    bits: int
    size: int

    @property
    def columns(self) -> int:
        return int(self.q.shape[0])

    @property
    def depth(self) -> int:
        return int(self.q.shape[1])

    @property
    def blocks(self) -> int:
        return int(self.scales.shape[1])

    @property
    def padded_depth(self) -> int:
        return self.blocks * self.size

    @property
    def fields(self) -> int:
        """Weights in a word."""
        return 32 // self.bits

    def masks(self) -> tuple[int, ...]:
        """The bits of each field, as int32."""
        ones = (1 << self.bits) - 1
        return tuple(int(np.uint32(ones << (i * self.bits)).view(np.int32)) for i in range(self.fields))

    def powers(self, lanes: int) -> np.ndarray:
        """What activations are scaled by, over at least `lanes` steps."""
        once = np.ldexp(np.float32(1), [-i * self.bits for i in range(self.fields)]).astype(np.float32)
        return np.tile(once, max(1, lanes // self.fields))

    def highest(self, lanes: int) -> np.ndarray:
        """What is missing from the signed field, per activation, over at least `lanes` steps."""
        once = np.zeros(self.fields, np.float32)
        once[-1] = 1 << (self.bits - 1)
        return np.tile(once, max(1, lanes // self.fields))

    def pack_words(self, width: int) -> np.ndarray:
        """[panel][padded K / fields][width] of int32, zero weights beyond K and N."""
        panels = -(-self.columns // width)
        full = np.zeros((panels * width, self.padded_depth), np.uint32)
        full[:self.columns, :self.depth] = self.q
        split = full.reshape(panels, width, -1, self.fields)
        split[..., -1] ^= 1 << (self.bits - 1)
        words = np.zeros(split.shape[:-1], np.uint32)
        for i in range(self.fields):
            words |= split[..., i] << np.uint32(i * self.bits)
        return np.ascontiguousarray(words.transpose(0, 2, 1)).view(np.int32).reshape(-1)

    def pack_columns(self, numbers: np.ndarray, width: int) -> np.ndarray:
        """[N, blocks] -> [panel][blocks][width], zero beyond N."""
        panels = -(-self.columns // width)
        full = np.zeros((panels * width, self.blocks), numbers.dtype)
        full[:self.columns] = numbers
        return np.ascontiguousarray(full.reshape(panels, width, -1).transpose(0, 2, 1)).reshape(-1)


def narrow_weights(group: Group) -> NarrowWeights | None:
    """Weights of a MatMulNBits group; None when they are not known at build, or their scales are in another order."""
    anchor, x = group.anchor, group.in_value(0)
    names = [*anchor.inputs, "", ""][1:5]
    packed, scales, zeros = (group.constants.get(name) if name else None for name in names[:3])
    if group.prologue or x is None or x.dtype != FLOAT32 or packed is None or scales is None or names[3]:
        return None
    if names[2] and zeros is None:
        return None
    n, k, bits, size = (int_of(anchor.attrs, name) for name in ("N", "K", "bits", "block_size"))
    count = -(-k // size)
    if n == 0 or k == 0 or size % (32 // bits):
        return None
    if zeros is None:
        points = np.full((n, count), 1 << (bits - 1), np.float32)
    elif group.values[names[2]].dtype == UINT8:
        points = unpack_bits(zeros, bits, count).astype(np.float32)
    else:
        points = zeros.reshape(n, count).astype(np.float32)
    same = float(points.flat[0]) if (points == points.flat[0]).all() else None
    return NarrowWeights(x, unpack_bits(packed, bits, k), scales.astype(np.float32).reshape(n, count), points, same,
                         bits, size)
