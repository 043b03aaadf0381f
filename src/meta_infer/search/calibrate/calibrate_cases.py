"""What a calibration times: groups of one operator each, over the sizes and shapes that networks have.

Sizes span the caches of today's cores, from a few KiB to more than a shared cache holds. They are the same on every
chip, so that what two chips measured compares. Kinds take turns: a calibration that ends early knows a little of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from meta_infer.ir.graph import Attr, Node, Value
from meta_infer.ir.group import PLAIN, Group, Layout, blocked
from meta_infer.support.dtypes import FLOAT32, INT8, INT32, UINT8, DType

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A group of one node under the `kind` of work it is; with `layouts`, its tensor's way from one to the other."""

    kind: str
    group: Group
    layouts: tuple[Layout, Layout] | None = None


# (input channels, height and width, output channels, side of the kernel, stride, groups)
CONVOLUTIONS = (
    (64, 28, 64, 3, 1, 1), (16, 28, 16, 3, 1, 1), (128, 14, 128, 3, 1, 1), (32, 56, 64, 3, 2, 1),
    (256, 14, 256, 3, 1, 1), (32, 56, 32, 3, 1, 1), (3, 112, 32, 3, 2, 1), (64, 28, 64, 3, 1, 4),
    (512, 7, 512, 3, 1, 1), (24, 40, 40, 3, 1, 1), (64, 56, 64, 3, 1, 1), (32, 28, 48, 5, 1, 1),
    (3, 64, 16, 3, 1, 1), (128, 28, 128, 3, 2, 1), (48, 20, 96, 3, 1, 1), (1, 32, 32, 5, 1, 1),
)
POINTWISE = (
    (64, 56, 64, 1, 1, 1), (24, 28, 144, 1, 1, 1), (256, 14, 512, 1, 1, 1), (96, 28, 24, 1, 1, 1),
    (512, 7, 2048, 1, 1, 1), (16, 56, 96, 1, 1, 1), (256, 28, 64, 1, 1, 1), (960, 7, 160, 1, 1, 1),
    (64, 56, 256, 1, 1, 1), (128, 28, 128, 1, 2, 1), (1024, 14, 256, 1, 1, 1), (320, 7, 1280, 1, 1, 1),
)
DEPTHWISE = (
    (32, 112, 32, 3, 1, 32), (144, 28, 144, 3, 1, 144), (960, 7, 960, 3, 1, 960), (96, 56, 96, 3, 2, 96),
    (192, 28, 192, 5, 1, 192), (384, 14, 384, 3, 1, 384), (672, 14, 672, 5, 2, 672), (16, 20, 16, 3, 1, 16),
    (48, 40, 48, 7, 1, 48), (256, 56, 256, 3, 1, 256),
)
# rows, depth, columns of products with constant weights
PRODUCTS = (
    (128, 256, 256), (1, 512, 1000), (64, 64, 64), (197, 192, 768), (16, 384, 384), (128, 1024, 256), (1, 2048, 1000),
    (33, 100, 50), (384, 384, 384), (8, 512, 512), (128, 256, 1024), (4, 768, 3072),
)
# (batch, rows, depth, columns) of products of two activations
BATCHED = (
    (4, 128, 64, 128), (12, 64, 32, 64), (3, 197, 197, 64), (1, 256, 256, 256), (8, 32, 64, 32), (4, 128, 128, 64),
    (2, 100, 80, 50), (3, 197, 64, 197),
)
# As CONVOLUTIONS and PRODUCTS, of 8-bit integers.
INT8_CONVOLUTIONS = (
    (64, 28, 64, 3, 1, 1), (96, 28, 96, 3, 1, 96), (256, 14, 512, 1, 1, 1), (128, 14, 128, 3, 1, 1),
    (384, 14, 384, 3, 1, 384), (32, 56, 64, 3, 2, 1), (64, 56, 64, 1, 1, 1), (144, 28, 144, 3, 2, 144),
    (256, 14, 256, 3, 1, 1), (32, 56, 32, 3, 1, 32), (16, 56, 96, 1, 1, 1), (960, 7, 960, 3, 1, 960),
    (64, 28, 64, 5, 1, 1), (64, 112, 64, 3, 2, 64), (512, 7, 512, 1, 1, 1),
)
INT8_PRODUCTS = ((128, 256, 256), (16, 384, 384), (128, 1024, 256), (1, 512, 1000), (64, 64, 64), (197, 192, 768))
# Elements: 4 KiB to 64 MiB of floats, those that most networks have first.
LENGTHS = (1 << 16, 1 << 12, 1 << 20, 1 << 14, 1 << 18, 1 << 10, 1 << 22, 1 << 24)
BINARY = ("Add", "Mul", "Div")
UNARY = ("Relu", "HardSwish", "Sigmoid", "Gelu", "Tanh", "Exp", "Sqrt")
# rows and length of each
ROWS = ((512, 128), (197, 192), (1, 1000), (64, 2048), (4, 32), (2048, 512))
TRANSPOSED = (
    ((128, 4, 64), (1, 0, 2)), ((56, 56, 40), (2, 0, 1)), ((256, 256), (1, 0)), ((1024, 1024), (1, 0)),
    ((64, 784), (1, 0)), ((12, 197, 32), (1, 0, 2)),
)
MAPS = ((64, 28), (16, 56), (64, 56), (320, 7), (96, 112), (1024, 14))
POOLS = (("MaxPool", 64, 56, 3, 2), ("AveragePool", 64, 56, 2, 2), ("MaxPool", 256, 14, 2, 2),
         ("AveragePool", 32, 28, 3, 1), ("MaxPool", 96, 112, 2, 2), ("AveragePool", 192, 14, 3, 2))


