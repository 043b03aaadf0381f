"""Integer products, exact, against ONNX Runtime's kernels.

int8 weights have 7 bits: on CPUs without VNNI its sums of u8 x s8 saturate in 16 bits.
"""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from .one_model import NodeCase, check, model_of, run_package, weights

RNG = np.random.default_rng(8)


def u8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def s8(*shape: int) -> np.ndarray:
    return RNG.integers(-64, 64, shape).astype(np.int8)


def scale(*shape: int, times: int = 1) -> np.ndarray:
    return np.array(RNG.uniform(0.001, 0.02, shape) * times, np.float32)


def test_matmul(tmp_path: Path) -> None:
    op = "MatMulInteger"
    cases = [NodeCase(op, inputs, constants=held, domain="") for inputs, held in (
        ([u8(3, 4), u8(4, 5)], weights()), ([u8(3, 37), s8(37, 19), u8(), s8()], weights(1, 2, 3)),
        ([u8(2, 3, 4), s8(4, 5), u8(1), s8(5)], weights(1, 3)),
        ([u8(2, 3, 4), s8(2, 4, 5), u8(), s8(2, 1, 5)], weights()),
        ([u8(0, 4), u8(4, 5), u8(), u8()], weights(1)), ([s8(3, 4), s8(4, 5), s8()], weights()),
        ([u8(70, 65), u8(65, 33), u8(), u8(33)], weights(1)), ([u8(1, 300), s8(300, 7), u8()], weights(1)))]
    check(cases, tmp_path)


def test_full_range_does_not_saturate(tmp_path: Path) -> None:
    a, b = np.full((3, 64), 255, np.uint8), np.full((64, 16), -128, np.int8)
    model, feeds = model_of([NodeCase("MatMulInteger", [a, b], domain="", constants=weights(1))])
    np.testing.assert_array_equal(run_package(model, feeds, tmp_path)[0], np.full((3, 16), -255 * 128 * 64, np.int32))


@pytest.mark.parametrize("terms", [258, 259, 700])
def test_exact_on_both_sides_of_what_float32_holds(terms: int, tmp_path: Path) -> None:
    """258 * 255 * 255 is the last sum below 2^24; odd elements make every sum one that float32 would round beyond."""
    a, b = np.full((2, terms), 255, np.uint8), np.full((terms, 9), 255, np.uint8)
    image, kernel = np.full((1, terms, 1, 3), 255, np.uint8), np.full((9, terms, 1, 1), 255, np.uint8)
    model, feeds = model_of([NodeCase("MatMulInteger", [a, b], domain="", constants=weights(1)),
                             NodeCase("MatMulInteger", [a, b], domain=""),
                             NodeCase("ConvInteger", [image, kernel], domain="", constants=weights(1))])
    for found in run_package(model, feeds, tmp_path):
        np.testing.assert_array_equal(found, np.full(found.shape, 255 * 255 * terms, np.int32))


def test_row_zero_points(tmp_path: Path) -> None:
    """One zero point per row of a: in the specification, not in ONNX Runtime."""
    a, b, rows = u8(3, 4), s8(4, 5), u8(3)
    model, feeds = model_of([NodeCase("MatMulInteger", [a, b, rows], domain="")])
    want = (a.astype(np.int32) - rows[:, None].astype(np.int32)) @ b.astype(np.int32)
    np.testing.assert_array_equal(run_package(model, feeds, tmp_path)[0], want)


def test_conv(tmp_path: Path) -> None:
    op, same = "ConvInteger", {"pads": [1, 1, 1, 1]}
    cases = [NodeCase(op, inputs, attrs, constants=held, domain="") for inputs, attrs, held in (
        ([u8(2, 3, 7, 9), u8(5, 3, 3, 3), u8()], same, weights(1)),
        ([u8(2, 3, 7, 9), s8(5, 3, 3, 3), u8(), s8()], same, weights()),
        ([u8(1, 4, 9, 11), s8(6, 2, 3, 2), u8()], {"group": 2, "strides": [2, 3], "dilations": [1, 2]}, weights(1)),
        ([u8(1, 8, 6, 6), u8(8, 1, 3, 3), u8()], {"group": 8, "auto_pad": "SAME_UPPER", "strides": [2, 2]}, weights(1)),
        ([u8(0, 3, 5, 5), u8(2, 3, 1, 1)], {}, weights(1)),
        ([u8(2, 3, 11), u8(4, 3, 3), u8()], {"pads": [1, 0]}, weights(1)))]
    check(cases, tmp_path)


def test_to_float(tmp_path: Path) -> None:
    op = "MatMulIntegerToFloat"
    x = RNG.normal(size=7).astype(np.float32)
    check([NodeCase(op, [u8(3, 5), s8(5, 7), scale(), scale()]),
           NodeCase(op, [u8(3, 5), s8(5, 7), scale(1), scale(7), u8(), s8(7), x], constants=weights(1, 3, 5, 6)),
           NodeCase(op, [u8(2, 3, 5), u8(5, 7), scale(), scale(7), u8(1), None, x], constants=weights(1)),
           NodeCase(op, [u8(0, 5), u8(5, 7), scale(), scale()])], tmp_path)


