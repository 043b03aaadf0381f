"""Elementwise groups: broadcasting of every kind, mixed types, blocked layouts, lengths of 0 and 1."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.elementwise import ELEMENTWISE
from meta_infer.support.dtypes import BOOL, FLOAT32, INT64

from .harness import PROFILE, Step, check_case, layouts_of, make_group, make_profile, reference, run_group

NARROW = make_profile("x86-64-v2")


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("x, y", [
    ((), ()), ((1,), (1,)), ((37,), ()), ((3, 37), (37,)), ((3, 37), (3, 1)), ((3, 1), (1, 37)), ((2, 3, 4), (3, 1)),
    ((2, 5, 1, 4), (1, 3, 4)), ((0, 3), (3,)), ((3, 0), (3, 1)), ((1, 1, 1), (1,)), ((2, 1, 3), (2, 4, 1)),
])
def test_broadcasting(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    case = make_group("Add", {"x": _random(*x), "y": _random(*y, seed=1)}, epilogue=[Step("Tanh")])
    assert check_case(case, ELEMENTWISE, 1e-5, 1e-6) >= 1


def test_chain_that_widens_on_the_way() -> None:
    """Only the last value has the full shape; the earlier ones are computed where they are needed."""
    case = make_group("Exp", {"x": _random(5, 1)}, epilogue=[Step("Mul", {"y": _random(3, 1, 9)}), Step("Neg")])
    assert check_case(case, ELEMENTWISE) >= 1


def test_outputs_of_different_shapes_are_refused() -> None:
    case = make_group("Exp", {"x": _random(5, 1)}, epilogue=[Step("Mul", {"y": _random(3, 1, 9)})], keep=("out",))
    assert not list(ELEMENTWISE.variants(case.group, PROFILE))


@pytest.mark.parametrize("profile", [PROFILE, NARROW], ids=lambda p: f"{p.simd_bits}")
def test_attention_mask_of_mixed_types(profile) -> None:  # type: ignore[no-untyped-def]
    """(1 - float(mask)) * lowest for an int64 mask [b, 1, 1, s], at several sizes of one function."""
    b, s = Symbol("b", 0, 8).dim, Symbol("s", 1, 256).dim
    for batch, length in ((1, 1), (2, 7), (0, 5), (3, 130)):
        mask = np.random.default_rng(1).integers(0, 2, (batch, 1, 1, length))
        case = make_group("Cast", {"mask": mask}, {"to": FLOAT32}, shapes={"mask": (b, 1, 1, s)},
                          constants=("one", "low"),
                          epilogue=[Step("Sub", {"one": np.float32(1)}, at=1), Step("Mul", {"low": np.float32(-3e38)})])
        (variant, *_) = ELEMENTWISE.variants(case.group, profile)
        got = run_group(case.group, ELEMENTWISE, variant, layouts_of(variant, case.group), case.arrays, profile, seed=1)
        np.testing.assert_array_equal(got["e1"], reference(case)["e1"])


def test_integers_and_booleans() -> None:
    x = np.random.default_rng(0).integers(-5, 5, (7, 19))
    case = make_group("Mul", {"x": x, "y": x[:1]}, epilogue=[
        Step("Less", {"z": x[:, :1]}), Step("Not"), Step("Where", {"a": x, "b": x[0]})], keep=("e1",))
    assert check_case(case, ELEMENTWISE) >= 1
    case = make_group("Cast", {"x": x.astype(np.float64)}, {"to": INT64}, epilogue=[Step("Cast", attrs={"to": BOOL})])
    assert check_case(case, ELEMENTWISE) >= 1


@pytest.mark.parametrize("channels", [8, 16, 13, 3])
def test_blocked(channels: int) -> None:
    """Both layouts, with operands of every kind; padding lanes stay zero although Exp(0) is 1."""
    shape = (2, channels, 3, 5)
    operands = {"c": _random(1, channels, 1, 1), "v": _random(channels, 1, 1), "n": _random(2, channels, 1, 1),
                "s": _random(), "w": _random(5), "full": _random(*shape, seed=2)}
    case = make_group("Exp", {"x": _random(*shape)}, constants=("v", "s"), keep=("out",),
                      epilogue=[Step("Add", {name: array}) for name, array in operands.items()])
    assert check_case(case, ELEMENTWISE) == 2
    assert check_case(make_group("Exp", {"x": _random(*shape)}, epilogue=[Step("Add", {"r": _random(*shape)})]),
                      ELEMENTWISE, profile=NARROW) == 2


def test_blocked_with_dynamic_width() -> None:
    w = Symbol("w", 1, 99).dim
    for width in (1, 20):
        case = make_group("Relu", {"x": _random(1, 12, 2, width)}, shapes={"x": (1, 12, 2, w)})
        assert check_case(case, ELEMENTWISE) == 2


def test_plain_constants_keep_a_group_plain() -> None:
    x = _random(1, 8, 3, 3)
    case = make_group("Add", {"x": x, "k": x}, constants=("k",))
    assert check_case(case, ELEMENTWISE) == 1


def test_many_chunks() -> None:
    case = make_group("Mul", {"x": _random(3, 20_000), "y": _random(20_000)})
    assert check_case(case, ELEMENTWISE) >= 1


def test_interpreter_agrees() -> None:
    case = make_group("Add", {"x": _random(2, 3, 11), "y": _random(3, 1)}, epilogue=[Step("Relu")])
    assert check_case(case, ELEMENTWISE, engines=("c", "interpret")) >= 1


def test_math_functions_run_abreast() -> None:
    """Rows of a long vector, a vector and a tail; an operand of each kind goes along."""
    case = make_group("Mul", {"x": _random(3, 45), "y": _random(3, 1)},
                      epilogue=[Step("Gelu", attrs={"approximate": "none"}), Step("Add", {"z": _random(45)})])
    assert check_case(case, ELEMENTWISE) >= 1


@pytest.mark.parametrize("op", ["Sigmoid", "Silu", "Softplus", "Sin"])
def test_rows_shorter_than_long_vectors(op: str) -> None:
    for width in (1, 31, 64):
        assert check_case(make_group(op, {"x": _random(2, width)}), ELEMENTWISE) >= 1
