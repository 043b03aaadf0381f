"""Winograd convolutions: random shapes, every knob corner, edges, epilogues, widths of vectors, dynamic sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Variant
from meta_infer.ir.walk_loop import walk_stmts
from meta_infer.kernels.conv.conv_winograd import CONV_WINOGRAD, OUTPUTS
from meta_infer.kernels.kernel import Refusal
from meta_infer.search.default_plan import RISK_LIMIT
from tests.emulators import need_emulator

from .conv_cases import PROFILES, conv_case, random
from .emulated import run_emulated
from .harness import Case, Step, corner_variants, layouts_of, make_profile, reference, run_group
from .test_code_size import MOST_STATEMENTS

TOLERANCE = {"winograd_f2": 2e-5, "winograd_f4": 1e-4, "winograd_f6": 1e-3}
"""Of the largest output, where inputs and weights are standard normal."""
WIDE = replace(PROFILES[0], simd_bits=512)


def random_case(rng: np.random.Generator, *, dynamic: bool = False) -> Case:
    """A 3x3 convolution of small size: outputs from 1x1, fewer than a tile, any pads up to 3."""
    pads = tuple(map(int, rng.integers(0, 4, 4)))
    sizes = [int(rng.integers(max(1, 3 - pads[i] - pads[i + 2]), 20)) for i in range(2)]
    shape = (int(rng.integers(1, 4)), int(rng.integers(1, 68)), *sizes)
    return conv_case(rng, shape, int(rng.integers(1, 68)), (3, 3), pads=pads, bias=bool(rng.integers(2)),
                     dynamic=dynamic)


def check(case: Case, profile: Profile, *, all_corners: bool = False, most: int = 1000,
          engines: tuple[str, ...] = ("c",)) -> int:
    """Run the variants (at all corners of their knobs), `most` of them, against the reference in float64."""
    want = reference(case, promote=True)
    variants = list(corner_variants(case, CONV_WINOGRAD, profile) if all_corners
                    else CONV_WINOGRAD.variants(case.group, profile))
    if len(variants) > most:
        picks = np.random.default_rng(len(variants)).permutation(len(variants))[:most]
        variants = [variants[i] for i in picks]
    for count, variant in enumerate(variants):
        layouts = layouts_of(variant, case.group)
        for engine in engines:
            got = run_group(case.group, CONV_WINOGRAD, variant, layouts, case.arrays, profile, engine=engine,
                            seed=count)
            for name, array in got.items():
                scale = float(np.abs(want[name]).max()) + 1e-3
                np.testing.assert_allclose(array, want[name], 0, TOLERANCE[variant.name] * scale,
                                           err_msg=f"{variant.name} {dict(variant.knobs)} {engine} {name}")
    return len(variants)


@pytest.mark.parametrize("profile", (*PROFILES, WIDE), ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("seed", range(2))
def test_random_shapes(seed: int, profile: Profile) -> None:
    assert check(random_case(np.random.default_rng(seed)), profile) == 3


@pytest.mark.parametrize("seed", range(2))
def test_random_dynamic_shapes(seed: int) -> None:
    assert check(random_case(np.random.default_rng(50 + seed), dynamic=True), PROFILES[seed]) == 3


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
def test_knob_corners(profile: Profile, full: bool) -> None:
    """A block that ends inside a row of tiles, an odd number of channel blocks; `--full` runs every corner."""
    case = conv_case(np.random.default_rng(7), (2, 19, 13, 17), 37, (3, 3), pads=(1, 1, 1, 1))
    assert check(case, profile, all_corners=True, most=1000 if full else 9) >= 9


@pytest.mark.parametrize("size", [(1, 1, 1), (1, 7, 50), (3, 33, 2)])
def test_one_dynamic_function_at_several_sizes(size: tuple[int, int, int]) -> None:
    n, height, width = size
    case = conv_case(np.random.default_rng(0), (n, 12, height, width), 24, (3, 3), pads=(1, 1, 1, 1), dynamic=True)
    assert check(case, PROFILES[0]) == 3


@pytest.mark.parametrize("shape, pads", [
    ((1, 8, 1, 1), (1, 1, 1, 1)),                        # one output
    ((1, 8, 3, 3), (0, 0, 0, 0)),                        # one output without padding
    ((1, 3, 2, 9), (3, 0, 3, 0)),                        # rows of nothing but padding
    ((2, 5, 9, 2), (0, 3, 0, 3)),                        # columns of nothing but padding
    ((3, 4, 6, 6), (0, 2, 2, 0)),                        # blocks over several images
])
def test_edges(shape: tuple[int, ...], pads: tuple[int, ...]) -> None:
    assert check(conv_case(np.random.default_rng(1), shape, 9, (3, 3), pads=pads), PROFILES[0]) == 3


def test_interpreted() -> None:
    """The interpreter checks every index and register."""
    case = conv_case(np.random.default_rng(2), (1, 3, 5, 6), 5, (3, 3), pads=(1, 0, 1, 1), epilogue=[Step("Relu")])
    assert check(case, make_profile("x86-64-v2"), engines=("interpret",)) == 3


def _epilogues(rng: np.random.Generator, shape: tuple[int, ...]) -> list[list[Step]]:
    n, c, h, w = shape
    return [
        [Step("Add", {"r": random(rng, *shape)}), Step("Relu")],
        [Step("HardSwish")],
        [Step("Sigmoid"), Step("Mul", {"r": random(rng, *shape)})],
        [Step("Mul", {"s": random(rng, 1, c, 1, 1)}), Step("Add", {"q": random(rng, c, h, w)}), Step("Tanh")],
        [Step("Sub", {"m": random(rng, h, w)}, at=1), Step("Mul", {"s": random(rng, n, c, 1, 1)})],
    ]


@pytest.mark.parametrize("index", range(5))
def test_epilogues(index: int) -> None:
    rng = np.random.default_rng(3)
    steps = _epilogues(rng, (2, 21, 5, 9))[index]
    case = conv_case(rng, (2, 12, 5, 9), 21, (3, 3), pads=(1, 1, 1, 1), epilogue=steps, keep=("out",))
    assert check(case, PROFILES[0], most=1) == 1


def test_input_that_the_epilogue_reads_too() -> None:
    rng = np.random.default_rng(5)
    x = conv_case(rng, (1, 16, 6, 6), 16, (3, 3)).arrays["x"]
    rng = np.random.default_rng(5)
    case = conv_case(rng, (1, 16, 6, 6), 16, (3, 3), pads=(1, 1, 1, 1), epilogue=[Step("Add", {"x": x})])
    assert check(case, PROFILES[0], most=1) == 1


@pytest.mark.parametrize("name", OUTPUTS)
def test_weights_transformed_at_load(name: str) -> None:
    """Register tiles of two widths, two passes: the same results, up to rounding, from a ninth of the points."""
    case = conv_case(np.random.default_rng(8), (1, 19, 9, 10), 37, (3, 3), pads=(1, 1, 1, 1))
    group, profile = case.group, PROFILES[1]
    variant = next(v for v in CONV_WINOGRAD.variants(group, profile) if v.name == name)
    found = []
    for at_load in (0, 1):
        values = {"vectors": 3, "columns": 2, "groups": 2, "out_pass": 3, "at_load": at_load}
        tuned = CONV_WINOGRAD.tune(group, variant, values, profile)
        assert isinstance(tuned, Variant)
        lowering = CONV_WINOGRAD.lower(group, tuned, layouts_of(tuned, group), profile)
        assert sum(a.nbytes for a in lowering.packed.values()) == tuned.packed_bytes + 40 * 4, "and the biases"
        assert bool(lowering.prepare) == bool(at_load)
        found.append(run_group(group, CONV_WINOGRAD, tuned, layouts_of(tuned, group), case.arrays, profile)["out"])
    np.testing.assert_allclose(found[0], found[1], 0, TOLERANCE[name] * float(np.abs(found[0]).max()))


@pytest.mark.parametrize("isa", ["x86-64-v2", "aarch64"])
def test_emulated(isa: str) -> None:
    """The corners of knobs under emulation: test_emulated_kernels.py."""
    need_emulator(isa)
    rng, profile = np.random.default_rng(11), make_profile(isa)
    case = conv_case(rng, (2, 9, 10, 7), 14, (3, 3), pads=(0, 1, 1, 1), epilogue=[Step("Relu")])
    chosen = [(case, variant) for variant in CONV_WINOGRAD.variants(case.group, profile)]
    want = reference(case, promote=True)["e0"]
    for (_, variant), got in zip(chosen, run_emulated(chosen, profile), strict=True):
        np.testing.assert_allclose(got["e0"], want, 0, TOLERANCE[variant.name] * float(np.abs(want).max()))


@pytest.mark.parametrize("extra", [{"strides": (2, 2)}, {"strides": (1, 2)}, {"dilations": (2, 2)}, {"group": 2}])
def test_groups_out_of_reach_have_no_variant(extra: dict[str, object]) -> None:
    case = conv_case(np.random.default_rng(6), (1, 8, 9, 9), 8, (3, 3), **extra)
    assert not list(CONV_WINOGRAD.variants(case.group, PROFILES[0]))
    assert not list(CONV_WINOGRAD.variants(random_case(np.random.default_rng(0)).group,
                                           replace(PROFILES[0], simd_bits=0)))


def test_risks_around_the_limit_of_plans_without_a_look_at_accuracy() -> None:
    risks = {v.name: v.risk for v in CONV_WINOGRAD.variants(random_case(np.random.default_rng(0)).group, PROFILES[0])}
    assert risks["winograd_f2"] < risks["winograd_f4"] < RISK_LIMIT < risks["winograd_f6"]


def test_refusals_are_countable() -> None:
    profile = make_profile("x86-64-v3")
    case = conv_case(np.random.default_rng(0), (1, 16, 12, 12), 16, (3, 3), pads=(1, 1, 1, 1))
    variant = next(v for v in CONV_WINOGRAD.variants(case.group, profile) if v.name == "winograd_f4")

    def reason(**values: int) -> str:
        tuned = CONV_WINOGRAD.tune(case.group, variant, values, profile)
        assert isinstance(tuned, Refusal) and tuned.detail
        return tuned.reason

    assert reason(columns=14, vectors=2) == "registers"
    assert reason(vectors=4) == "shape"
    assert reason(groups=16) == "shape"
    assert reason(in_pass=16) == "shape"


@pytest.mark.parametrize("isa", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_code_size(isa: str) -> None:
    profile, case = make_profile(isa), conv_case(np.random.default_rng(0), (1, 32, 14, 14), 72, (3, 3),
                                                 epilogue=[Step("Add", {"r": np.zeros((1, 72, 12, 12), np.float32)}),
                                                           Step("Relu")])
    for variant in CONV_WINOGRAD.variants(case.group, profile):
        lowering = CONV_WINOGRAD.lower(case.group, variant, layouts_of(variant, case.group), profile)
        count = sum(1 for call in lowering.calls for _ in walk_stmts(call.func.body))
        assert count <= MOST_STATEMENTS, f"{variant.name} takes {count} statements"
    assert {v.name for v in CONV_WINOGRAD.variants(case.group, profile)} == set(OUTPUTS)
