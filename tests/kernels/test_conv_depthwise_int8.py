"""Depthwise convolutions of 8-bit integers: bit for bit what the reference says, at all corners of knobs."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.kernels.int8.conv_depthwise_int8 import CONV_DEPTHWISE_INT8
from tests.emulators import need_emulator

from .conv_cases import PROFILES
from .emulated import check_emulated
from .harness import PROFILE, Case, check_case, make_group, make_profile
from .int8_cases import int8_conv, random_int8_conv


def check(case: Case, profile: Profile = PROFILE, all_corners: bool = False) -> int:
    return check_case(case, CONV_DEPTHWISE_INT8, 0, 0, profile, all_corners=all_corners)


def depthwise(rng: np.random.Generator, dynamic: bool = False) -> Case:
    """One of two channels or more: with one it is a dense convolution."""
    while True:
        case = random_int8_conv(rng, depthwise=True, dynamic=dynamic)
        if case.arrays["w"].shape[0] > 1:
            return case


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("dynamic", [False, True])
def test_random_shapes(dynamic: bool, profile: Profile, full: bool) -> None:
    rng = np.random.default_rng(21 + dynamic)
    for _ in range(20 if full else 4):
        assert check(depthwise(rng, dynamic), profile) == 1


def test_all_corners() -> None:
    rng = np.random.default_rng(5)
    case = int8_conv(rng, (2, 19, 11, 13), 19, (3, 3), pads=(1, 1, 1, 1), group=19, zero=255, requantise=True)
    assert check(case, all_corners=True) >= 3
    case = int8_conv(rng, (1, 8, 12, 9), 8, (5, 5), strides=(2, 2), pads=(2, 2, 2, 2), group=8, zero=7,
                     known_zero=False, w_zero=True, types=(np.uint8, np.uint8))
    assert check(case, all_corners=True) >= 3


def test_sums_beyond_float32_are_left_to_others() -> None:
    x, w = np.full((1, 2, 20, 20), 255, np.uint8), np.full((2, 1, 17, 17), 255, np.uint8)
    case = make_group("ConvInteger", {"x": x, "w": w}, {"kernel_shape": (17, 17), "strides": (1, 1),
                                                        "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 2},
                      constants=("w",))
    assert not list(CONV_DEPTHWISE_INT8.variants(case.group, PROFILE))


@pytest.mark.parametrize("isa", ["x86-64-v2", "aarch64"])
def test_emulated(isa: str) -> None:
    need_emulator(isa)
    rng = np.random.default_rng(9)
    assert check_emulated([(depthwise(rng), CONV_DEPTHWISE_INT8) for _ in range(2)], make_profile(isa)) >= 2
