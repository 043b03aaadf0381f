"""Depthwise convolutions: random windows, static and dynamic sizes, epilogues."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.kernels.conv_depthwise import CONV_DEPTHWISE

from .conv_cases import PROFILES, conv_case, random, random_conv
from .harness import Case, Step, check_case


def check(case: Case, profile: Profile) -> int:
    return check_case(case, CONV_DEPTHWISE, rtol=1e-4, atol=1e-4, profile=profile)


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
