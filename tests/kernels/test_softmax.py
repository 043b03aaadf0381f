"""Softmax and LogSoftmax over every axis, at every length, with masks."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.reduction.softmax import SOFTMAX

from .harness import PROFILE, Step, check_case, layouts_of, make_group, make_profile, reference, run_group

NARROW = make_profile("x86-64-v2")


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 5).astype(np.float32)


@pytest.mark.parametrize("op, shape, axis", [
    ("Softmax", (5,), 0), ("Softmax", (3, 1), 1), ("Softmax", (3, 70), 0), ("LogSoftmax", (3, 70), 1),
    ("Softmax", (2, 3, 4, 9), 1), ("LogSoftmax", (2, 3, 4, 9), 2), ("Softmax", (2, 0, 4), 2),
    ("LogSoftmax", (2, 3, 0), 1), ("Softmax", (4, 7, 1, 1), 1),
])
def test_axes(op: str, shape: tuple[int, ...], axis: int) -> None:
    assert check_case(make_group(op, {"x": _random(*shape)}, {"axis": axis}), SOFTMAX) == 1


@pytest.mark.parametrize("profile", [PROFILE, NARROW], ids=lambda p: f"{p.simd_bits}")
def test_one_function_at_many_lengths(profile) -> None:  # type: ignore[no-untyped-def]
    s = Symbol("s", 0, 256).dim
    for length in (0, 1, 2, 7, 8, 9, 31, 32, 33, 130):
        case = make_group("Softmax", {"x": _random(2, 3, length)}, {"axis": 2}, shapes={"x": (2, 3, s), "r": (s,)},
                          epilogue=[Step("Mul", {"r": _random(length)})])
        (variant,) = SOFTMAX.variants(case.group, profile)
        got = run_group(case.group, SOFTMAX, variant, layouts_of(variant, case.group), case.arrays, profile, seed=1)
        np.testing.assert_allclose(got["e0"], reference(case)["e0"], 1e-5, 1e-6)


def test_float64() -> None:
    assert check_case(make_group("Softmax", {"x": _random(5, 13).astype(np.float64)}, {"axis": 1}), SOFTMAX, 1e-12) == 1


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_masked_rows_are_as_in_onnx_runtime(op: str) -> None:
    x = _random(7, 19)
    lowest = np.finfo(np.float32).min
    x[0] = lowest
    x[1, 3:] += lowest
    x[2, ::2] = -np.inf
    x[3] = -np.inf
    x[4, 5] = np.inf
    x[5, 5] = np.nan
    model = helper.make_model(helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], axis=1)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)]), opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    case = make_group(op, {"x": x}, {"axis": 1})
    (variant,) = SOFTMAX.variants(case.group, PROFILE)
    got = run_group(case.group, SOFTMAX, variant, layouts_of(variant, case.group), case.arrays)["out"]
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)
