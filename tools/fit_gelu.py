"""Fit the polynomials of Gelu's tail (ops/gelu_math.py), and say how far they are off before rounding to float32.

    python tools/fit_gelu.py            prints both: largest error in units of the tolerance, then the coefficients

The tail t(a) = q(a)^8 with q(a) = 2^(-1/8) + a P(a) and q(last) = 0. Minimised is the largest error of a t(a), what is
subtracted from max(x, 0), over a tolerance of 1e-7 min(a, 1), a tenth of that beyond 5. As q enters in its eighth
power this is a linear program for the change of q, solved again from its own result until nothing moves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.polynomial.chebyshev import chebvander
from scipy.optimize import linprog
from scipy.special import erfc, expit

POWER = 8
POINTS = 700
ROUNDS = 14

Function = Callable[[np.ndarray], np.ndarray]


def exact_tail(a: np.ndarray) -> np.ndarray:
    return np.asarray(erfc(a * np.sqrt(0.5)) / 2)


def tanh_tail(a: np.ndarray) -> np.ndarray:
    """(1 - tanh(u)) / 2 for u = sqrt(2/pi) (a + 0.044715 a^3)."""
    return np.asarray(expit(-2 * np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)))


def tolerance(a: np.ndarray) -> np.ndarray:
    return 1e-7 * np.minimum(1, np.maximum(a, 1e-3)) * np.where(a > 5, 0.1, 1)


def fit(tail: Function, terms: int, last: float) -> tuple[float, np.ndarray]:
    """(largest error over the tolerance, coefficients of P, lowest power first) of P with so many terms on [0, last].

    Raises RuntimeError when no step of the linear program has a solution.
    """
    a = last * (1 - np.cos(np.linspace(0, np.pi, POINTS))) / 2
    a[0] = 1e-6
    start, wanted, allowed = 0.5 ** (1 / POWER), tail(a), tolerance(a)
    columns = a[:, None] * chebvander(2 * a / last - 1, terms - 1)
    at_last = np.append(last * chebvander(1.0, terms - 1), 0.0)[None]
    q = wanted ** (1 / POWER)
    best: tuple[float, np.ndarray] | None = None
    for step in range(ROUNDS):
        slope = a * POWER * np.abs(q) ** (POWER - 1) / allowed
        offset = a * (q**POWER - wanted) / allowed + slope * (start - q)
        bound = -np.ones((POINTS, 1))
        rows = np.block([[slope[:, None] * columns, bound], [-slope[:, None] * columns, bound]])
        solved = linprog(np.append(np.zeros(terms), 1.0), rows, np.append(-offset, offset), at_last, [-start],
                         bounds=[(None, None)] * (terms + 1), method="highs")
        if solved.x is None:
            break
        moved = start + columns @ solved.x[:-1]
        error = float((a * np.abs(moved**POWER - wanted) / allowed).max())
        if best is None or error < best[0]:
            best = error, Chebyshev(solved.x[:-1], domain=[0, last]).convert(kind=Polynomial).coef
        q = q + (moved - q) * (0.7 if step < 4 else 1.0)               # the first steps are long
    if best is None:
        raise RuntimeError(f"no polynomial of {terms} terms on [0, {last}] reaches zero at its end")
    return best


def main() -> int:
    for name, tail, terms, last in (("exact", exact_tail, 8, 8.0), ("tanh", tanh_tail, 11, 6.5)):
        error, coefficients = fit(tail, terms, last)
        print(f"{name}: last {last}, error {error:.2f} of the tolerance")
        print("    ", tuple(float(np.float32(c)) for c in coefficients))
    return 0


if __name__ == "__main__":
    sys.exit(main())
