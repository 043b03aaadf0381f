"""Random graphs that moves look for, with what they must not be confused by: other readers, outputs, odd sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from meta_infer.ir.graph import Attr, Graph, Node, Value
from meta_infer.ops.infer import constant_type, counted_symbols, infer_node
from meta_infer.ops.opdef import TensorType
from meta_infer.passes.verify_types import verify
from meta_infer.support.dtypes import dtype_of

UNARY: tuple[tuple[str, Mapping[str, Attr]], ...] = (
    ("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("Clip", {"min": 0.0, "max": 6.0}), ("Gelu", {"approximate": "none"}))


class Maker:
    """A graph as it grows; every method gives the name of what it adds."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: list[str] = []
        self.nodes: list[Node] = []

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def maybe(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def input(self, *shape: int) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.types[name] = TensorType(dtype_of(np.zeros(0, np.float32)), shape)
        return name

    def const(self, *shape: int, scale: float = 1.0) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        self.types[name] = constant_type(self.constants[name])
        return name

    def add(self, op: str, *inputs: str, **attrs: Attr) -> str:
        name = f"v{len(self.nodes)}"
        node = Node(op, inputs, (name,), attrs, (f"node{len(self.nodes)}",))
        self.types[name] = infer_node(node, self.types, self.constants, counted_symbols())[0]
        self.nodes.append(node)
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(int(dim) for dim in self.types[name].shape)          # type: ignore[arg-type]

    def conv(self, x: str, made: int, kernel: tuple[int, ...] = (1, 1), strides: tuple[int, ...] = (1, 1),
             pads: tuple[int, ...] = (0, 0, 0, 0), dilations: tuple[int, ...] = (1, 1), group: int = 1,
             bias: bool | None = None) -> str:
        taken = self.shape(x)[1]
        operands = [x, self.const(made, taken // group, *kernel, scale=(taken // group * np.prod(kernel)) ** -0.5)]
        operands += [self.const(made)] if (self.maybe() if bias is None else bias) else []
        return self.add("Conv", *operands, kernel_shape=kernel, strides=strides, pads=pads, dilations=dilations,
                        group=group)

    def activation(self, x: str) -> str:
        op, attrs = UNARY[self.pick(*range(len(UNARY)))]
        return self.add(op, x, **attrs)

    def scaled(self, x: str, axis: int) -> str:
        """`x` times or plus a constant along one axis, on either side."""
        shape = self.shape(x)
        constant = self.const(shape[axis], *(1,) * (len(shape) - 1 - axis % len(shape)))
        return self.add("Add" if self.maybe() else "Mul", *((x, constant) if self.maybe() else (constant, x)))

    def sliced(self, x: str, axis: int, start: int, size: int) -> str:
        shape = list(self.shape(x))
        shape[axis] = size
        return self.add("Slice", x, starts=tuple(start if i == axis else 0 for i in range(len(shape))),
                        sizes=tuple(shape), steps=(1,) * len(shape))

    def finish(self, *outputs: str) -> Graph:
        """What nobody reads is an output, beside `outputs`."""
        read = {name for node in self.nodes for name in node.inputs}
        kept = dict.fromkeys([*outputs, *(o for node in self.nodes for o in node.outputs if o not in read)])
        values = {name: Value(name, t.dtype, t.shape, None if name in self.constants else name)
                  for name, t in self.types.items()}
        graph = Graph("moves", tuple(self.inputs), tuple(kept), tuple(self.nodes), values, self.constants)
        verify(graph)
        return graph


def parallel_convs(m: Maker) -> Graph:
    """Two to four alike, one of another window, each with what may or may not follow all of them alike."""
    kernel = (m.pick(1, 2, 3), m.pick(1, 3))
    x = m.input(m.pick(1, 2), m.pick(1, 3, 8, 17), m.pick(3, 5, 8), m.pick(3, 7))
    window = {"kernel": kernel, "strides": (m.pick(1, 2), 1), "pads": (m.pick(0, 1), 0, 0, m.pick(0, 1))}
    branches = [m.conv(x, m.pick(1, 4, 8, 13, 67), **window) for _ in range(m.pick(2, 3, 4))]      # type: ignore[arg-type]
    m.conv(x, 3, (1, 1), (1, 1))
    alike, same = m.pick(0, 1, 2), m.pick(0, 1, 2)
    for i, name in enumerate(branches):
        if alike:
            name = m.add("Relu", name)
        if alike == 2:
            name = m.add("Mul", name, m.const(m.shape(name)[1], 1, 1))
        if same == 1 or (same == 2 and i):
            name = m.activation(name) if same == 2 else m.add("Sigmoid", name)
        branches[i] = name
    if m.maybe(0.4):
        order = [str(name) for name in m.rng.permutation(branches)]
        more = [m.add("Tanh", branches[0])] if m.maybe(0.3) else []
        other = [m.activation(m.add("Add", branches[-1], branches[-1]))] if m.maybe(0.3) else []
        m.add("Concat", *order, *other, *more, axis=1)
    return m.finish(*branches[:1] if m.maybe(0.3) else ())


def parallel_products(m: Maker) -> Graph:
    """MatMul over rank 2 or 3, or Gemm, with biases on either side."""
    gemm, taken = m.maybe(0.4), m.pick(1, 5, 16, 33)
    x = m.input(m.pick(1, 2, 7), taken) if gemm or m.maybe(0.3) else m.input(m.pick(1, 2), m.pick(1, 9), taken)
    flags, first = m.maybe(), m.maybe()
    for _ in range(m.pick(2, 3)):
        made = m.pick(1, 6, 16, 31)
        if gemm:
            weights = m.const(made, taken) if flags else m.const(taken, made)
            more = [m.const(*((1, made) if m.maybe() else (made,) if m.maybe() else (1,)))] if m.maybe(0.7) else []
            y = m.add("Gemm", x, weights, *more, alpha=0.5, beta=2.0, transA=False, transB=flags)
        else:
            y = m.add("MatMul", x, m.const(taken, made))
            bias = m.const(made)
            y = m.add("Add", *((bias, y) if first else (y, bias)))
        if m.maybe(0.8):
            m.add("Relu", y)
    return m.finish()


def projections(m: Maker) -> Graph:
    """Queries, keys and values of one input, or the keys and values of another one."""
    batch, steps, depth, heads, size = m.pick(1, 2), m.pick(1, 5, 8), m.pick(7, 16), m.pick(1, 3), m.pick(4, 8)
    x = m.input(batch, steps, depth)
    other = x if m.maybe(0.6) else m.input(batch, steps, depth)
    parts = []
    for source, count in ((x, heads), (other, heads), (other, heads)):
        y = m.add("MatMul", source, m.const(depth, count * size, scale=depth ** -0.5))
        y = m.add("Add", y, m.const(count * size))
        parts.append(m.add("Reshape", y, shape=(batch, steps, count, size)))
    order: dict[str, Attr] = {f"{part}_order": "bshd" for part in "qkvy"}
    if m.maybe(0.3):
        parts = [parts[2], parts[0], parts[1]]
    m.add("Attention", *parts, scale=size ** -0.5, **order)
    return m.finish()


def big_conv(m: Maker) -> Graph:
    """With weights beyond a small second-level cache, after a Concat or not, before one or not."""
    n, h, w = m.pick(1, 2), m.pick(1, 3, 6), m.pick(1, 4)
    parts = [m.input(n, m.pick(1, 16, 20, 31), h, w) for _ in range(m.pick(1, 2, 3))]
    x = m.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    y = m.conv(x, m.pick(24, 41, 64), (m.pick(1, 3), 1), pads=(1, 0, 1, 0), strides=(m.pick(1, 2), 1))
    result = y
    if m.maybe():
        y = m.scaled(m.activation(y), 1)
    if m.maybe(0.3):
        m.add("Concat", y, m.activation(y), y, axis=1)
    return m.finish(*(result,) if m.maybe(0.2) else ())


def unaligned_convs(m: Maker) -> Graph:
    """A chain of convolutions, depthwise ones and pools of odd channels, with a second reader somewhere."""
    x = y = m.input(m.pick(1, 2), m.pick(1, 3, 8, 13), m.pick(4, 7), m.pick(4, 5))
    seen = [x]
    for _ in range(m.pick(2, 3, 4)):
        y = m.conv(y, m.pick(6, 8, 11, 13), (m.pick(1, 3), 1), pads=(1, 0, 1, 0))
        for _ in range(m.pick(0, 1, 2)):
            channels = m.shape(y)[1]
            y = (lambda y=y: m.activation(y), lambda y=y: m.scaled(y, 1),
                 lambda y=y, c=channels: m.conv(y, c, (3, 3), pads=(1, 1, 1, 1), group=c),
                 lambda y=y: m.add("MaxPool", y, ceil_mode=0, dilations=(1, 1), kernel_shape=(2, 2), pads=(1, 1, 0, 0),
                                   strides=(1, 1)),
                 lambda y=y: m.add("Log", m.add("Abs", y)) if m.maybe(0.3) else m.add("Cos", y),
                 lambda y=y: m.add("GlobalAveragePool", y))[m.pick(0, 0, 1, 1, 2, 3, 4, 5)]()
        seen.append(y)
    if m.maybe(0.3):
        m.activation(seen[m.pick(*range(1, len(seen)))])
    return m.finish()


def pointwise_convs(m: Maker) -> Graph:
    """Convolutions of one tap between transposes, or at one place, or over their whole input."""
    rank = m.pick(3, 4, 5)
    ones = (1,) * (rank - 2)
    spatial = ones if m.maybe(0.4) else tuple(m.pick(1, 2, 5) for _ in ones)
    n, c = m.pick(1, 3), m.pick(1, 6, 16)
    around = m.pick(0, 1, 2, 3)
    y = x = m.input(n, *spatial, c) if around & 1 else m.input(n, c, *spatial)
    if around & 1:
        y = t = m.add("Transpose", x, perm=(0, rank - 1, *range(1, rank - 1)))
        if m.maybe(0.3):
            m.activation(t)
    attrs = {"strides": ones, "pads": ones and (0,) * 2 * len(ones), "dilations": ones}
    kernel = spatial if m.maybe(0.3) else ones
    y = m.conv(y, m.pick(1, 5, 8), kernel, **attrs)                       # type: ignore[arg-type]
    for _ in range(m.pick(0, 1, 2)):
        y = m.scaled(m.activation(y), 1) if m.maybe() else m.activation(y)
        y = m.conv(y, m.pick(1, 4, 9), ones, **attrs)                     # type: ignore[arg-type]
    if m.maybe():
        y = m.activation(y)
    if around & 2:
        y = m.add("Transpose", y, perm=(0, *range(2, rank), 1))
    if m.maybe(0.3):
        m.activation(y)
    return m.finish(*(y,) if m.maybe(0.2) else ())


def pointwise_products(m: Maker) -> Graph:
    """MatMul over the last axis of a transposed tensor, or Gemm of a tensor of one place."""
    n, c = m.pick(1, 3), m.pick(1, 6, 16)
    if m.maybe():
        ones = (1,) * m.pick(1, 2)
        x = m.input(n, c, *ones)
        y = v = m.add("Reshape", x, shape=(n, c))
        flags = m.maybe()
        for _ in range(m.pick(1, 2)):
            taken, made = m.shape(y)[1], m.pick(1, 7, 10)
            y = m.add("Gemm", y, m.const(made, taken) if flags else m.const(taken, made),
                      *([m.const(made)] if m.maybe() else []), alpha=1.0, beta=1.0, transA=False, transB=flags)
            y = m.activation(y)
        if m.maybe(0.3):
            m.activation(v)
        return m.finish()
    spatial = tuple(m.pick(1, 2, 5) for _ in range(m.pick(1, 2)))
    rank, around = len(spatial) + 2, m.pick(1, 2, 3)
    y = m.input(n, c, *spatial) if around & 1 else m.input(n, *spatial, c)
    if around & 1:
        y = m.add("Transpose", y, perm=(0, *range(2, rank), 1))
        if m.maybe(0.2):
            m.activation(y)
    for _ in range(m.pick(1, 2)):
        y = m.add("MatMul", y, m.const(m.shape(y)[-1], m.pick(1, 5, 8)))
        y = m.scaled(y, -1) if m.maybe(0.7) else y
        y = m.activation(y) if m.maybe() else y
    if around & 2:
        y = m.add("Transpose", y, perm=(0, rank - 1, *range(1, rank - 1)))
    return m.finish()


RECIPES: Mapping[str, tuple[Callable[[Maker], Graph], ...]] = {
    "merge_parallel": (parallel_convs, parallel_products, projections),
    "split_conv": (big_conv,),
    "pad_channels": (unaligned_convs,),
    "conv_to_matmul": (pointwise_convs,),
    "matmul_to_conv": (pointwise_products,),
}
"""By the move that most of their graphs have."""
