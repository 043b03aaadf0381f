"""Fused attention: every form of mask, order and sharing of heads, sizes from 1, knobs at their ends."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from meta_infer.ir.graph import Attr
from meta_infer.ir.group import Variant
from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.ir.walk_loop import walk_stmts
from meta_infer.kernels.attention.attention import ATTENTION
from meta_infer.kernels.kernel import Refusal
from meta_infer.ops.dot_product_attention import ORDERS

from .harness import PROFILE, Case, Step, check_case, layouts_of, make_group, make_profile, reference, run_group

NARROW = make_profile("x86-64-v2")
INF = np.float32(np.inf)


def _case(sizes: tuple[int, ...], mask: np.ndarray | None = None, seed: int = 0, dtype: type = np.float32,
          scale: float = 0.3, spread: float = 1.0, epilogue: tuple[Step, ...] = (),
          shapes: dict[str, tuple[Dim, ...]] | None = None, **attrs: Attr) -> Case:
    """`sizes`: batch, heads, kv_heads, queries, keys, size, width."""
    batch, heads, kv_heads, queries, keys, size, width = sizes
    rng = np.random.default_rng(seed)
    logical = {"q": (batch, heads, queries, size), "k": (batch, kv_heads, keys, size),
               "v": (batch, kv_heads, keys, width)}
    arrays: dict[str, np.ndarray | None] = {}
    for name, shape in logical.items():
        order = ORDERS[str(attrs.get(f"{name}_order", "bhsd"))]
        arrays[name] = (rng.standard_normal([shape[a] for a in order]) * spread).astype(dtype)
    return make_group("Attention", {**arrays, "mask": mask}, {"scale": scale, **attrs}, epilogue=epilogue,
                      shapes=shapes)


def _variant(case: Case, profile=PROFILE) -> Variant:  # type: ignore[no-untyped-def]
    (variant,) = ATTENTION.variants(case.group, profile)
    return variant


SIZES = ((1, 1, 1, 1, 1, 1, 1), (2, 4, 2, 16, 130, 13, 40), (1, 6, 1, 3, 67, 33, 1), (1, 2, 2, 4, 0, 3, 2),
         (2, 3, 3, 5, 7, 13, 9), (1, 2, 2, 70, 300, 16, 24), (3, 1, 1, 1, 5, 64, 64), (0, 2, 2, 4, 3, 3, 2),
         (1, 1, 1, 0, 3, 3, 2), (1, 1, 1, 17, 1, 3, 5))


def test_sizes(full: bool) -> None:
    for sizes in SIZES if full else SIZES[:4]:
        assert check_case(_case(sizes), ATTENTION, 1e-4, 1e-5) == 1


def test_random_forms(full: bool) -> None:
    """Sizes, orders, sharing of heads, mask and causal frontier drawn at random."""
    for seed in range(40 if full else 4):
        rng = np.random.default_rng(100 + seed)
        group, kv_heads, batch = (int(rng.integers(1, 4)) for _ in range(3))
        queries, keys = (int(rng.choice([1, 2, 15, 16, 17, 31, 50, 129])) for _ in range(2))
        size, width = (int(rng.choice([1, 3, 7, 8, 16, 20, 33])) for _ in range(2))
        heads = group * kv_heads
        mask = None
        if rng.random() < 0.8:
            shape = [n if rng.random() < 0.6 else 1 for n in (batch, heads, queries, keys)][int(rng.integers(0, 4)):]
            mask = rng.random(shape) < 0.7 if rng.random() < 0.5 else rng.standard_normal(shape).astype(np.float32)
        orders = {f"{name}_order": str(rng.choice(["bhsd", "bshd", "bhds"] if name == "k" else ["bhsd", "bshd"]))
                  for name in "qkvy"}
        case = _case((batch, heads, kv_heads, queries, keys, size, width), mask, seed, causal=bool(rng.random() < 0.5),
                     offset=int(rng.integers(0, 9)), empty="zero", softcap=float(rng.choice([0, 0, 2.5])), **orders)
        assert check_case(case, ATTENTION, 1e-4, 1e-5) == 1


FORMS = ((2, 1, 5, 9), (9,), (5, 1), (2, 3, 1, 1), (), (1, 9), (5, 9), (1, 1, 9), (3, 1, 9), (3, 5, 9), (2, 1, 1, 9),
         (1, 3, 5, 9), (2, 3, 5, 9))


@pytest.mark.parametrize("is_bool", [False, True])
def test_masks_of_every_broadcast_form(is_bool: bool, full: bool) -> None:
    """Values that are minus infinity or the lowest float hide keys too."""
    for shape in FORMS if full else FORMS[:4]:
        rng = np.random.default_rng(len(shape))
        mask, hidden = rng.standard_normal(shape), rng.random(shape) < 0.3
        lowest = np.where(rng.random(shape) < 0.5, -INF, np.finfo(np.float32).min)
        given = ~np.asarray(hidden) if is_bool else np.where(hidden, lowest, mask).astype(np.float32)
        for empty in ("zero", "nan") if full else ("zero",):
            assert check_case(_case((2, 3, 3, 5, 9, 6, 8), np.asarray(given), empty=empty), ATTENTION, 1e-4, 1e-5) == 1


@pytest.mark.parametrize("empty", ["nan", "zero"])
def test_queries_without_keys(empty: str) -> None:
    """Rows of minus infinities give what the op says, in the first block of keys or in all, and leave others alone."""
    mask = np.zeros((20, 300), np.float32)
    mask[2] = -INF                                       # nothing at all
    mask[5, :200] = -INF                                 # nothing in the first block
    mask[7, 100:] = -INF                                 # nothing but in the first
    mask[11] = np.finfo(np.float32).min                  # all alike: uniform, as far as float32 can tell
    got = reference(_case((1, 2, 2, 20, 300, 8, 8), mask, empty=empty))["out"]
    assert np.isnan(got[0, 0, 2]).all() == (empty == "nan") and not np.isnan(np.delete(got, 2, 2)).any()
    for given in (mask, mask > -np.inf) if empty == "zero" else (mask,):
        assert check_case(_case((1, 2, 2, 20, 300, 8, 8), given, empty=empty), ATTENTION, 1e-4, 1e-5) == 1


def test_infinite_and_missing_numbers_spread_as_in_softmax() -> None:
    mask = np.zeros((6, 140), np.float32)
    mask[1, 3], mask[2, 139], mask[3, 0] = np.inf, np.inf, np.nan
    mask[4, 5:] = -np.inf
    assert check_case(_case((1, 1, 1, 6, 140, 4, 8), mask), ATTENTION, 1e-4, 1e-5) == 1
    case = _case((1, 1, 1, 6, 140, 4, 8))
    case.arrays["q"][0, 0, 2] = np.nan
    case.arrays["v"][0, 0, 130, 3] = np.inf
    assert check_case(case, ATTENTION, 1e-4, 1e-5) == 1


def test_hidden_keys_may_hold_anything_but_their_values() -> None:
    mask = np.arange(40) < 33
    case = _case((1, 1, 1, 6, 40, 4, 8), mask)
    case.arrays["k"][0, 0, 33:] = np.nan
    assert not np.isnan(reference(case)["out"]).any()
    assert check_case(case, ATTENTION, 1e-4, 1e-5) == 1


def test_large_scores_do_not_overflow() -> None:
    """Scores of thousands, rising and falling from block to block; the product itself is exact here."""
    case = _case((1, 1, 1, 9, 400, 1, 8), scale=1.0)
    case.arrays["q"][...] = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 9, 1)
    case.arrays["k"][...] = (np.arange(400, dtype=np.float32) * 37 % 401 - 200).reshape(1, 1, 400, 1)
    assert check_case(case, ATTENTION, 1e-4, 1e-5) == 1


def test_knobs_at_their_ends(full: bool) -> None:
    for sizes in ((2, 2, 1, 40, 150, 20, 24), (1, 3, 3, 197, 197, 9, 7))[:2 if full else 1]:
        mask = np.random.default_rng(1).standard_normal((sizes[3], sizes[4])).astype(np.float32)
        case = _case(sizes, mask, q_order="bshd", k_order="bshd")
        assert check_case(case, ATTENTION, 1e-4, 1e-5, all_corners=True) > 4


@pytest.mark.parametrize("profile", [PROFILE, NARROW], ids=lambda p: f"{p.simd_bits}")
def test_one_function_at_many_sizes(profile) -> None:  # type: ignore[no-untyped-def]
    b, s, t = Symbol("b", 1, 8).dim, Symbol("s", 1, 512).dim, Symbol("t", 0, 512).dim
    shapes = {"q": (b, s, 2, 8), "k": (b, t, 2, 8), "v": (b, t, 2, 8), "mask": (b, 1, 1, t)}
    orders = {f"{name}_order": "bshd" for name in "qkvy"}
    for batch, queries, keys in ((1, 1, 1), (2, 16, 16), (3, 33, 7), (1, 7, 131), (2, 5, 0)):
        mask = np.random.default_rng(keys).standard_normal((batch, 1, 1, keys)).astype(np.float32)
        case = _case((batch, 2, 2, queries, keys, 8, 8), mask, shapes=shapes, **orders)
        variant = _variant(case, profile)
        layouts = layouts_of(variant, case.group)
        got = run_group(case.group, ATTENTION, variant, layouts, case.arrays, profile, seed=keys)
        np.testing.assert_allclose(got["out"], reference(case)["out"], 1e-4, 1e-5)


def test_parts_of_one_tensor() -> None:
    packed = np.random.default_rng(5).standard_normal((2, 21, 10, 8)).astype(np.float32)
    attrs: dict[str, Attr] = {"scale": 0.4, "q_heads": 6, "k_heads": 2, "k_first": 6, "v_heads": 2, "v_first": 8}
    attrs |= {f"{name}_order": "bshd" for name in "qkvy"}
    case = make_group("Attention", {"q": packed, "k": packed, "v": packed}, attrs)
    assert check_case(case, ATTENTION, 1e-4, 1e-5) == 1


def test_epilogue() -> None:
    factors = np.random.default_rng(6).standard_normal(19).astype(np.float32)
    steps = (Step("Mul", {"s": factors}), Step("Gelu", attrs={"approximate": "none"}))
    assert check_case(_case((2, 2, 2, 20, 30, 5, 19), epilogue=steps, y_order="bshd"), ATTENTION, 1e-4, 1e-5) == 1


def test_float64() -> None:
    mask = np.random.default_rng(1).standard_normal((20, 150))
    assert check_case(_case((1, 2, 2, 20, 150, 10, 12), mask, dtype=np.float64), ATTENTION, 1e-12, 1e-13) == 1


def test_interpreter_agrees() -> None:
    mask = np.random.default_rng(1).random((5, 9)) < 0.8
    assert check_case(_case((1, 2, 1, 5, 9, 5, 9), mask, empty="zero", causal=True, softcap=3.0), ATTENTION, 1e-4, 1e-5,
                      engines=("c", "interpret")) == 1


def test_refusals_say_why() -> None:
    profile = make_profile("x86-64-v3")
    case = _case((1, 2, 2, 20, 30, 8, 8))
    variant = _variant(case, profile)
    assert variant.knobs["keys"] == 64 and variant.scratch_bytes > 0 and variant.cost > 0
    wanted = {("vectors", 4): "registers", ("panels", 64): "shape", ("keys", 256): "shape"}
    for (name, value), reason in wanted.items():
        found = ATTENTION.tune(case.group, variant, {name: value}, profile)
        assert isinstance(found, Refusal) and found.reason == reason
    long = _case((1, 1, 1, 2000, 2000, 128, 128), np.zeros((2000, 2000), np.float32))
    found = ATTENTION.tune(long.group, _variant(long, profile), {"panels": 64}, profile)
    assert isinstance(found, Refusal) and found.reason == "cache"


def test_there_is_a_variant_for_any_size_and_cache() -> None:
    """Less is kept at once where heads are large or caches small."""
    wide = _variant(_case((1, 1, 1, 100, 100, 1024, 1024)))
    assert wide.scratch_bytes <= 512 << 10 and wide.knobs["panels"] in (1, 2)
    small = dataclasses.replace(PROFILE, l1d_bytes=4096, l2_bytes=8192)
    assert _variant(_case((1, 2, 2, 100, 100, 64, 64)), small).knobs["keys"] == 64
    assert check_case(_case((1, 1, 1, 9, 70, 600, 520)), ATTENTION, 1e-4, 1e-5) == 1


@pytest.mark.parametrize("isa", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "riscv64"])
def test_code_is_small(isa: str) -> None:
    profile = make_profile(isa)
    case = _case((1, 2, 2, 100, 100, 80, 72), np.zeros((100, 100), np.float32), causal=True)
    variant = _variant(case, profile)
    lowering = ATTENTION.lower(case.group, variant, layouts_of(variant, case.group), profile)
    assert sum(1 for call in lowering.calls for _ in walk_stmts(call.func.body)) < 4000
