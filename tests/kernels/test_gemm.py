"""Products with packed weights: row remainders, ragged columns, K blocks, empty dims, epilogues, two vector widths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Variant
from meta_infer.ir.loop import For, Prefetch
from meta_infer.ir.shapes import Symbol
from meta_infer.ir.walk_loop import walk_stmts
from meta_infer.kernels.kernel import Refusal
from meta_infer.kernels.matmul.gemm import GEMM
from meta_infer.kernels.matmul.gemm_tile import pack_panels
from meta_infer.kernels.tuning import feasible, tunings

from .harness import PROFILE, Step, check_case, layouts_of, make_group, make_profile, reference, run_group

NARROW = make_profile("x86-64-v2")


def _random(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("k, n, profile", [(1, 1, PROFILE), (37, 8, PROFILE), (64, 16, PROFILE), (19, 23, PROFILE),
                                           (5, 41, PROFILE), (20, 8, NARROW), (7, 29, NARROW)])
def test_every_row_count_of_one_function(k: int, n: int, profile: Profile) -> None:
    """M is symbolic, so that one function must serve full tiles, every remainder, several blocks, and none."""
    w, m = _random(k, n, seed=1), Symbol("m", 0, 512).dim
    for rows in (0, 1, 2, 3, 4, 5, 6, 7, 73, 151):
        case = make_group("MatMul", {"x": _random(rows, k, seed=rows), "w": w}, constants=("w",), shapes={"x": (m, k)})
        (variant,) = GEMM.variants(case.group, profile)
        got = run_group(case.group, GEMM, variant, layouts_of(variant, case.group), case.arrays, profile, seed=rows)
        np.testing.assert_allclose(got["out"], reference(case, promote=True)["out"], 1e-5, 2e-5 * np.sqrt(k))


def test_leading_dims_are_rows() -> None:
    b, s = Symbol("b", 1, 8).dim, Symbol("s", 1, 256).dim
    case = make_group("MatMul", {"x": _random(3, 5, 24), "w": _random(24, 20)}, constants=("w",),
                      shapes={"x": (b, s, 24), "r": (b, s, 20), "m": (b, 1, 1)},
                      epilogue=[Step("Add", {"bias": _random(20)}), Step("Gelu", attrs={"approximate": "none"}),
                                Step("Mul", {"m": _random(3, 1, 1)}), Step("Add", {"r": _random(3, 5, 20)})])
    assert check_case(case, GEMM, 1e-4, 1e-4) == 1


@pytest.mark.parametrize("x, w", [((5,), (5, 17)), ((4, 5), (5,)), ((5,), (5,)), ((2, 1, 3, 5), (5, 4)),
                                  ((0, 3), (3, 5)), ((7, 0), (0, 5)), ((7, 3), (3, 0)), ((1, 1), (1, 1))])
def test_ranks_and_empty_dims(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    case = make_group("MatMul", {"x": _random(*x), "w": _random(*w)}, constants=("w",))
    assert check_case(case, GEMM) == 1


@pytest.mark.parametrize("c", [(1,), (13,), (1, 13), (9, 1), (9, 13), None])
@pytest.mark.parametrize("trans_a, trans_b", [(0, 1), (1, 0)])
def test_gemm_attributes(c: tuple[int, ...] | None, trans_a: int, trans_b: int) -> None:
    a, w = _random(9, 21), _random(21, 13, seed=1)
    inputs = {"a": a.T.copy() if trans_a else a, "w": w.T.copy() if trans_b else w,
              "c": None if c is None else _random(*c, seed=2)}
    case = make_group("Gemm", inputs, {"alpha": 0.5, "beta": 2.0, "transA": trans_a, "transB": trans_b},
                      constants=("w",) if c is None else ("w", "c"), epilogue=[Step("Relu")], keep=("out",))
    assert check_case(case, GEMM, 1e-4, 1e-5) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64])
def test_other_types(dtype: type) -> None:
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((11, 30), (30, 19)))
    assert check_case(make_group("MatMul", {"x": x, "w": w}, constants=("w",)), GEMM) == 1


def test_x_is_its_own_residual() -> None:
    x = _random(10, 16)
    assert check_case(make_group("MatMul", {"x": x, "w": _random(16, 16)}, constants=("w",),
                                 epilogue=[Step("Add", {"x": x})]), GEMM) == 1


@pytest.mark.parametrize("cache", [None, 16 * 1024, 1])
def test_blocks_of_k(cache: int | None) -> None:
    """No cache stated, one that holds 128 steps, and one too small for any."""
    case = make_group("MatMul", {"x": _random(9, 300), "w": _random(300, 21)}, constants=("w",),
                      epilogue=[Step("Add", {"b": _random(21)}), Step("Sigmoid")] if cache else [Step("Relu")])
    assert check_case(case, GEMM, 1e-4, 1e-4, profile=replace(PROFILE, l2_bytes=cache)) == 1


@pytest.mark.parametrize("shape, profile", [((13, 37, 67), PROFILE), ((3, 5, 29), NARROW)])
def test_knob_corners(shape: tuple[int, int, int], profile: Profile) -> None:
    m, k, n = shape
    case = make_group("MatMul", {"x": _random(m, k), "w": _random(k, n)}, constants=("w",),
                      epilogue=[Step("Add", {"b": _random(n)}), Step("Gelu", attrs={"approximate": "none"}),
                                Step("Add", {"r": _random(m, n)})])
    assert check_case(case, GEMM, 1e-4, 1e-4, profile=profile, all_corners=True) >= 6


def test_random_shapes_at_random_knobs(full: bool) -> None:
    rng = np.random.default_rng(11)
    for i in range(60 if full else 6):
        m, k, n = (int(rng.integers(0, limit)) for limit in (160, 90, 68))
        case = make_group("MatMul", {"x": _random(m, k, seed=i), "w": _random(k, n, seed=i + 1)}, constants=("w",),
                          epilogue=[Step("Relu")] if i % 2 else [Step("Tanh")])
        (variant,) = GEMM.variants(case.group, PROFILE)
        chosen: Variant | Refusal = Refusal({}, "shape", "none yet")
        while isinstance(chosen, Refusal):
            values = {knob.name: knob.values[int(rng.integers(len(knob.values)))]
                      for knob in GEMM.knobs(case.group, variant, PROFILE)}
            chosen = GEMM.tune(case.group, variant, values, PROFILE)
        got = run_group(case.group, GEMM, chosen, layouts_of(chosen, case.group), case.arrays, PROFILE, seed=i)
        np.testing.assert_allclose(got["e0"], reference(case, promote=True)["e0"], 1e-4, 2e-5 * np.sqrt(k + 1),
                                   err_msg=f"{m}x{k}x{n} {dict(chosen.knobs)}")


@pytest.mark.parametrize("values, reason", [
    ({"tile": "12x2"}, "registers"), ({"tile": "4x3"}, "shape"), ({"block_rows": 72}, "shape"),
    ({"depth_blocks": 8}, "shape"), ({"block_rows": 24, "depth_blocks": 2}, None)])
def test_what_is_refused(values: dict[str, int | str], reason: str | None) -> None:
    profile = make_profile("x86-64-v3")
    case = make_group("MatMul", {"x": _random(40, 7), "w": _random(7, 16)}, constants=("w",))
    (variant,) = GEMM.variants(case.group, profile)
    found = GEMM.tune(case.group, variant, values, profile)
    assert (found.reason if isinstance(found, Refusal) else None) == reason


def test_a_block_that_no_cache_holds_is_refused() -> None:
    case = make_group("MatMul", {"x": _random(300, 4096), "w": _random(4096, 32)}, constants=("w",))
    (variant,) = GEMM.variants(case.group, PROFILE)
    assert int(variant.knobs["depth_blocks"]) > 1
    found = GEMM.tune(case.group, variant, {"depth_blocks": 1}, PROFILE)
    assert isinstance(found, Refusal) and found.reason == "cache"


def test_every_choice_is_small(full: bool) -> None:
    """What is not refused is code of moderate size, on the instruction set with the largest tiles too."""
    case = make_group("MatMul", {"x": _random(40, 50), "w": _random(50, 100)}, constants=("w",),
                      epilogue=[Step("Add", {"b": _random(100)}), Step("Relu")])
    profile = make_profile("x86-64-v4")
    (variant,) = GEMM.variants(case.group, profile)
    for chosen in feasible(tunings(GEMM, case.group, variant, profile))[0][::1 if full else 97]:
        lowering = GEMM.lower(case.group, chosen, layouts_of(chosen, case.group), profile)
        count = sum(1 for call in lowering.calls for _ in walk_stmts(call.func.body))
        assert count <= 6000, f"{dict(chosen.knobs)} takes {count} statements"


def test_interpreter_agrees_and_finds_no_stray_access() -> None:
    case = make_group("MatMul", {"x": _random(8, 5), "w": _random(5, 19)}, constants=("w",), epilogue=[Step("Relu")])
    assert check_case(case, GEMM, engines=("c", "interpret")) == 1


@pytest.mark.parametrize("rows, fetches", [(128, 1), (12, 4), (6, 8)])
def test_one_fetch_for_each_line(rows: int, fetches: int) -> None:
    """Tiles share what they fetch: the more of them, the fewer of a turn's eight steps fetch."""
    profile = make_profile("x86-64-v3")
    case = make_group("MatMul", {"x": _random(rows, 64), "w": _random(64, 64)}, constants=("w",))
    (variant,) = GEMM.variants(case.group, profile)
    tuned = GEMM.tune(case.group, variant, {"tile": "6x2", "unroll": 8}, profile)
    assert isinstance(tuned, Variant)
    (call,) = GEMM.lower(case.group, tuned, layouts_of(tuned, case.group), profile).calls
    inner = [[s for s in loop.body if isinstance(s, Prefetch)] for loop in walk_stmts(call.func.body)
             if isinstance(loop, For)]
    assert {len(found) for found in inner if found} == {fetches}


def test_run_time_weights_are_not_for_this_kernel() -> None:
    case = make_group("MatMul", {"x": _random(8, 5), "w": _random(5, 19)})
    assert not list(GEMM.variants(case.group, PROFILE))


def test_panels() -> None:
    packed = pack_panels(np.arange(10, dtype=np.float32).reshape(2, 5), 4)
    assert packed.tolist() == [[[0, 1, 2, 3], [5, 6, 7, 8]], [[4, 0, 0, 0], [9, 0, 0, 0]]]
