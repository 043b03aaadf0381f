"""Convolutions with few output channels: odd widths, every corner of the knobs, epilogues, dynamic sizes."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.conv.conv_few import CONV_FEW
from meta_infer.kernels.kernel import Refusal

from .conv_cases import PROFILES, conv_case, random
from .harness import Case, Step, check_case, make_group, make_profile


def transposed(rng: np.random.Generator, shape: tuple[int, ...], channels: int, kernel: tuple[int, int], *,
               bias: bool = True, dynamic: bool = False, steps: tuple[Step, ...] = (),
               pads: tuple[int, ...] = (0,) * 4) -> Case:
    attrs = {"kernel_shape": kernel, "strides": kernel, "pads": pads, "dilations": (1, 1), "group": 1,
             "output_padding": (0, 0)}
    shapes = {"x": (Symbol("N", 1, 8).dim, shape[1], Symbol("H", 1, 64).dim, Symbol("W", 1, 64).dim)}
    inputs = {"x": random(rng, *shape), "w": random(rng, shape[1], channels, *kernel),
              "b": random(rng, channels) if bias else None}
    return make_group("ConvTranspose", inputs, attrs, constants=("w", "b") if bias else ("w",), epilogue=steps,
                      shapes=shapes if dynamic else None)


def check(case: Case, index: int = 0, corners: bool = False) -> int:
    return check_case(case, CONV_FEW, rtol=1e-4, atol=1e-4, profile=PROFILES[index], all_corners=corners)


@pytest.mark.parametrize("index", [0, 1])
def test_corners(index: int) -> None:
    rng = np.random.default_rng(0)
    assert check(transposed(rng, (1, 19, 5, 37), 3, (2, 2)), index, corners=True) >= 6
    assert check(conv_case(rng, (2, 10, 3, 21), 2, (1, 1), epilogue=[Step("Relu")]), index, corners=True) >= 6


@pytest.mark.parametrize("kernel", [(1, 1), (2, 2), (1, 3), (3, 1), (4, 5), (2, 7)])
def test_kernels_and_widths(kernel: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    for width, channels in ((1, 1), (8, 3), (33, 2)):
        steps = (Step("Sigmoid"),) if channels > 1 else ()
        case = transposed(rng, (2, 5 + 4 * channels, 3, width), channels, kernel, bias=channels > 1, steps=steps)
        assert check(case) == 2


@pytest.mark.parametrize("size", [(1, 1), (5, 50), (9, 16)])
def test_sizes_known_while_running(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    assert check(transposed(rng, (2, 12, *size), 1, (2, 2), dynamic=True, steps=(Step("Sigmoid"),))) == 2
    assert check(conv_case(rng, (1, 9, *size), 3, (1, 1), dynamic=True)) == 2


def test_epilogues() -> None:
    rng = np.random.default_rng(3)
    y = (2, 3, 6, 26)
    for steps in ((Step("Add", {"r": random(rng, *y)}), Step("Tanh")),
                  (Step("Mul", {"s": random(rng, 3, 1, 1)}), Step("Add", {"q": random(rng, 26)}), Step("Relu")),
                  (Step("Sub", {"m": random(rng, 6, 1)}, at=1), Step("Relu"))):
        assert check(transposed(rng, (2, 8, 3, 13), 3, (2, 2), steps=steps)) == 2


def test_what_is_out_of_reach() -> None:
    rng, lanes = np.random.default_rng(4), PROFILES[1].simd_bits // 32
    for case in (conv_case(rng, (1, 8, 5, 5), lanes, (1, 1)), conv_case(rng, (1, 8, 6, 6), 1, (2, 2), strides=(2, 2)),
                 conv_case(rng, (1, 8, 5, 5), 2, (1, 1), pads=(1, 0, 0, 0)),
                 transposed(rng, (1, 4, 4, 4), 1, (2, 2), pads=(1, 1, 1, 1))):
        assert not list(CONV_FEW.variants(case.group, PROFILES[1]))
    case = conv_case(rng, (1, 8, 5, 5), 1, (1, 1))
    assert not list(CONV_FEW.variants(case.group, make_profile("riscv64")))


def test_refusals_are_countable() -> None:
    profile = make_profile("x86-64-v3")
    case = transposed(np.random.default_rng(5), (1, 8, 4, 9), 3, (2, 2))
    variant = next(iter(CONV_FEW.variants(case.group, profile)))
    for values, reason in (({"rows": 6, "vectors": 2}, "registers"), ({"lines": 5}, "shape"),
                           ({"rows": 7, "vectors": 1}, "shape")):
        refused = CONV_FEW.tune(case.group, variant, values, profile)
        assert isinstance(refused, Refusal) and refused.reason == reason and refused.detail