def one_node(op: str, shapes: Mapping[str, Sizes], attrs: Mapping[str, Attr], constants: Iterable[str] = (),
             types: Mapping[str, DType] | None = None) -> Group:
    """A group of one node; the last of `shapes` is its output's. `types` are those that are not float32."""
    values = {name: Value(name, (types or {}).get(name, FLOAT32), shape) for name, shape in shapes.items()}
    *inputs, output = values
    known = {name: _numbers(values[name].dtype, shapes[name]) for name in constants}
    return Group(Node(op, tuple(inputs), (output,), dict(attrs)), tuple(inputs), (output,), values, known)


def _numbers(dtype: DType, shape: Sizes) -> np.ndarray:
    rng = np.random.default_rng(1)
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    return rng.integers(-100, 100, shape).astype(dtype.numpy)


def convolution(channels: int, size: int, out: int, k: int, stride: int, groups: int,
                dtype: DType = FLOAT32) -> Group:
    """A square convolution of one image with constant weights, padded so that stride 1 keeps the size."""
    made = (size + 2 * (k // 2) - k) // stride + 1
    attrs: dict[str, Attr] = {"kernel_shape": (k, k), "strides": (stride, stride), "pads": (k // 2,) * 4,
                              "dilations": (1, 1), "group": groups}
    shapes = {"x": (1, channels, size, size), "w": (out, channels // groups, k, k), "b": (out,),
              "y": (1, out, made, made)}
    if dtype == FLOAT32:
        return one_node("Conv", shapes, attrs, ("w", "b"))
    del shapes["b"]
    return one_node("ConvInteger", shapes, attrs, ("w",), {"x": dtype, "w": INT8, "y": INT32})


def conversion(channels: int, size: int, source: Layout, target: Layout) -> Case:
    """A feature map's way from one layout to the other."""
    shape = (1, channels, size, size)
    return Case("conversion", one_node("Identity", {"source": shape, "target": shape}, {}), (source, target))


def calibration_cases(block: int) -> tuple[Case, ...]:
    """Every case but those of the sweep; layouts are blocked by `block` lanes."""
    kinds = [list(cases) for cases in (
        (Case("convolution", convolution(*one)) for one in CONVOLUTIONS),
        (Case("pointwise", convolution(*one)) for one in POINTWISE),
        (Case("depthwise", convolution(*one)) for one in DEPTHWISE),
        _products(), _integers(), _elementwise(), _rows(), _movement(block), _pools())]
    return tuple(case for turn in zip_longest(*kinds) for case in turn if case is not None)


def _products() -> Iterator[Case]:
    for (rows, depth, columns), batched in zip_longest(PRODUCTS, BATCHED):
        shapes = {"x": (rows, depth), "w": (depth, columns), "y": (rows, columns)}
        yield Case("gemm", one_node("MatMul", shapes, {}, ("w",)))
        if batched is not None:
            batch, rows, depth, columns = batched
            several = {"a": (batch, rows, depth), "b": (batch, depth, columns), "y": (batch, rows, columns)}
            yield Case("gemm", one_node("MatMul", several, {}))


def _integers() -> Iterator[Case]:
    types = {"x": UINT8, "w": INT8, "y": INT32}
    for rows, depth, columns in INT8_PRODUCTS:
        shapes = {"x": (rows, depth), "w": (depth, columns), "y": (rows, columns)}
        yield Case("int8", one_node("MatMulInteger", shapes, {}, ("w",), types))
    for channels, size, out, k, stride, groups in INT8_CONVOLUTIONS:
        yield Case("int8", convolution(channels, size, out, k, stride, groups, UINT8))


def _elementwise() -> Iterator[Case]:
    for i, length in enumerate(LENGTHS):
        op = BINARY[i % len(BINARY)]
        yield Case("elementwise", one_node(op, {"a": (length,), "b": (length,), "y": (length,)}, {}))
        for k in (2 * i, 2 * i + 1):
            op = UNARY[k % len(UNARY)]
            attrs: dict[str, Attr] = {"approximate": "none"} if op == "Gelu" else {}
            yield Case("elementwise", one_node(op, {"x": (length,), "y": (length,)}, attrs))


def _rows() -> Iterator[Case]:
    for rows, length in ROWS:
        shape = (rows, length)
        yield Case("rows", one_node("Softmax", {"x": shape, "y": shape}, {"axis": 1}))
        yield Case("rows", one_node("LayerNormalization", {"x": shape, "scale": (length,), "bias": (length,),
                                                           "y": shape}, {"axis": 1, "epsilon": 1e-5},
                                    ("scale", "bias")))
        for axis in (1, 0):
            kept = (shape[0], 1) if axis else (1, shape[1])
            yield Case("rows", one_node("ReduceMean", {"x": shape, "y": kept}, {"axes": (axis,), "keepdims": 1}))


def _movement(block: int) -> Iterator[Case]:
    for (shape, perm), (channels, size) in zip(TRANSPOSED, MAPS, strict=True):
        yield Case("transpose", one_node("Transpose", {"x": shape, "y": tuple(shape[axis] for axis in perm)},
                                         {"perm": perm}))
        if block > 1:
            yield conversion(channels, size, PLAIN, blocked(block))
            yield conversion(channels, size, blocked(block), PLAIN)


def _pools() -> Iterator[Case]:
    for op, channels, size, k, stride in POOLS:
        made = (size - k) // stride + 1
        attrs: dict[str, Attr] = {"kernel_shape": (k, k), "strides": (stride, stride), "pads": (0,) * 4,
                                  "dilations": (1, 1)}
        yield Case("pool", one_node(op, {"x": (1, channels, size, size), "y": (1, channels, made, made)}, attrs))
        yield Case("pool", one_node("GlobalAveragePool", {"x": (1, channels, size, size), "y": (1, channels, 1, 1)},
                                    {}))

