"""Floors of groups against figures worked out by hand."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from meta_infer.cost.algorithms import algorithms, operations
from meta_infer.cost.floor import MachineRates, MemoryRate, bounds, everything, floor, traffic
from meta_infer.ir.graph import Attr, Node, Value
from meta_infer.ir.group import Group
from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.support.dtypes import FLOAT32

LEVELS = (MemoryRate("L1", 1e4, 100e9), MemoryRate("L2", 1e6, 50e9), everything("memory", 10e9))


def group(op: str, shapes: dict[str, tuple[Dim, ...]], attrs: dict[str, Attr], constants: tuple[str, ...] = (),
          after: tuple[str, ...] = ()) -> Group:
    values = {name: Value(name, FLOAT32, shape) for name, shape in shapes.items()}
    *inputs, output = values
    nodes, last = [], output
    for i, step in enumerate(after):
        values[f"e{i}"] = Value(f"e{i}", FLOAT32, shapes[output])
        nodes.append(Node(step, (last,), (f"e{i}",), {}))
        last = f"e{i}"
    known = {name: np.zeros([int(str(d)) for d in shapes[name]], np.float32) for name in constants}
    return Group(Node(op, tuple(inputs), (output,), attrs), tuple(inputs), (last,), values, known, (), tuple(nodes))


def conv(channels: int, size: int, out: int, kernel: tuple[int, int], stride: int = 1, groups: int = 1, pad: int = 0,
         dilation: int = 1, after: tuple[str, ...] = ()) -> Group:
    made = [(size + 2 * pad - (k - 1) * dilation - 1) // stride + 1 for k in kernel]
    attrs: dict[str, Attr] = {"kernel_shape": kernel, "strides": (stride,) * 2, "pads": (pad,) * 4,
                              "dilations": (dilation,) * 2, "group": groups}
    return group("Conv", {"x": (1, channels, size, size), "w": (out, channels // groups, *kernel),
                          "y": (1, out, *made)}, attrs, ("w",), after)


def names(found: Group) -> list[str]:
    return [way.name for way in algorithms(found, {}, 1.0)]


def test_which_algorithms_there_are() -> None:
    assert names(conv(8, 10, 8, (3, 3))) == ["direct", "winograd F(2,3)", "winograd F(4,3)"]
    assert names(conv(8, 10, 8, (1, 3))) == names(conv(8, 10, 8, (3, 1))) == names(conv(8, 10, 8, (3, 3)))
    assert names(conv(8, 10, 8, (1, 1))) == ["gemm"]
    for other in (conv(8, 10, 8, (3, 3), stride=2), conv(8, 10, 8, (3, 3), groups=8), conv(8, 10, 8, (5, 5)),
                  conv(8, 10, 8, (3, 3), dilation=2), conv(8, 10, 8, (3, 5))):
        assert names(other) == ["direct"]
    assert names(group("MatMul", {"a": (2, 3), "b": (3, 4), "y": (2, 4)}, {})) == ["gemm"]
    assert names(group("Relu", {"x": (2, 3), "y": (2, 3)}, {})) == ["once"]


def test_winograd_of_integers_multiplies_pairs_of_16_bits() -> None:
    floats = conv(5, 6, 7, (3, 3))
    integers = replace(floats, anchor=replace(floats.anchor, op="ConvInteger"))
    direct, two, _ = algorithms(integers, {}, 900.0)
    _, two_of_floats, _ = algorithms(floats, {}, 900.0)
    assert direct.flops == operations(floats.anchor, floats, {}) / 4
    assert two_of_floats.flops - two.flops == 4 * (16 * 2 * 5 * 7 + 2 * 32 * 5) / 2
    assert two.weight_bytes == 2 * two_of_floats.weight_bytes


def test_winograd_counts_products_and_transforms() -> None:
    """F(2,3) on a 4x4 output: 4 tiles of 16 products, 32 and 24 additions each (Lavin, Gray: section 4.1)."""
    direct, two, four = algorithms(conv(5, 6, 7, (3, 3)), {}, 900.0)
    assert direct.flops == 2 * 16 * 9 * 5 * 7 and direct.weight_bytes == 900.0
    assert two.flops == 2 * 4 * (16 * 5 * 7 + 32 * 5 + 24 * 7) and two.weight_bytes == pytest.approx(1600.0)
    assert four.flops == 2 * 1 * (36 * 5 * 7 + 144 * 5 + 100 * 7) and four.weight_bytes == pytest.approx(3600.0)
    _, two, _ = algorithms(conv(5, 6, 7, (1, 3)), {}, 3.0)                    # 6 rows of 4 columns, along columns only
    assert two.flops == 2 * 6 * 2 * (4 * 5 * 7 + 4 * 5 + 4 * 7) and two.weight_bytes == pytest.approx(4.0)


def test_a_tile_that_sticks_out_counts_whole() -> None:
    whole, part = (algorithms(conv(4, size, 4, (3, 3)), {}, 1.0)[2].flops for size in (10, 7))
    assert whole == part, "outputs of 8 and of 5 both take two tiles of four"


@pytest.mark.parametrize(("size", "k", "stride", "pad", "dilation"), [
    (7, 3, 1, 1, 1), (8, 3, 2, 1, 1), (9, 5, 1, 2, 2), (6, 3, 3, 4, 1), (4, 1, 1, 0, 1)])
def test_taps_in_the_padding_are_no_work(size: int, k: int, stride: int, pad: int, dilation: int) -> None:
    case = conv(2, size, 3, (k, k), stride, 1, pad, dilation)
    made = case.values["y"].shape[2]
    assert isinstance(made, int)
    along = sum(0 <= i * stride + tap * dilation - pad < size for i, tap in itertools.product(range(made), range(k)))
    assert operations(case.anchor, case, {}) == pytest.approx(2 * along * along * 2 * 3)


def test_other_operations_take_the_place_of_a_multiply_add() -> None:
    plain, fused = (algorithms(conv(1, 8, 1, (1, 1), after=after), {}, 0.0)[0].flops for after in ((), ("Relu",)))
    assert fused - plain == 2 * 64


def test_four_bytes_take_the_place_of_a_float() -> None:
    floats, integers = (algorithms(group(op, {"a": (8, 16), "b": (16, 4), "y": (8, 4)}, {}), {}, 0.0)[0]
                        for op in ("MatMul", "MatMulInteger"))
    assert integers.name == floats.name == "gemm" and 4 * integers.flops == floats.flops == 2 * 8 * 16 * 4


def test_traffic_counts_every_tensor_once() -> None:
    found = traffic(conv(4, 10, 6, (3, 3)), {})
    assert found.weights == 4 * 6 * 4 * 9 and found.activations == 4 * (400 + 6 * 64)
    strided = traffic(conv(4, 10, 6, (1, 1), stride=2), {})
    assert strided.activations == 4 * (100 + 6 * 25), "a quarter of the input is read"
    rows = group("Gather", {"data": (1000, 8), "i": (3,), "y": (3, 8)}, {"axis": 0}, ("data",))
    assert traffic(rows, {}).weights == 4 * 24, "of a table only the rows that are asked for"


def test_the_slowest_roof_is_the_floor() -> None:
    rates = MachineRates(100e9, LEVELS)
    fast = floor(group("MatMul", {"a": (64, 256), "b": (256, 64), "y": (64, 64)}, {}), {}, rates)
    assert fast.bound == "peak" and fast.seconds == 2 * 64 * 256 * 64 / 100e9
    one_row = floor(group("MatMul", {"a": (1, 256), "b": (256, 64), "y": (1, 64)}, {}, ("b",)), {}, rates)
    assert one_row.bound == "memory" and one_row.work == 4 * 256 * 64 and one_row.seconds == 4 * 256 * 64 / 10e9
    for size, level, before in ((100, "L1", 0), (10000, "L2", 1e4), (1000000, "memory", 1e6)):
        relu = floor(group("Relu", {"x": (size,), "y": (size,)}, {}), {}, MachineRates(1e15, LEVELS))
        assert relu.bound == level and relu.work == 8 * size - before
        assert relu.seconds == pytest.approx(relu.work / {"L1": 100e9, "L2": 50e9, "memory": 10e9}[level])


def test_weights_that_stay_in_a_cache() -> None:
    case = group("MatMul", {"a": (1, 256), "b": (256, 64), "y": (1, 64)}, {}, ("b",))
    rates, weights, moved = MachineRates(1e15, LEVELS), 4 * 256 * 64, 4 * (256 + 64)
    found = [floor(case, {}, rates, between) for between in (math.inf, 5e5, 1e3)]
    assert [f.bound for f in found] == ["memory", "L2", "L1"]
    assert found[0].seconds == weights / 10e9, "of endlessly many bytes nothing stays"
    assert found[1].seconds == pytest.approx(weights * (1 - 1e4 / 5e5) / 50e9), "a share of all stays in L1"
    assert found[2].seconds == (weights + moved) / 100e9, "activations come from there too"


def test_the_best_algorithm_is_the_floor() -> None:
    wide = conv(64, 56, 64, (3, 3), pad=1)
    assert floor(wide, {}, MachineRates(100e9, LEVELS)).algorithm == "winograd F(4,3)"
    heavy = conv(512, 7, 512, (3, 3), pad=1)                                  # four times the weights cost more
    slow = MachineRates(100e9, (everything("memory", 1e9),))
    ways = {way.algorithm: way.seconds for way in bounds(heavy, {}, slow)}
    assert floor(heavy, {}, slow).algorithm == "direct" == min(ways, key=lambda name: ways[name])


def test_dynamic_sizes() -> None:
    rows = Symbol("rows", 1, 64).dim
    case = group("MatMul", {"a": (rows, 8), "b": (8, 8), "y": (rows, 8)}, {}, ("b",))
    assert traffic(case, {"rows": 3}).activations == 4 * 2 * 24
    assert traffic(case, {}).activations == 4 * 2 * 512, "without a value: the upper end"
    assert math.isfinite(floor(case, {"rows": 3}, MachineRates(100e9, LEVELS)).seconds)
