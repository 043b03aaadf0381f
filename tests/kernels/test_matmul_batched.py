"""Products of two run-time operands: numpy's rules for ranks and batch dims, symbolic dims, swapped operands."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.kernel import Refusal
from meta_infer.kernels.matmul.matmul_batched import MATMUL_BATCHED

from .harness import PROFILE, Step, check_case, layouts_of, make_group, make_profile, reference, run_group

NARROW = make_profile("x86-64-v2")


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("a, b", [
    ((5,), (5,)), ((5,), (3, 5, 4)), ((3, 4, 5), (5,)), ((3, 1, 7, 5), (4, 5, 9)), ((2, 3, 1, 4, 6), (3, 2, 6, 1)),
    ((1, 4, 6), (5, 6, 20)), ((7, 0), (0, 5)), ((0, 3), (3, 5)), ((2, 0, 3, 4), (4, 5)), ((130, 40), (40, 70)),
    ((2, 140, 8), (2, 8, 16)),
])
def test_ranks_and_batches(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    case = make_group("MatMul", {"a": _random(*a), "b": _random(*b, seed=1)})
    assert check_case(case, MATMUL_BATCHED, 1e-4, 1e-5) == 1


@pytest.mark.parametrize("profile", [PROFILE, NARROW], ids=lambda p: f"{p.simd_bits}")
def test_attention_scores_at_many_lengths(profile) -> None:  # type: ignore[no-untyped-def]
    """[b, heads, s, d] x [b, heads, d, s] with scale and mask: one function for every batch and length."""
    b, s = Symbol("b", 1, 8).dim, Symbol("s", 1, 256).dim
    shapes = {"q": (b, 3, s, 8), "k": (b, 3, 8, s), "mask": (b, 1, 1, s)}
    for batch, length in ((1, 1), (2, 7), (1, 16), (3, 33), (1, 131)):
        case = make_group(
            "MatMul", {"q": _random(batch, 3, length, 8), "k": _random(batch, 3, 8, length, seed=1)}, shapes=shapes,
            epilogue=[Step("Div", {"scale": np.float32(2.5)}), Step("Add", {"mask": _random(batch, 1, 1, length)})])
        (variant,) = MATMUL_BATCHED.variants(case.group, profile)
        layouts = layouts_of(variant, case.group)
        got = run_group(case.group, MATMUL_BATCHED, variant, layouts, case.arrays, profile, seed=length)
        np.testing.assert_allclose(got["e1"], reference(case)["e1"], 1e-4, 1e-5)


@pytest.mark.parametrize("trans_a, trans_b", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_gemm_with_run_time_weights(trans_a: int, trans_b: int) -> None:
    a, w = _random(9, 21), _random(21, 35, seed=1)
    inputs = {"a": a.T.copy() if trans_a else a, "w": w.T.copy() if trans_b else w, "c": _random(35, seed=2)}
    case = make_group("Gemm", inputs, {"alpha": 0.5, "beta": 2.0, "transA": trans_a, "transB": trans_b})
    assert check_case(case, MATMUL_BATCHED, 1e-4, 1e-5) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64])
def test_other_types(dtype: type) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((2, 11, 30), (2, 30, 19)))
    assert check_case(make_group("MatMul", {"a": a, "b": b}), MATMUL_BATCHED) == 1


def test_constant_left_hand_side() -> None:
    case = make_group("MatMul", {"a": _random(6, 10), "b": _random(3, 10, 18)}, constants=("a",))
    assert check_case(case, MATMUL_BATCHED, 1e-4, 1e-5) == 1


def test_interpreter_agrees() -> None:
    case = make_group("MatMul", {"a": _random(2, 3, 4), "b": _random(4, 19)})
    assert check_case(case, MATMUL_BATCHED, engines=("c", "interpret")) == 1


@pytest.mark.parametrize("profile", [PROFILE, NARROW], ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8])
def test_few_rows_in_place(rows: int, profile: Profile) -> None:
    """Static row counts have code of their own, for both ways the right-hand side may lie; ragged K and N."""
    for k, n in ((37, 75), (8, 3)):
        a, w = _random(rows, k), _random(k, n, seed=1)
        for swapped in (0, 1):
            case = make_group("Gemm", {"a": a, "w": w.T.copy() if swapped else w, "c": _random(n, seed=2)},
                              {"alpha": 0.5, "beta": 2.0, "transA": 0, "transB": swapped},
                              epilogue=[Step("Sigmoid" if rows % 2 else "Relu")])
            assert check_case(case, MATMUL_BATCHED, 1e-4, 1e-5, profile=profile) == 1


def test_one_function_for_few_rows_and_many() -> None:
    m, n = Symbol("m", 0, 200).dim, Symbol("n", 0, 200).dim
    for rows, columns in ((0, 5), (1, 1), (1, 77), (3, 24), (8, 33), (9, 50), (140, 61), (4, 0)):
        case = make_group("MatMul", {"a": _random(2, rows, 19), "b": _random(2, 19, columns, seed=1)},
                          shapes={"a": (2, m, 19), "b": (2, 19, n)})
        (variant,) = MATMUL_BATCHED.variants(case.group, PROFILE)
        layouts = layouts_of(variant, case.group)
        got = run_group(case.group, MATMUL_BATCHED, variant, layouts, case.arrays, seed=rows)
        np.testing.assert_allclose(got["out"], reference(case)["out"], 1e-4, 1e-5)


@pytest.mark.parametrize("shape, swapped, profile", [((13, 37, 67), 0, PROFILE), ((6, 9, 20), 1, NARROW),
                                                     ((3, 21, 11), 1, PROFILE)])
def test_knob_corners(shape: tuple[int, int, int], swapped: int, profile: Profile) -> None:
    m, k, n = shape
    w = _random(k, n, seed=1)
    case = make_group("Gemm", {"a": _random(m, k), "w": w.T.copy() if swapped else w},
                      {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": swapped},
                      epilogue=[Step("Tanh"), Step("Add", {"r": _random(m, n)})])
    assert check_case(case, MATMUL_BATCHED, 1e-4, 1e-5, profile=profile, all_corners=True) >= 5


def test_what_is_refused() -> None:
    profile = make_profile("x86-64-v3")
    case = make_group("MatMul", {"a": _random(40, 7), "b": _random(7, 16)})
    (variant,) = MATMUL_BATCHED.variants(case.group, profile)
    for values, reason in (({"tile": "12x2"}, "registers"), ({"tile": "4x3"}, "shape"), ({"block_rows": 256}, "shape")):
        found = MATMUL_BATCHED.tune(case.group, variant, values, profile)
        assert isinstance(found, Refusal) and found.reason == reason
