"""Ways to multiply 8-bit integers exactly: what the operands are widened to, and how many products one lane sums.

    pairs   activations minus their zero point and weights minus theirs as int16, two products a lane (pmaddwd, smlal).
            Differences of 8-bit numbers lie within +-255, so that nothing saturates, and padding is zero.
    quads   8-bit activations and weights as they are, four products a lane (vpdpbusd, sdot, usdot), where the
            instruction set has that. Zero points are taken off through the sums of the weights.

    bytes   the same where it has not, but weights are so small that sums of two products fit in 16 bits (pmaddubsw),
            which is checked on every pair of them.
    floats  both as float32, one product a lane, for what sums few products (depthwise): exact up to 2^24.

`pmaddubsw` sums two products in 16 bits, which saturates for full-range operands: 255 * (w + w') must not pass 32767
for any two weights of one sign, which those of 7 bits never do. Weights of opposite signs take from each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from meta_infer.hardware.isa import isa_named
from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, Operand, Type, bitcast, cast, const, splat
from meta_infer.support.dtypes import FLOAT32, INT8, INT16, INT32, UINT8, DType


def _pair_sums(sizes: np.ndarray) -> np.ndarray:
    """Sums of neighbours 0 and 1, 2 and 3, ... on the last axis; a last one without a neighbour is left out."""
    first, second = sizes[..., 0::2], sizes[..., 1::2]
    return np.asarray(first[..., :second.shape[-1]] + second)


@dataclass(frozen=True)
class DotPath:
    """`x` and `weight` are the types in which operands are multiplied, `terms` the products that one lane sums.

    `pace` is its multiply-adds per time over those of float32. `narrow`: sums of two products have 16 bits.
    """

    name: str
    x: DType
    weight: DType
    terms: int
    pace: float
    narrow: bool = False

    def takes(self, weights: np.ndarray, axis: int) -> bool:
        """Whether weights, their zero points taken off, are numbers of the path; neighbours on `axis` are summed."""
        low, high = self.weight.range
        if weights.size and (weights.min() < low or weights.max() > high):
            return False
        if not self.narrow:
            return True
        of_sign = (np.maximum(np.moveaxis(sign * weights.astype(np.int32), axis, -1), 0) for sign in (1, -1))
        most = max(max(int(sizes.max(initial=0)), int(_pair_sums(sizes).max(initial=0))) for sizes in of_sign)
        return most * self.x.range[1] <= INT16.range[1]

    def shift(self, dtype: DType) -> int:
        """What is added to numbers of `dtype` so that they are numbers of the path, zero point and all."""
        return 0 if self.terms < 4 or dtype == self.x else 128 if self.x == UINT8 else -128

    def stored(self, value: Expr, zero: Expr) -> Expr:
        """Activations in the path's type; `zero` is their zero point, int32."""
        if self.terms < 4:
            return cast(value, self.x) - splat(cast(zero, self.x), value.type.lanes)
        if value.type.dtype == self.x:
            return value
        return bitcast(value ^ const(-128 if value.type.dtype == INT8 else 128, value.type), self.x)

    def padding(self, zero: Expr, dtype: DType) -> Expr:
        """What stands for a zero in memory of the path."""
        return const(0, self.type_of(1)) if self.terms < 4 else cast(zero + self.shift(dtype), self.x)

    def type_of(self, lanes: int) -> Type:
        return Type(self.x, lanes)

    def broadcast(self, b: Builder, buffer: Buffer, at: Operand, lanes: int) -> Expr:
        """`terms` neighbouring activations in every lane of int32."""
        word = bitcast(b.load(buffer, at, self.terms), INT32)
        return b.let(bitcast(splat(word, lanes), self.x), "x")


PAIRS = DotPath("pairs", INT16, INT16, 2, 1.5)
FLOATS = DotPath("floats", FLOAT32, FLOAT32, 1, 1.0)
BYTES = DotPath("bytes", UINT8, INT8, 4, 1.9, narrow=True)
_UNSIGNED = DotPath("quads", UINT8, INT8, 4, 4.0)
_SIGNED = DotPath("quads", INT8, INT8, 4, 4.0)


def pairs_of(profile: Profile) -> DotPath:
    """The path of pairs at the profile's pace: one instruction by VNNI, two on other x86-64, four on Arm."""
    features = isa_named(profile.isa).features if profile.isa else frozenset()
    if features & {"avx512_vnni", "avx_vnni"}:
        return replace(PAIRS, pace=1.9)
    return replace(PAIRS, pace=0.5) if "asimd" in features else PAIRS


def dot_paths(profile: Profile) -> tuple[DotPath, ...]:
    """The paths that code for the profile can take, the quickest first."""
    features, pairs = isa_named(profile.isa).features if profile.isa else frozenset(), pairs_of(profile)
    if features & {"avx512_vnni", "avx_vnni", "i8mm"}:
        return _UNSIGNED, pairs
    if "asimddp" in features:
        return _SIGNED, pairs
    return (BYTES, pairs) if "ssse3" in features else (pairs,)
