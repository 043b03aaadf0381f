"""Activations and arithmetic in terms of simpler elementwise ops, for devices that lack them.

    before                                                 after
    %y: float32[N, 8] = HardSwish(%x)                      %a: float32[N, 8] = Add(%x, 3)
                                                           %c: float32[N, 8] = Clip(%a) {max = 6, min = 0}
                                                           %m: float32[N, 8] = Mul(%x, %c)
                                                           %y: float32[N, 8] = Mul(%m, 1/6)

Every form is exact in real arithmetic, and none overflows where the op itself does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from meta_infer.ir.graph import Node
from meta_infer.ops.attrs import float_of, text_of
from meta_infer.passes.pieces import Bounds, Decomposition, Pieces


def _of_floats(node: Node, to: Pieces) -> bool:
    return to.dtype(node.inputs[0]).is_float


def sigmoid_by_exp(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """1 / (1 + exp(-x)): where exp overflows the quotient is 0, as it should be."""
    x = node.inputs[0]
    power = to.emit("Exp", to.emit("Neg", x))
    to.emit("Div", to.scalar(1, x), to.emit("Add", power, to.scalar(1, x)), out=node.outputs[0])
    return True


def sigmoid_by_tanh(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """0.5 * tanh(0.5 x) + 0.5"""
    x, half = node.inputs[0], to.scalar(0.5, node.inputs[0])
    curve = to.emit("Tanh", to.emit("Mul", x, half))
    to.emit("Add", to.emit("Mul", curve, half), half, out=node.outputs[0])
    return True


def tanh_by_sigmoid(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """2 * sigmoid(2 x) - 1"""
    x, two = node.inputs[0], to.scalar(2, node.inputs[0])
    curve = to.emit("Sigmoid", to.emit("Mul", x, two))
    to.emit("Add", to.emit("Mul", curve, two), to.scalar(-1, x), out=node.outputs[0])
    return True


def silu(node: Node, to: Pieces, bounds: Bounds) -> bool:
    to.emit("Mul", node.inputs[0], to.emit("Sigmoid", node.inputs[0]), out=node.outputs[0])
    return True


def hard_sigmoid(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """Clip(alpha x + beta, 0, 1), by way of the bounds 0 and 6 that are hardware's usual ones."""
    x, alpha, beta = node.inputs[0], float_of(node.attrs, "alpha", 0.2), float_of(node.attrs, "beta", 0.5)
    line = to.emit("Add", to.emit("Mul", x, to.scalar(6 * alpha, x)), to.scalar(6 * beta, x))
    to.emit("Mul", to.emit("Clip", line, min=0.0, max=6.0), to.scalar(1 / 6, x), out=node.outputs[0])
    return True


