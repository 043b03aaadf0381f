"""Gelu in float32 without a division and without cases: x above zero, less the part that the tail takes away.

    gelu(x) = max(x, 0) - |x| t(|x|)          t(a) = 1 - Phi(a), or (1 - tanh(u(a))) / 2 for the approximation
    t(a)    = 2^-p(a)                         p smooth, 1 at zero and monotone: a polynomial for both

The polynomials are minimax fits on [0, 5.6] and [0, 5.2], weighted so that the error of t is even; beyond, where t is
below 2^-26, they go on to rise, and t falls to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meta_infer.ir.loop import Expr, bitcast, const, mad, maximum, minimum, unary
from meta_infer.support.dtypes import FLOAT32, INT32


@dataclass(frozen=True)
class Tail:
    """p as coefficients, lowest power first, and `last`, where p is 127: the exponent of 2^-p is 0 there, and t is."""

    coefficients: tuple[float, ...]
    last: float


EXACT = Tail((1.0, 1.1511049270629883, 0.45921066403388977, 0.052494216710329056, -0.007075444795191288,
              0.00015905355394352227, 0.00017184294119942933, -3.537835073075257e-05, 2.4297867184941424e-06),
             10.167879)
BY_TANH = Tail((1.0, 1.1510989665985107, 0.4592960476875305, 0.05111001431941986, -0.006849993951618671,
                -0.0008403995889239013, 0.0007959256181493402, 9.451527876080945e-05, -6.714033952448517e-05,
                6.7858404690923635e-06), 7.5529134)
# 2^-r for r in [-1/2, 1/2], relative error 7.5e-8.
_POWER = (1.0000000716547925, -0.6931469670648674, 0.24022119723654495, -0.055507132734491156, 0.009675541341219208,
          -0.0013276472001920803)
# Adding it leaves the nearest integer plus 127, the bias of an exponent, in the low bits of the sum.
_ROUND = 1.5 * 2.0**23 + 127


def _polynomial(coefficients: Sequence[float], x: Expr) -> Expr:
    value = const(coefficients[-1], x.type)
    for coefficient in coefficients[-2::-1]:
        value = mad(value, x, const(coefficient, x.type))
    return value


def gelu_of(x: Expr, tail: Tail) -> Expr:
    """gelu(x) of float32 lanes. NaN stays NaN, a zero keeps its sign, minus infinity gives 0."""
    a = minimum(const(tail.last, x.type), unary("abs", x))
    p = _polynomial(tail.coefficients, a)
    shifted = _ROUND - p
    r = p + (shifted - _ROUND)
    taken = a * bitcast(bitcast(shifted, INT32) << 23, FLOAT32)
    return mad(-taken, _polynomial(_POWER, r), maximum(const(0.0, x.type), x))
