"""Winograd's F(m, 3) in whole numbers: transforms whose results are a known multiple of the convolution.

    f^2 y = A^T [(G g G^T) * (B^T d B)] A         d: input tile of (m+2)^2, g: 3x3 filter, y: m^2 outputs

The rational matrices (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016) have fractions in
G alone: interpolation at 0, 1, -1 (m of 2), and at 2, -2 too (m of 4) makes all of A and B whole. Each row of f G is
whole for f of 2 and 24; what it has in common with its neighbours goes to the column of A^T, where the factor is a
power of two. Then weights of 8 bits stay within int16, and so do transformed activations of 9 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Expr
from meta_infer.kernels.conv.winograd_transforms import LinearProgram, Sum, linear_program

Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class IntegerTransforms:
    """`output` A^T [m, m+2], `weight` G [m+2, 3], `input` B^T [m+2, m+2], `factor` f of one dimension."""

    output: Matrix
    weight: Matrix
    input: Matrix
    factor: int

    @property
    def shift(self) -> int:
        """The power of two in f^2, as an exponent."""
        square = self.factor**2
        return (square & -square).bit_length() - 1

    @property
    def inverse(self) -> int:
        """What the odd part of f^2 has to be multiplied by to give 1 modulo 2^32, as a number of int32."""
        found = pow(self.factor**2 >> self.shift, -1, 1 << 32)
        return found - (1 << 32) if found >> 31 else found

    @property
    def most(self) -> int:
        """Results lie within [-most, most), so that they follow from their f^2-fold modulo 2^32."""
        return 1 << (31 - self.shift)


INTEGER_TRANSFORMS: Mapping[int, IntegerTransforms] = {
    2: IntegerTransforms(((1, 1, 1, 0), (0, 1, -1, -1)),
                         ((2, 0, 0), (1, 1, 1), (1, -1, 1), (0, 0, 2)),
                         ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)), 2),
    4: IntegerTransforms(((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 4)),
                         ((6, 0, 0), (-4, -4, -4), (-4, 4, -4), (1, 2, 4), (1, -2, 4), (0, 0, 6)),
                         ((4, 0, -5, 0, 1, 0), (0, -4, -4, 1, 1, 0), (0, 4, -4, -1, 1, 0), (0, -2, -1, 2, 1, 0),
                          (0, 2, -1, -2, 1, 0), (0, 4, 0, -5, 0, 1)), 24),
}
"""By m."""


def transform_weights(weights: np.ndarray, m: int) -> np.ndarray:
    """G g G^T of every filter: [OC, IC, 3, 3] -> [(m+2)^2, OC, IC] of int32."""
    g = np.array(INTEGER_TRANSFORMS[m].weight, np.int32)
    made = np.einsum("ik,ockl,jl->ijoc", g, weights.astype(np.int32), g, optimize=True)
    return made.reshape(-1, *weights.shape[:2])


@cache
def integer_program(matrix: Matrix) -> LinearProgram:
    """`matrix` as straight-line code; all of its factors are whole numbers."""
    program = linear_program(tuple(tuple(map(Fraction, row)) for row in matrix))
    assert all(f.denominator == 1 for total in (*program.steps, *program.outputs) for _, f in total)
    return program


def emit_integer(b: Builder, program: LinearProgram, values: Sequence[Expr]) -> list[Expr]:
    """The outputs of `program` on registers `values` of one integer type, in order; sums wrap around."""
    known = [*values]

    def total(terms: Sum) -> Expr:
        (first, factor), *others = sorted(terms, key=lambda term: (term[1] != 1, term[1] < 0))
        result = known[first] if factor == 1 else known[first] * int(factor)
        for value, factor in others:
            term = known[value] if abs(factor) == 1 else known[value] * int(abs(factor))
            result = result + term if factor > 0 else result - term
        return result

    for step in program.steps:
        known.append(b.let(total(step), "s"))
    return [b.let(total(output), "r") for output in program.outputs]
