"""Products of 8-bit integers: bit for bit what the reference says, over full ranges, at all corners of knobs."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.kernels.int8.dot_path import dot_paths
from meta_infer.kernels.int8.gemm_int8 import GEMM_INT8
from meta_infer.kernels.kernel import Refusal
from meta_infer.kernels.tuning import tunings
from tests.emulators import need_emulator

from .conv_cases import PROFILES
from .emulated import check_emulated
from .harness import PROFILE, Case, check_case, make_group, make_profile
from .int8_cases import int8_product, numbers

RNG = np.random.default_rng(11)
CASES = {
    "row": int8_product(RNG, (1, 67), 33),
    "batch": int8_product(RNG, (3, 5, 40), 20, zero=7, requantise=True),
    "unsigned": int8_product(RNG, (2, 37, 128), 64, types=(np.uint8, np.uint8), zero=255, known_zero=False,
                             w_zero=True),
    "vector": int8_product(RNG, (1,), 1, zero=3),
    "signed": int8_product(RNG, (13, 9), 5, types=(np.int8, np.int8), zero=-100, requantise=True),
    "dynamic": int8_product(RNG, (2, 11, 50), 18, zero=128, dynamic=True),
}


def check(case: Case, profile: Profile = PROFILE, all_corners: bool = False) -> int:
    return check_case(case, GEMM_INT8, 0, 0, profile, all_corners=all_corners)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("name", CASES)
def test_products(name: str, profile: Profile) -> None:
    assert check(CASES[name], profile) >= 1


@pytest.mark.parametrize("name", ["unsigned", "signed"])
def test_all_corners(name: str) -> None:
    assert check(CASES[name], all_corners=True) >= 3


def test_weights_of_7_bits() -> None:
    """Neighbours along K are summed: the extremes of what fits, beside activations of 255."""
    for pair in ((64, 64), (-64, -64), (127, 1), (0, -128)):
        w = np.tile(np.array(pair, np.int8)[:, None], (17, 30))
        case = make_group("MatMulInteger", {"a": np.full((7, 34), 255, np.uint8), "w": w}, constants=("w",))
        assert check(case) == len(dot_paths(PROFILE))
    case = make_group("MatMulInteger", {"a": np.full((7, 3), 255, np.uint8), "w": np.full((3, 9), 65, np.int8)},
                      constants=("w",))
    assert check(case) == len([path for path in dot_paths(PROFILE) if not path.narrow])


def test_extremes_do_not_saturate() -> None:
    for low, zero in ((-128, 0), (127, 255)):
        case = make_group("MatMulInteger", {"a": np.full((7, 300), 255 - zero, np.uint8),
                                            "w": np.full((300, 40), low, np.int8), "z": np.array(zero, np.uint8)},
                          constants=("w", "z"))
        assert check(case) >= 1


def test_what_is_out_of_reach() -> None:
    a, w = numbers(RNG, np.uint8, 4, 16), numbers(RNG, np.int8, 16, 8)
    unknown = make_group("MatMulInteger", {"a": a, "w": w})
    by_row = make_group("MatMulInteger", {"a": a, "w": w, "z": numbers(RNG, np.uint8, 4, 1)}, constants=("w", "z"))
    batched = make_group("MatMulInteger", {"a": a, "w": numbers(RNG, np.int8, 3, 16, 8)}, constants=("w",))
    for case in (unknown, by_row, batched):
        assert not list(GEMM_INT8.variants(case.group, PROFILE))


def test_refusals_are_countable() -> None:
    profile = make_profile("x86-64-v3")
    variant = next(iter(GEMM_INT8.variants(CASES["unsigned"].group, profile)))
    found = list(tunings(GEMM_INT8, CASES["unsigned"].group, variant, profile))
    assert {"registers", "alignment"} <= {one.reason for one in found if isinstance(one, Refusal)}


@pytest.mark.parametrize("isa", ["x86-64-v2", "aarch64", "aarch64-dot", "aarch64-i8mm"])
def test_emulated(isa: str) -> None:
    need_emulator(isa)
    assert check_emulated([(CASES["batch"], GEMM_INT8)], make_profile(isa)) >= 2
