"""The groups that benchmarks/kernels.py measures: layers of the real models, by class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from meta_infer.ir.graph import Attr, Node, Value
from meta_infer.ir.group import PLAIN, Group, Layout, blocked
from meta_infer.support.dtypes import FLOAT32, INT8, INT32, UINT8, DType

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A group under a class and a text that tells it from others; `sizes` are the values of its symbols.

    A `layouts` case is the conversion of the group's only value from one layout to the other.
    """

    kind: str
    label: str
    group: Group
    sizes: Mapping[str, int] = field(default_factory=dict)
    layouts: tuple[Layout, Layout] | None = None


# (input channels, height and width, output channels, kernel, stride, groups): layers of resnet18, resnet50 and the
# mobilenets.
CONVOLUTIONS = (
    (64, 56, 64, 3, 1, 1), (128, 28, 128, 3, 1, 1), (256, 14, 256, 3, 1, 1), (512, 7, 512, 3, 1, 1),
    (64, 56, 128, 3, 2, 1), (256, 28, 256, 3, 2, 1), (32, 256, 32, 3, 1, 1), (64, 28, 64, 3, 1, 4),
)
FIRST = ((3, 224, 64, 7, 2, 1), (3, 224, 32, 3, 2, 1), (1, 32, 64, 3, 1, 1))
POINTWISE = (
    (64, 56, 64, 1, 1, 1), (64, 56, 256, 1, 1, 1), (256, 56, 64, 1, 1, 1), (512, 28, 128, 1, 1, 1),
    (256, 14, 1024, 1, 1, 1), (1024, 14, 256, 1, 1, 1), (2048, 7, 512, 1, 1, 1), (256, 56, 512, 1, 2, 1),
    (16, 112, 96, 1, 1, 1), (96, 56, 24, 1, 1, 1), (24, 56, 144, 1, 1, 1), (384, 14, 64, 1, 1, 1),
    (960, 7, 160, 1, 1, 1), (320, 7, 1280, 1, 1, 1),
)
DEPTHWISE = (
    (32, 112, 32, 3, 1, 32), (96, 112, 96, 3, 2, 96), (144, 56, 144, 3, 1, 144), (384, 14, 384, 3, 1, 384),
    (960, 7, 960, 3, 1, 960), (192, 28, 192, 5, 1, 192), (672, 14, 672, 5, 2, 672), (96, 56, 96, 7, 1, 96),
)
TRANSPOSED = ((64, 32, 32, 2, 2, 1), (128, 16, 64, 4, 2, 1))
POOLS = (("MaxPool", 64, 112, 3, 2), ("AveragePool", 64, 56, 2, 2), ("GlobalAveragePool", 512, 7, 7, 1))
# rows, depth, columns of products with constant weights: bert-mini, vit-tiny, minilm; one row; a classifier.
PRODUCTS = (
    (128, 256, 256), (128, 256, 1024), (128, 1024, 256), (197, 192, 576), (197, 192, 768), (197, 768, 192),
    (128, 384, 1536), (128, 1536, 384), (16, 384, 384), (1, 512, 1000), (1, 2048, 1000),
)
# (batch, rows, depth, columns) of products of two activations: attention of the same models.
BATCHED = ((4, 128, 64, 128), (4, 128, 128, 64), (3, 197, 64, 197), (3, 197, 197, 64), (12, 128, 32, 128))
# (heads, steps, size of a head): attention of the same models.
ATTENTIONS = ((4, 128, 64), (3, 197, 64), (12, 128, 32))
# As CONVOLUTIONS and PRODUCTS, of 8-bit integers.
INT8_CONVOLUTIONS = ((64, 56, 64, 3, 1), (128, 28, 128, 3, 1), (256, 14, 256, 3, 1), (512, 7, 512, 3, 1),
                     (256, 14, 1024, 1, 1))
INT8_PRODUCTS = ((128, 256, 1024), (128, 1024, 256))
SOFTMAXES = ((4, 128, 128), (3, 197, 197), (12, 128, 128), (1, 1000))
NORMS = ((1, 128, 256), (1, 197, 192), (1, 56, 56, 40))
MAPS = ((1, 64, 56, 56), (1, 960, 7, 7))
ROWS = ((1, 128, 1024), (1, 197, 768))


