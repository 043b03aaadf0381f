"""Activation functions: Relu and its kin, Sigmoid, Tanh, Softplus, Softsign, Hard*, Gelu, Silu, PRelu,
Shrink."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.loop import Expr, cast, const, intrin, maximum, minimum, select, unary
from meta_infer.ops.attrs import Attrs, float_of, text_of
from meta_infer.ops.elementwise import elementwise, floats, ints, is_float, is_number, unary_samples
from meta_infer.ops.elementwise_unary import ODD, erf
from meta_infer.ops.gelu_math import BY_TANH, EXACT, gelu_of
from meta_infer.ops.importing import attr_float, core_node
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, OpDef, Sample
from meta_infer.ops.silu_math import silu_of
from meta_infer.support.dtypes import FLOAT32, FLOAT64

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_WIDE = unary_samples(-100, 100, special=ODD[:-3])


# Bounds are written `maximum(bound, x)`: loop IR's max(a, b) is `a > b ? a : b`, which keeps a NaN that is in b.

def _relu(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(x, x.dtype.type(0)))


def _relu_expr(attrs: Attrs, x: Expr) -> Expr:
    return maximum(const(0, x.type), x)


def _leaky_relu(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, x * float_of(attrs, "alpha"), x)


def _leaky_relu_expr(attrs: Attrs, x: Expr) -> Expr:
    return select(x.lt(0.0), x * float_of(attrs, "alpha"), x)


def _prelu(attrs: Attrs, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return np.where(x < 0, x * slope, x)


def _prelu_expr(attrs: Attrs, x: Expr, slope: Expr) -> Expr:
    return select(x.lt(0), x * slope, x)


def _elu(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, float_of(attrs, "alpha") * np.expm1(np.minimum(x, 0)), x)


def _elu_expr(attrs: Attrs, x: Expr) -> Expr:
    return select(x.lt(0.0), (intrin("exp", x) - 1.0) * float_of(attrs, "alpha"), x)


def _selu(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    alpha, gamma = float_of(attrs, "alpha"), float_of(attrs, "gamma")
    return gamma * np.where(x <= 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _selu_expr(attrs: Attrs, x: Expr) -> Expr:
    alpha, gamma = float_of(attrs, "alpha"), float_of(attrs, "gamma")
    return select(x.le(0.0), (intrin("exp", x) - 1.0) * (alpha * gamma), x * gamma)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) without overflow, in the dtype of x."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, small, 1) / (1 + small)).astype(x.dtype, copy=False)


def _softplus(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _softplus_expr(attrs: Attrs, x: Expr) -> Expr:
    """max(x, 0) + log1p(exp(-|x|)); log1p(e) as log(u) * e / (u - 1), u = 1 + e (Goldberg 1991, theorem 4)."""
    e = intrin("exp", -unary("abs", x))
    u = e + 1.0
    log1p = select(u.eq(1.0), e, intrin("log", u) * (e / (u - 1.0)))
    return maximum(const(0.0, x.type), x) + log1p


def _softsign(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return np.asarray(x / (1 + np.abs(x)))


def _softsign_expr(attrs: Attrs, x: Expr) -> Expr:
    return x / (unary("abs", x) + 1.0)


def _hard_sigmoid(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return np.clip(float_of(attrs, "alpha") * x + float_of(attrs, "beta"), 0, 1)


def _hard_sigmoid_expr(attrs: Attrs, x: Expr) -> Expr:
    y = x * float_of(attrs, "alpha") + float_of(attrs, "beta")
    return maximum(const(0.0, x.type), minimum(const(1.0, x.type), y))


def _hard_swish(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return x * np.clip(x / 6 + 0.5, 0, 1)


def _hard_swish_expr(attrs: Attrs, x: Expr) -> Expr:
    return x * _hard_sigmoid_expr({"alpha": 1 / 6, "beta": 0.5}, x)


def _gelu(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    if text_of(attrs, "approximate", "none") == "tanh":
        return np.asarray(0.5 * x * (1 + np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x))))
    return np.asarray(0.5 * x * (1 + erf(x * x.dtype.type(_SQRT_HALF))))


def _gelu_expr(attrs: Attrs, x: Expr) -> Expr:
    if x.type.dtype == FLOAT32:
        return gelu_of(x, BY_TANH if text_of(attrs, "approximate", "none") == "tanh" else EXACT)
    if text_of(attrs, "approximate", "none") == "tanh":
        inner = (x + x * x * x * 0.044715) * _SQRT_2_OVER_PI
        return x * 0.5 * (intrin("tanh", inner) + 1.0)
    return x * 0.5 * (intrin("erf", x * _SQRT_HALF) + 1.0)


def _silu_expr(attrs: Attrs, x: Expr) -> Expr:
    return silu_of(x) if x.type.dtype == FLOAT32 else x * intrin("sigmoid", x)


def _shrink(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    lambd, bias = float_of(attrs, "lambd", 0.5), float_of(attrs, "bias", 0.0)
    wide = x if x.dtype.kind == "f" else x.astype(np.float64)
    return np.where(wide < -lambd, wide + bias, np.where(wide > lambd, wide - bias, 0)).astype(x.dtype)


def _shrink_expr(attrs: Attrs, x: Expr) -> Expr:
    """Integers move by the bias as doubles, truncated."""
    lambd, bias = float_of(attrs, "lambd", 0.5), float_of(attrs, "bias", 0.0)
    wide = x if x.type.dtype.is_float else cast(x, FLOAT64)
    zero = const(0.0, wide.type)
    return cast(select(wide.lt(-lambd), wide + bias, select(wide.gt(lambd), wide - bias, zero)), x.type.dtype)


def _import_swish(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """x * sigmoid(alpha * x): Silu when alpha is 1."""
    alpha = attr_float(node, "alpha", 1.0)
    if alpha == 1.0:
        return (core_node(node, "Silu", node.inputs, node.outputs),)
    x, scaled, gate = node.inputs[0], ctx.fresh(node.inputs[0]), ctx.fresh(node.outputs[0])
    factor = ctx.constant(np.array(alpha, ctx.type_of(x).dtype.numpy), "alpha")
    return (core_node(node, "Mul", (x, factor), (scaled,)), core_node(node, "Sigmoid", (scaled,), (gate,)),
            core_node(node, "Mul", (x, gate), node.outputs))


def _silu_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for sample in _WIDE(rng):
        yield Sample(sample.inputs, onnx_op="-")


def _shrink_samples(rng: np.random.Generator) -> Iterable[Sample]:
    yield from unary_samples(attrs=({"lambd": 0.5, "bias": 0.0}, {"lambd": 1.5, "bias": 1.5}), special=ODD[:-1])(rng)
    yield Sample((ints(rng, (3, 5), np.int32),), {"lambd": 1.5, "bias": 2.0})


def _prelu_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for a, b in (((5,), ()), ((2, 3, 5), (3, 1)), ((2, 3, 4, 5), (1, 3, 1, 1)), ((0, 3), (1, 3))):
        yield Sample((floats(rng, a), floats(rng, b)))


RELU = elementwise("Relu", 1, _relu, _relu_expr, unary_samples(special=ODD), takes=is_number,
                   onnx=(OnnxImport("Relu", 6),), keeps_zero=True)
LEAKY_RELU = elementwise("LeakyRelu", 1, _leaky_relu, _leaky_relu_expr,
                         unary_samples(attrs=({"alpha": 0.01}, {"alpha": -0.5}), special=ODD), takes=is_float,
                         onnx=(OnnxImport("LeakyRelu", 6),), keeps_zero=True, cost=2)
PRELU = elementwise("PRelu", 2, _prelu, _prelu_expr, _prelu_samples, takes=is_number,
                    onnx=(OnnxImport("PRelu", 7),), keeps_zero=True, cost=2)
ELU = elementwise("Elu", 1, _elu, _elu_expr, unary_samples(attrs=({"alpha": 1.0}, {"alpha": 2.5})), takes=is_float,
                  onnx=(OnnxImport("Elu", 6),), keeps_zero=True, cost=12)
SELU = elementwise("Selu", 1, _selu, _selu_expr,
                   unary_samples(attrs=({"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},)),
                   takes=is_float, onnx=(OnnxImport("Selu", 6),), keeps_zero=True, cost=12)
SIGMOID = elementwise("Sigmoid", 1, lambda attrs, x: sigmoid(x), lambda attrs, x: intrin("sigmoid", x),
                      _WIDE, takes=is_float, onnx=(OnnxImport("Sigmoid", 6),), cost=12)
TANH = elementwise("Tanh", 1, lambda attrs, x: np.tanh(x), lambda attrs, x: intrin("tanh", x),
                   unary_samples(special=ODD), takes=is_float, onnx=(OnnxImport("Tanh", 6),), keeps_zero=True, cost=12)
SOFTPLUS = elementwise("Softplus", 1, _softplus, _softplus_expr, unary_samples(-100, 100), takes=is_float,
                       onnx=(OnnxImport("Softplus", 1),), cost=24)
SOFTSIGN = elementwise("Softsign", 1, _softsign, _softsign_expr, unary_samples(-100, 100), takes=is_float,
                       onnx=(OnnxImport("Softsign", 1),), keeps_zero=True, cost=3)
HARD_SIGMOID = elementwise("HardSigmoid", 1, _hard_sigmoid, _hard_sigmoid_expr,
                           unary_samples(attrs=({"alpha": 0.2, "beta": 0.5}, {"alpha": 1 / 6, "beta": 0.25})),
                           takes=is_float, onnx=(OnnxImport("HardSigmoid", 6),), cost=4)
HARD_SWISH = elementwise("HardSwish", 1, _hard_swish, _hard_swish_expr, unary_samples(-6, 6), takes=is_float,
                         onnx=(OnnxImport("HardSwish", 14),), keeps_zero=True, cost=5)
GELU = elementwise("Gelu", 1, _gelu, _gelu_expr,
                   unary_samples(attrs=({"approximate": "none"}, {"approximate": "tanh"})), takes=is_float,
                   onnx=(OnnxImport("Gelu", 20),), keeps_zero=True, cost=14)
SILU = elementwise("Silu", 1, lambda attrs, x: x * sigmoid(x), _silu_expr, _silu_samples, takes=is_float,
                   onnx=(OnnxImport("Swish", 24, convert=_import_swish),), keeps_zero=True, cost=13)
SHRINK = elementwise("Shrink", 1, _shrink, _shrink_expr, _shrink_samples, takes=is_number,
                     onnx=(OnnxImport("Shrink", 9),), keeps_zero=True, cost=4)

OPS: tuple[OpDef, ...] = (RELU, LEAKY_RELU, PRELU, ELU, SELU, SIGMOID, TANH, SOFTPLUS, SOFTSIGN, HARD_SIGMOID,
                          HARD_SWISH, GELU, SILU, SHRINK)
