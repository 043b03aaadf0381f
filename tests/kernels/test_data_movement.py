"""Transpose, Slice, Concat, Gather, Expand, Pad and Resize kernels against the ops' numpy references."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.image.resize import RESIZE
from meta_infer.kernels.kernel import Kernel, Refusal
from meta_infer.kernels.movement.concat import CONCAT
from meta_infer.kernels.movement.expand import EXPAND
from meta_infer.kernels.movement.gather import GATHER
from meta_infer.kernels.movement.pad import PAD
from meta_infer.kernels.movement.slice import SLICE
from meta_infer.kernels.movement.transpose import TRANSPOSE, collapse

from .harness import PROFILE, Case, check_case, layouts_of, make_group, make_profile, reference, run_group

DTYPES = [np.float32, np.int64, np.bool_, np.float64]
A, B = Symbol("a", 0, 40), Symbol("b", 1, 40)


def array(rng: np.random.Generator, shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    return (rng.standard_normal(shape) * 50).astype(dtype)


def check(case: Case, kernel: Kernel, exact: bool = True) -> None:
    """Every variant must give the reference's numbers."""
    want = reference(case)
    variants = list(kernel.variants(case.group, PROFILE))
    assert variants
    for variant in variants:
        got = run_group(case.group, kernel, variant, layouts_of(variant, case.group), case.arrays, PROFILE)
        for name in want:
            if exact:
                np.testing.assert_array_equal(got[name], want[name], err_msg=variant.name)
            else:
                np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-4, err_msg=variant.name)


@pytest.mark.parametrize("seed", range(8))
def test_transpose(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 6))
    shape = tuple(int(rng.choice([1, 2, 3, 5, 17, 33])) for _ in range(rank))
    perm = tuple(int(p) for p in rng.permutation(rank))
    check(make_group("Transpose", {"x": array(rng, shape, DTYPES[seed % 4])}, {"perm": perm}), TRANSPOSE)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint16])
def test_transposed_squares_at_all_corners(dtype: type) -> None:
    """Sizes below, at and beyond squares and tiles."""
    rng = np.random.default_rng(1)
    for shape, perm in (((2, 1, 19, 37), (1, 0, 3, 2)), ((130, 3, 8), (2, 1, 0))):
        case = make_group("Transpose", {"x": array(rng, shape, dtype)}, {"perm": perm})
        count = 8 if PROFILE.simd_bits >= 512 and dtype is not np.float64 else 7
        assert check_case(case, TRANSPOSE, rtol=0, atol=0, all_corners=True) == count


def to_the_end(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def to_the_front(rank: int) -> tuple[int, ...]:
    return (0, rank - 1, *range(1, rank - 1))


@pytest.mark.parametrize("isa", ["x86-64-v2", "x86-64-v3"])
def test_blocked_channels_to_the_end_and_back(isa: str) -> None:
    """Channels that fill their blocks and that do not, every rank, other axes in any order."""
    rng, profile = np.random.default_rng(2), make_profile(isa)
    for shape, perm, names in (
            ((1, 40, 5, 7), to_the_end(4), {"from_blocked"}), ((2, 5, 7, 19), to_the_front(4), {"to_blocked"}),
            ((2, 19, 37), (0, 2, 1), {"from_blocked", "to_blocked"}),
            ((2, 11, 3, 4, 5), to_the_end(5), {"from_blocked"}),
            ((2, 3, 4, 2, 77), to_the_front(5), {"to_blocked"}), ((3, 17, 1, 9), (2, 0, 3, 1), {"from_blocked"}),
            ((2, 3, 4, 5, 41), (3, 4, 0, 2, 1), {"from_blocked", "to_blocked"}),
            ((1, 3, 1, 1), to_the_end(4), {"from_blocked"}),
            ((0, 8, 3), (1, 2, 0), {"to_blocked"})):
        case = make_group("Transpose", {"x": array(rng, shape)}, {"perm": perm})
        found = {v.name for v in TRANSPOSE.variants(case.group, profile)}
        assert found == {"plain", *names}
        assert check_case(case, TRANSPOSE, 0, 0, profile, all_corners=True) >= len(found)
    for dtype, where in ((np.int32, profile), (np.float32, make_profile("riscv64"))):
        group = make_group("Transpose", {"x": array(rng, (1, 8, 3, 3), dtype)}, {"perm": to_the_end(4)}).group
        assert [v.name for v in TRANSPOSE.variants(group, where)] == ["plain"]


def test_blocked_channels_to_the_end_and_back_of_dynamic_sizes() -> None:
    rng = np.random.default_rng(3)
    for a, b in ((1, 1), (0, 5), (5, 40), (40, 7)):
        for channels in (16, 21):
            x, y = array(rng, (a, channels, b, 33)), array(rng, (2, a, b, channels))
            check(make_group("Transpose", {"x": x}, {"perm": to_the_end(4)},
                             shapes={"x": (A.dim, channels, B.dim, 33)}), TRANSPOSE)
            check(make_group("Transpose", {"x": y}, {"perm": to_the_front(4)},
                             shapes={"x": (2, A.dim, B.dim, channels)}), TRANSPOSE)
    dynamic = make_group("Transpose", {"x": array(rng, (1, 5, 3, 3))}, {"perm": to_the_end(4)},
                         shapes={"x": (1, B.dim, 3, 3)}).group
    assert [v.name for v in TRANSPOSE.variants(dynamic, PROFILE)] == ["plain"], "dynamic channels are never blocked"


def test_squares_that_no_register_holds_are_refused() -> None:
    group = make_group("Transpose", {"x": np.zeros((20, 20), np.float64)}, {"perm": (1, 0)}).group
    for isa, most in (("x86-64-v2", 2), ("x86-64-v3", 4), ("x86-64-v4", 8), ("riscv64", 1)):
        profile = make_profile(isa)
        (variant,) = TRANSPOSE.variants(group, profile)
        assert variant.knobs["square"] == most
        found = TRANSPOSE.tune(group, variant, {"square": 2 * most}, profile)
        assert isinstance(found, Refusal) and found.reason == "registers"


def test_transpose_of_nothing_and_of_a_dynamic_shape() -> None:
    rng = np.random.default_rng(0)
    check(make_group("Transpose", {"x": np.zeros((0, 3, 4), np.float32)}, {"perm": (2, 0, 1)}), TRANSPOSE)
    for a, b in ((1, 1), (5, 40), (40, 7)):
        x = array(rng, (a, b, 3, 32))
        for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (3, 2, 1, 0)):
            check(make_group("Transpose", {"x": x}, {"perm": perm}, shapes={"x": (A.dim, B.dim, 3, 32)}), TRANSPOSE)


