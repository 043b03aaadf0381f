"""The knob `grain`: every cut gives the same numbers, and cuts that are those of another grain are refused."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.grain import grain_refusal, grains, rows_cut, spans_cut
from meta_infer.kernels.kernel import Kernel, Refusal
from meta_infer.kernels.registry import kernels_for
from meta_infer.kernels.tuning import feasible, tunings

from .conv_cases import PROFILES, random
from .grain_cases import maps, moves, sums
from .harness import PROFILE, Case, check_case, make_group

MOVES = tuple(moves(np.random.default_rng(3)))


def grained(case: Case) -> list[Kernel]:
    """The kernels for a case of which a variant has the knob."""
    return [kernel for kernel in kernels_for(case.group.anchor.op)
            if any("grain" in variant.knobs for variant in kernel.variants(case.group, PROFILE))]


@pytest.mark.parametrize("case", MOVES, ids=[f"{case.group.anchor.op} {i}" for i, case in enumerate(MOVES)])
def test_all_corners_move_the_same(case: Case) -> None:
    (kernel,) = grained(case)
    variants = list(kernel.variants(case.group, PROFILE))
    assert check_case(case, kernel, rtol=0, atol=0, all_corners=True) == 3 * len(variants)


def test_a_small_tensor_has_one_cut() -> None:
    """Elements of fewer than the smallest grain, and rows longer than the largest."""
    rng = np.random.default_rng(0)
    long = Symbol("long", 1 << 20, 1 << 21).dim
    for case in (make_group("Gather", {"x": random(rng, 9, 7), "i": np.arange(5)}, {"axis": 0}),
                 make_group("Pad", {"x": random(rng, 3, 5)}, {"pads": (1, 0, 0, 2), "mode": "edge", "value": 0.0}),
                 make_group("Expand", {"x": random(rng, 1, 1)}, {"shape": (3, long)})):
        (kernel,) = grained(case)
        (variant,) = kernel.variants(case.group, PROFILE)
        found, reasons = feasible(tunings(kernel, case.group, variant, PROFILE))
        assert found == [variant] and reasons == {"shape": 2}


def test_refusals_name_the_grain_that_cuts_alike() -> None:
    small, default, large = grains(4096)
    both = (small, large)
    for cut, refused in ((rows_cut(1000, 64), ()), (rows_cut(64, 64), (large,)), (rows_cut(16, 64), both),
                         (rows_cut(9, 1 << 20), both), (spans_cut(9, 1 << 20), ()), (rows_cut(0, 0), both)):
        for grain in (small, default, large):
            found = grain_refusal({"grain": grain}, cut, 4096)
            assert (found is not None) == (grain in refused), (grain, refused)
    nothing = grain_refusal({"grain": 0}, rows_cut(1000, 64))
    assert isinstance(nothing, Refusal) and nothing.reason == "shape"


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("case", [*maps(np.random.default_rng(4)), *sums(np.random.default_rng(5))],
                         ids=lambda case: case.group.label)
def test_all_corners_of_maps_and_sums(case: Case, profile: Profile) -> None:
    (kernel,) = grained(case)
    variants = list(kernel.variants(case.group, profile))
    assert check_case(case, kernel, 1e-4, 1e-5, profile, all_corners=True) >= 5 * len(variants)
