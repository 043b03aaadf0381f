"""QuantizeLinear and DequantizeLinear through their importers, on the numpy references, against plain numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator

from meta_infer.frontend.import_model import import_model
from meta_infer.ops.execute import execute_graph
from meta_infer.support.errors import UnsupportedError

RNG = np.random.default_rng(11)
QUANTIZED = [np.dtype(t) for t in (np.uint8, np.int8, np.uint16, np.int16, ml_dtypes.int4, ml_dtypes.uint4,
                                   ml_dtypes.int2, ml_dtypes.uint2)]
FLOATS8 = [np.dtype(t) for t in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2,
                                 ml_dtypes.float8_e5m2fnuz, ml_dtypes.float4_e2m1fn)]
LAYOUTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, int]]] = {
    "one for all": ((3, 5), (), {}), "one in a vector": ((3, 5), (1,), {}), "of a vector": ((7,), (), {}),
    "of a scalar": ((), (), {}), "by the last axis": ((2, 3, 5), (5,), {"axis": -1}),
    "by axis 1": ((2, 3, 5), (3,), {}),
    "by axis 0": ((4, 3), (4,), {"axis": 0}), "blocks": ((2, 6, 3), (2, 3, 3), {"axis": 1, "block_size": 2}),
    "blocks that do not divide": ((2, 7), (2, 3), {"axis": 1, "block_size": 3}), "nothing": ((0, 3), (3,), {})}


def run(op: str, arrays: list[np.ndarray], folder: Path, opset: int = 25, **attrs: Any
        ) -> tuple[np.ndarray, ModelProto, dict[str, np.ndarray]]:
    names = [f"in{i}" for i in range(len(arrays))]
    kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in arrays]
    inputs = [helper.make_tensor_value_info(n, k, a.shape) for n, k, a in zip(names, kinds, arrays, strict=True)]
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attrs)], "g", inputs,
                              [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=12)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    feeds = dict(zip(names, arrays, strict=True))
    return execute_graph(import_model(folder / "m.onnx"), feeds)["y"], model, feeds


def spread(values: np.ndarray, shape: tuple[int, ...], attrs: dict[str, int]) -> np.ndarray:
    if values.size == 1:
        return values.reshape(())
    axis = attrs.get("axis", 1)
    if "block_size" in attrs:
        return np.take(np.repeat(values, attrs["block_size"], axis), range(shape[axis]), axis)
    return values.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", QUANTIZED, ids=str)
@pytest.mark.parametrize("work", [np.float32, np.float16])
def test_quantize_saturates_and_rounds_to_even(tmp_path: Path, layout: str, dtype: np.dtype, work: Any) -> None:
    shape, scales, attrs = LAYOUTS[layout]
    low, high = int(ml_dtypes.iinfo(dtype).min), int(ml_dtypes.iinfo(dtype).max)
    scale = RNG.choice([0.25, 0.5, 1.0, 2.0], scales).astype(work)
    zero = RNG.integers(low, high + 1, scales).astype(dtype)
    x = (RNG.integers(-80, 80, shape) / 8).astype(work)                 # ties among them
    wide = spread(scale, shape, attrs).astype(np.float64)
    wanted = np.clip(np.rint(x / wide) + spread(zero, shape, attrs).astype(np.int64), low, high)
    found, _, _ = run("QuantizeLinear", [x, scale, zero], tmp_path, **attrs)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.int64), wanted.astype(np.int64))


@pytest.mark.parametrize("dtype", QUANTIZED, ids=str)
def test_numbers_beyond_every_integer(tmp_path: Path, dtype: np.dtype) -> None:
    low, high = int(ml_dtypes.iinfo(dtype).min), int(ml_dtypes.iinfo(dtype).max)
    x = np.array([1e10, -1e10, 3e38, -3e38, np.inf, -np.inf, 2.0**31, -(2.0**31), np.nan], np.float32)
    for zero in (low, 0, high):
        found, _, _ = run("QuantizeLinear", [x, np.float32(1e-3).reshape(()), np.array(zero).astype(dtype)], tmp_path)
        np.testing.assert_array_equal(found.astype(np.int64), [high, low] * 4 + [low])


def test_no_zero_point_is_uint8_or_what_output_dtype_says(tmp_path: Path) -> None:
    x, scale = np.array([-1, 0.5, 1.5, 300], np.float32), np.array(1, np.float32)
    found, _, _ = run("QuantizeLinear", [x, scale], tmp_path)
    np.testing.assert_array_equal(found, np.array([0, 0, 2, 255], np.uint8))
    found, _, _ = run("QuantizeLinear", [x, scale], tmp_path, output_dtype=5)
    np.testing.assert_array_equal(found, np.array([-1, 0, 2, 300], np.int16))


@pytest.mark.parametrize("dtype", FLOATS8, ids=str)
def test_quantize_to_small_floats(tmp_path: Path, dtype: np.dtype) -> None:
    x = (RNG.standard_normal((3, 50)) * 2.0 ** RNG.integers(-8, 10, (3, 50))).astype(np.float32)
    scale = np.array([0.5, 2, 3], np.float32)
    for saturate in (0, 1) if dtype.itemsize and "float8" in dtype.name else (1,):
        attrs = {"axis": 0, "output_dtype": helper.np_dtype_to_tensor_dtype(dtype), "saturate": saturate}
        found, model, feeds = run("QuantizeLinear", [x, scale], tmp_path, **attrs)
        with np.errstate(all="ignore"):
            (wanted,) = ReferenceEvaluator(model).run(None, feeds)
        np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [*QUANTIZED, np.dtype(np.int32), *FLOATS8], ids=str)
def test_dequantize(tmp_path: Path, layout: str, dtype: np.dtype) -> None:
    shape, scales, attrs = LAYOUTS[layout]
    x = RNG.integers(0, 256, shape).astype(np.uint8)
    integer = dtype in QUANTIZED
    x = x.astype(np.int32).astype(dtype) if integer or dtype == np.int32 else (x & (127 if dtype.itemsize else 7) & (
        15 if "4_" in dtype.name else 119)).view(dtype)
    scale = RNG.uniform(0.1, 2, scales).astype(np.float32)
    zero = RNG.integers(-3, 4, scales).astype(np.int32).astype(dtype) if integer else None
    wanted = (x.astype(np.float32) - (0 if zero is None else spread(zero, shape, attrs).astype(np.float32))) * spread(
        scale, shape, attrs)
    found, _, _ = run("DequantizeLinear", [x, scale, *([] if zero is None else [zero])], tmp_path, **attrs)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, wanted)


def test_types_of_scale_precision_and_output(tmp_path: Path) -> None:
    x = np.array([1000.4, -3.3, 65000], np.float32)
    for scale, attrs, wanted in (
            (np.array(0.1, np.float16), {}, np.rint(x / np.float16(0.1).astype(np.float32))),
            (np.array(0.1, np.float32), {"precision": 10}, np.rint(x.astype(np.float16) / np.float16(0.1))),
            (np.array(0.5, ml_dtypes.float8_e8m0fnu), {}, np.rint(x / 0.5))):
        found, _, _ = run("QuantizeLinear", [x, scale], tmp_path, output_dtype=5, **attrs)
        np.testing.assert_array_equal(found, np.clip(wanted.astype(np.float64), -32768, 32767).astype(np.int16))
    q = np.array([3, -7, 100], np.int8)
    for scale, attrs, kind in ((np.array(0.3, np.float16), {}, np.float16),
                               (np.array(0.3, ml_dtypes.bfloat16), {}, ml_dtypes.bfloat16),
                               (np.array(0.3, np.float32), {"output_dtype": 10}, np.float16),
                               (np.array(0.5, ml_dtypes.float8_e8m0fnu), {"output_dtype": 1}, np.float32)):
        found, _, _ = run("DequantizeLinear", [q, scale], tmp_path, **attrs)
        assert found.dtype == kind
        np.testing.assert_array_equal(found.astype(np.float32), (q * scale.astype(np.float32)).astype(kind).astype(
            np.float32))


@pytest.mark.parametrize(("scales", "attrs"), [((2, 2), {"block_size": 2}), ((2, 5), {})])
def test_blocks_that_do_not_cover_the_axis(tmp_path: Path, scales: tuple[int, ...], attrs: dict[str, int]) -> None:
    with pytest.raises(UnsupportedError, match="block"):
        run("QuantizeLinear", [np.zeros((2, 5), np.float32), np.ones(scales, np.float32)], tmp_path, **attrs)
