"""Silu against float64, with and without fused multiply-adds, far out too."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from meta_infer.kernels.elementwise import ELEMENTWISE

from .harness import layouts_of, make_group, make_profile, run_group


@pytest.mark.parametrize("isa", ["x86-64-v3", "x86-64-v2"])
def test_error(isa: str) -> None:
    sizes = np.exp(np.linspace(-80, 80, 10_000))
    x = np.concatenate([np.linspace(-100, 100, 80_001), sizes, -sizes, [0.0, -0.0, np.inf, -np.inf, np.nan]])
    x = x.astype(np.float32)
    case = make_group("Silu", {"x": x})
    profile = make_profile(isa)
    variant = next(iter(ELEMENTWISE.variants(case.group, profile)))
    got = run_group(case.group, ELEMENTWISE, variant, layouts_of(variant, case.group), case.arrays, profile)["out"]
    special_points, x, y = got[-5:], x[:-5].astype(np.float64), got[:-5]
    np.testing.assert_array_equal(special_points, [0, 0, np.inf, 0, np.nan])
    assert np.signbit(special_points[1])
    want = x * special.expit(x)
    error = np.abs(y - want)
    above = x > 0
    assert (error[above] / np.spacing(want[above].astype(np.float32))).max() < 3.5
    assert error[~above].max() < 8e-8
    near = (x < 0) & (x > -8)
    assert (error[near] / -want[near]).max() < 8e-7
