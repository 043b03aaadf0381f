"""Convolutions of 8-bit integers: bit for bit what the reference says, over full ranges, at all corners of knobs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.kernels.int8.conv_int8 import CONV_INT8
from meta_infer.kernels.int8.dot_path import dot_paths
from meta_infer.kernels.kernel import Refusal
from meta_infer.kernels.tuning import tunings
from meta_infer.support.dtypes import FLOAT32, UINT8
from tests.backends.assembly import assembly
from tests.emulators import need_emulator

from .conv_cases import PROFILES
from .emulated import check_emulated
from .harness import PROFILE, Case, Step, check_case, layouts_of, make_group, make_profile
from .int8_cases import int8_conv, numbers, random_int8_conv


def check(case: Case, profile: Profile = PROFILE, all_corners: bool = False) -> int:
    return check_case(case, CONV_INT8, 0, 0, profile, all_corners=all_corners)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("pointwise", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_random_shapes(dynamic: bool, pointwise: bool, profile: Profile, full: bool) -> None:
    for seed in range(20 if full else 3):
        case = random_int8_conv(np.random.default_rng(seed), pointwise=pointwise, dynamic=dynamic)
        assert check(case, profile) >= 1


@pytest.mark.parametrize("case", [
    int8_conv(np.random.default_rng(0), (1, 67, 9, 14), 35, (3, 3), pads=(1, 1, 1, 1), zero=255, requantise=True),
    int8_conv(np.random.default_rng(1), (2, 40, 7, 7), 24, (1, 1), zero=128, known_zero=False),
    int8_conv(np.random.default_rng(2), (1, 17, 12, 10), 9, (1, 1), strides=(2, 2), zero=3, w_zero=True,
              types=(np.uint8, np.uint8)),
])
def test_all_corners(case: Case) -> None:
    assert check(case, all_corners=True) >= 3


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
def test_weights_of_7_bits(profile: Profile) -> None:
    """Sums of two products fit in 16 bits: a path more on x86-64, unless a single pair of weights does not fit."""
    rng = np.random.default_rng(31)
    case = int8_conv(rng, (1, 37, 8, 9), 20, (3, 3), pads=(1, 1, 1, 1), zero=-120, types=(np.int8, np.int8))
    weights = case.group.constants["w"]
    np.clip(weights, -64, 64, out=weights)
    names = [path.name for path in dot_paths(profile)]
    assert [v.knobs["path"] for v in CONV_INT8.variants(case.group, profile)] == names
    assert check(case, profile, all_corners=True) >= len(names)
    weights[3, 0, 1, 1], weights[3, 1, 1, 1] = 64, 65
    assert "bytes" not in {v.knobs["path"] for v in CONV_INT8.variants(case.group, profile)}
    weights[3, 0, 1, 1] = 0
    assert check(case, profile) == len(names)


@pytest.mark.parametrize("shape, out, group, options", [
    ((2, 32, 7, 9), 48, 2, {"pads": (1, 1, 1, 1), "zero": 31, "requantise": True}),        # groups of whole blocks
    ((1, 64, 6, 5), 32, 16, {"pads": (1, 0, 2, 1), "zero": 200, "known_zero": False}),     # several fill a block
    ((1, 21, 6, 8), 15, 3, {"strides": (2, 1), "w_zero": True, "types": (np.int8, np.uint8)}),   # all as one
    ((2, 48, 5, 7), 24, 3, {}),
])
def test_groups(shape: tuple[int, ...], out: int, group: int, options: dict[str, object]) -> None:
    kernel = (3, 3) if options else (1, 1)
    case = int8_conv(np.random.default_rng(9), shape, out, kernel, group=group, **options)      # type: ignore[arg-type]
    for profile in PROFILES:
        assert check(case, profile) >= 1


def test_groups_that_multiply_mostly_zeros_have_no_variant() -> None:
    case = int8_conv(np.random.default_rng(9), (1, 90, 5, 5), 90, (3, 3), group=18)
    assert not list(CONV_INT8.variants(case.group, PROFILE))


def test_weights_whose_signs_differ() -> None:
    """Of any two neighbours that are multiplied by activations at their ends, those of one sign add up."""
    x, w = np.full((1, 8, 4, 4), 255, np.uint8), np.full((8, 8, 1, 1), -128, np.int8)
    w[:, 1::2] = 127
    x[0, 1::2, 2:] = 0
    x[0, ::2, :, 2:] = 0
    case = make_group("ConvInteger", {"x": x, "w": w}, {"kernel_shape": (1, 1), "strides": (1, 1), "pads": (0,) * 4,
                                                        "dilations": (1, 1), "group": 1}, constants=("w",))
    names = {v.knobs["path"] for v in CONV_INT8.variants(case.group, PROFILE)}
    assert names == {path.name for path in dot_paths(PROFILE)}
    assert check(case) == len(names)
    case.group.constants["w"][0, 1] = -1
    assert "bytes" not in {v.knobs["path"] for v in CONV_INT8.variants(case.group, PROFILE)}


def test_extremes_do_not_saturate() -> None:
    """All products at the ends of their range: sums of two already exceed 16 bits."""
    x, w = np.full((1, 16, 5, 5), 255, np.uint8), np.full((8, 16, 3, 3), -128, np.int8)
    w[4:] = 127
    for zero in (0, 255):
        case = make_group("ConvInteger", {"x": x, "w": w, "z": np.array(zero, np.uint8)},
                          {"kernel_shape": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1),
                           "group": 1}, constants=("w", "z"))
        assert check(case) >= 1


def test_epilogue_with_math_functions() -> None:
    rng = np.random.default_rng(4)
    case = make_group("ConvInteger", {"x": numbers(rng, np.uint8, 1, 9, 6, 7), "w": numbers(rng, np.int8, 10, 9, 3, 3)},
                      {"kernel_shape": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1),
                       "group": 1}, constants=("w", "s"),
                      epilogue=[Step("Cast", attrs={"to": FLOAT32}), Step("Mul", {"s": np.array(1e-4, np.float32)}),
                                Step("Sigmoid"), Step("Mul", {"s": np.array(255, np.float32)}),
                                Step("Cast", attrs={"to": UINT8})])
    case.arrays["s"][...] = 1e-4
    assert check_case(case, CONV_INT8, 0, 1) == (2 if str(PROFILE.isa).endswith("vnni") else 1)


def test_what_is_out_of_reach() -> None:
    rng = np.random.default_rng(5)
    x, w = numbers(rng, np.uint8, 1, 8, 6, 6), numbers(rng, np.int8, 8, 8, 3, 3)
    attrs = {"kernel_shape": (3, 3), "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
    unknown = make_group("ConvInteger", {"x": x, "w": w}, attrs)
    depthwise = make_group("ConvInteger", {"x": x, "w": w[:, :1]}, {**attrs, "group": 8}, constants=("w",))
    for case in (unknown, depthwise):
        assert not list(CONV_INT8.variants(case.group, PROFILE))
    known = make_group("ConvInteger", {"x": x, "w": w}, attrs, constants=("w",))
    assert not list(CONV_INT8.variants(known.group, make_profile("riscv64")))


def test_refusals_are_countable() -> None:
    profile = make_profile("x86-64-v3")
    case = int8_conv(np.random.default_rng(6), (1, 32, 14, 14), 16, (3, 3), pads=(1, 1, 1, 1))
    variant = next(iter(CONV_INT8.variants(case.group, profile)))
    found = list(tunings(CONV_INT8, case.group, variant, profile))
    assert {"registers", "shape"} <= {one.reason for one in found if isinstance(one, Refusal)}
    assert any(not isinstance(one, Refusal) for one in found)


@pytest.mark.parametrize("isa", ["x86-64-v2", "aarch64", "aarch64-dot", "aarch64-i8mm"])
def test_emulated(isa: str, full: bool) -> None:
    need_emulator(isa)
    rng = np.random.default_rng(7)
    cases = [random_int8_conv(rng, pointwise=i % 2 == 1) for i in range(12 if full else 1)]
    cases.append(int8_conv(rng, (1, 19, 6, 7), 21, (3, 3), pads=(1, 1, 1, 1), zero=200, requantise=True))
    cases.append(int8_conv(rng, (1, 32, 6, 5), 16, (2, 3), zero=100, group=8))
    assert check_emulated([(case, CONV_INT8) for case in cases], make_profile(isa)) >= len(cases)


@pytest.mark.parametrize(("isa", "instruction"), [
    ("x86-64-v4-vnni", r"vpdpbusd.*%zmm"), ("x86-64-v3-vnni", r"vpdpbusd.*%ymm"), ("x86-64-v4", r"vpmaddwd.*%zmm"),
    ("aarch64-dot", r"\bsdot\b")])
def test_instruction_mix(isa: str, instruction: str) -> None:
    """The inner loops multiply with the target's own instruction, and hardly touch the stack."""
    case = int8_conv(np.random.default_rng(8), (1, 64, 14, 14), 64, (3, 3), pads=(1, 1, 1, 1))
    profile = make_profile(isa)
    variant = next(iter(CONV_INT8.variants(case.group, profile)))
    lowering = CONV_INT8.lower(case.group, variant, layouts_of(variant, case.group), profile)
    text = assembly([lowering.calls[0].func], isa)
    products = len(re.findall(instruction, text))
    assert products >= 12
    assert len(re.findall(r"%[yz]mm\d+.*\(%rsp\)|\(%rsp\).*%[yz]mm|\bq\d+, \[sp", text)) <= products // 4
