"""Winograd's minimal filtering F(m, 3) in exact fractions, and its transforms as short straight-line code.

    y = A^T [(G g G^T) * (B^T d B)] A         d: input tile of (m+2)^2, g: 3x3 filter, y: m^2 outputs, * element-wise

needs (m+2)^2 multiplications where the direct sum needs 9 m^2. The matrices are those of Toom-Cook interpolation
transposed: a polynomial product is found from its values at m+1 points and at infinity (Winograd, Arithmetic
Complexity of Computations, 1980; Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Expr, const, mad

TAPS = 3



def _opposite(*points: Fraction | int) -> tuple[Fraction, ...]:
    """0 and each point with either sign."""
    return (Fraction(0), *(sign * Fraction(point) for point in points for sign in (1, -1)))


_POINTS: Mapping[int, tuple[Fraction, ...]] = {
    2: _opposite(1),
    4: _opposite(Fraction(3, 4), Fraction(3, 2)),
    6: _opposite(1, 2, Fraction(1, 2)),
}
"""Interpolation points of F(m, 3), infinity left out. Opposite points share half of their sums, and dyadic fractions
make every factor of the input and output transforms exact. F(4, 3) at 3/4 and 3/2 takes as many operations as at 1
and 2, and its error is less than half (Barabasz, Anderson, Soodhalter, Gregg, Error analysis and improving the
accuracy of Winograd convolution for deep neural networks, 2020, on why the magnitudes should balance)."""

Matrix = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True)
class Transforms:
    """The matrices of F(m, 3): `output` A^T [m, m+2], `weight` G [m+2, 3], `input` B^T [m+2, m+2]."""

    output: Matrix
    weight: Matrix
    input: Matrix


def _times_linear(polynomial: Sequence[Fraction], root: Fraction) -> list[Fraction]:
    """Coefficients, constant first, of the polynomial times (x - root)."""
    shifted = [Fraction(0), *polynomial]
    return [up - root * same for up, same in zip(shifted, [*polynomial, Fraction(0)], strict=True)]


def _with_roots(roots: Sequence[Fraction]) -> list[Fraction]:
    polynomial = [Fraction(1)]
    for root in roots:
        polynomial = _times_linear(polynomial, root)
    return polynomial


@cache
def transforms(m: int) -> Transforms:
    """The transforms of F(m, 3), m of 2, 4, 6. Raises KeyError for another m."""
    points = _POINTS[m]
    size, zero, one = m + TAPS - 1, Fraction(0), Fraction(1)
    output = [[point**i for point in points] + [one if i == m - 1 else zero] for i in range(m)]
    weight, data = [], []
    for j, point in enumerate(points):
        others = points[:j] + points[j + 1:]
        scale = one
        for other in others:
            scale *= point - other
        weight.append([point**k / scale for k in range(TAPS)])
        data.append([*_with_roots(others), zero])
    weight.append([zero] * (TAPS - 1) + [one])
    data.append(_with_roots(points))
    assert len(data) == size == len(data[-1])
    return Transforms(*(tuple(map(tuple, rows)) for rows in (output, weight, data)))


def as_array(matrix: Matrix) -> np.ndarray:
    """The matrix in float64."""
    return np.array([[float(entry) for entry in row] for row in matrix])


def transform_weights(weight: np.ndarray, m: int) -> np.ndarray:
    """G g G^T of every filter: [OC, IC, 3, 3] -> [(m+2)^2, OC, IC] float32, computed in float64."""
    g = as_array(transforms(m).weight)
    made = np.einsum("ik,ockl,jl->ijoc", g, weight.astype(np.float64), g, optimize=True)
    return made.reshape(-1, *weight.shape[:2]).astype(np.float32)


def amplification(m: int) -> float:
    """How much larger than those of the direct sum the terms are that F(m x m, 3 x 3) adds up.

    For data and weights of magnitude 1 and the worst signs, at the worst of the outputs: the sum of the absolute
    values of all terms, |A^T| (|G| 1 * |B^T| 1) in each dimension, by the 3 of the direct sum.
    """
    t = transforms(m)
    output, weight, data = (np.abs(as_array(matrix)) for matrix in (t.output, t.weight, t.input))
    line = output @ (weight.sum(1) * data.sum(1))
    return float(line.max() / TAPS) ** 2


# --- straight-line code --------------------------------------------------------------------------------------

Sum = tuple[tuple[int, Fraction], ...]
"""(value, factor) pairs that are added up; values are numbered, first the inputs, then what steps made."""


@dataclass(frozen=True)
class LinearProgram:
    """A matrix times a vector, step by step: each step makes a value that several later sums use."""

    inputs: int
    steps: tuple[Sum, ...]
    outputs: tuple[Sum, ...]


def _most_shared(rows: Sequence[Mapping[int, Fraction]]) -> tuple[int, int, Fraction] | None:
    """(i, j, ratio) of the two-term sum x_i + ratio x_j that most rows contain, up to a factor; None when each has
    one. Sums without a multiplication come first."""
    counts: Counter[tuple[int, int, Fraction]] = Counter()
    for row in rows:
        terms = sorted(row)
        for position, i in enumerate(terms):
            counts.update((i, j, row[j] / row[i]) for j in terms[position + 1:])
    best = max(counts, key=lambda pair: (counts[pair], abs(pair[2]) == 1), default=None)
    return best if best is not None and counts[best] > 1 else None


def _is_exact(factor: Fraction) -> bool:
    """Whether the factor is a float: its denominator is a power of two."""
    return factor.denominator & (factor.denominator - 1) == 0


def _units(rows: Sequence[Mapping[int, Fraction]], i: int, scale: Fraction) -> int:
    """Rows whose factor of x_i is +-scale."""
    return sum(abs(row.get(i, Fraction(0))) == abs(scale) for row in rows)


@cache
def linear_program(matrix: Matrix) -> LinearProgram:
    """Greedy sharing of two-term sums (Paar, Optimized arithmetic for Reed-Solomon encoders, 1997), with factors.

    [x0 + x1, x0 - x1 + 2 x2, x0 + x1 + 2 x2]  ->  s = x0 + x1;  [s, x0 - x1 + 2 x2, s + 2 x2]
    """
    inputs = len(matrix[0])
    rows = [{i: entry for i, entry in enumerate(row) if entry} for row in matrix]
    steps: list[Sum] = []
    while (shared := _most_shared(rows)) is not None:
        i, j, ratio = shared
        users = [row for row in rows if i in row and j in row and row[j] / row[i] == ratio]
        # One of the two terms has no factor: the one that leaves fewer factors to the users of the sum.
        scale = max((Fraction(1), 1 / ratio), key=lambda one: (_units(users, i, one), _is_exact(one * ratio)))
        made = inputs + len(steps)
        steps.append(((i, scale), (j, ratio * scale)))
        for row in users:
            row[made] = row.pop(i) / scale
            del row[j]
    return LinearProgram(inputs, tuple(steps), tuple(tuple(row.items()) for row in rows))


def emit_program(b: Builder, program: LinearProgram, values: Sequence[Expr]) -> list[Expr]:
    """The outputs of `program` on registers `values`, in order."""
    known = [*values]

    def total(terms: Sum) -> Expr:
        # A term without a factor comes first, then one whose sign alone changes.
        (first, factor), *others = sorted(terms, key=lambda term: (term[1] != 1, abs(term[1]) != 1))
        result = known[first]
        if factor != 1:
            result = -result if factor == -1 else result * float(factor)
        for value, factor in others:
            if factor == 1:
                result = result + known[value]
            elif factor == -1:
                result = result - known[value]
            else:
                result = mad(const(float(factor), result.type), known[value], result)
        return result

    for step in program.steps:
        known.append(b.let(total(step), "s"))
    return [b.let(total(output), "r") for output in program.outputs]


def _depth(program: LinearProgram) -> int:
    """Roundings on the longest way from an input to an output."""
    depths = [0] * program.inputs
    for total in (*program.steps, *program.outputs):
        depths.append(max(depths[value] for value, _ in total) + len(total) - 1)
    return max(depths)


def relative_error(m: int, with_weights: bool = False) -> float:
    """An estimate of the largest error that F(m, 3) adds in float32, relative to the sum of |d| |g|.

    `amplification` times the unit roundoff times the root of the roundings in a row: both transforms in two
    dimensions, the stored weight and the product (Higham and Mary, A new approach to probabilistic rounding error
    analysis, 2019: roundings add up like a random walk); `with_weights`, those of a weight transformed in float32 too.
    About 1e-6, 2e-5 and 1e-4 for m of 2, 4 and 6. On normal data (64 channels) the largest error is 1e-6, 4e-6 and
    4e-5 of the outputs' deviation; that of a direct sum 3e-6.
    """
    t = transforms(m)
    roundings = 2 * (_depth(linear_program(t.input)) + _depth(linear_program(t.output))) + 2
    if with_weights:                                          # and a factor that is no float in either direction
        roundings += 2 * (_depth(linear_program(t.weight)) + 1)
    return amplification(m) * 2.0**-24 * roundings**0.5
