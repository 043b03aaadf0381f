"""Products with weights of 2, 4 and 8 bits: the reference's numbers within rounding, in both forms, at all corners."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.kernel import Refusal
from meta_infer.kernels.matmul.gemm_weight_only import GEMM_WEIGHT_ONLY
from meta_infer.kernels.matmul.narrow_weights import narrow_weights
from meta_infer.kernels.tuning import tunings
from tests.emulators import need_emulator

from .conv_cases import PROFILES, random
from .emulated import check_emulated
from .harness import PROFILE, Case, Step, check_case, layouts_of, make_group, make_profile


def product(rng: np.random.Generator, shape: Sequence[int], columns: int, bits: int = 4, size: int = 32,
            zeros: str = "", epilogue: Sequence[Step] = (), dynamic: bool = False) -> Case:
    """Rows of `shape` [..., K] times [columns, K]; `zeros` are 'packed', 'float' or none."""
    count = -(-shape[-1] // size)
    points = {"packed": rng.integers(0, 256, (columns, -(-count * bits // 8))).astype(np.uint8),
              "float": rng.uniform(0, (1 << bits) - 1, (columns, count)).astype(np.float32)}.get(zeros)
    inputs: dict[str, np.ndarray | None] = {
        "a": random(rng, *shape), "q": rng.integers(0, 256, (columns, count, size * bits // 8)).astype(np.uint8),
        "s": rng.uniform(0.01, 0.1, (columns, count)).astype(np.float32), "z": points}
    attrs = {"N": columns, "K": shape[-1], "bits": bits, "block_size": size}
    lead = tuple(Symbol(f"M{i}", 1, 300).dim for i in range(len(shape) - 1))
    constants = [*(n for n in ("q", "s", "z") if inputs[n] is not None), *(n for step in epilogue for n in step.extra)]
    return make_group("MatMulNBits", inputs, attrs, constants=constants, epilogue=epilogue,
                      shapes={"a": (*lead, shape[-1])} if dynamic else None)


RNG = np.random.default_rng(17)
CASES = {
    "row": product(RNG, (1, 67), 33),
    "few": product(RNG, (3, 50), 20, zeros="packed", epilogue=[Step("Add", {"b": random(RNG, 20)})]),
    "many": product(RNG, (2, 13, 96), 70, size=16, zeros="float"),
    "bytes": product(RNG, (2, 40), 16, bits=8, size=16),
    "crumbs": product(RNG, (81, 100), 9, bits=2, size=16, zeros="packed"),
    "dynamic": product(RNG, (5, 64), 40, dynamic=True),
    "long": product(RNG, (9, 5000), 18, size=128, epilogue=[Step("Sigmoid")]),
}


def check(name: str, profile: Profile = PROFILE, all_corners: bool = False) -> int:
    case = CASES[name]
    return check_case(case, GEMM_WEIGHT_ONLY, 1e-4, 2e-4 * case.arrays["a"].shape[-1] ** 0.5, profile,
                      all_corners=all_corners)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("name", CASES)
def test_products(name: str, profile: Profile) -> None:
    assert check(name, profile) == 1


@pytest.mark.parametrize("name", ["few", "crumbs"])
def test_all_corners(name: str) -> None:
    assert check(name, all_corners=True) >= 2


def test_one_dynamic_function_at_several_sizes() -> None:
    for rows in (1, 8, 9, 150):
        case = product(np.random.default_rng(3), (rows, 64), 40, dynamic=True)
        assert check_case(case, GEMM_WEIGHT_ONLY, 1e-4, 1e-3) == 1


def test_weights_stay_narrow() -> None:
    variant = next(iter(GEMM_WEIGHT_ONLY.variants(CASES["row"].group, PROFILE)))
    weights = narrow_weights(CASES["row"].group)
    assert weights is not None and weights.bits == 4
    group = CASES["row"].group
    lowering = GEMM_WEIGHT_ONLY.lower(group, variant, layouts_of(variant, group), PROFILE)
    assert sum(array.nbytes for array in lowering.packed.values()) <= variant.packed_bytes + 256


def test_what_is_out_of_reach() -> None:
    count, rng = 2, np.random.default_rng(1)
    inputs = {"a": random(rng, 2, 64), "q": rng.integers(0, 256, (5, count, 16)).astype(np.uint8),
              "s": random(rng, 5, count), "z": None, "order": rng.integers(0, count, 64).astype(np.int32)}
    attrs = {"N": 5, "K": 64, "bits": 4, "block_size": 32}
    ordered = make_group("MatMulNBits", inputs, attrs, constants=("q", "s", "order"))
    unknown = make_group("MatMulNBits", {**inputs, "order": None}, attrs)
    for case in (ordered, unknown):
        assert not list(GEMM_WEIGHT_ONLY.variants(case.group, PROFILE))


def test_refusals_are_countable() -> None:
    variant = next(iter(GEMM_WEIGHT_ONLY.variants(CASES["row"].group, PROFILE)))
    found = list(tunings(GEMM_WEIGHT_ONLY, CASES["row"].group, variant, PROFILE))
    assert {"shape"} == {one.reason for one in found if isinstance(one, Refusal)}


@pytest.mark.parametrize("isa", ["x86-64-v2", "aarch64"])
def test_emulated(isa: str) -> None:
    need_emulator(isa)
    case = product(np.random.default_rng(2), (3, 80), 21, zeros="packed")
    assert check_emulated([(case, GEMM_WEIGHT_ONLY)], make_profile(isa)) >= 2