def test_collapse_merges_only_neighbours() -> None:
    assert collapse((2, 3, 4, 5), (0, 1, 3, 2)) == ((6, 4, 5), (0, 2, 1))
    assert collapse((2, 1, 3, 4), (0, 2, 1, 3)) == ((24,), (0,))
    assert collapse((2, 3, 4), (2, 0, 1)) == ((6, 4), (1, 0))
    assert collapse((1, 1), (1, 0)) == ((), ())


@pytest.mark.parametrize("seed", range(8))
def test_slice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(rng.integers(1, 20)) for _ in range(int(rng.integers(1, 5))))
    starts, sizes, steps = [], [], []
    for d in shape:
        step = int(rng.choice([1, 1, 2, -1, -3]))
        start = int(rng.integers(0, d))
        most = (d - start + step - 1) // step if step > 0 else start // -step + 1
        starts.append(start)
        steps.append(step)
        sizes.append(int(rng.integers(0, most + 1)))
    attrs = {"starts": tuple(starts), "sizes": tuple(sizes), "steps": tuple(steps)}
    check(make_group("Slice", {"x": array(rng, shape, DTYPES[seed % 4])}, attrs), SLICE)


def test_slice_of_dynamic_size() -> None:
    rng = np.random.default_rng(1)
    for a in (3, 17, 40):
        attrs = {"starts": (A.dim - 1, 2), "sizes": (A.dim - 2, 5), "steps": (-1, 2)}
        check(make_group("Slice", {"x": array(rng, (a, 13))}, attrs, shapes={"x": (A.dim, 13)}), SLICE)


@pytest.mark.parametrize("start, size, blocks", [(8, 16, True), (16, 11, True), (8, 11, False), (4, 8, False)])
def test_slice_of_channels_in_blocks(start: int, size: int, blocks: bool) -> None:
    """Whole blocks, or up to the last channel; other axes as they like but the last, whose step is 1."""
    rng = np.random.default_rng(2)
    attrs = {"starts": (0, start, 4, 1), "sizes": (2, size, 3, 5), "steps": (1, 1, -2, 1)}
    case = make_group("Slice", {"x": array(rng, (2, 27, 6, 7))}, attrs)
    if PROFILE.lanes(case.group.values["x"].dtype) == 8:
        assert len(list(SLICE.variants(case.group, PROFILE))) == 1 + blocks
    check(case, SLICE)


