"""Gelu against float64, by both forms, with and without fused multiply-adds, far out too."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from meta_infer.kernels.elementwise import ELEMENTWISE

from .harness import layouts_of, make_group, make_profile, run_group


def _exact(x: np.ndarray, approximate: str) -> np.ndarray:
    if approximate == "none":
        return x * 0.5 * special.erfc(-x * np.sqrt(0.5))
    return x * special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))


@pytest.mark.parametrize("isa", ["x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_error(approximate: str, isa: str) -> None:
    sizes = np.exp(np.linspace(-80, 80, 10_000))
    x = np.concatenate([np.linspace(-14, 14, 80_001), sizes, -sizes, [0.0, -0.0, np.inf, -np.inf, np.nan]])
    x = x.astype(np.float32)
    case = make_group("Gelu", {"x": x}, {"approximate": approximate})
    profile = make_profile(isa)
    (variant,) = ELEMENTWISE.variants(case.group, profile)
    got = run_group(case.group, ELEMENTWISE, variant, layouts_of(variant, case.group), case.arrays, profile)["out"]
    special_points, x, y = got[-5:], x[:-5].astype(np.float64), got[:-5]
    np.testing.assert_allclose(special_points, [0, 0, np.inf, 0, np.nan], rtol=0, atol=1e-12)
    assert special_points[0] == special_points[1] == 0
    assert np.signbit(special_points[1])
    with np.errstate(over="ignore"):
        want = _exact(x, approximate)
    error = np.abs(y - want)
    above, far = x > 0, x < -5.5
    assert (error[above] / np.spacing(want[above].astype(np.float32))).max() < 4
    assert error[~above & ~far].max() < 1.2e-7
    assert (error[far] / -x[far]).max() < 3e-10
