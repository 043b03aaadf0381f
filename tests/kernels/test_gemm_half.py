"""Weights in 16 bits: exact products of the rounded weights, the stated risk, and what is not offered."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.kernels.matmul.gemm_half import GEMM_HALF, RISKS, to_bf16

from .harness import PROFILE, Case, Step, corner_variants, layouts_of, make_group, make_profile, reference, run_group

NARROW = make_profile("x86-64-v2")


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _case(m: int, k: int, n: int, w: np.ndarray | None = None) -> Case:
    return make_group("MatMul", {"x": _random(m, k), "w": _random(k, n, seed=1) if w is None else w}, constants=("w",),
                      epilogue=[Step("Add", {"b": _random(n, seed=2)}), Step("Relu")])


@pytest.mark.parametrize("m, k, n, profile", [(1, 37, 41, PROFILE), (13, 24, 67, PROFILE), (2, 19, 24, NARROW)])
def test_corners_multiply_the_rounded_weights(m: int, k: int, n: int, profile: Profile) -> None:
    case, count = _case(m, k, n), 0
    for variant in corner_variants(case, GEMM_HALF, profile):
        dtype = ml_dtypes.bfloat16 if variant.name == "bf16" else np.float16
        w = case.arrays["w"].astype(dtype).astype(np.float32)
        want = reference(replace(case, arrays={**case.arrays, "w": w}), promote=True)["e1"]
        layouts = layouts_of(variant, case.group)
        got = run_group(case.group, GEMM_HALF, variant, layouts, case.arrays, profile, seed=count)["e1"]
        np.testing.assert_allclose(got, want, 1e-5, 1e-5, err_msg=f"{variant.name} {dict(variant.knobs)}")
        assert variant.risk == RISKS[variant.name]
        count += 1
    assert count >= 3


def test_rounding_is_to_nearest_even() -> None:
    x = np.concatenate([_random(5000), np.array([0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 1e-40], np.float32)])
    found = to_bf16(x).view(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(found, x.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_halves_are_for_weights_they_hold_and_chips_that_convert_them() -> None:
    def offered(w: np.ndarray, profile: Profile) -> list[str]:
        return [variant.name for variant in GEMM_HALF.variants(_case(3, *w.shape, w=w).group, profile)]

    w = _random(8, 16)
    assert offered(w, PROFILE) == ["bf16", "f16"] and offered(w, NARROW) == ["bf16"]
    assert offered(w * 1e6, PROFILE) == offered(w * 1e-6, PROFILE) == ["bf16"]


def test_half_the_bytes() -> None:
    case = _case(1, 64, 48)
    assert {variant.packed_bytes for variant in GEMM_HALF.variants(case.group, PROFILE)} == {64 * 48 * 2}
