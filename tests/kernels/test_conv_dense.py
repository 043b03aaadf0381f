"""Dense convolutions on blocked layouts: random shapes, dynamic sizes, every kind of epilogue operand."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import PLAIN, blocked
from meta_infer.kernels.conv.conv_direct import CONV_DIRECT
from meta_infer.kernels.conv.conv_first import CONV_FIRST
from meta_infer.kernels.conv.conv_padded import CONV_PADDED
from meta_infer.kernels.conv.conv_pointwise import CONV_POINTWISE
from meta_infer.kernels.kernel import Kernel
from meta_infer.support.dtypes import FLOAT32

from .conv_cases import PROFILES, conv_case, random, random_conv
from .harness import Case, Step, check_case

TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


def check(case: Case, kernel: Kernel, profile: Profile) -> int:
    return check_case(case, kernel, profile=profile, **TOLERANCE)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("seed", range(2))
def test_direct_on_random_shapes(seed: int, profile: Profile) -> None:
    """Shapes with too many kinds of border tiles are left to the padded kernel."""
    case = random_conv(np.random.default_rng(seed))
    check(case, CONV_DIRECT, profile)
    assert check(case, CONV_PADDED, profile) == 1


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("seed", range(2))
def test_padded_on_random_dynamic_shapes(seed: int, profile: Profile) -> None:
    assert check(random_conv(np.random.default_rng(100 + seed), dynamic=True), CONV_PADDED, profile) == 1


@pytest.mark.parametrize("size", [(1, 1, 1), (1, 7, 50), (3, 33, 2), (2, 16, 97)])
def test_one_dynamic_function_at_several_sizes(size: tuple[int, int, int]) -> None:
    """The same symbolic group each time: only the arrays' sizes differ."""
    n, height, width = size
    case = conv_case(np.random.default_rng(0), (n, 20, height, width), 24, (3, 3), pads=(1, 1, 1, 1), dynamic=True)
    assert check(case, CONV_PADDED, PROFILES[0]) == 1


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("dynamic", [False, True])
def test_pointwise_on_random_shapes(dynamic: bool, profile: Profile) -> None:
    case = random_conv(np.random.default_rng(200 + dynamic), pointwise=True, dynamic=dynamic)
    assert check(case, CONV_POINTWISE, profile) == 1


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("dynamic", [False, True])
def test_first_on_random_shapes(dynamic: bool, profile: Profile) -> None:
    case = random_conv(np.random.default_rng(300 + dynamic), most_in=4, dynamic=dynamic)
    assert check(case, CONV_FIRST, profile) >= 1


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
def test_many_channels_in_several_passes(profile: Profile) -> None:
    """Weights of one tile beyond L1: sums are kept between passes over the input channels."""
    rng = np.random.default_rng(1)
    assert check(conv_case(rng, (2, 300, 7, 7), 50, (3, 3), pads=(1, 1, 1, 1)), CONV_DIRECT, profile) == 1


@pytest.mark.parametrize("shape, kernel, extra", [
    ((1, 8, 1, 1), (3, 3), {"pads": (1, 1, 1, 1)}),                           # all taps but one outside
    ((1, 8, 5, 6), (1, 1), {"strides": (2, 2)}),                              # pointwise with stride
    ((1, 8, 9, 60), (1, 7), {"pads": (0, 3, 0, 3)}),
    ((1, 8, 60, 9), (7, 1), {"pads": (3, 0, 3, 0)}),
    ((1, 8, 4, 4), (2, 2), {"pads": (3, 0, 0, 3)}),                           # rows that meet nothing but padding
    ((1, 8, 30, 30), (3, 3), {"dilations": (12, 12), "pads": (12, 12, 12, 12)}),
    ((1, 8, 20, 20), (11, 11), {"strides": (4, 4), "pads": (2, 2, 2, 2)}),
])
def test_uncommon_windows(shape: tuple[int, ...], kernel: tuple[int, int], extra: dict[str, tuple[int, ...]]) -> None:
    case = conv_case(np.random.default_rng(2), shape, 24, kernel, **extra)
    check(case, CONV_DIRECT, PROFILES[0])
    assert check(case, CONV_PADDED, PROFILES[0]) == 1


