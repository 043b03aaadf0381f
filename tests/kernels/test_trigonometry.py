"""Errors of the inverse, hyperbolic and inverse hyperbolic functions and of Tan, in units of the last place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from meta_infer.kernels.elementwise import ELEMENTWISE

from .harness import PROFILE, layouts_of, make_group, run_group

FUNCTIONS: dict[str, tuple[Callable[..., np.ndarray], float]] = {
    "Tan": (np.tan, 2), "Asin": (np.arcsin, 0.51), "Acos": (np.arccos, 0.51), "Atan": (np.arctan, 0.51),
    "Sinh": (np.sinh, 0.51), "Cosh": (np.cosh, 0.51), "Asinh": (np.arcsinh, 0.51), "Acosh": (np.arccosh, 0.51),
    "Atanh": (np.arctanh, 0.51)}
"""numpy's function and the limit in float32; in float64 it is 4."""


@pytest.mark.parametrize("op", FUNCTIONS)
def test_errors(op: str) -> None:
    rng, count = np.random.default_rng(0), 4000
    numpy_function, limit = FUNCTIONS[op]
    spread = np.exp(rng.uniform(-80, 13, count)) * rng.choice([-1, 1], count)
    edges = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 1e-45]
    points = np.concatenate([rng.uniform(-1, 1, count), rng.uniform(-30, 30, count), rng.uniform(0.9, 1.1, count),
                             rng.uniform(-720, 720, count), spread, edges])
    for dtype, wide, most in ((np.float32, np.float64, limit), (np.float64, np.longdouble, 4)):
        x = points.astype(dtype)
        if op == "Tan" and dtype == np.float64:
            x = x[np.isnan(x) | (np.abs(x) < 100)]         # beyond, the reduction of float64 loses digits
        case = make_group(op, {"x": x})
        variant = next(iter(ELEMENTWISE.variants(case.group, PROFILE)))
        layouts = layouts_of(variant, case.group)
        found = run_group(case.group, ELEMENTWISE, variant, layouts, case.arrays, PROFILE)["out"]
        with np.errstate(all="ignore"):
            exact = numpy_function(x.astype(wide))
            rounded = exact.astype(dtype)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
        np.testing.assert_array_equal(np.signbit(found)[~np.isnan(found)], np.signbit(rounded)[~np.isnan(found)])
        finite = np.isfinite(rounded)
        np.testing.assert_array_equal(found[~finite & ~np.isnan(found)], rounded[~finite & ~np.isnan(found)])
        if wide is np.longdouble and np.finfo(np.longdouble).nmant <= 52:
            continue                                       # nothing here is more exact than a double
        error = np.abs(found[finite].astype(wide) - exact[finite]) / np.spacing(np.abs(rounded[finite])).astype(wide)
        assert error.max() <= most, x[finite][error.argmax()]
