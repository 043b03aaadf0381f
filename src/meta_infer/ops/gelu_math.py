"""Gelu in float32 without a division, an exponential or cases: x above zero, less the part that the tail takes away.

    gelu(x) = max(x, 0) - |x| t(|x|)          t(a) = 1 - Phi(a), or (1 - tanh(u(a))) / 2 for the approximation
    t(a)    = q(a)^8                          q smooth, 2^(-1/8) at zero and falling: a polynomial for both

`tools/fit_gelu.py` fits q on [0, 8] or [0, 6.5], where it reaches zero and stays. An error of q counts eight times in
t, so q and its square are never rounded near one: s = q - q(0) and q^2 - q(0)^2 = s (s + 2 q(0)) are small where t
counts most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meta_infer.ir.loop import Expr, const, mad, maximum, minimum, unary


@dataclass(frozen=True)
class Tail:
    """q(a) - q(0) = a times a polynomial, lowest power first; `last` is where q is 0."""

    coefficients: tuple[float, ...]
    last: float


EXACT = Tail((-0.09145784378051758, -0.03192649036645889, -0.0006745242862962186, 0.0015064270701259375,
              3.345494042150676e-05, -6.010364450048655e-05, 7.473995083273621e-06, -2.9692412795156997e-07), 8.0)
BY_TANH = Tail((-0.09145782142877579, -0.03192576766014099, -0.0006092895637266338, 0.0016068221302703023,
                -9.005703759612516e-05, 7.004036160651594e-05, -0.00010997778736054897, 4.890345735475421e-05,
                -1.0194085007242393e-05, 1.0441910944791744e-06, -4.258422237057857e-08), 6.5)


def _polynomial(coefficients: Sequence[float], x: Expr) -> Expr:
    value = const(coefficients[-1], x.type)
    for coefficient in coefficients[-2::-1]:
        value = mad(value, x, const(coefficient, x.type))
    return value


def gelu_of(x: Expr, tail: Tail) -> Expr:
    """gelu(x) of float32 lanes. NaN stays NaN, a zero keeps its sign, minus infinity gives 0 but for 1e-13."""
    a = minimum(const(tail.last, x.type), unary("abs", x))
    s = _polynomial(tail.coefficients, a) * a
    square = s * (s + 2 * 0.5**0.125)
    power = mad(square, square + 2 * 0.5**0.25, const(0.5**0.5, x.type))
    return mad(-(a * power), power, maximum(const(0.0, x.type), x))
