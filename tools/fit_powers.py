"""Fit the polynomials of powers, and say how far they are off before rounding to float32.

    python tools/fit_powers.py          2^r as in kernels/power.py, e^r as in exp and tanh of vector_math_f32.h

Both are minimax fits by linear programming, with the lowest coefficients given so that r = 0 comes out exactly. The
last digits depend on the solver, errors do not.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.optimize import linprog

POINTS = 3000


def fit(r: np.ndarray, wanted: np.ndarray, allowed: np.ndarray, powers: range) -> tuple[float, np.ndarray]:
    """(largest error over `allowed`, coefficients of these powers of r) of the best fit of `wanted`.

    Raises RuntimeError when the linear program has no solution.
    """
    columns = r[:, None] ** np.array(powers) / allowed[:, None]
    values, bound, scale = wanted / allowed, -np.ones((r.size, 1)), 1e6      # the solver's tolerance is absolute
    rows = np.block([[columns * scale, bound], [-columns * scale, bound]])
    solved = linprog(np.append(np.zeros(len(powers)), 1.0), rows, scale * np.append(values, -values),
                     bounds=[(None, None)] * (len(powers) + 1), method="highs")
    if solved.x is None:
        raise RuntimeError(f"no fit by the powers {powers}: {solved.message}")
    return float(np.abs(columns @ solved.x[:-1] - values).max()), solved.x[:-1]


def points(end: float) -> np.ndarray:
    r = end * np.cos(np.linspace(0, np.pi, POINTS))
    return np.asarray(r[np.abs(r) > 1e-4])


def main() -> int:
    r = points(0.5005)
    error, coefficients = fit(r, 2.0**r - 1, 2.0**r, range(1, 6))
    print(f"2^r - 1, relative to 2^r: {error:.1e}\n    ", coefficients.tolist())
    # tanh needs 2^n (e^r - 1) + 2^n - 1 to relative precision: n = 0 has r > 0 only, n = 1 the smallest sum for r < 0.
    r = points(0.3470)
    error, coefficients = fit(r, np.expm1(r) - r, np.where(r > 0, np.expm1(r), np.exp(r) - 0.5), range(2, 7))
    print(f"e^r - 1 - r, relative to what tanh makes of it: {error:.1e}\n    ", coefficients.tolist())
    return 0


if __name__ == "__main__":
    sys.exit(main())
