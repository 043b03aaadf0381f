"""Winograd convolutions of 8-bit integers: every bit of the sums, at extreme operands, edges and knob corners."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Variant
from meta_infer.ir.walk_loop import walk_stmts
from meta_infer.kernels.int8.conv_winograd_int8 import CONV_WINOGRAD_INT8, OUTPUTS
from meta_infer.kernels.int8.winograd_int8_plan import largest_sum, winograd_problem
from meta_infer.kernels.int8.winograd_int8_transforms import INTEGER_TRANSFORMS
from meta_infer.kernels.kernel import Refusal
from meta_infer.support.dtypes import FLOAT32
from tests.backends.assembly import assembly
from tests.emulators import need_emulator

from .conv_cases import PROFILES
from .emulated import check_emulated
from .harness import Case, Step, check_case, corner_variants, layouts_of, make_group, make_profile, run_group
from .int8_cases import int8_conv, numbers
from .test_code_size import MOST_STATEMENTS

PADS = (1, 1, 1, 1)
ATTRS = {"kernel_shape": (3, 3), "strides": (1, 1), "pads": PADS, "dilations": (1, 1), "group": 1}
WIDE = replace(PROFILES[0], simd_bits=512)


def check(case: Case, profile: Profile = PROFILES[0], **options: bool) -> int:
    return check_case(case, CONV_WINOGRAD_INT8, 0, 0, profile, **options)


def random_case(rng: np.random.Generator, *, dynamic: bool = False) -> Case:
    """Small sizes: outputs from 1x1, fewer than a tile, pads to 3, every kind of operand."""
    pads = tuple(map(int, rng.integers(0, 4, 4)))
    least = 5 if dynamic else 1
    sizes = [int(rng.integers(max(least, 3 - pads[i] - pads[i + 2]), 20)) for i in range(2)]
    types = (np.uint8 if rng.random() < 0.6 else np.int8, np.int8 if rng.random() < 0.6 else np.uint8)
    info = np.iinfo(types[0])
    return int8_conv(rng, (int(rng.integers(1, 4)), int(rng.integers(1, 68)), *sizes), int(rng.integers(1, 68)), (3, 3),
                     pads=pads, types=types, zero=int(rng.integers(info.min, info.max, endpoint=True)),
                     known_zero=rng.random() < 0.5, w_zero=types[1] == np.uint8, requantise=rng.random() < 0.5,
                     dynamic=dynamic)


@pytest.mark.parametrize("m", INTEGER_TRANSFORMS)
def test_transforms_are_exact(m: int) -> None:
    """A^T [(G g G^T) * (B^T d B)] A is f^2 times the sum, and leaves int16 nowhere on the way."""
    t, rng = INTEGER_TRANSFORMS[m], np.random.default_rng(m)
    a, g, data = (np.array(matrix) for matrix in (t.output, t.weight, t.input))
    for _ in range(20):
        d, w = rng.choice([-255, 0, 255, 3], (m + 2, m + 2)), rng.choice([-128, 127, -1], (3, 3))
        v, u = data @ d @ data.T, g @ w @ g.T
        assert max(np.abs(v).max(), np.abs(u).max(), np.abs(data @ d).max(), np.abs(g @ w).max()) < 1 << 15
        want = np.array([[(d[i:i + 3, j:j + 3] * w).sum() for j in range(m)] for i in range(m)])
        np.testing.assert_array_equal(a @ (u * v) @ a.T, t.factor**2 * want)
    assert t.factor**2 * t.inverse % (1 << 32) == 1 << t.shift and t.most == 1 << (31 - t.shift)


@pytest.mark.parametrize("profile", (*PROFILES, WIDE), ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("dynamic", [False, True])
def test_random_shapes(dynamic: bool, profile: Profile, full: bool) -> None:
    for seed in range(12 if full else 1):
        assert check(random_case(np.random.default_rng(10 * seed + dynamic), dynamic=dynamic), profile) >= 1


@pytest.mark.parametrize("weight", [-128, 127, None], ids=["least", "greatest", "either"])
def test_extremes(weight: int | None) -> None:
    """115 channels of the greatest operands: the sums come within 0.2% of what 32 bits tell of their 576-fold."""
    rng = np.random.default_rng(3)
    w = numbers(rng, np.int8, 16, 114, 3, 3)
    w[:8] = rng.choice([-128, 127], (8, 114, 3, 3)) if weight is None else weight
    x = np.full((2, 114, 6, 6), 255, np.uint8)
    x[1] = rng.choice([0, 255], (114, 6, 6))
    for zero in (0, 255):
        case = make_group("ConvInteger", {"x": x, "w": w, "z": np.array(zero, np.uint8)}, ATTRS, constants=("w", "z"))
        padded = np.pad(x.astype(np.int64) - zero, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        want = np.einsum("ncyxij,ocij->noyx", windows, w.astype(np.int64))
        variants = list(CONV_WINOGRAD_INT8.variants(case.group, PROFILES[0]))
        assert [v.name for v in variants] == list(OUTPUTS)
        for variant in variants:
            found = run_group(case.group, CONV_WINOGRAD_INT8, variant, layouts_of(variant, case.group), case.arrays)
            np.testing.assert_array_equal(found["out"], want)


def test_sums_out_of_reach_have_no_variant() -> None:
    """The bound is that of the weights: of one sign, twice as many channels of mixed ones."""

    def names(channels: int, *, mixed: bool, zero: int | None, weight: int = -128) -> list[str]:
        w = np.full((8, channels, 3, 3), weight, np.int8)
        if mixed:
            w[:, ::2] = 127
        x = np.zeros((1, channels, 4, 4), np.uint8)
        z = None if zero is None else np.array(zero, np.uint8)
        case = make_group("ConvInteger", {"x": x, "w": w, "z": z}, ATTRS, constants=("w", "z")[:1 + (zero is not None)])
        return [v.name for v in CONV_WINOGRAD_INT8.variants(case.group, PROFILES[0])]

    assert names(114, mixed=False, zero=0) == list(OUTPUTS)
    assert names(115, mixed=False, zero=0) == ["winograd_int8_f2"]
    assert names(228, mixed=False, zero=127) == ["winograd_int8_f2"]
    assert names(227, mixed=False, zero=128) == list(OUTPUTS)
    assert names(228, mixed=True, zero=None) == list(OUTPUTS)
    assert names(116, mixed=False, zero=None, weight=127) == ["winograd_int8_f2"]


def test_the_bound_holds_for_every_zero_point() -> None:
    rng = np.random.default_rng(9)
    for zero in (0, 17, 255, None):
        case = int8_conv(rng, (1, 5, 4, 4), 6, (3, 3), zero=100 if zero is None else zero, known_zero=zero is not None)
        problem = winograd_problem(case.group, PROFILES[0])
        assert problem is not None
        bound, weights = largest_sum(problem[1]), problem[1].weights.astype(int)
        for z in (0, 100, 255) if zero is None else (zero,):
            ends = np.stack([weights * (0 - z), weights * (255 - z)])
            reached = max(ends.max(0).reshape(6, -1).sum(1).max(), -ends.min(0).reshape(6, -1).sum(1).min())
            assert reached <= bound and (zero is None or reached == bound)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
def test_knob_corners(profile: Profile, full: bool) -> None:
    """A block that ends inside a row of tiles, an odd number of channel blocks; `--full` runs every corner."""
    case = int8_conv(np.random.default_rng(7), (2, 19, 13, 17), 37, (3, 3), pads=PADS, zero=9, known_zero=False)
    if full:
        assert check(case, profile, all_corners=True) >= 9
        return
    variants = list(corner_variants(case, CONV_WINOGRAD_INT8, profile))
    for i in np.random.default_rng(1).permutation(len(variants))[:4]:
        layouts = layouts_of(variants[i], case.group)
        for seed in (None, 5):
            found = run_group(case.group, CONV_WINOGRAD_INT8, variants[i], layouts, case.arrays, profile, seed=seed)
            w, x = (case.arrays[n].astype(np.int64) for n in ("w", "x"))
            padded = np.pad(x - 9, ((0, 0), (0, 0), (1, 1), (1, 1)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
            np.testing.assert_array_equal(found["out"], np.einsum("ncyxij,ocij->noyx", windows, w))


@pytest.mark.parametrize("shape, pads", [
    ((1, 8, 1, 1), (1, 1, 1, 1)),                        # one output
    ((1, 3, 2, 9), (3, 0, 3, 0)),                        # rows of nothing but padding
    ((2, 5, 9, 2), (0, 3, 0, 3)),                        # columns of nothing but padding
    ((3, 4, 6, 6), (0, 2, 2, 0)),                        # blocks over several images
])
def test_edges(shape: tuple[int, ...], pads: tuple[int, ...]) -> None:
    assert check(int8_conv(np.random.default_rng(1), shape, 9, (3, 3), pads=pads, zero=77)) == 2


def test_interpreted() -> None:
    """The interpreter checks every index and register."""
    case = int8_conv(np.random.default_rng(2), (1, 3, 5, 6), 5, (3, 3), pads=(1, 0, 1, 1), zero=50, requantise=True)
    assert check(case, make_profile("x86-64-v2"), engines=("interpret",)) == 2


def test_epilogue_with_math_functions() -> None:
    rng = np.random.default_rng(4)
    scale = np.array(1e-4, np.float32)
    steps = [Step("Cast", attrs={"to": FLOAT32}), Step("Mul", {"s": scale}), Step("Sigmoid")]
    case = make_group("ConvInteger", {"x": numbers(rng, np.uint8, 1, 9, 6, 7), "w": numbers(rng, np.int8, 10, 9, 3, 3)},
                      ATTRS, constants=("w", "s"), epilogue=steps, keep=("out",))
    assert check_case(case, CONV_WINOGRAD_INT8, 0, 1e-5) == 2


@pytest.mark.parametrize("name", OUTPUTS)
def test_weights_transformed_at_load(name: str) -> None:
    """Register tiles of two widths, two passes: the same weights as at build, from a ninth of the points."""
    case = int8_conv(np.random.default_rng(8), (1, 19, 9, 10), 37, (3, 3), pads=PADS, w_zero=True)
    group, profile = case.group, PROFILES[1]
    variant = next(v for v in CONV_WINOGRAD_INT8.variants(group, profile) if v.name == name)
    found = []
    for at_load in (0, 1):
        values = {"vectors": 3, "columns": 2, "groups": 2, "out_pass": 3, "at_load": at_load}
        tuned = CONV_WINOGRAD_INT8.tune(group, variant, values, profile)
        assert isinstance(tuned, Variant)
        lowering = CONV_WINOGRAD_INT8.lower(group, tuned, layouts_of(tuned, group), profile)
        assert sum(a.nbytes for a in lowering.packed.values()) == tuned.packed_bytes
        assert bool(lowering.prepare) == bool(at_load)
        found.append(run_group(group, CONV_WINOGRAD_INT8, tuned, layouts_of(tuned, group), case.arrays, profile)["out"])
    np.testing.assert_array_equal(*found)


def test_weights_beyond_int16_have_no_variant() -> None:
    """A zero point of the weights at one end makes them 9 bits wide: transformed they may not fit."""
    w = np.full((8, 4, 3, 3), 255, np.uint8)
    case = make_group("ConvInteger", {"x": np.zeros((1, 4, 5, 5), np.uint8), "w": w, "z": None,
                                      "p": np.zeros((8, 1, 1, 1), np.uint8)}, ATTRS, constants=("w", "p"))
    assert [v.name for v in CONV_WINOGRAD_INT8.variants(case.group, PROFILES[0])] == ["winograd_int8_f2"]
    assert check(case) == 1


@pytest.mark.parametrize("isa", ["x86-64-v2", "aarch64"])
def test_emulated(isa: str, full: bool) -> None:
    need_emulator(isa)
    rng = np.random.default_rng(11)
    cases = [random_case(rng) for _ in range(6 if full else 0)]
    cases.append(int8_conv(rng, (1, 19, 6, 7), 21, (3, 3), pads=PADS, zero=200, requantise=True))
    assert check_emulated([(case, CONV_WINOGRAD_INT8) for case in cases], make_profile(isa)) >= len(cases)


@pytest.mark.parametrize("extra", [{"strides": (2, 2)}, {"dilations": (2, 2)}, {"group": 2}])
def test_groups_out_of_reach_have_no_variant(extra: dict[str, object]) -> None:
    case = int8_conv(np.random.default_rng(6), (1, 8, 9, 9), 8, (3, 3), **extra)                   # type: ignore[arg-type]
    assert not list(CONV_WINOGRAD_INT8.variants(case.group, PROFILES[0]))
    dense = int8_conv(np.random.default_rng(6), (1, 8, 9, 9), 8, (3, 3))
    assert not list(CONV_WINOGRAD_INT8.variants(dense.group, make_profile("riscv64")))


def test_refusals_are_countable() -> None:
    profile = make_profile("x86-64-v3")
    case = int8_conv(np.random.default_rng(0), (1, 16, 12, 12), 16, (3, 3), pads=PADS)
    variant = next(iter(CONV_WINOGRAD_INT8.variants(case.group, profile)))

    def reason(**values: int) -> str:
        tuned = CONV_WINOGRAD_INT8.tune(case.group, variant, values, profile)
        assert isinstance(tuned, Refusal) and tuned.detail
        return tuned.reason

    assert reason(columns=11, vectors=2) == "registers"
    assert reason(vectors=4) == reason(groups=16) == reason(in_pass=16) == "shape"


@pytest.mark.parametrize("isa", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_code_size(isa: str) -> None:
    profile = make_profile(isa)
    case = int8_conv(np.random.default_rng(0), (1, 32, 14, 14), 72, (3, 3), requantise=True)
    for variant in CONV_WINOGRAD_INT8.variants(case.group, profile):
        lowering = CONV_WINOGRAD_INT8.lower(case.group, variant, layouts_of(variant, case.group), profile)
        count = sum(1 for call in lowering.calls for _ in walk_stmts(call.func.body))
        assert count <= MOST_STATEMENTS, f"{variant.name} takes {count} statements"


@pytest.mark.parametrize(("isa", "instruction"), [("x86-64-v3", r"vpmaddwd.*%ymm"), ("x86-64-v4", r"vpmaddwd.*%zmm"),
                                                  ("aarch64", r"\bsmull2\b")])
def test_instruction_mix(isa: str, instruction: str) -> None:
    """The inner loops multiply with the target's own instruction, and hardly touch the stack."""
    case, profile = int8_conv(np.random.default_rng(8), (1, 64, 28, 28), 64, (3, 3), pads=PADS), make_profile(isa)
    variant = next(iter(CONV_WINOGRAD_INT8.variants(case.group, profile)))
    lowering = CONV_WINOGRAD_INT8.lower(case.group, variant, layouts_of(variant, case.group), profile)
    text = assembly([lowering.calls[-1].func], isa)
    products = len(re.findall(instruction, text))
    assert products >= 64
    assert len(re.findall(r"%[yz]mm\d+.*\(%rsp\)|\(%rsp\).*%[yz]mm|\bq\d+, \[sp", text)) <= products // 16
