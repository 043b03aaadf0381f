"""Softmax, normalisations and means in terms of reductions and arithmetic, for devices that lack them.

    before                                            after
    %y: float32[N, 8] = Softmax(%x) {axis = 1}        %m: float32[N, 1] = ReduceMax(%x) {axes = (1,), keepdims = true}
                                                      %d: float32[N, 8] = Sub(%x, %m)
                                                      %e: float32[N, 8] = Exp(%d)
                                                      %s: float32[N, 1] = ReduceSum(%e) {axes = (1,), keepdims = true}
                                                      %y: float32[N, 8] = Div(%e, %s)
"""

from __future__ import annotations

from collections.abc import Mapping

from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import product
from meta_infer.ops.attrs import bool_of, float_of, int_of, ints_of
from meta_infer.passes.pieces import Bounds, Decomposition, Pieces


def softmax(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """exp(x - max) / sum of it: the largest exponent is 0, so nothing overflows."""
    x = node.inputs[0]
    if not to.shape(x):
        return False
    axes = (int_of(node.attrs, "axis"),)
    power = to.emit("Exp", to.emit("Sub", x, to.emit("ReduceMax", x, axes=axes, keepdims=True)))
    to.emit("Div", power, to.emit("ReduceSum", power, axes=axes, keepdims=True), out=node.outputs[0])
    return True


def log_softmax(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """d - log(sum exp d) with d = x - max"""
    x = node.inputs[0]
    if not to.shape(x):
        return False
    axes = (int_of(node.attrs, "axis"),)
    below = to.emit("Sub", x, to.emit("ReduceMax", x, axes=axes, keepdims=True))
    total = to.emit("ReduceSum", to.emit("Exp", below), axes=axes, keepdims=True)
    to.emit("Sub", below, to.emit("Log", total), out=node.outputs[0])
    return True


def layer_normalization(node: Node, to: Pieces, bounds: Bounds) -> bool:
    x, scale, bias = node.inputs[0], node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else ""
    axes = tuple(range(int_of(node.attrs, "axis"), len(to.shape(x))))
    _normalize(node, to, axes, scale, bias)
    return True


def instance_normalization(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """As LayerNormalization over the spatial dims, with one scale and bias per channel."""
    x, scale, bias = node.inputs
    shape = to.shape(x)
    column: Shape = (shape[1], *(1,) * (len(shape) - 2))
    _normalize(node, to, tuple(range(2, len(shape))), to.reshape(scale, column), to.reshape(bias, column))
    return True


def _normalize(node: Node, to: Pieces, axes: tuple[int, ...], scale: str, bias: str) -> None:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, in two passes as the op itself does."""
    x = node.inputs[0]
    centred = to.emit("Sub", x, to.emit("ReduceMean", x, axes=axes, keepdims=True))
    variance = to.emit("ReduceMean", to.emit("Mul", centred, centred), axes=axes, keepdims=True)
    epsilon = to.scalar(float_of(node.attrs, "epsilon", 1e-5), x)
    normal = to.emit("Div", centred, to.emit("Sqrt", to.emit("Add", variance, epsilon)))
    if not bias:
        to.emit("Mul", normal, scale, out=node.outputs[0])
        return
    to.emit("Add", to.emit("Mul", normal, scale), bias, out=node.outputs[0])


def mean_by_sum(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """ReduceSum(x) / count, where the count is fixed."""
    x = node.inputs[0]
    axes, keep = ints_of(node.attrs, "axes"), bool_of(node.attrs, "keepdims", True)
    count = product(to.shape(x)[a] for a in axes)
    if not to.dtype(x).is_float or not isinstance(count, int) or count == 0:
        return False
    total = to.emit("ReduceSum", x, axes=axes, keepdims=keep)
    to.emit("Mul", total, to.scalar(1 / count, x), out=node.outputs[0])
    return True


def global_by_pool(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """AveragePool of a window as large as the input, where that is fixed."""
    x = node.inputs[0]
    sizes = tuple(d for d in to.shape(x)[2:] if isinstance(d, int) and d > 0)
    if len(sizes) != len(to.shape(x)) - 2 or not sizes:
        return False
    ones, zeros = (1,) * len(sizes), (0,) * 2 * len(sizes)
    to.emit("AveragePool", x, out=node.outputs[0], kernel_shape=sizes, strides=ones, dilations=ones, pads=zeros,
            ceil_mode=False, count_include_pad=False)
    return True


def global_by_mean(node: Node, to: Pieces, bounds: Bounds) -> bool:
    x = node.inputs[0]
    to.emit("ReduceMean", x, out=node.outputs[0], axes=tuple(range(2, len(to.shape(x)))), keepdims=True)
    return True


NORMALIZATION: Mapping[str, tuple[Decomposition, ...]] = {
    "Softmax": (softmax,),
    "LogSoftmax": (log_softmax,),
    "LayerNormalization": (layer_normalization,),
    "InstanceNormalization": (instance_normalization,),
    "ReduceMean": (mean_by_sum,),
    "GlobalAveragePool": (global_by_pool, global_by_mean),
}
"""The forms of each op, the best first."""