def test_dynamic(tmp_path: Path) -> None:
    """A step of the activation's quantisation may fall the other way where x / scale ends in one half."""
    op, x = "DynamicQuantizeMatMul", RNG.normal(size=(2, 5, 33)).astype(np.float32)
    bias = RNG.normal(size=9).astype(np.float32)
    check([NodeCase(op, [x, s8(33, 9), scale()], atol=2e-2),
           NodeCase(op, [x, s8(33, 9), scale(9), s8(9), bias], constants=weights(1, 2, 3, 4), atol=2e-2),
           NodeCase(op, [np.abs(x), u8(33, 9), scale(), u8(), bias], constants=weights(1), atol=2e-2),
           NodeCase(op, [-np.abs(x), u8(33, 9), scale(1), None, bias], atol=2e-2),
           NodeCase(op, [np.zeros((3, 33), np.float32), u8(33, 9), scale()])], tmp_path)


def test_qgemm(tmp_path: Path) -> None:
    op, c = "QGemm", RNG.integers(-4000, 4000, 7).astype(np.int32)
    check([NodeCase(op, [u8(3, 5), scale(), u8(), s8(5, 7), scale(), s8(), c]),
           NodeCase(op, [u8(5, 3), scale(), u8(), s8(7, 5), scale(7), s8(7), c, scale(times=50), u8()],
                    {"transA": 1, "transB": 1, "alpha": 1.5}, constants=weights(3, 4, 5, 6), steps=1),
           NodeCase(op, [s8(3, 5), scale(), s8(), s8(5, 7), scale(7), s8(7), None, scale(times=50), s8()], steps=1)],
          tmp_path)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_qlinear_matmul(kind: type, tmp_path: Path) -> None:
    op, a = "QLinearMatMul", u8 if kind == np.uint8 else s8
    check([NodeCase(op, inputs, domain="", constants=held, steps=1) for inputs, held in (
        ([a(3, 5), scale(), a(), s8(5, 7), scale(), s8(), scale(times=20), a()], weights()),
        ([a(2, 3, 37), scale(1), a(1), s8(37, 7), scale(7), s8(7), scale(times=40), a()], weights(3, 4, 5)),
        ([a(2, 3, 4), scale(), a(), s8(2, 4, 5), scale(), s8(), scale(times=20), a(1)], weights(3)),
        ([a(0, 4), scale(), a(), s8(4, 5), scale(), s8(), scale(), a()], weights()))], tmp_path)


@pytest.mark.parametrize("kind", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_qlinear_matmul_of_float8(kind: type, tmp_path: Path) -> None:
    """In the specification since opset 21, not in ONNX Runtime."""
    a, b, zero = (RNG.normal(size=shape).astype(kind) for shape in ((3, 5), (5, 7), ()))
    zero = np.zeros_like(zero)
    sizes = [np.array(value, np.float32) for value in (0.5, 0.25, 0.125)]
    case = NodeCase("QLinearMatMul", [a, sizes[0], zero, b, sizes[1], zero, sizes[2], zero], domain="")
    model, feeds = model_of([case])
    found = run_package(model, feeds, tmp_path)[0]
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(kind)
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found.astype(np.float32), want.astype(np.float32), rtol=0.26)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_qlinear_conv(kind: type, tmp_path: Path) -> None:
    op, a, same = "QLinearConv", u8 if kind == np.uint8 else s8, {"pads": [1, 1, 1, 1]}
    bias = RNG.integers(-9000, 9000, 6).astype(np.int32)
    check([NodeCase(op, inputs, attrs, domain="", constants=held, steps=1) for inputs, attrs, held in (
        ([a(2, 3, 7, 9), scale(), a(), s8(6, 3, 3, 3), scale(), s8(), scale(times=20), a(), bias], same, weights(3, 8)),
        ([a(1, 4, 9, 11), scale(), a(), s8(6, 2, 3, 2), scale(6), np.zeros(6, np.int8), scale(times=20), a(), bias],
         {"group": 2, "strides": [2, 3], "dilations": [1, 2]}, weights(1, 2, 3, 4, 5, 6, 7, 8)),
        ([a(1, 8, 6, 6), scale(), a(), s8(8, 1, 3, 3), scale(8), np.zeros(8, np.int8), scale(times=20), a()],
         {"group": 8, "auto_pad": "SAME_LOWER", "strides": [2, 2]}, weights(3, 4, 5)),
        ([a(2, 3, 5, 4), scale(1), a(1), s8(6, 3, 1, 1), scale(1), s8(1), scale(1, times=20), a(1), bias], {},
         weights()),
        ([a(2, 3, 11), scale(), a(), s8(6, 3, 3), scale(), s8(), scale(times=20), a()], {}, weights(3)),
        ([a(0, 3, 5, 5), scale(), a(), s8(6, 3, 1, 1), scale(), s8(), scale(), a()], {}, weights()))], tmp_path)


def test_channels_last(tmp_path: Path) -> None:
    same, bias = {"pads": [1, 1, 1, 1], "channels_last": 1}, RNG.integers(-9000, 9000, 6).astype(np.int32)
    inputs = [u8(2, 7, 9, 3), scale(), u8(), s8(6, 3, 3, 3), scale(), s8(), scale(times=20), u8(), bias]
    check([NodeCase("QLinearConv", inputs, same, constants=weights(1, 2, 3, 4, 5, 6, 7, 8), steps=1)], tmp_path)
