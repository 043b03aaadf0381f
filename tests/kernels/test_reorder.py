"""Conversion between layouts: every pair, channels that do and do not fill their blocks, dynamic sizes."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.graph import Node, Value
from meta_infer.ir.group import PLAIN, Group, Layout, blocked
from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.movement.reorder import reorder
from meta_infer.support.dtypes import dtype_of

from .conv_cases import PROFILES
from .harness import run_lowering

PAIRS = [(PLAIN, blocked(8)), (blocked(8), PLAIN), (PLAIN, blocked(4)), (blocked(4), PLAIN), (blocked(4), blocked(8)),
         (blocked(8), blocked(4)), (PLAIN, blocked(16)), (blocked(16), PLAIN), (PLAIN, blocked(8, 0)),
         (blocked(16), blocked(4))]


def convert(array: np.ndarray, source: Layout, target: Layout, dynamic: bool = False) -> np.ndarray:
    shape = array.shape
    if dynamic:
        axis = target.axis if target.block else source.axis
        shape = tuple(d if i == axis else Symbol(f"S{i}", 0, 300).dim for i, d in enumerate(shape))
    values = {name: Value(name, dtype_of(array), shape) for name in ("source", "target")}
    group = Group(Node("Identity", ("source",), ("target",)), ("source",), ("target",), values)
    lowering = reorder(values["source"], source, target, PROFILES[0])
    layouts = {"source": source, "target": target}
    return run_lowering(group, lowering, layouts, {"source": array}, PROFILES[0])["target"]


@pytest.mark.parametrize("source, target", PAIRS, ids=str)
def test_every_pair(source: Layout, target: Layout) -> None:
    rng = np.random.default_rng(0)
    for shape in ((2, 19, 5, 7), (1, 3, 1, 1), (2, 16, 4, 4), (3, 1, 9)):
        array = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(convert(array, source, target), array)


@pytest.mark.parametrize("source, target", PAIRS[:2] + PAIRS[4:6], ids=str)
def test_dynamic_sizes(source: Layout, target: Layout) -> None:
    rng = np.random.default_rng(1)
    for shape in ((1, 21, 1, 9), (3, 21, 6, 50), (2, 21, 0, 4)):
        array = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(convert(array, source, target, dynamic=True), array)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float64])
def test_other_types(dtype: type) -> None:
    array = np.random.default_rng(2).integers(-100, 100, (2, 11, 3, 5)).astype(dtype)
    np.testing.assert_array_equal(convert(array, PLAIN, blocked(8)), array)
    np.testing.assert_array_equal(convert(array, blocked(8), PLAIN), array)


def test_equal_layouts_are_refused() -> None:
    value = Value("x", dtype_of(np.zeros(1, np.float32)), (1, 8, 2, 2))
    with pytest.raises(ValueError, match="already"):
        reorder(value, blocked(8), blocked(8), PROFILES[0])
    with pytest.raises(ValueError, match="through"):
        reorder(value, blocked(8, 0), blocked(8, 1), PROFILES[0])
