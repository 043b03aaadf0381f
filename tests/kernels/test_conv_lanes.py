"""Convolutions of narrow groups, whose lanes are picked from the input's: at all corners of the knobs."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.graph import Attr
from meta_infer.ir.walk_loop import walk_stmts
from meta_infer.kernels.conv.conv_lanes import CONV_LANES

from .conv_cases import PROFILES, conv_case, random
from .harness import Case, Step, check_case, layouts_of
from .random_convs import any_conv, any_transposed, transposed_case
from .test_code_size import MOST_STATEMENTS


def check(case: Case, index: int = 0, all_corners: bool = False) -> int:
    return check_case(case, CONV_LANES, 1e-4, 1e-4, PROFILES[index % 2], all_corners=all_corners)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_random_groups(rank: int, full: bool) -> None:
    rng = np.random.default_rng(rank)
    for i in range(40 if full else 4):
        check(any_conv(rng, rank, grouped=True, dynamic=i % 4 == 3), i)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_random_transposed(rank: int, full: bool) -> None:
    rng = np.random.default_rng(10 + rank)
    for i in range(40 if full else 4):
        check(any_transposed(rng, rank, dynamic=i % 4 == 3), i)


@pytest.mark.parametrize("channels, out, group, extra", [
    (64, 64, 16, {"pads": (1, 1, 1, 1)}),                                    # two groups in a block of eight
    (20, 40, 20, {"strides": (2, 1), "dilations": (1, 2)}),                  # two outputs per channel
    (18, 18, 3, {"pads": (1, 0, 1, 2), "dynamic": True}),                    # blocks of one group and of two
    (33, 11, 11, {"pads": (1, 1, 1, 1)}),                                    # lanes of up to four input blocks
])
def test_corners(channels: int, out: int, group: int, extra: dict) -> None:
    case = conv_case(np.random.default_rng(1), (2, channels, 7, 13), out, (3, 3), group=group, **extra)
    assert check(case, 0, True) >= 3
    assert check(case, 1) == 1


def test_corners_of_depthwise_phases() -> None:
    attrs: dict[str, Attr] = {"group": 19, "strides": (2, 2), "pads": (1, 1, 1, 1)}
    case = transposed_case(np.random.default_rng(2), (1, 19, 5, 9), (19, 1, 4, 4), attrs)
    assert check(case, 0, True) >= 3


def test_epilogues() -> None:
    rng = np.random.default_rng(3)
    steps = [Step("Add", {"r": random(rng, 2, 24, 5, 9)}), Step("Sigmoid"), Step("Mul", {"s": random(rng, 24, 1, 1)})]
    assert check(conv_case(rng, (2, 24, 5, 9), 24, (3, 3), pads=(1,) * 4, group=6, epilogue=steps)) == 1
    assert check(conv_case(rng, (1, 19, 30), 19, (4,), pads=(3, 0), group=19, epilogue=[Step("Relu")])) == 1


def test_no_number_of_one_group_reaches_another() -> None:
    case = conv_case(np.random.default_rng(4), (1, 20, 6, 6), 20, (3, 3), pads=(1, 1, 1, 1), group=5)
    case.arrays["x"][:, 4:8] = np.inf
    assert check(case) == 1


def test_out_of_reach() -> None:
    """Dense convolutions, and wide groups."""
    rng = np.random.default_rng(5)
    for group, channels in ((1, 8), (2, 64)):
        case = conv_case(rng, (1, channels, 6, 6), channels, (3, 3), group=group)
        assert not list(CONV_LANES.variants(case.group, PROFILES[0]))


@pytest.mark.parametrize("group, into, out, width", [(4, 12, 12, 7), (8, 15, 5, 3), (4, 16, 48, 7), (7, 11, 7, 2)])
def test_code_stays_small(group: int, into: int, out: int, width: int) -> None:
    case = conv_case(np.random.default_rng(6), (1, group * into, 9, 20), group * out, (3, width), group=group)
    for profile in PROFILES:
        for variant in CONV_LANES.variants(case.group, profile):
            lowering = CONV_LANES.lower(case.group, variant, layouts_of(variant, case.group), profile)
            assert sum(1 for call in lowering.calls for _ in walk_stmts(call.func.body)) <= MOST_STATEMENTS
