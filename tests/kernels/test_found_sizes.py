"""Kernels whose output's size depends on data: NonZero, Unique, NonMaxSuppression."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.reduction.non_max_suppression import NON_MAX_SUPPRESSION
from meta_infer.kernels.reduction.non_zero import NON_ZERO
from meta_infer.kernels.reduction.unique import UNIQUE
from meta_infer.kernels.rows import GRAIN
from meta_infer.ops.non_max_suppression import random_boxes
from tests.kernels.harness import PROFILE, Case, check_case, layouts_of, make_group, make_profile, reference, run_group

DTYPES = (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.bool_)
N = Symbol("n", 0, 4096).dim
BATCH, CLASSES = Symbol("batch", 0, 8).dim, Symbol("classes", 0, 8).dim


def sparse(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return (rng.integers(-3, 4, shape) * (rng.random(shape) < 0.4)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_non_zero_of_every_type(dtype: type) -> None:
    x = sparse(np.random.default_rng(1), (3, 1, 5, 7), dtype)
    check_case(make_group("NonZero", {"x": x}), NON_ZERO)


@pytest.mark.parametrize("rank", range(9))
def test_non_zero_of_every_rank(rank: int) -> None:
    rng = np.random.default_rng(rank)
    shape = tuple(int(d) for d in rng.integers(1, 4, rank))
    check_case(make_group("NonZero", {"x": sparse(rng, shape, np.float32)}), NON_ZERO, engines=("c", "interpret"))


@pytest.mark.parametrize("x", (np.zeros((0, 3)), np.zeros((7, 5)), np.ones((7, 5)), np.full((2, 1), np.nan), np.ones(1),
                               np.array([-0.0, 0.0, 1e-300])), ids=lambda x: str(x.shape))
def test_non_zero_of_nothing_and_everything(x: np.ndarray) -> None:
    check_case(make_group("NonZero", {"x": x}), NON_ZERO, engines=("c", "interpret"))


def test_non_zero_over_several_parts() -> None:
    rng = np.random.default_rng(5)
    x = (rng.random((3, GRAIN + 17)) < 0.2).astype(np.float32)
    x[0, :100], x[2] = 0, 0
    check_case(make_group("NonZero", {"x": x}), NON_ZERO)
    check_case(make_group("NonZero", {"x": x[:, :GRAIN]}, shapes={"x": (3, Symbol("n", 0, 1 << 20).dim)}), NON_ZERO)


def unique(x: np.ndarray, axis: int | None, ordered: bool, outputs: tuple[str, ...] = ("y", "i", "v", "c"),
           dynamic: bool = False) -> Case:
    shape = (*x.shape[:-1], N) if dynamic else x.shape
    return make_group("Unique", {"x": x}, {"axis": axis, "sorted": ordered}, outputs=outputs, shapes={"x": shape})


@pytest.mark.parametrize("ordered", (True, False))
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_unique_of_every_type(dtype: type, ordered: bool) -> None:
    rng = np.random.default_rng(7)
    check_case(unique(sparse(rng, (6, 9), dtype), None, ordered), UNIQUE)
    check_case(unique(sparse(rng, (40, 2), dtype), 0, ordered), UNIQUE)


@pytest.mark.parametrize("ordered", (True, False))
@pytest.mark.parametrize("shape,axis", (((0,), None), ((1,), None), ((17, 3), 1), ((2, 33, 1), 1), ((0, 3), 0),
                                        ((3, 0), 0), ((9, 70), 0), ((1, 5), 0), ((2, 3, 12), 2)), ids=str)
def test_unique_of_any_shape(shape: tuple[int, ...], axis: int | None, ordered: bool) -> None:
    x = sparse(np.random.default_rng(8), shape, np.float32)
    if x.size:
        x[..., ::2] = 0
    check_case(unique(x, axis, ordered), UNIQUE, engines=("c", "interpret"))
    check_case(unique(x, axis, ordered, dynamic=True), UNIQUE)


@pytest.mark.parametrize("ordered", (True, False))
def test_unique_takes_nan_as_one_large_element(ordered: bool) -> None:
    x = np.array([np.nan, 3, -0.0, np.inf, np.nan, 0.0, 3, -np.nan, -np.inf], np.float32)
    check_case(unique(x, None, ordered), UNIQUE)
    check_case(unique(np.stack([x, x[::-1]], 1), 0, ordered), UNIQUE)


@pytest.mark.parametrize("outputs", (("y",), ("", "i"), ("", "", "v"), ("", "", "", "c"), ("y", "", "v", "")), ids=str)
def test_unique_with_absent_outputs(outputs: tuple[str, ...]) -> None:
    x = sparse(np.random.default_rng(9), (5, 8), np.int32)
    case = unique(x, 1, True, outputs)
    group = case.group
    variant = next(iter(UNIQUE.variants(group, PROFILE)))
    got = run_group(group, UNIQUE, variant, layouts_of(variant, group), case.arrays)
    want = reference(case)
    for name in filter(None, outputs):
        np.testing.assert_array_equal(got[name], want[name])


def nms(rng: np.random.Generator, batch: int, classes: int, number: int, most: int | None, overlap: float | None,
        least: float | None, centered: bool, constants: tuple[str, ...] = (), dynamic: bool = False) -> Case:
    given = {"boxes": random_boxes(rng, batch, number, centered),
             "scores": (rng.integers(0, 12, (batch, classes, number)) / 12).astype(np.float32),
             "most": None if most is None else np.array([most], np.int64),
             "overlap": None if overlap is None else np.array(overlap, np.float32),
             "least": None if least is None else np.array([least], np.float32)}
    shapes = {"boxes": (BATCH, N, 4), "scores": (BATCH, CLASSES, N)} if dynamic else None
    return make_group("NonMaxSuppression", given, {"center_point_box": centered}, constants=constants, shapes=shapes)


@pytest.mark.parametrize("centered", (True, False))
@pytest.mark.parametrize("sizes", ((1, 1, 1, 1), (2, 3, 40, 5), (1, 2, 100, 200), (3, 1, 17, 17), (2, 2, 0, 3),
                                   (0, 3, 5, 1), (1, 4, 60, 0), (1, 1, 9, -3)), ids=str)
def test_non_max_suppression(sizes: tuple[int, int, int, int], centered: bool) -> None:
    rng = np.random.default_rng(sum(sizes))
    batch, classes, number, most = sizes
    for overlap, least in ((0.3, 0.2), (None, None), (0.0, None), (1.0, 0.95), (0.5, 2.0)):
        check_case(nms(rng, *sizes, overlap, least, centered, dynamic=True), NON_MAX_SUPPRESSION)


def test_non_max_suppression_of_fixed_sizes() -> None:
    for given in (("most", "overlap"), ("least",), ()):
        case = nms(np.random.default_rng(4), 2, 3, 40, 5, 0.4, 0.1, False, constants=given)
        check_case(case, NON_MAX_SUPPRESSION)


def test_non_max_suppression_without_a_limit_picks_nothing() -> None:
    case = nms(np.random.default_rng(2), 1, 2, 5, None, 0.5, None, False)
    assert case.group.values["out"].shape == (0, 3)
    check_case(case, NON_MAX_SUPPRESSION)


def test_non_max_suppression_interpreted_and_without_vectors() -> None:
    case = nms(np.random.default_rng(3), 2, 2, 21, 6, 0.3, 0.1, False)
    check_case(case, NON_MAX_SUPPRESSION, engines=("interpret",))
    check_case(case, NON_MAX_SUPPRESSION, profile=make_profile("x86-64"), engines=("interpret",))


def test_boxes_without_area_suppress_nothing() -> None:
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1], [2, 2, 1, 1]]], np.float32)
    given = {"boxes": boxes, "scores": np.array([[[5, 4, 3, 2, 1]]], np.float32), "most": np.array([9], np.int64),
             "overlap": np.array([0.1], np.float32), "least": None}
    check_case(make_group("NonMaxSuppression", given, {"center_point_box": False}), NON_MAX_SUPPRESSION)
