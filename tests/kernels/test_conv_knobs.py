"""Dense convolutions at the corners of their knobs, between them, and beyond: what is refused, and what is guessed."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.kernels.conv.conv_direct import CONV_DIRECT
from meta_infer.kernels.conv.conv_first import CONV_FIRST
from meta_infer.kernels.conv.conv_im2col import CONV_IM2COL
from meta_infer.kernels.conv.conv_indirect import CONV_INDIRECT
from meta_infer.kernels.conv.conv_padded import CONV_PADDED
from meta_infer.kernels.conv.conv_pointwise import CONV_POINTWISE
from meta_infer.kernels.conv_chunks import FAR_CYCLES
from meta_infer.kernels.kernel import Kernel, Refusal

from .conv_cases import PROFILES, conv_case
from .harness import Step, check_case, layouts_of, make_group, make_profile, reference, run_group

TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}

CORNER_CASES = {
    "direct": (CONV_DIRECT, {"shape": (1, 20, 6, 13), "out_channels": 35, "kernel": (3, 3), "pads": (1, 1, 1, 1)}),
    "strided": (CONV_DIRECT, {"shape": (2, 17, 7, 9), "out_channels": 20, "kernel": (1, 2), "strides": (2, 2)}),
    "padded": (CONV_PADDED, {"shape": (1, 12, 6, 13), "out_channels": 35, "kernel": (3, 3), "pads": (1, 1, 1, 1)}),
    "dynamic": (CONV_PADDED, {"shape": (1, 9, 5, 7), "out_channels": 12, "kernel": (2, 2), "dynamic": True}),
    "pointwise": (CONV_POINTWISE, {"shape": (1, 40, 7, 11), "out_channels": 35, "kernel": (1, 1)}),
    "few positions": (CONV_POINTWISE, {"shape": (2, 20, 3, 3), "out_channels": 35, "kernel": (1, 1)}),
    "gathered": (CONV_POINTWISE, {"shape": (2, 20, 7, 12), "out_channels": 35, "kernel": (1, 1), "strides": (2, 3)}),
    "first": (CONV_FIRST, {"shape": (1, 3, 9, 14), "out_channels": 20, "kernel": (3, 3), "strides": (2, 2),
                           "pads": (1, 1, 1, 1)}),
}


@pytest.mark.parametrize("index", range(len(CORNER_CASES)))
def test_corners_of_all_knobs(index: int, full: bool) -> None:
    """Each knob at its ends; without --full each case meets one of the profiles."""
    kernel, shape = list(CORNER_CASES.values())[index]
    case = conv_case(np.random.default_rng(20 + index), **shape, epilogue=[Step("Relu")])
    for profile in PROFILES if full else PROFILES[index % 2:][:1]:
        assert check_case(case, kernel, profile=profile, all_corners=True, **TOLERANCE) > 6


@pytest.mark.parametrize("kernel, channels, taps, values", [
    (CONV_DIRECT, 100, 3, {"vectors": 3, "columns": 3, "tiles": 2, "lines": 2, "in_blocks": 3, "unroll": 2}),
    (CONV_POINTWISE, 300, 1, {"vectors": 2, "columns": 5, "tiles": 2, "lines": 20, "in_blocks": 7, "unroll": 4}),
])
def test_values_between_the_corners(kernel: Kernel, channels: int, taps: int, values: dict[str, int]) -> None:
    """Three kinds of passes: the first, several as a loop, and a shorter last one."""
    case = conv_case(np.random.default_rng(30), (1, channels, 7, 7), 50, (taps, taps), pads=(taps // 2,) * 4)
    profile = PROFILES[0]
    variant = next(iter(kernel.variants(case.group, profile)))
    for ahead in (0, 1):
        tuned = kernel.tune(case.group, variant, {**values, "ahead": ahead}, profile)
        assert not isinstance(tuned, Refusal), tuned
        got = run_group(case.group, kernel, tuned, layouts_of(tuned, case.group), case.arrays, profile)
        np.testing.assert_allclose(got["out"], reference(case)["out"], **TOLERANCE)


@pytest.mark.parametrize("kernel, values, reason", [
    (CONV_DIRECT, {"vectors": 3, "columns": 9}, "registers"), (CONV_DIRECT, {"vectors": 4}, "shape"),
    (CONV_DIRECT, {"in_blocks": 9}, "shape"), (CONV_DIRECT, {"unroll": 3}, "alignment"),
    (CONV_DIRECT, {"near": 1}, "shape"), (CONV_DIRECT, {"lines": 500}, "shape"), (CONV_DIRECT, {"tiles": 0}, "shape"),
    (CONV_PADDED, {"in_blocks": 1}, "shape"), (CONV_PADDED, {"strip": 1000}, "shape"),
    (CONV_POINTWISE, {"columns": 15}, "registers"), (CONV_POINTWISE, {"tiles": 99}, "shape"),
])
def test_refusals_say_why(kernel: Kernel, values: dict[str, int], reason: str) -> None:
    taps = 1 if kernel is CONV_POINTWISE else 3
    case = conv_case(np.random.default_rng(31), (1, 24, 30, 30), 3 * 8, (taps, taps), pads=(taps // 2,) * 4)
    profile = make_profile("x86-64-v3")
    variant = next(iter(kernel.variants(case.group, profile)))
    refused = kernel.tune(case.group, variant, values, profile)
    assert isinstance(refused, Refusal) and refused.reason == reason, refused
    assert kernel.tune(case.group, variant, {}, profile) == variant


@pytest.mark.parametrize("channels, size, taps", [(64, 56, 3), (256, 14, 3), (64, 56, 1), (1024, 14, 1), (3, 64, 3)])
def test_costs_are_those_of_a_good_implementation(channels: int, size: int, taps: int) -> None:
    """Between the operations and twice as many: what `default_plan` compares algorithms by."""
    weight = np.zeros((64, channels, taps, taps), np.float32)
    attrs = {"kernel_shape": (taps, taps), "strides": (1, 1), "pads": (taps // 2,) * 4, "dilations": (1, 1), "group": 1}
    case = make_group("Conv", {"x": np.zeros((1, channels, size, size), np.float32), "w": weight}, attrs,
                      constants=("w",))
    for kernel in (CONV_DIRECT, CONV_PADDED, CONV_POINTWISE, CONV_FIRST):
        for variant in kernel.variants(case.group, make_profile("x86-64-v3")):
            padded = 1.0 if channels > 3 or kernel is CONV_FIRST else 8 / 3
            assert 0.9 < variant.cost / int(variant.flops) / padded < 2  # type: ignore[call-overload]


@pytest.mark.parametrize("kernel, channels, taps", [
    (CONV_DIRECT, 512, 3), (CONV_PADDED, 512, 3), (CONV_INDIRECT, 512, 3), (CONV_IM2COL, 512, 3),
    (CONV_POINTWISE, 2048, 1),
])
def test_costs_have_the_arrival_of_weights(kernel: Kernel, channels: int, taps: int) -> None:
    """On top of the arithmetic; in a batch the images share it."""
    profile, pads = make_profile("x86-64-v4"), (taps // 2,) * 4
    weights = channels * channels * taps * taps * 4
    arrive = 4 * 16 * FAR_CYCLES * weights
    costs = []
    for images in (1, 32):
        case = conv_case(np.random.default_rng(0), (images, channels, 7, 7), channels, (taps, taps), pads=pads)
        variant = next(iter(kernel.variants(case.group, profile)))
        inside = ((7 * taps - 2 * (taps // 2)) / (7 * taps))**2                     # of the taps
        assert variant.cost > inside * int(variant.flops) / images + arrive / images  # type: ignore[call-overload]
        costs.append(variant.cost)
    assert costs[0] - costs[1] > 0.4 * arrive