def _epilogues(rng: np.random.Generator, shape: tuple[int, ...]) -> list[list[Step]]:
    n, c, h, w = shape
    return [
        [Step("Relu")],
        [Step("Add", {"r": random(rng, *shape)}), Step("Relu")],
        [Step("Clip", attrs={"min": 0.0, "max": 6.0})],
        [Step("HardSwish")],
        [Step("Sigmoid"), Step("Mul", {"r": random(rng, *shape)})],
        [Step("Mul", {"s": random(rng, 1, c, 1, 1)}), Step("Add", {"t": random(rng, c, 1, 1)})],
        [Step("Mul", {"s": random(rng, n, c, 1, 1)})],
        [Step("Sub", {"m": random(rng, h, w)}, at=1), Step("Div", {"d": np.full((1,), 3.0, np.float32)})],
        [Step("Add", {"q": random(rng, c, h, w)}), Step("Tanh")],
    ]


@pytest.mark.parametrize("index", range(9))
def test_epilogues(index: int) -> None:
    """Kernels share the code after the accumulators, so each meets every third epilogue; direct meets all."""
    rng = np.random.default_rng(3)
    others = ((CONV_PADDED, 12, 3), (CONV_FIRST, 3, 3), (CONV_POINTWISE, 12, 1))
    for kernel, channels, taps in ((CONV_DIRECT, 12, 3), others[index % 3]):
        steps = _epilogues(rng, (2, 21, 5, 9))[index]
        case = conv_case(rng, (2, channels, 5, 9), 21, (taps, taps), pads=(taps // 2,) * 4, epilogue=steps)
        assert check(case, kernel, PROFILES[0]) >= 1


def test_outputs_in_the_middle_of_the_chain_are_kept() -> None:
    rng = np.random.default_rng(4)
    steps = [Step("Add", {"r": random(rng, 1, 19, 6, 6)}), Step("Relu")]
    case = conv_case(rng, (1, 10, 6, 6), 19, (3, 3), pads=(1, 1, 1, 1), epilogue=steps, keep=("out", "e0"))
    for kernel in (CONV_DIRECT, CONV_PADDED):
        assert check(case, kernel, PROFILES[0]) == 1


def test_input_that_the_epilogue_reads_too() -> None:
    rng = np.random.default_rng(5)
    x = random(rng, 1, 16, 6, 6)
    case = conv_case(rng, x.shape, 16, (3, 3), pads=(1, 1, 1, 1))
    case = conv_case(rng, x.shape, 16, (3, 3), pads=(1, 1, 1, 1), epilogue=[Step("Add", {"x": case.arrays["x"]})])
    for kernel in (CONV_DIRECT, CONV_PADDED):
        assert check(case, kernel, PROFILES[0]) == 1


def test_layouts_that_variants_declare() -> None:
    rng, profile = np.random.default_rng(6), PROFILES[0]
    lanes = profile.lanes(FLOAT32)
    steps = [Step("Add", {"r": random(rng, 1, 16, 6, 6)}), Step("Mul", {"s": random(rng, 16, 1, 1)})]
    case = conv_case(rng, (1, 3, 6, 6), 16, (3, 3), pads=(1, 1, 1, 1), epilogue=steps)
    first = next(iter(CONV_FIRST.variants(case.group, profile)))
    assert first.inputs["x"] == PLAIN and first.inputs["r"] == blocked(lanes) and first.inputs["s"] == PLAIN
    direct = next(iter(CONV_DIRECT.variants(case.group, profile)))
    assert direct.inputs["x"] == blocked(lanes) and direct.outputs["e1"] == blocked(lanes)


def test_groups_out_of_reach_have_no_variant() -> None:
    rng, profile = np.random.default_rng(7), PROFILES[0]
    grouped = conv_case(rng, (1, 16, 6, 6), 16, (3, 3), group=2)
    line = conv_case(rng, (1, 16, 6), 16, (3,))
    for kernel in (CONV_DIRECT, CONV_PADDED, CONV_POINTWISE, CONV_FIRST):
        assert not list(kernel.variants(grouped.group, profile))
        assert not list(kernel.variants(line.group, profile))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("strides", [(2, 2), (1, 3)])
def test_pointwise_with_strides(strides: tuple[int, int], dynamic: bool) -> None:
    """Positions that are no neighbours are copied first, whatever the rows a chunk begins and ends in."""
    rng = np.random.default_rng(9)
    case = conv_case(rng, (2, 20, 13, 15), 37, (1, 1), strides=strides, dynamic=dynamic, epilogue=[Step("Relu")])
    assert check(case, CONV_POINTWISE, PROFILES[0]) == 1
