"""Depthwise convolutions: random windows, static and dynamic sizes, epilogues."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Variant
from meta_infer.kernels.conv.conv_depthwise import CONV_DEPTHWISE
from meta_infer.kernels.kernel import KnobValue, Refusal
from meta_infer.kernels.tuning import feasible, tunings

from .conv_cases import PROFILES, conv_case, random, random_conv
from .harness import Case, Step, check_case, layouts_of, reference, run_group


def check(case: Case, profile: Profile, all_corners: bool = False) -> int:
    return check_case(case, CONV_DEPTHWISE, rtol=1e-4, atol=1e-4, profile=profile, all_corners=all_corners)


def tuned(case: Case, profile: Profile, **values: KnobValue) -> Variant | Refusal:
    variant = next(iter(CONV_DEPTHWISE.variants(case.group, profile)))
    return CONV_DEPTHWISE.tune(case.group, variant, values, profile)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_random_shapes(seed: int, dynamic: bool, profile: Profile) -> None:
    case = random_conv(np.random.default_rng(seed), depthwise=True, dynamic=dynamic)
    assert check(case, profile) == (1 if case.group.anchor.attrs["group"] > 1 else 0)


@pytest.mark.parametrize("size", [(1, 1, 1), (2, 9, 2), (1, 16, 77)])
def test_one_dynamic_function_at_several_sizes(size: tuple[int, int, int]) -> None:
    n, height, width = size
    case = conv_case(np.random.default_rng(1), (n, 11, height, width), 11, (5, 5), pads=(2, 2, 2, 2), strides=(1, 2),
                     group=11, dynamic=True, epilogue=[Step("HardSwish")])
    assert check(case, PROFILES[0]) == 1


@pytest.mark.parametrize("kernel, pads, size", [
    ((3, 3), (1, 1, 1, 1), (7, 40)),
    ((7, 7), (3, 3, 3, 3), (14, 14)),
    ((1, 9), (0, 4, 0, 4), (5, 30)),
    ((3, 15), (1, 7, 1, 7), (5, 30)),                      # more weights of a row than registers
])
def test_windows_with_residual(kernel: tuple[int, int], pads: tuple[int, ...], size: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    steps = [Step("Add", {"r": random(rng, 1, 24, *size)}), Step("Clip", attrs={"min": 0.0, "max": 6.0})]
    assert check(conv_case(rng, (1, 24, *size), 24, kernel, pads=pads, group=24, epilogue=steps), PROFILES[0]) == 1


@pytest.mark.parametrize("kernel, strides, dilations, size", [
    ((3, 3), (1, 1), (1, 1), (9, 13)), ((3, 3), (2, 2), (1, 1), (11, 14)), ((5, 5), (1, 2), (1, 1), (7, 9)),
    ((3, 3), (1, 1), (2, 3), (12, 12)), ((2, 3), (3, 1), (2, 1), (13, 6)),
])
def test_corners_of_knobs(kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int],
                          size: tuple[int, int]) -> None:
    case = conv_case(np.random.default_rng(3), (1, 13, *size), 13, kernel, strides=strides, dilations=dilations,
                     pads=(1, 2, 2, 1), group=13, epilogue=[Step("Relu")])
    assert check(case, PROFILES[0], all_corners=True) >= 4


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("math", [False, True])
def test_corners_with_dynamic_sizes(math: bool, profile: Profile) -> None:
    case = conv_case(np.random.default_rng(4), (2, 9, 10, 11), 9, (3, 3), pads=(1, 1, 1, 1), group=9, dynamic=True,
                     epilogue=[Step("Silu" if math else "Relu")])
    assert check(case, profile, all_corners=True) >= 4


@pytest.mark.parametrize("rows, columns, weights", [(2, 3, "kept"), (3, 2, "kept"), (2, 4, "loaded"), (4, 2, "loaded")])
@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (3, 2)])
def test_tiles_of_several_rows(rows: int, columns: int, weights: str, strides: tuple[int, int]) -> None:
    """Heights that leave rows over, at the top, in the middle and at the bottom."""
    rng = np.random.default_rng(rows)
    for height in (1, 2, 5, 16):
        case = conv_case(rng, (1, 8, height, 11), 8, (3, 3), strides=strides, pads=(2, 1, 1, 0), group=8)
        variant = tuned(case, PROFILES[0], rows=rows, columns=columns, weights=weights, ahead=2)
        if isinstance(variant, Refusal):
            assert variant.reason in ("shape", "registers", "alignment")
            continue
        got = run_group(case.group, CONV_DEPTHWISE, variant, layouts_of(variant, case.group), case.arrays, PROFILES[0])
        np.testing.assert_allclose(got["out"], reference(case)["out"], 1e-4, 1e-4)


def test_refusals_have_reasons() -> None:
    case = conv_case(np.random.default_rng(5), (1, 8, 30, 30), 8, (3, 3), pads=(1, 1, 1, 1), group=8)
    variant = next(iter(CONV_DEPTHWISE.variants(case.group, PROFILES[0])))
    variants, refused = feasible(tunings(CONV_DEPTHWISE, case.group, variant, PROFILES[0]))
    assert refused["registers"] and len(variants) > 50
    assert all(0 < v.cost and v.cost > v.flops * 0.9 for v in variants)
