"""Convolutions through an indirection: any rank, groups, transposed by phases, at all corners of the knobs."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.graph import Attr
from meta_infer.ir.group import Variant
from meta_infer.kernels.conv.conv_indirect import CONV_INDIRECT
from meta_infer.kernels.tuning import feasible, tunings

from .conv_cases import PROFILES, conv_case, random
from .harness import Case, Step, check_case, make_profile
from .random_convs import any_conv, any_transposed, transposed_case

TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


def check(case: Case, index: int = 0, all_corners: bool = False) -> int:
    return check_case(case, CONV_INDIRECT, profile=PROFILES[index % 2], all_corners=all_corners, **TOLERANCE)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("grouped", [False, True])
def test_random_convolutions(rank: int, grouped: bool, full: bool) -> None:
    rng = np.random.default_rng(10 * rank + grouped)
    for i in range(40 if full else 4):
        assert check(any_conv(rng, rank, grouped=grouped, dynamic=i % 4 == 3), i) == 1


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_random_transposed(rank: int, full: bool) -> None:
    rng = np.random.default_rng(50 + rank)
    for i in range(60 if full else 5):
        assert check(any_transposed(rng, rank, dynamic=i % 4 == 3), i) == 1


@pytest.mark.parametrize("shape, out, kernel, extra", [
    ((1, 130, 6, 7), 40, (3, 3), {"pads": (1, 1, 1, 1)}),                               # several passes
    ((1, 64, 9, 11), 64, (3, 3), {"pads": (1, 1, 1, 1), "group": 4}),                   # groups of two blocks
    ((1, 36, 9, 11), 36, (3, 3), {"pads": (1, 0, 1, 2), "group": 3}),                   # blocks of two groups
    ((2, 20, 4, 5, 6), 21, (3, 2, 3), {"strides": (1, 2, 1), "dynamic": True}),         # read in place
])
def test_corners(shape: tuple[int, ...], out: int, kernel: tuple[int, ...], extra: dict) -> None:
    assert check(conv_case(np.random.default_rng(1), shape, out, kernel, **extra), 0, True) >= 4


def test_corners_of_phases() -> None:
    attrs: dict[str, Attr] = {"strides": (2, 3), "pads": (1, 1, 0, 2), "output_padding": (1, 2)}
    assert check(transposed_case(np.random.default_rng(2), (2, 20, 5, 7), (20, 18, 3, 5), attrs), 0, True) >= 4


def test_phases_without_taps() -> None:
    case = transposed_case(np.random.default_rng(9), (2, 12, 3, 7), (12, 5, 1, 1), {"strides": (2, 3), "group": 2})
    assert check(case) == 1


@pytest.mark.parametrize("shape, kernel, extra", [
    ((1, 8, 1, 1), (3, 3), {"pads": (1, 1, 1, 1)}),                                     # all taps but one outside
    ((1, 8, 33, 33), (3, 3), {"dilations": (12, 12), "pads": (12, 12, 12, 12)}),        # most taps outside
    ((1, 8, 4, 4), (2, 2), {"pads": (3, 0, 0, 3)}),                                     # rows of nothing but padding
    ((1, 9, 1, 6, 6), (3, 3, 3), {"pads": (1,) * 6}),
    ((1, 8, 60, 9), (7, 1), {"pads": (3, 0, 3, 0)}),
    ((1, 5, 700), (9,), {"pads": (4, 4)}),
])
def test_uncommon_windows(shape: tuple[int, ...], kernel: tuple[int, ...], extra: dict) -> None:
    assert check(conv_case(np.random.default_rng(3), shape, 24, kernel, **extra)) == 1


@pytest.mark.parametrize("size", [(1, 1, 1), (1, 7, 50), (3, 33, 2)])
def test_one_dynamic_function_at_several_sizes(size: tuple[int, int, int]) -> None:
    n, height, width = size
    case = conv_case(np.random.default_rng(4), (n, 20, height, width), 24, (3, 3), pads=(1, 1, 1, 1), dynamic=True)
    assert check(case) == 1


def test_epilogues() -> None:
    rng = np.random.default_rng(5)
    shape = (2, 21, 3, 5, 9)
    steps = [Step("Mul", {"s": random(rng, 1, 21, 1, 1, 1)}), Step("Add", {"r": random(rng, *shape)}), Step("Relu")]
    assert check(conv_case(rng, (2, 12, 3, 5, 9), 21, (1, 3, 3), pads=(0, 1, 1) * 2, epilogue=steps)) == 1
    steps = [Step("Sub", {"m": random(rng, 5, 9)}, at=1), Step("Sigmoid")]
    assert check(conv_case(rng, (2, 12, 5, 9), 21, (3, 3), pads=(1,) * 4, epilogue=steps, keep=("out", "e1"))) == 1
    assert check(any_transposed(rng, 2, epilogue=[Step("Tanh")])) == 1


def test_input_that_the_epilogue_reads_too() -> None:
    rng = np.random.default_rng(6)
    x = conv_case(rng, (1, 16, 6, 6), 16, (3, 3), pads=(1, 1, 1, 1), group=2).arrays["x"]
    case = conv_case(np.random.default_rng(6), x.shape, 16, (3, 3), pads=(1, 1, 1, 1), group=2,
                     epilogue=[Step("Add", {"x": x})])
    assert check(case) == 1


def test_refusals_have_reasons() -> None:
    case = conv_case(np.random.default_rng(7), (1, 64, 28, 28), 64, (3, 3), pads=(1, 1, 1, 1))
    variant = next(iter(CONV_INDIRECT.variants(case.group, PROFILES[0])))
    variants, refused = feasible(tunings(CONV_INDIRECT, case.group, variant, PROFILES[0]))
    assert len(variants) > 50 and refused["registers"] > 10 and set(refused) <= {"registers", "shape", "cache"}
    for isa, columns, fits in (("x86-64-v3", 8, False), ("x86-64-v3", 4, False), ("x86-64-v4", 4, True),
                               ("x86-64-v4", 8, False)):
        profile = make_profile(isa)
        variant = next(iter(CONV_INDIRECT.variants(case.group, profile)))
        tuned = CONV_INDIRECT.tune(case.group, variant, {"vectors": 4, "columns": columns}, profile)
        assert isinstance(tuned, Variant) == fits


def test_out_of_reach() -> None:
    """No blocked layout without vectors; weights that are inputs."""
    rng = np.random.default_rng(8)
    case = conv_case(rng, (1, 8, 6, 6), 8, (3, 3))
    assert not list(CONV_INDIRECT.variants(case.group, make_profile("riscv64")))
