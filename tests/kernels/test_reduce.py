"""Reductions over every set of axes, element type and length, empty ones included."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.reduction.reduce import REDUCE

from .harness import PROFILE, Step, check_case, layouts_of, make_group, make_profile, reference, run_group

NARROW = make_profile("x86-64-v2")


def _random(*shape: int, dtype: type = np.float32) -> np.ndarray:
    rng = np.random.default_rng(0)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-3, 4, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


AXES = [axes for n in range(4) for axes in itertools.combinations(range(3), n)]


@pytest.mark.parametrize("axes", AXES)
def test_every_set_of_axes(axes: tuple[int, ...]) -> None:
    for i, shape in enumerate([(3, 5, 37), (4, 1, 9)]):
        case = make_group("ReduceMean", {"x": _random(*shape)}, {"axes": axes, "keepdims": i == 0})
        assert check_case(case, REDUCE, 1e-5, 1e-5) == 1


@pytest.mark.parametrize("op, dtype", [
    ("ReduceSum", np.int32), ("ReduceMean", np.int64), ("ReduceMax", np.float32), ("ReduceMax", np.int64),
    ("ReduceMin", np.float64), ("ReduceMin", np.int32), ("ReduceProd", np.float32), ("ReduceProd", np.int64),
])
def test_operations_and_types(op: str, dtype: type) -> None:
    for axes in ((0,), (1,)):
        case = make_group(op, {"x": _random(11, 45, dtype=dtype)}, {"axes": axes, "keepdims": False})
        assert check_case(case, REDUCE, 1e-5, 1e-5) == 1


@pytest.mark.parametrize("shape, axes", [((3, 0), (1,)), ((0, 3), (0,)), ((0, 3), (1,)), ((), ()), ((1, 1), (0, 1))])
def test_empty_and_single(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    case = make_group("ReduceSum", {"x": _random(*shape)}, {"axes": axes, "keepdims": False})
    assert check_case(case, REDUCE) == 1


@pytest.mark.parametrize("profile", [PROFILE, NARROW], ids=lambda p: f"{p.simd_bits}")
def test_dynamic_dims_with_an_epilogue(profile) -> None:  # type: ignore[no-untyped-def]
    """Pooling over tokens: [b, s, 12] -> [b, 12], then an operand per row and one per column."""
    b, s = Symbol("b", 0, 8).dim, Symbol("s", 1, 256).dim
    for batch, steps in ((1, 1), (2, 17), (5, 200), (0, 3)):
        case = make_group("ReduceSum", {"x": _random(batch, steps, 12)}, {"axes": (1,), "keepdims": False},
                          shapes={"x": (b, s, 12), "d": (b, 1)},
                          epilogue=[Step("Div", {"d": 1 + abs(_random(batch, 1))}), Step("Add", {"c": _random(12)})])
        (variant,) = REDUCE.variants(case.group, profile)
        got = run_group(case.group, REDUCE, variant, layouts_of(variant, case.group), case.arrays, profile, seed=1)
        np.testing.assert_allclose(got["e1"], reference(case)["e1"], 1e-4, 1e-5)


def test_several_strips_and_chunks() -> None:
    case = make_group("ReduceMax", {"x": _random(3, 40, 1300)}, {"axes": (1,), "keepdims": True},
                      epilogue=[Step("Relu")], keep=("out",))
    assert check_case(case, REDUCE) == 1


def test_long_sums_stay_accurate() -> None:
    x = np.full((1, 100_003), 0.1, np.float32)
    case = make_group("ReduceSum", {"x": x}, {"axes": (1,), "keepdims": False})
    assert check_case(case, REDUCE, 1e-5) == 1


def test_interpreter_agrees() -> None:
    for axes in ((0,), (0, 2)):
        case = make_group("ReduceProd", {"x": _random(2, 3, 11)}, {"axes": axes, "keepdims": True})
        assert check_case(case, REDUCE, engines=("c", "interpret")) == 1
