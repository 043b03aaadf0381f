"""The algorithms that can compute a group, with what each has to do: operations, and bytes of weights.

    Conv, 1x1            gemm
    Conv, others         direct; a 3x3 of stride 1 also winograd F(2,3), F(4,3); 1x3 and 3x1 the same along one axis
    MatMul, Gemm         gemm, as are products of integers
    all else             once: every element as its op says

Operations are counted in float32 operations at the chip's peak: a multiply-add is two, and any other operation takes
the place of a multiply-add, so it is two as well; of 8-bit integers four are multiplied and added where one float32 is,
at best; of 16-bit ones, as Winograd makes of them (their weights too), two. An implicit GEMM multiplies as often as a
direct convolution, and one with a matrix of columns moves more besides, so neither has an entry of its own.

Winograd F(m,r): m outputs of an r-tap filter by m+r-1 multiplications (Winograd, Arithmetic complexity of
computations, 1980; Lavin, Gray, Fast algorithms for convolutional neural networks, CVPR 2016). Its weights are
transformed at build, so they take (m+r-1)/r times the bytes along each axis; the other two transforms run each time.
F(6,3) is not counted: its rounding errors need a look at the model's activations first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from meta_infer.cost.features import node_flops
from meta_infer.ir.graph import Node
from meta_infer.ir.group import Group
from meta_infer.ir.shapes import Dim, evaluate, symbols_of, usual_upper
from meta_infer.ops.attrs import dims_of, int_of, ints_of

# Ops whose declared operations are (nearly) all multiply-adds.
MULTIPLYING = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN", "MatMulNBits",
                         "DeformColumns", "LinearAttention", "Attention"})
INTEGER = frozenset({"ConvInteger", "MatMulInteger"})

# Instructions of the one-dimensional transforms of a tile, sums that two outputs share computed once:
# m -> (input of m+2 elements, output of m elements).
_TRANSFORMS: Mapping[int, tuple[int, int]] = {2: (4, 4), 4: (12, 10)}
_TAPS = 3


@dataclass(frozen=True)
class Algorithm:
    """One way to compute a group. `flops` at the chip's peak, `weight_bytes` as it stores them."""

    name: str
    flops: float
    weight_bytes: float


def size_of(dim: Dim, sizes: Mapping[str, int]) -> int:
    """A dim at these values of its symbols; those without one are at the upper end of their usual range."""
    free = {s.name: usual_upper(s.dim) for s in symbols_of(dim) if s.name not in sizes}
    return evaluate(dim, {**free, **sizes})


def operations(node: Node, group: Group, sizes: Mapping[str, int]) -> float:
    """Float32 operations at the chip's peak of one node, by the plain way to compute it.

    Taps of a convolution that meet padding are no work.
    """
    flops = size_of(node_flops(node, group), sizes)
    if node.op in INTEGER:
        return flops / 4
    if node.op == "Conv":
        return flops * _share_inside(node, group, sizes)
    return flops if node.op in MULTIPLYING else 2.0 * flops


def _share_inside(node: Node, group: Group, sizes: Mapping[str, int]) -> float:
    """Share of the taps of all windows of a convolution that lie inside its input."""
    kernel, strides, dilations = (ints_of(node.attrs, name) for name in ("kernel_shape", "strides", "dilations"))
    before = dims_of(node.attrs, "pads")[:len(kernel)]
    share = 1.0
    for axis, k in enumerate(kernel):
        size, windows = (size_of(group.values[name].shape[2 + axis], sizes)
                         for name in (node.inputs[0], node.outputs[0]))
        first = -size_of(before[axis], sizes)
        inside = sum(0 <= first + i * strides[axis] + tap * dilations[axis] < size
                     for i in range(windows) for tap in range(k))
        share *= inside / max(1, windows * k)
    return share


def algorithms(group: Group, sizes: Mapping[str, int], weight_bytes: float) -> tuple[Algorithm, ...]:
    """The ways to compute `group` at these sizes, the plain one first; `weight_bytes` are those of its constants."""
    anchor = group.anchor
    around = sum(operations(node, group, sizes) for node in (*group.prologue, *group.epilogue))
    plain = operations(anchor, group, sizes)
    if anchor.op in ("Conv", "ConvInteger"):
        name = "gemm" if prod(ints_of(anchor.attrs, "kernel_shape")) == 1 else "direct"
    else:
        name = "gemm" if anchor.op in ("MatMul", "Gemm", "MatMulInteger") else "once"
    found = [Algorithm(name, plain + around, weight_bytes)]
    axes = _winograd_axes(anchor)
    for m in _TRANSFORMS if axes else ():
        tile = [m + _TAPS - 1 if axis else 1 for axis in axes]
        grown = weight_bytes * prod(t / _TAPS for t, axis in zip(tile, axes, strict=True) if axis)
        wider = 2 if anchor.op in INTEGER else 1
        found.append(Algorithm(f"winograd F({m},{_TAPS})", _winograd(group, sizes, axes, m) + around, grown * wider))
    return tuple(found)


def _winograd_axes(anchor: Node) -> tuple[bool, ...]:
    """For each spatial axis of a convolution whether it has three taps; empty where Winograd's method does not fit."""
    if anchor.op not in ("Conv", "ConvInteger") or int_of(anchor.attrs, "group", 1) != 1:
        return ()
    kernel = ints_of(anchor.attrs, "kernel_shape")
    if {*ints_of(anchor.attrs, "strides"), *ints_of(anchor.attrs, "dilations")} != {1}:
        return ()
    return tuple(k == _TAPS for k in kernel) if _TAPS in kernel and {*kernel} <= {1, _TAPS} else ()


def _winograd(group: Group, sizes: Mapping[str, int], axes: tuple[bool, ...], m: int) -> float:
    """Operations at the chip's peak of products and transforms."""
    x, y = (group.values[name] for name in (group.anchor.inputs[0], group.anchor.outputs[0]))
    channels, (images, filters, *space) = size_of(x.shape[1], sizes), [size_of(d, sizes) for d in y.shape]
    tiles = images * prod(-(-size // m) if axis else size for size, axis in zip(space, axes, strict=True))
    inside, outside = m + _TAPS - 1, m
    forward, back = _TRANSFORMS[m]
    # Axis by axis: a transform along one of k axes is done for every element that the tile has along the others,
    # where the input is as wide as before, and the output has shrunk along the axes that are done.
    count = sum(axes)
    inputs = count * forward * inside ** (count - 1)
    outputs = sum(back * inside ** (count - 1 - done) * outside ** done for done in range(count))
    products = 2.0 * inside ** count * channels * filters
    if group.anchor.op in INTEGER:                           # sums take 32 bits: the output transform is as for floats
        products, inputs = products / 2, inputs / 2
    return tiles * (products + 2.0 * (inputs * channels + outputs * filters))
