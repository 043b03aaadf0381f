"""Conversion to and from narrow floats: the tables of the ONNX specification, and ml_dtypes for all else."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.numpy_helper import to_float8e8m0

from meta_infer.ir.builder import Builder
from meta_infer.ir.interpret_loop import interpret
from meta_infer.ops.narrow_floats import FORMATS, ROUND_MODES, encode_array
from meta_infer.ops.storage import FROM_BITS, TO_BITS
from meta_infer.support.dtypes import (
    FLOAT8E4M3FN,
    FLOAT8E4M3FNUZ,
    FLOAT8E5M2,
    FLOAT8E5M2FNUZ,
    FLOAT8E8M0,
    FLOAT32,
    NARROW_FLOATS,
    DType,
)

INF, NAN = float("inf"), float("nan")
LARGEST = {FLOAT8E4M3FN: 448.0, FLOAT8E4M3FNUZ: 240.0, FLOAT8E5M2: 57344.0, FLOAT8E5M2FNUZ: 57344.0}


def kernel(op: object, attrs: dict, source: DType, target: DType, x: np.ndarray) -> np.ndarray:
    """The op's expression on every element of `x`, by the interpreter of loop IR."""
    b = Builder("convert")
    given, made = b.input("x", source), b.output("y", target)
    with b.chunks(b.dim(x.size)) as i:
        b.store(made, i, op.expr(attrs, [b.load(given, i)]))  # type: ignore[attr-defined]
    func, _ = b.finish()
    found = np.zeros(x.size, target.numpy)
    interpret(func, [x, found], [])
    return found


@pytest.mark.parametrize("dtype", LARGEST, ids=str)
@pytest.mark.parametrize("saturate", [True, False])
def test_overflow_is_that_of_the_specification(dtype: DType, saturate: bool) -> None:
    """Infinity and what rounds beyond the largest number: the largest, else infinity where there is one, else NaN."""
    top = LARGEST[dtype]
    step = top - float(np.array(FORMATS[dtype].largest - 1, np.uint8).view(dtype.numpy))
    x = np.array([INF, -INF, top, -top, top + step / 2 - 1e-3 * step, top + step / 2 + 1e-3 * step, 1e30, NAN],
                 np.float32)
    beyond = top if saturate else INF if dtype == FLOAT8E5M2 else NAN
    wanted = np.array([beyond, -beyond, top, -top, top, beyond, beyond, NAN])
    np.testing.assert_array_equal(encode_array(x, dtype, saturate).astype(np.float64), wanted)
    bits = kernel(TO_BITS, {"of": dtype, "saturate": saturate}, FLOAT32, dtype.storage, x)
    np.testing.assert_array_equal(bits.view(dtype.numpy).astype(np.float64), wanted)


@pytest.mark.parametrize("dtype", [d for d in NARROW_FLOATS if d != FLOAT8E8M0], ids=str)
def test_rounding_is_to_nearest_even(dtype: DType) -> None:
    """Every number of the type, the middle between any two, and the floats beside both."""
    codes = np.arange(1 << dtype.bits, dtype=dtype.storage.numpy)[::1 if dtype.bits <= 8 else 61]
    exact = codes.view(dtype.numpy).astype(np.float32)
    exact = np.sort(exact[np.isfinite(exact)])
    with np.errstate(over="ignore"):
        middle = (exact[:-1].astype(np.float64) + exact[1:]) / 2
    points = np.concatenate([exact, middle.astype(np.float32)])
    x = np.concatenate([points, np.nextafter(points, np.float32(INF)), np.nextafter(points, np.float32(-INF))])
    wanted = x.astype(dtype.numpy).view(dtype.storage.numpy)
    np.testing.assert_array_equal(encode_array(x, dtype).view(dtype.storage.numpy), wanted)
    sample = x[:: max(len(x) // 600, 1)]
    np.testing.assert_array_equal(kernel(TO_BITS, {"of": dtype}, FLOAT32, dtype.storage, sample),
                                  sample.astype(dtype.numpy).view(dtype.storage.numpy))


@pytest.mark.parametrize("dtype", NARROW_FLOATS, ids=str)
def test_decoding_gives_back_every_code(dtype: DType) -> None:
    codes = np.arange(1 << dtype.bits, dtype=dtype.storage.numpy)[::1 if dtype.bits <= 8 else 251]
    found = kernel(FROM_BITS, {"of": dtype}, dtype.storage, FLOAT32, codes)
    wanted = codes.view(dtype.numpy).astype(np.float32)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found[~np.isnan(found)]), np.signbit(wanted[~np.isnan(wanted)]))


@pytest.mark.parametrize("mode", ROUND_MODES)
@pytest.mark.parametrize("saturate", [True, False])
def test_exponents_alone(mode: str, saturate: bool) -> None:
    x = np.array([0, 1, 1.25, 1.4999, 1.5, 1.5001, 1.9999, 2, 3, 5, 6, 7, 0.1, 1e-30, 1e30, 2.0**-126, 1.6 * 2.0**-127,
                  3e38, NAN], np.float32)
    wanted = to_float8e8m0(x, saturate, mode)
    np.testing.assert_array_equal(encode_array(x, FLOAT8E8M0, saturate, mode).view(np.uint8), wanted.view(np.uint8))
    attrs = {"of": FLOAT8E8M0, "saturate": saturate, "round_mode": mode}
    np.testing.assert_array_equal(kernel(TO_BITS, attrs, FLOAT32, FLOAT8E8M0.storage, x), wanted.view(np.uint8))


def test_float64_is_rounded_once() -> None:
    """1 + 2^-8 + 2^-40 lies above the middle of two bfloat16 numbers; rounded to float32 first, it is the middle."""
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40, -(1 + 2.0**-8 + 2.0**-40), 1e300, -1e300, NAN])
    wanted = np.array([1 + 2.0**-7, 1, -(1 + 2.0**-7), INF, -INF, NAN])
    from meta_infer.support.dtypes import BFLOAT16, FLOAT64

    np.testing.assert_array_equal(encode_array(x, BFLOAT16).astype(np.float64), wanted)
    bits = kernel(TO_BITS, {"of": BFLOAT16}, FLOAT64, BFLOAT16.storage, x)
    np.testing.assert_array_equal(bits.view(BFLOAT16.numpy).astype(np.float64), wanted)
