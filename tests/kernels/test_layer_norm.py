"""Layer and instance normalisation: every axis, lengths of 1 and 0, large means, broadcast parameters, epilogues."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.reduction.layer_norm import LAYER_NORM

from .harness import PROFILE, Step, check_case, layouts_of, make_group, make_profile, reference, run_group

NARROW = make_profile("x86-64-v2")


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape, axis, bias", [((3, 7), 1, True), ((2, 3, 40), 2, False), ((2, 3, 40), 1, True),
                                               ((5, 1), 1, True), ((33,), 0, True), ((0, 4), 1, True),
                                               ((2, 3, 4, 5), 1, True)])
def test_axes(shape: tuple[int, ...], axis: int, bias: bool) -> None:
    case = make_group(
        "LayerNormalization",
        {"x": _random(*shape), "scale": _random(*shape[axis:], seed=1),
         "bias": _random(*shape[axis:], seed=2) if bias else None},
        {"axis": axis, "epsilon": 1e-5}, constants=("scale", "bias") if bias else ("scale",))
    assert check_case(case, LAYER_NORM, 1e-5, 1e-5) == 1


@pytest.mark.parametrize("profile", [PROFILE, NARROW], ids=lambda p: f"{p.simd_bits}")
def test_rows_are_dynamic_and_epilogue_follows(profile) -> None:  # type: ignore[no-untyped-def]
    b, s = Symbol("b", 1, 8).dim, Symbol("s", 1, 256).dim
    for batch, steps in ((1, 1), (3, 17), (8, 40)):
        x = _random(batch, steps, 70)
        case = make_group("LayerNormalization", {"x": x, "scale": _random(70), "bias": _random(70, seed=4)},
                          {"axis": 2, "epsilon": 1e-12}, shapes={"x": (b, s, 70), "r": (b, s, 70)},
                          epilogue=[Step("Add", {"r": _random(batch, steps, 70, seed=3)}), Step("Sigmoid")],
                          keep=("out",))
        (variant,) = LAYER_NORM.variants(case.group, profile)
        got = run_group(case.group, LAYER_NORM, variant, layouts_of(variant, case.group), case.arrays, profile, seed=1)
        for name, want in reference(case).items():
            np.testing.assert_allclose(got[name], want, 1e-5, 1e-5)


def test_large_mean_costs_no_accuracy() -> None:
    x = _random(4, 512) + 1000
    case = make_group("LayerNormalization", {"x": x, "scale": np.ones(512, np.float32), "bias": None},
                      {"axis": 1, "epsilon": 1e-5})
    (variant,) = LAYER_NORM.variants(case.group, PROFILE)
    got = run_group(case.group, LAYER_NORM, variant, layouts_of(variant, case.group), case.arrays)
    np.testing.assert_allclose(got["out"], reference(case, promote=True)["out"], 0, 2e-4)


def test_scale_that_broadcasts() -> None:
    case = make_group("LayerNormalization", {"x": _random(2, 3, 4, 9), "scale": _random(4, 1), "bias": _random(9)},
                      {"axis": 2, "epsilon": 1e-5})
    assert check_case(case, LAYER_NORM, 1e-5, 1e-5) == 1


@pytest.mark.parametrize("shape", [(2, 5, 3, 7), (1, 3, 1, 1), (2, 3, 50), (0, 3, 4, 4)])
def test_instance_norm(shape: tuple[int, ...]) -> None:
    case = make_group("InstanceNormalization",
                      {"x": _random(*shape), "scale": _random(shape[1]), "bias": _random(shape[1], seed=1)},
                      {"epsilon": 1e-5}, epilogue=[Step("Relu")])
    assert check_case(case, LAYER_NORM, 1e-5, 1e-5) == 1


def test_float64() -> None:
    x = _random(3, 21).astype(np.float64)
    case = make_group("LayerNormalization", {"x": x, "scale": x[0], "bias": x[1]}, {"axis": 1, "epsilon": 1e-5})
    assert check_case(case, LAYER_NORM, 1e-12, 1e-12) == 1