def group_of(op: str, shapes: Mapping[str, Shape], attrs: Mapping[str, Attr], constants: Iterable[str] | None = None,
             after: Sequence[tuple[str, Mapping[str, Attr]]] = (), types: Mapping[str, DType] | None = None) -> Group:
    """A group of one node whose last shape is its output's, with unary ops or an addition of `r` after it.

    `constants` are inputs known at build: all but the first where not given. `types` are those that are not float32.
    """
    values = {name: Value(name, (types or {}).get(name, FLOAT32), shape) for name, shape in shapes.items()}
    *inputs, output = values
    named = inputs[1:] if constants is None else tuple(constants)
    known = {name: _numbers(values[name]) for name in named}
    nodes, last = [], output
    for i, (step, step_attrs) in enumerate(after):
        made = f"{output}{i}"
        values[made] = Value(made, FLOAT32, shapes[output])
        extra = ("r",) if step == "Add" else ()
        nodes.append(Node(step, (last, *extra), (made,), dict(step_attrs)))
        values |= {name: Value(name, FLOAT32, shapes[output]) for name in extra}
        inputs += [name for name in extra if name not in inputs]
        last = made
    anchor = Node(op, tuple(name for name in inputs if name != "r"), (output,), dict(attrs))
    return Group(anchor, tuple(inputs), (last,), values, known, (), tuple(nodes))


def _numbers(value: Value) -> np.ndarray:
    rng, shape = np.random.default_rng(1), [int(str(dim)) for dim in value.shape]
    if value.dtype.is_float:
        return rng.standard_normal(shape).astype(value.dtype.numpy)
    return rng.integers(-100, 100, shape).astype(value.dtype.numpy)


