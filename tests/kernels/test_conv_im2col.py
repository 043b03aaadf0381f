"""Convolutions as a product with columns of the input: plain layout, any rank, any dtype, weights known or not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meta_infer.kernels.conv.conv_im2col import CONV_IM2COL
from meta_infer.kernels.tuning import feasible, tunings

from .conv_cases import PROFILES, conv_case, random
from .harness import PROFILE, Case, Step, check_case, make_group, make_profile
from .random_convs import any_conv


def check(case: Case, index: int = 0, all_corners: bool = False) -> int:
    return check_case(case, CONV_IM2COL, 1e-4, 1e-4, PROFILES[index % 2], all_corners=all_corners)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("grouped", [False, True])
def test_random_convolutions(rank: int, grouped: bool, full: bool) -> None:
    rng = np.random.default_rng(10 * rank + grouped)
    for i in range(40 if full else 4):
        assert check(any_conv(rng, rank, grouped=grouped, dynamic=i % 4 == 3), i) == 1


@pytest.mark.parametrize("shape, out, kernel, extra", [
    ((1, 20, 9, 21), 13, (3, 3), {"pads": (1, 1, 1, 1)}),
    ((2, 12, 9, 11), 18, (3, 2), {"pads": (2, 0, 1, 3), "group": 3, "strides": (1, 2), "dilations": (2, 1)}),
    ((1, 3, 5, 6, 17), 9, (3, 2, 3), {"pads": (1, 0, 1, 1, 1, 2), "dynamic": True}),
    ((1, 1, 150), 8, (9,), {"pads": (8, 0)}),
])
def test_corners(shape: tuple[int, ...], out: int, kernel: tuple[int, ...], extra: dict) -> None:
    assert check(conv_case(np.random.default_rng(1), shape, out, kernel, **extra), 0, True) >= 4


@pytest.mark.parametrize("bits", [0, 512])
def test_other_widths(bits: int) -> None:
    case = conv_case(np.random.default_rng(2), (1, 5, 6, 19), 7, (3, 3), pads=(1, 1, 1, 1),
                     epilogue=[Step("LeakyRelu", attrs={"alpha": 0.1})])
    assert check_case(case, CONV_IM2COL, 1e-4, 1e-5, replace(PROFILE, simd_bits=bits)) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weights_that_are_inputs(dtype: type) -> None:
    rng = np.random.default_rng(3)
    inputs = {"x": random(rng, 1, 3, 6, 6).astype(dtype), "w": random(rng, 5, 3, 2, 2).astype(dtype),
              "b": random(rng, 5).astype(dtype)}
    assert check(make_group("Conv", inputs, {"kernel_shape": (2, 2), "strides": (1, 1), "pads": (0,) * 4,
                                             "dilations": (1, 1), "group": 1})) == 1


def test_epilogues() -> None:
    rng = np.random.default_rng(4)
    shape = (2, 10, 5, 13)
    steps = [Step("Add", {"r": random(rng, *shape)}), Step("Mul", {"s": random(rng, 10, 1, 1)}), Step("Relu")]
    assert check(conv_case(rng, (2, 8, 5, 13), 10, (3, 3), pads=(1,) * 4, group=2, epilogue=steps)) == 1
    steps = [Step("Sigmoid"), Step("Mul", {"r": random(rng, *shape)})]
    assert check(conv_case(rng, (2, 8, 5, 13), 10, (3, 3), pads=(1,) * 4, epilogue=steps, keep=("out", "e1"))) == 1


def test_refusals_and_what_is_out_of_reach() -> None:
    rng, profile = np.random.default_rng(5), make_profile("x86-64-v3")
    case = conv_case(rng, (1, 64, 28, 28), 64, (3, 3), pads=(1, 1, 1, 1))
    variant = next(iter(CONV_IM2COL.variants(case.group, profile)))
    variants, refused = feasible(tunings(CONV_IM2COL, case.group, variant, profile))
    assert len(variants) > 30 and refused["registers"] > 10 and set(refused) <= {"registers", "shape", "cache"}
    part = conv_case(rng, (2, 8, 5, 13), 8, (3, 3), pads=(1,) * 4, epilogue=[Step("Add", {"r": random(rng, 13)})])
    assert not list(CONV_IM2COL.variants(part.group, profile)), "an operand of the columns alone"
