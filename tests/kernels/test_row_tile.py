"""Softmax and normalisations at all corners of their knobs: rows abreast, accumulators, chunks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.kernel import Kernel, Refusal
from meta_infer.kernels.reduction.layer_norm import LAYER_NORM
from meta_infer.kernels.reduction.softmax import SOFTMAX

from .conv_cases import random
from .harness import (
    PROFILE,
    Case,
    Step,
    check_case,
    corner_variants,
    layouts_of,
    make_group,
    make_profile,
    reference,
    run_group,
)
from .row_cases import norm, row_cases, soft

NARROW = make_profile("x86-64-v2")


def _kernel(case: Case) -> Kernel:
    return SOFTMAX if "Softmax" in case.group.anchor.op else LAYER_NORM


@pytest.mark.parametrize("number", range(6))
def test_all_corners(number: int) -> None:
    case = list(row_cases(np.random.default_rng(3)))[number]
    assert check_case(case, _kernel(case), 1e-5, 1e-5, all_corners=True) >= 2


@pytest.mark.parametrize("make, shape, axis", [
    (soft, (6, 129), 1), (soft, (3, 1), 1), (soft, (4, 0), 1), (soft, (0, 9), 1), (soft, (3, 70, 1), 1),
    (soft, (2, 0, 5), 1), (norm, (6, 129), 1), (norm, (5, 1), 1), (norm, (0, 9), 1), (norm, (13, 8), 1),
    (norm, (1, 1000), 1),
])
def test_sizes_at_all_corners(make, shape: tuple[int, ...], axis: int) -> None:  # type: ignore[no-untyped-def]
    case = make(np.random.default_rng(5), *shape, axis=axis)
    assert check_case(case, _kernel(case), 1e-5, 1e-5, all_corners=True)


def _dynamic(op: str, rng: np.random.Generator, rows: int, length: int) -> Case:
    b, n = Symbol("b", 0, 64).dim, Symbol("n", 0, 256).dim
    r = Step("Mul", {"r": random(rng, rows, length)})
    if op == "Softmax":
        return make_group(op, {"x": random(rng, rows, length)}, {"axis": 1}, epilogue=[r],
                          shapes={"x": (b, n), "r": (b, n)})
    return make_group(op, {"x": random(rng, rows, length), "scale": random(rng, length), "bias": random(rng, length)},
                      {"axis": 1, "epsilon": 1e-5}, epilogue=[r],
                      shapes={"x": (b, n), "r": (b, n), "scale": (n,), "bias": (n,)})


def _reference(case: Case) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)                  # the mean of an empty row
        return reference(case)["e0"]


@pytest.mark.parametrize("profile", [PROFILE, NARROW], ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("op", ["Softmax", "LayerNormalization"])
def test_rows_and_lengths_are_dynamic(op: str, profile) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(7)
    for rows, length in ((0, 5), (1, 1), (4, 8), (7, 130), (9, 0)):
        case = _dynamic(op, rng, rows, length)
        for variant in corner_variants(case, _kernel(case), profile):
            got = run_group(case.group, _kernel(case), variant, layouts_of(variant, case.group), case.arrays, profile)
            np.testing.assert_allclose(got["e0"], _reference(case), 1e-5, 1e-5, err_msg=str(variant.knobs))


def test_a_row_does_not_depend_on_those_beside_it() -> None:
    rng = np.random.default_rng(9)
    x, scale = random(rng, 11, 77), random(rng, 77)
    for attrs, op, kernel in (({"axis": 1}, "Softmax", SOFTMAX), ({"axis": 1, "epsilon": 1e-5}, "LayerNormalization",
                                                                   LAYER_NORM)):
        others = {} if op == "Softmax" else {"scale": scale}
        whole = make_group(op, {"x": x, **others}, attrs)
        for variant in corner_variants(whole, kernel):
            want = run_group(whole.group, kernel, variant, layouts_of(variant, whole.group), whole.arrays)["out"]
            moved = {**whole.arrays, "x": np.roll(x, 3, axis=0)}
            got = run_group(whole.group, kernel, variant, layouts_of(variant, whole.group), moved)["out"]
            assert np.roll(got, -3, axis=0).tobytes() == want.tobytes(), variant.knobs


@pytest.mark.parametrize("mean", [0.0, 3.0, 1e3, 1e6])
def test_norms_are_right_to_the_last_digits_whatever_the_mean(mean: float) -> None:
    rng = np.random.default_rng(11)
    x = random(rng, 5, 768) * np.float32(max(1.0, mean / 1e3)) + np.float32(mean)
    case = make_group("LayerNormalization", {"x": x, "scale": np.ones(768, np.float32)}, {"axis": 1, "epsilon": 1e-5})
    want = reference(case, promote=True)["out"]
    for variant in corner_variants(case, LAYER_NORM):
        got = run_group(case.group, LAYER_NORM, variant, layouts_of(variant, case.group), case.arrays)["out"]
        np.testing.assert_allclose(got, want, 0, 2e-6, err_msg=str(variant.knobs))


@pytest.mark.parametrize("number", [0.0, 0.1, -7e5, 1e9, 3e12])
def test_equal_numbers_have_no_deviation(number: float) -> None:
    x = np.full((5, 77), number, np.float32)
    case = make_group("LayerNormalization", {"x": x, "scale": np.ones(77, np.float32)}, {"axis": 1, "epsilon": 1e-5})
    (variant,) = LAYER_NORM.variants(case.group, PROFILE)
    got = run_group(case.group, LAYER_NORM, variant, layouts_of(variant, case.group), case.arrays)["out"]
    assert np.isfinite(got).all()


def test_what_is_not_a_number_stays_in_its_row() -> None:
    rng = np.random.default_rng(13)
    for case in (soft(rng, 9, 45), norm(rng, 9, 45)):
        x = case.arrays["x"].copy()
        x[2, 44], x[6, 3] = np.nan, np.inf
        kernel = _kernel(case)
        for variant in corner_variants(case, kernel):
            got = run_group(case.group, kernel, variant, layouts_of(variant, case.group), {**case.arrays, "x": x})
            assert np.isnan(got["out"]).any(axis=1).nonzero()[0].tolist() == [2, 6], variant.knobs


def test_refusals_have_reasons() -> None:
    rng = np.random.default_rng(15)
    few, long = soft(rng, 2, 45), soft(rng, 8, 40000)

    def reason(case: Case, **knobs: int) -> str:
        (variant,) = SOFTMAX.variants(case.group, PROFILE)
        found = SOFTMAX.tune(case.group, variant, knobs, PROFILE)
        return found.reason if isinstance(found, Refusal) else ""

    assert reason(few, rows=4) == reason(few, rows=0) == reason(few, vectors=3) == reason(few, grain=4096) == "shape"
    assert reason(long, rows=4) == "cache"
    assert reason(few, rows=1) == reason(long, rows=1) == ""