def conv_group(channels: int, size: int, out: int, k: int, stride: int, groups: int,
               after: Sequence[tuple[str, Mapping[str, Attr]]] = (), transposed: bool = False) -> Group:
    """A square convolution with bias, padded so that stride 1 keeps the size; transposed ones grow by the stride."""
    pad = (k - stride) // 2 if transposed else k // 2
    made = size * stride if transposed else (size + 2 * pad - k) // stride + 1
    weights = (channels, out // groups, k, k) if transposed else (out, channels // groups, k, k)
    attrs: dict[str, Attr] = {"kernel_shape": (k, k), "strides": (stride, stride), "pads": (pad,) * 4,
                              "dilations": (1, 1), "group": groups}
    if transposed:
        attrs["output_padding"] = (0, 0)
    shapes = {"x": (1, channels, size, size), "w": weights, "b": (out,), "y": (1, out, made, made)}
    return group_of("ConvTranspose" if transposed else "Conv", shapes, attrs, after=after)


def _convolutions() -> Iterator[Case]:
    for kind, table in (("conv", CONVOLUTIONS), ("first", FIRST), ("pointwise", POINTWISE), ("depthwise", DEPTHWISE)):
        for channels, size, out, k, stride, groups in table:
            many = f"/{groups}" if groups > 1 else ""
            label = f"{channels}x{size}x{size} -> {out}{many} k{k} s{stride}"
            yield Case(kind, label, conv_group(channels, size, out, k, stride, groups))
    residual = (("Add", {}), ("Relu", {}))
    yield Case("conv", "64x56x56 -> 64 k3 s1 +r relu", conv_group(64, 56, 64, 3, 1, 1, residual))
    yield Case("pointwise", "64x56x56 -> 256 k1 s1 +r relu", conv_group(64, 56, 256, 1, 1, 1, residual))
    yield Case("pointwise", "24x56x56 -> 144 k1 s1 hswish", conv_group(24, 56, 144, 1, 1, 1, (("HardSwish", {}),)))
    for channels, size, out, k, stride, groups in TRANSPOSED:
        yield Case("transposed", f"{channels}x{size}x{size} -> {out} k{k} s{stride}",
                   conv_group(channels, size, out, k, stride, groups, transposed=True))


def _pools() -> Iterator[Case]:
    for op, channels, size, k, stride in POOLS:
        after = (size - k) // stride + 1
        shapes = {"x": (1, channels, size, size), "y": (1, channels, after, after)}
        attrs: dict[str, Attr] = {} if op.startswith("Global") else {
            "kernel_shape": (k, k), "strides": (stride, stride), "pads": (0,) * 4, "dilations": (1, 1)}
        yield Case("pool", f"{op} {channels}x{size}x{size} k{k} s{stride}", group_of(op, shapes, attrs))


def _products() -> Iterator[Case]:
    for rows, depth, columns in PRODUCTS:
        shapes = {"x": (rows, depth), "w": (depth, columns), "y": (rows, columns)}
        yield Case("gemm", f"{rows} x {depth} x {columns}", group_of("MatMul", shapes, {}))
    gelu = (("Gelu", {"approximate": "none"}),)
    shapes = {"x": (128, 256), "w": (256, 1024), "y": (128, 1024)}
    yield Case("gemm", "128 x 256 x 1024 gelu", group_of("MatMul", shapes, {}, after=gelu))
    for batch, rows, depth, columns in BATCHED:
        shapes3 = {"a": (batch, rows, depth), "b": (batch, depth, columns), "y": (batch, rows, columns)}
        yield Case("batched", f"{batch} of {rows} x {depth} x {columns}", group_of("MatMul", shapes3, {}, ()))


def _attentions() -> Iterator[Case]:
    for heads, steps, size in ATTENTIONS:
        shapes = {name: (1, steps, heads, size) for name in ("q", "k", "v", "y")}
        attrs: dict[str, Attr] = {"scale": size ** -0.5, **{f"{name}_order": "bshd" for name in "qkvy"}}
        yield Case("attention", f"{heads} heads of {steps} x {size}", group_of("Attention", shapes, attrs, ()))


def _integers() -> Iterator[Case]:
    types = {"x": UINT8, "w": INT8, "y": INT32}
    for channels, size, out, k, stride in INT8_CONVOLUTIONS:
        attrs: dict[str, Attr] = {"kernel_shape": (k, k), "strides": (stride, stride), "pads": (k // 2,) * 4,
                                  "dilations": (1, 1), "group": 1}
        shapes = {"x": (1, channels, size, size), "w": (out, channels, k, k), "y": (1, out, size, size)}
        yield Case("int8", f"{channels}x{size}x{size} -> {out} k{k} s{stride}",
                   group_of("ConvInteger", shapes, attrs, types=types))
    for rows, depth, columns in INT8_PRODUCTS:
        shapes2 = {"x": (rows, depth), "w": (depth, columns), "y": (rows, columns)}
        yield Case("int8", f"{rows} x {depth} x {columns}", group_of("MatMulInteger", shapes2, {}, types=types))


def _rows() -> Iterator[Case]:
    for shape in SOFTMAXES:
        text = "x".join(map(str, shape))
        yield Case("softmax", text, group_of("Softmax", {"x": shape, "y": shape}, {"axis": len(shape) - 1}))
    for shape in NORMS:
        last = len(shape) - 1
        shapes = {"x": shape, "scale": shape[-1:], "bias": shape[-1:], "y": shape}
        yield Case("layer norm", "x".join(map(str, shape)),
                   group_of("LayerNormalization", shapes, {"axis": last, "epsilon": 1e-5}))


def _elementwise() -> Iterator[Case]:
    for shape in MAPS:
        text = "x".join(map(str, shape))
        yield Case("elementwise", f"Add {text}", group_of("Add", {"a": shape, "b": shape, "y": shape}, {}, ()))
        yield Case("elementwise", f"HardSwish {text}", group_of("HardSwish", {"x": shape, "y": shape}, {}))
        each = (*shape[:2], 1, 1)
        yield Case("elementwise", f"Mul {text} by channel",
                   group_of("Mul", {"a": shape, "b": each, "y": shape}, {}, ()))
    for shape in ROWS:
        text = "x".join(map(str, shape))
        yield Case("elementwise", f"Gelu {text}",
                   group_of("Gelu", {"x": shape, "y": shape}, {"approximate": "none"}))
        yield Case("elementwise", f"Silu {text}", group_of("Silu", {"x": shape, "y": shape}, {}))
    for shape, perm in (((1, 128, 4, 64), (0, 2, 1, 3)), ((1, 56, 56, 40), (0, 3, 1, 2)), ((1024, 1024), (1, 0))):
        yield Case("transpose", f"{'x'.join(map(str, shape))} ({' '.join(map(str, perm))})",
                   group_of("Transpose", {"x": shape, "y": tuple(shape[axis] for axis in perm)}, {"perm": perm}))


def _reorders(block: int) -> Iterator[Case]:
    shape = (1, 64, 56, 56)
    for source, target in ((PLAIN, blocked(block)), (blocked(block), PLAIN)) if block > 1 else ():
        yield Case("reorder", f"64x56x56 {source} -> {target}", group_of("Identity", {"x": shape, "y": shape}, {}),
                   layouts=(source, target))


def all_cases(block: int) -> tuple[Case, ...]:
    """Every case; layouts are blocked by `block` lanes."""
    return (*_convolutions(), *_pools(), *_products(), *_attentions(), *_integers(), *_rows(), *_elementwise(),
            *_reorders(block))