def hard_swish(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """x * Clip(x + 3, 0, 6) / 6"""
    x = node.inputs[0]
    gate = to.emit("Clip", to.emit("Add", x, to.scalar(3, x)), min=0.0, max=6.0)
    to.emit("Mul", to.emit("Mul", x, gate), to.scalar(1 / 6, x), out=node.outputs[0])
    return True


def gelu(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """x / 2 * (1 + erf(x / sqrt 2)), or with approximate='tanh' x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))"""
    x = node.inputs[0]
    if text_of(node.attrs, "approximate", "none") == "tanh":
        cube = to.emit("Mul", to.emit("Mul", x, x), x)
        inner = to.emit("Add", x, to.emit("Mul", cube, to.scalar(0.044715, x)))
        curve = to.emit("Tanh", to.emit("Mul", inner, to.scalar(math.sqrt(2 / math.pi), x)))
    else:
        curve = to.emit("Erf", to.emit("Mul", x, to.scalar(math.sqrt(0.5), x)))
    half = to.emit("Mul", x, to.scalar(0.5, x))
    to.emit("Mul", half, to.emit("Add", curve, to.scalar(1, x)), out=node.outputs[0])
    return True


def leaky_relu(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """Relu(x) - alpha * Relu(-x)"""
    x = node.inputs[0]
    below = to.emit("Relu", to.emit("Neg", x))
    part = to.emit("Mul", below, to.scalar(-float_of(node.attrs, "alpha", 0.01), x))
    to.emit("Add", to.emit("Relu", x), part, out=node.outputs[0])
    return True


def p_relu(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """Relu(x) - slope * Relu(-x)"""
    x, slope = node.inputs
    if not _of_floats(node, to):
        return False
    below = to.emit("Mul", slope, to.emit("Relu", to.emit("Neg", x)))
    to.emit("Sub", to.emit("Relu", x), below, out=node.outputs[0])
    return True


def softplus(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """Relu(x) + log(1 + exp(-|x|))"""
    x = node.inputs[0]
    small = to.emit("Exp", to.emit("Neg", to.emit("Abs", x)))
    tail = to.emit("Log", to.emit("Add", small, to.scalar(1, x)))
    to.emit("Add", to.emit("Relu", x), tail, out=node.outputs[0])
    return True


def clip_by_extremes(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """Min(Max(x, low), high)"""
    x, low, high = node.inputs[0], node.attrs.get("min"), node.attrs.get("max")
    if isinstance(low, int | float) and isinstance(high, int | float):
        to.emit("Min", to.emit("Max", x, to.scalar(low, x)), to.scalar(high, x), out=node.outputs[0])
    elif isinstance(low, int | float):
        to.emit("Max", x, to.scalar(low, x), out=node.outputs[0])
    elif isinstance(high, int | float):
        to.emit("Min", x, to.scalar(high, x), out=node.outputs[0])
    else:
        to.emit("Identity", x, out=node.outputs[0])
    return True


def relu_by_max(node: Node, to: Pieces, bounds: Bounds) -> bool:
    to.emit("Max", node.inputs[0], to.scalar(0, node.inputs[0]), out=node.outputs[0])
    return True


def abs_by_relu(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """Relu(x) + Relu(-x)"""
    x = node.inputs[0]
    if not _of_floats(node, to):
        return False
    to.emit("Add", to.emit("Relu", x), to.emit("Relu", to.emit("Neg", x)), out=node.outputs[0])
    return True


def neg_by_mul(node: Node, to: Pieces, bounds: Bounds) -> bool:
    if not _of_floats(node, to):
        return False
    to.emit("Mul", node.inputs[0], to.scalar(-1, node.inputs[0]), out=node.outputs[0])
    return True


def sub_by_add(node: Node, to: Pieces, bounds: Bounds) -> bool:
    a, b = node.inputs
    if not _of_floats(node, to):
        return False
    to.emit("Add", a, to.emit("Neg", b), out=node.outputs[0])
    return True


def div_by_reciprocal(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """a * (1 / b): the one form here that rounds twice. Integers, whose division truncates, stay."""
    a, b = node.inputs
    if not _of_floats(node, to):
        return False
    to.emit("Mul", a, to.emit("Reciprocal", b), out=node.outputs[0])
    return True


def reciprocal_by_div(node: Node, to: Pieces, bounds: Bounds) -> bool:
    to.emit("Div", to.scalar(1, node.inputs[0]), node.inputs[0], out=node.outputs[0])
    return True


ELEMENTWISE: Mapping[str, tuple[Decomposition, ...]] = {
    "Sigmoid": (sigmoid_by_exp, sigmoid_by_tanh),
    "Tanh": (tanh_by_sigmoid,),
    "Silu": (silu,),
    "HardSigmoid": (hard_sigmoid,),
    "HardSwish": (hard_swish,),
    "Gelu": (gelu,),
    "LeakyRelu": (leaky_relu,),
    "PRelu": (p_relu,),
    "Softplus": (softplus,),
    "Clip": (clip_by_extremes,),
    "Relu": (relu_by_max,),
    "Abs": (abs_by_relu,),
    "Neg": (neg_by_mul,),
    "Sub": (sub_by_add,),
    "Div": (div_by_reciprocal,),
    "Reciprocal": (reciprocal_by_div,),
}
"""The forms of each op, the best first."""
