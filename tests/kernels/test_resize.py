"""Resize line by line: modes, factors, ranks, layouts, sizes known at build and not, all corners of its knob."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.group import PLAIN
from meta_infer.ir.shapes import UNBOUNDED, Symbol
from meta_infer.kernels.image.resize import RESIZE
from meta_infer.kernels.image.resize_taps import AxisResize
from meta_infer.kernels.kernel import Refusal
from meta_infer.ops.attrs import Attrs

from .conv_cases import PROFILES
from .harness import PROFILE, Case, check_case, make_group, make_profile


def attrs_of(mode: str, transformation: str = "asymmetric", nearest: str = "floor", exclude: int = 0) -> Attrs:
    return {"mode": mode, "coordinate_transformation_mode": transformation, "nearest_mode": nearest,
            "cubic_coeff_a": -0.75, "exclude_outside": exclude, "extrapolation_value": 0.0}


def resize(rng: np.random.Generator, shape: tuple[int, ...], factors: tuple[float, ...], attrs: Attrs, *,
           dynamic: bool = False, by_sizes: bool = False, dtype: type = np.float32) -> Case:
    """Spatial dims grow by `factors`; `dynamic` ones are symbols, which need whole factors."""
    lead = len(shape) - len(factors)
    scales = (1.0,) * lead + factors
    target = tuple(int(d * s) for d, s in zip(shape, scales, strict=True))
    shapes = None
    if dynamic:
        dims = tuple(Symbol(f"S{i}", 1, 300).dim for i in range(len(factors)))
        shapes = {"x": (Symbol("N", 1, 4).dim, *shape[1:lead], *dims)}
        target = (*shapes["x"][:lead], *(d * int(f) for d, f in zip(dims, factors, strict=True)))
    x = (rng.standard_normal(shape) * 9).astype(dtype)
    return make_group("Resize", {"x": x}, {**attrs, "scales": () if by_sizes else scales, "shape": target},
                      shapes=shapes)


def check(case: Case, *, corners: bool = False) -> int:
    return check_case(case, RESIZE, 1e-4, 1e-4, all_corners=corners)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_factors_and_ranks(mode: str) -> None:
    """19 channels fill no block; 2, 3 and 5 repeat elements in registers, others by a table."""
    rng = np.random.default_rng(0)
    attrs = attrs_of(mode)
    assert check(resize(rng, (1, 19, 5, 11), (2.0, 2.0), attrs), corners=True) >= 5
    assert check(resize(rng, (2, 3, 7, 18), (0.5, 1.5), attrs)) == 3
    assert check(resize(rng, (2, 16, 4, 9), (3.0, 1.0), attrs)) == 3
    assert check(resize(rng, (1, 9, 3, 21), (1.0, 5.0), attrs)) == 3
    assert check(resize(rng, (2, 5, 20), (2.0,), attrs)) == 3
    assert check(resize(rng, (1, 8, 2, 3, 9), (1.0, 2.0, 3.0), attrs)) == 3
    assert check(resize(rng, (17,), (2.0,), attrs)) == 2
    assert check(resize(rng, (3, 9), (0.4, 2.0), attrs)) == 2
    assert check(resize(rng, (1, 8, 1, 1), (4.0, 7.0), attrs)) == 3
    assert check(resize(rng, (1, 8, 2, 3, 4), (2.0, 1.0, 2.0), attrs)) == 1, "three axes: element by element"


@pytest.mark.parametrize("mode, exclude", [("nearest", 0), ("linear", 0), ("cubic", 0), ("cubic", 1)])
@pytest.mark.parametrize("transformation", ["half_pixel", "align_corners", "pytorch_half_pixel"])
def test_transformations(mode: str, exclude: int, transformation: str) -> None:
    attrs = attrs_of(mode, transformation, "round_prefer_floor", exclude)
    rng = np.random.default_rng(1)
    assert check(resize(rng, (1, 11, 6, 7), (2.0, 3.0), attrs)) == 3
    assert check(resize(rng, (1, 3, 9, 13), (1.4, 0.3), attrs, by_sizes=True)) == 3


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("by_sizes", [False, True])
def test_sizes_known_while_running(mode: str, by_sizes: bool) -> None:
    rng = np.random.default_rng(2)
    for shape, factors in (((2, 10, 5, 9), (2.0, 2.0)), ((1, 3, 40, 33), (1.0, 3.0))):
        assert check(resize(rng, shape, factors, attrs_of(mode), dynamic=True, by_sizes=by_sizes)) == 3


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float64, np.bool_])
def test_other_types_are_repeated_and_picked(dtype: type) -> None:
    rng = np.random.default_rng(3)
    for factors in ((2.0, 2.0), (1.7, 0.8)):
        assert check(resize(rng, (1, 3, 5, 50), factors, attrs_of("nearest"), dtype=dtype)) == 2


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_narrow_vectors_and_single_lanes(mode: str) -> None:
    case = resize(np.random.default_rng(4), (1, 10, 4, 7), (2.0, 2.0), attrs_of(mode))
    assert check_case(case, RESIZE, 1e-4, 1e-4, profile=PROFILES[1]) == 3
    scalar = make_profile("riscv64")
    assert {v.name for v in RESIZE.variants(case.group, scalar)} == {"rows", "any"}
    assert check_case(case, RESIZE, 1e-4, 1e-4, profile=PROFILE, engines=("interpret",)) == 3


def test_which_axes_repeat() -> None:
    size = Symbol("S", 1, 640).dim
    half = attrs_of("nearest", "half_pixel", "round_prefer_floor")
    assert AxisResize(attrs_of("nearest"), size, size * 2, 2.0).repeats() == 2
    assert AxisResize(half, size, size * 4, None).repeats() == 4
    assert AxisResize(half, 7, 21, None).repeats() == 3
    for axis in (AxisResize(attrs_of("linear"), 7, 14, 2.0), AxisResize(attrs_of("nearest"), 7, 13, 2.0),
                 AxisResize(attrs_of("nearest", nearest="ceil"), 7, 14, 2.0),
                 AxisResize(attrs_of("nearest", "align_corners"), size, size * 2, None),
                 AxisResize(attrs_of("nearest"), Symbol("U", 1, UNBOUNDED).dim, 14, None)):
        assert axis.repeats() is None


def test_variants_and_refusals() -> None:
    case = resize(np.random.default_rng(5), (1, 16, 8, 8), (2.0, 2.0), attrs_of("nearest"))
    blocked, rows, other = RESIZE.variants(case.group, PROFILE)
    assert blocked.outputs["out"].block == PROFILE.lanes(case.group.values["x"].dtype)
    assert rows.outputs["out"] == other.outputs["out"] == PLAIN
    refused = RESIZE.tune(case.group, blocked, {"lines": 17}, PROFILE)
    assert isinstance(refused, Refusal) and refused.reason == "shape"
