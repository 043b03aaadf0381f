"""Convolutions in the plain layout: grouped, 1-D and 3-D, transposed, weights that are inputs."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.group import Variant
from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.conv.conv_generic import CONV_GENERIC
from meta_infer.kernels.conv.conv_transpose import CONV_TRANSPOSE
from meta_infer.kernels.kernel import Refusal

from .conv_cases import PROFILES, conv_case, random, random_conv
from .harness import Case, Step, check_case, layouts_of, make_group, reference, run_group


def check(case: Case, index: int = 0) -> None:
    assert check_case(case, CONV_GENERIC, rtol=1e-4, atol=1e-4, profile=PROFILES[index % 2]) == 1


@pytest.mark.parametrize("seed", range(3))
def test_random_dense(seed: int) -> None:
    check(random_conv(np.random.default_rng(seed), most_in=9, dynamic=seed == 2), seed)


@pytest.mark.parametrize("shape, out, kernel, extra", [
    ((2, 12, 9, 11), 18, (3, 3), {"group": 3, "pads": (1, 1, 1, 1)}),
    ((1, 6, 8, 9), 12, (3, 2), {"group": 6, "strides": (2, 2)}),                        # channel multiplier 2
    ((2, 5, 40), 7, (5,), {"pads": (4, 1), "dilations": (2,)}),
    ((1, 4, 33), 4, (3,), {"group": 4, "strides": (3,), "dynamic": True}),
    ((1, 3, 5, 6, 7), 4, (3, 2, 3), {"pads": (1, 0, 1, 1, 1, 2), "strides": (1, 2, 1)}),
    ((1, 2, 1, 1), 3, (3, 3), {"pads": (1, 1, 1, 1), "dynamic": True}),
])
def test_shapes_of_every_kind(shape: tuple[int, ...], out: int, kernel: tuple[int, ...], extra: dict) -> None:
    rng = np.random.default_rng(1)
    case = conv_case(rng, shape, out, kernel, **extra, epilogue=[Step("LeakyRelu", attrs={"alpha": 0.1})])
    check(case, len(kernel))


@pytest.mark.parametrize("dynamic", [False, True])
def test_corners(dynamic: bool) -> None:
    case = conv_case(np.random.default_rng(7), (2, 6, 7, 9), 12, (3, 3), pads=(1, 1, 1, 1), group=3, dynamic=dynamic)
    assert check_case(case, CONV_GENERIC, rtol=1e-4, atol=1e-4, profile=PROFILES[dynamic], all_corners=True) >= 3
    (variant,) = CONV_GENERIC.variants(case.group, PROFILES[0])
    for values, reason in (({"channels": 3}, "alignment"), ({"lines": 10000}, "shape")):
        refused = CONV_GENERIC.tune(case.group, variant, values, PROFILES[0])
        assert isinstance(refused, Refusal) and refused.reason == reason and refused.detail


def test_residual_and_vector_operands() -> None:
    rng = np.random.default_rng(2)
    steps = [Step("Add", {"r": random(rng, 2, 8, 5, 13)}), Step("Mul", {"s": random(rng, 13)}), Step("Relu")]
    check(conv_case(rng, (2, 8, 5, 13), 8, (3, 3), pads=(1, 1, 1, 1), group=2, epilogue=steps))


def test_weights_that_are_inputs() -> None:
    rng = np.random.default_rng(3)
    inputs = {"x": random(rng, 1, 3, 6, 6), "w": random(rng, 5, 3, 2, 2), "b": random(rng, 5)}
    check(make_group("Conv", inputs, {"kernel_shape": (2, 2), "strides": (1, 1), "pads": (0,) * 4,
                                      "dilations": (1, 1), "group": 1}))


def test_empty_batch() -> None:
    check(conv_case(np.random.default_rng(4), (0, 3, 6, 6), 4, (3, 3)))


@pytest.mark.parametrize("shape, weight, attrs", [
    ((1, 6, 5, 7), (6, 4, 2, 2), {"strides": (2, 2)}),
    ((2, 6, 5, 7), (6, 4, 3, 3), {"strides": (2, 3), "pads": (1, 1, 0, 2), "output_padding": (1, 2)}),
    ((1, 6, 5, 7), (6, 4, 3, 3), {"group": 2, "dilations": (2, 1), "pads": (1, 1, 1, 1)}),
    ((1, 4, 9), (4, 2, 4), {"strides": (2,), "pads": (1, 1)}),
    ((1, 2, 3, 4, 5), (2, 3, 2, 2, 2), {"strides": (2, 1, 2)}),
])
@pytest.mark.parametrize("dynamic", [False, True])
def test_transposed(shape: tuple[int, ...], weight: tuple[int, ...], attrs: dict, dynamic: bool) -> None:
    rng = np.random.default_rng(5)
    n = len(shape) - 2
    full = {"kernel_shape": weight[2:], "strides": (1,) * n, "pads": (0,) * 2 * n, "dilations": (1,) * n, "group": 1,
            "output_padding": (0,) * n} | attrs
    channels = weight[1] * full["group"]
    spatial = (Symbol(f"S{i}", min(size, 4), 64).dim for i, size in enumerate(shape[2:]))
    shapes = {"x": (Symbol("N", 1, 8).dim, shape[1], *spatial)}
    case = make_group("ConvTranspose", {"x": random(rng, *shape), "w": random(rng, *weight),
                                        "b": random(rng, channels)}, full, constants=("w", "b"),
                      epilogue=[Step("Relu")], shapes=shapes if dynamic else None)
    check(case, int(dynamic))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("size, kernel", [((5, 17), (2, 2)), ((3, 4), (3, 1)), ((1, 1), (2, 4))])
def test_transposed_without_overlap(size: tuple[int, int], kernel: tuple[int, int], dynamic: bool) -> None:
    rng = np.random.default_rng(6)
    shape = (2, 19, *size)
    shapes = {"x": (Symbol("N", 1, 8).dim, 19, Symbol("H", 1, 64).dim, Symbol("W", 1, 64).dim)}
    attrs = {"kernel_shape": kernel, "strides": kernel, "pads": (0,) * 4, "dilations": (1, 1), "group": 1,
             "output_padding": (0, 0)}
    inputs = {"x": random(rng, *shape), "w": random(rng, 19, 21, *kernel), "b": random(rng, 21)}
    steps = [Step("Sigmoid")] if dynamic else [Step("Mul", {"s": random(rng, 21, 1, 1)}), Step("Relu")]
    case = make_group("ConvTranspose", inputs, attrs, constants=("w", "b"), epilogue=steps,
                      shapes=shapes if dynamic else None)
    for profile in PROFILES:
        assert check_case(case, CONV_TRANSPOSE, rtol=1e-4, atol=1e-4, profile=profile) == 1


def _doubling(rng: np.random.Generator, dynamic: bool) -> Case:
    """37 output channels fill no block, rows of 13 are no whole number of tiles."""
    attrs = {"kernel_shape": (2, 2), "strides": (2, 2), "pads": (0,) * 4, "dilations": (1, 1), "group": 1,
             "output_padding": (0, 0)}
    shapes = {"x": (Symbol("N", 1, 8).dim, 11, Symbol("H", 1, 64).dim, Symbol("W", 1, 64).dim)}
    return make_group("ConvTranspose", {"x": random(rng, 2, 11, 5, 13), "w": random(rng, 11, 37, 2, 2)}, attrs,
                      constants=("w",), epilogue=[Step("Relu")], shapes=shapes if dynamic else None)


@pytest.mark.parametrize("dynamic", [False, True])
def test_corners_of_transposed_without_overlap(dynamic: bool) -> None:
    case = _doubling(np.random.default_rng(8), dynamic)
    profile = PROFILES[dynamic]
    assert check_case(case, CONV_TRANSPOSE, rtol=1e-4, atol=1e-4, profile=profile, all_corners=True) >= 4
    (variant,) = CONV_TRANSPOSE.variants(case.group, profile)
    want = reference(case)["e0"]
    half = -(-37 // (profile.simd_bits // 32)) + 1 >> 1                  # of the output blocks: two tiles
    for values in ({"vectors": half, "columns": 2, "tiles": 2, "lines": 2, "order": "taps"},
                   {"vectors": 2, "columns": 4, "tiles": 1, "lines": 4, "order": "lines"}):
        tuned = CONV_TRANSPOSE.tune(case.group, variant, values, profile)
        assert isinstance(tuned, Variant)
        got = run_group(case.group, CONV_TRANSPOSE, tuned, layouts_of(tuned, case.group), case.arrays, profile, seed=1)
        np.testing.assert_allclose(got["e0"], want, 1e-4, 1e-4)


def test_refusals_of_transposed_are_countable() -> None:
    case = _doubling(np.random.default_rng(9), False)
    (variant,) = CONV_TRANSPOSE.variants(case.group, PROFILES[1])
    for values, reason in (({"vectors": 3, "columns": 12}, "registers"), ({"vectors": 11}, "shape"),
                           ({"tiles": 99}, "shape"), ({"lines": 6}, "shape")):
        refused = CONV_TRANSPOSE.tune(case.group, variant, values, PROFILES[1])
        assert isinstance(refused, Refusal) and refused.reason == reason and refused.detail