@pytest.mark.parametrize("seed", range(6))
def test_concat(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    axis = int(rng.integers(0, rank))
    base = [int(rng.integers(1, 9)) for _ in range(rank)]
    inputs = {}
    for i in range(int(rng.integers(1, 4))):
        base[axis] = int(rng.choice([0, 1, 5, 8, 16]))
        inputs[f"x{i}"] = array(rng, tuple(base), DTYPES[seed % 4])
    check(make_group("Concat", inputs, {"axis": axis}), CONCAT)


def test_concat_of_blocked_channels() -> None:
    rng, lanes = np.random.default_rng(2), PROFILE.simd_bits // 32
    for channels in ((lanes, 2 * lanes, 5), (2 * lanes, lanes), (3 * lanes,)):
        inputs = {f"x{i}": array(rng, (2, c, 3, 5)) for i, c in enumerate(channels)}
        case = make_group("Concat", inputs, {"axis": 1})
        assert "blocked" in [v.name for v in CONCAT.variants(case.group, PROFILE)]
        check(case, CONCAT)
    odd = make_group("Concat", {"x": array(rng, (1, 5, 2, 2)), "y": array(rng, (1, lanes, 2, 2))}, {"axis": 1})
    assert [v.name for v in CONCAT.variants(odd.group, PROFILE)] == ["plain", "merged"]
    check(odd, CONCAT)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_gather(dtype: type) -> None:
    rng = np.random.default_rng(3)
    for shape, axis, picks in (((7, 5), 0, (3, 2)), ((4, 9, 3), 1, (6,)), ((5,), 0, ()), ((2, 6), 1, (0,)),
                               ((100, 384), 0, (1, 9))):
        indices = rng.integers(-shape[axis], shape[axis], picks).astype(dtype)
        check(make_group("Gather", {"x": array(rng, shape), "i": indices}, {"axis": axis}), GATHER)


def test_gather_never_reads_outside() -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    case = make_group("Gather", {"x": x, "i": np.array([-99, 99, 2], np.int64)}, {"axis": 0})
    variant = next(iter(GATHER.variants(case.group, PROFILE)))
    got = run_group(case.group, GATHER, variant, layouts_of(variant, case.group), case.arrays, PROFILE)
    np.testing.assert_array_equal(got["out"], x[[0, 3, 2]])


def test_expand() -> None:
    rng = np.random.default_rng(4)
    for shape, target in (((), (3, 5)), ((1,), (4,)), ((3, 1), (2, 3, 9)), ((1, 7), (5, 7)), ((2, 1, 3), (2, 0, 3)),
                          ((5,), (5,))):
        for dtype in (np.float32, np.int64):
            check(make_group("Expand", {"x": array(rng, shape, dtype)}, {"shape": target}), EXPAND)
    check(make_group("Expand", {"x": array(rng, (1, 9, 1))}, {"shape": (3, 9, 11)}), EXPAND)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad(mode: str) -> None:
    rng = np.random.default_rng(5)
    for shape, pads in (((5,), (2, 3)), ((3, 4), (0, 1, 2, 3)), ((2, 3, 9), (1, 0, 4, 0, 2, 8)),
                        ((1, 1), (0, 0, 0, 0))):
        attrs = {"pads": pads, "mode": mode, "value": 1.5 if mode == "constant" else 0.0}
        check(make_group("Pad", {"x": array(rng, shape)}, attrs), PAD)


def test_pad_crops_and_pads_integers() -> None:
    rng = np.random.default_rng(6)
    attrs = {"pads": (-1, 2, 1, -3), "mode": "constant", "value": 7.0}
    check(make_group("Pad", {"x": array(rng, (4, 9))}, attrs), PAD)
    check(make_group("Pad", {"x": array(rng, (4, 9), np.int64)}, attrs), PAD)


RESIZES = [("nearest", t, n) for t in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
           for n in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")]
RESIZES += [(m, t, "floor") for m in ("linear", "cubic") for t in ("half_pixel", "asymmetric", "align_corners",
                                                                   "pytorch_half_pixel")]


@pytest.mark.parametrize("mode,transform,nearest", RESIZES)
def test_resize(mode: str, transform: str, nearest: str) -> None:
    rng = np.random.default_rng(7)
    for shape, scales in (((1, 2, 4, 5), (1.0, 1.0, 2.0, 2.0)), ((1, 1, 7, 6), (1.0, 1.0, 0.5, 1.5))):
        target = tuple(int(d * s) for d, s in zip(shape, scales, strict=True))
        attrs = {"mode": mode, "coordinate_transformation_mode": transform, "nearest_mode": nearest,
                 "cubic_coeff_a": -0.75, "exclude_outside": 0, "extrapolation_value": 0.0, "scales": scales,
                 "shape": target}
        check(make_group("Resize", {"x": array(rng, shape)}, attrs), RESIZE, exact=mode == "nearest")


def test_narrow_vectors() -> None:
    rng = np.random.default_rng(8)
    narrow = make_profile("x86-64-v2") if PROFILE.isa and PROFILE.isa.startswith("x86") else PROFILE
    case = make_group("Concat", {"x": array(rng, (2, 4, 3, 3)), "y": array(rng, (2, 6, 3, 3))}, {"axis": 1})
    for variant in CONCAT.variants(case.group, narrow):
        got = run_group(case.group, CONCAT, variant, layouts_of(variant, case.group), case.arrays, narrow)
        np.testing.assert_array_equal(got["out"], reference(case)["out"])
