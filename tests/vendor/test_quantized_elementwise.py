"""Ops on 8-bit tensors with scales against ONNX Runtime's kernels: equal within one step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .one_model import NodeCase, check, model_of, run_package, weights

RNG = np.random.default_rng(11)
KINDS = pytest.mark.parametrize("kind", [np.uint8, np.int8])


def data(kind: type, *shape: int) -> np.ndarray:
    info = np.iinfo(kind)
    return RNG.integers(info.min, info.max + 1, shape).astype(kind)


def scale(low: float = 0.01, high: float = 0.05) -> np.ndarray:
    return np.array(RNG.uniform(low, high), np.float32)


@KINDS
def test_binary(kind: type, tmp_path: Path) -> None:
    def case(op: str, a: tuple[int, ...], b: tuple[int, ...], held: frozenset[int] = weights()) -> NodeCase:
        operands = [data(kind, *a), scale(), data(kind), data(kind, *b), scale(), data(kind)]
        inputs = [*operands, scale(0.05, 0.2), data(kind)]
        return NodeCase(op, inputs, constants=held, steps=1)

    cases = [case(op, a, b) for op in ("QLinearAdd", "QLinearMul")
             for a, b in (((3, 7), (3, 7)), ((2, 3, 5), (3, 1)), ((5,), (2, 5)))]
    cases.append(case("QLinearAdd", (2, 3, 33), (33,), weights(1, 2, 3, 4, 5, 6, 7)))
    check(cases, tmp_path)


@KINDS
def test_unary(kind: type, tmp_path: Path) -> None:
    x = data(kind, 3, 7, 5)
    check([NodeCase("QLinearSigmoid", [x, scale(), data(kind), scale(0.004, 0.01), data(kind)], steps=1),
           NodeCase("QLinearLeakyRelu", [x, scale(), data(kind), scale(), data(kind)], {"alpha": 0.25}, steps=1),
           NodeCase("QLinearSoftmax", [x, scale(), data(kind), scale(0.004, 0.01), data(kind)],
                    {"axis": -1, "opset": 13}, constants=weights(1, 2, 3, 4), steps=1),
           NodeCase("QLinearSoftmax", [x, scale(), data(kind), scale(0.004, 0.01), data(kind)],
                    {"axis": 1, "opset": 13}, constants=weights(1, 2, 3, 4), steps=1),
           NodeCase("QLinearSoftmax", [x, scale(), data(kind), scale(0.004, 0.01), data(kind)],
                    {"axis": 1, "opset": 11}, constants=weights(1, 2, 3, 4), steps=1)], tmp_path)


@KINDS
def test_absent_zero_points_are_zero(kind: type, tmp_path: Path) -> None:
    """ONNX Runtime's own kernels do not take it, its schemas do."""
    x, y, sizes, zero = data(kind, 5), data(kind, 5), [scale(), scale(), scale()], np.zeros((), kind)
    cases = [NodeCase("QLinearMul", [x, sizes[0], point, y, sizes[1], point, sizes[2], point])
             for point in (None, zero)]
    cases += [NodeCase("QLinearSigmoid", [x, sizes[0], point, sizes[1], point]) for point in (None, zero)]
    model, feeds = model_of(cases)
    found = run_package(model, feeds, tmp_path)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[2], found[3])


@KINDS
def test_concat_and_where(kind: type, tmp_path: Path) -> None:
    parts = [data(kind, 2, 3), scale(), data(kind), data(kind, 2, 1), scale(), data(kind), data(kind, 2, 4), scale(),
             data(kind)]
    held = weights(0, 1, 3, 4, 6, 7, 9, 10)
    cases = [NodeCase("QLinearConcat", [scale(), data(kind), *parts], {"axis": -1}, constants=held, steps=1),
             NodeCase("QLinearConcat", [scale(), data(kind), *parts[:3]], {"axis": 0}, steps=1)]
    choice = RNG.integers(0, 2, (3, 1)).astype(bool)
    operands = [data(kind, 3, 5), scale(), data(kind), data(kind, 5), scale(), data(kind)]
    cases.append(NodeCase("QLinearWhere", [choice, *operands, scale(), data(kind)], steps=1))
    check(cases, tmp_path)


@KINDS
def test_pools(kind: type, tmp_path: Path) -> None:
    op, whole = "QLinearAveragePool", "QLinearGlobalAveragePool"
    points = [scale(), data(kind), scale(), data(kind)]
    check([NodeCase(op, [data(kind, 2, 3, 7, 9), *points], {"kernel_shape": [3, 2], "strides": [2, 1]}, steps=1),
           NodeCase(op, [data(kind, 2, 3, 7, 9), *points],
                    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, steps=1),
           NodeCase(op, [data(kind, 2, 3, 7, 9), *points],
                    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER", "ceil_mode": 1}, steps=1),
           NodeCase(op, [data(kind, 2, 7, 9, 3), *points], {"kernel_shape": [2, 2], "channels_last": 1}, steps=1),
           NodeCase("NhwcMaxPool", [data(kind, 2, 7, 9, 3)],
                    {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}),
           NodeCase(whole, [data(kind, 2, 17, 5, 3), *points], steps=1),
           NodeCase(whole, [data(kind, 2, 5, 3, 17), *points], {"channels_last": 1}, steps=1)], tmp_path)
