"""CumSum and CumProd along every axis, both ways, with and without the element; and the generator of random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.random import RANDOM
from meta_infer.kernels.reduction.scan import SCAN

from .harness import check_case, make_group

SHAPES = (((5,), 0), ((3, 7), 1), ((3, 37), 0), ((2, 3, 19), 1), ((4, 1), 1), ((1, 1), 0), ((0, 3), 1), ((2, 0, 3), 1),
          ((2, 3, 0), 1), ((2, 40, 3), 1))


@pytest.mark.parametrize("op", ["CumSum", "CumProd"])
def test_axes(op: str) -> None:
    """Every shape with another dtype and other flags."""
    rng = np.random.default_rng(0)
    for n, (shape, axis) in enumerate(SHAPES):
        i = (n + 2 * (op == "CumProd")) % 4
        dtype = (np.float32, np.float64, np.int32, np.int64)[i]
        x = rng.uniform(0.5, 1.5, shape).astype(dtype) if i < 2 else rng.integers(-3, 4, shape).astype(dtype)
        attrs = {"axis": axis, "exclusive": n % 3 == 0, "reverse": n % 2 == 0}
        assert check_case(make_group(op, {"x": x}, attrs), SCAN, 1e-5, 1e-5) == 1


def test_dynamic_sizes() -> None:
    b, s = Symbol("b", 0, 9).dim, Symbol("s", 0, 99).dim
    for batch, steps in ((1, 1), (3, 40), (0, 5), (2, 0)):
        x = np.random.default_rng(1).standard_normal((batch, steps, 12)).astype(np.float32)
        attrs = {"axis": 1, "exclusive": True, "reverse": True}
        assert check_case(make_group("CumSum", {"x": x}, attrs, shapes={"x": (b, s, 12)}), SCAN, 1e-5, 1e-5) == 1


@pytest.mark.parametrize(("shape", "seed"), [((), 0), ((0,), 1), ((312,), 12345), ((3, 211), 0xffffffff)])
def test_random_numbers_are_those_of_numpy(shape: tuple[int, ...], seed: int) -> None:
    assert check_case(make_group("Random", {}, {"shape": shape, "seed": seed}), RANDOM, 0, 0) == 1
