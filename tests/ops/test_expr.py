"""The loop expression of every elementwise op against its numpy reference, special values included.

The expressions are evaluated here by the rules that ir/loop.py states for its operations, lane by lane in numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from meta_infer.ir.loop import (
    Bin,
    Bitcast,
    Cast,
    Const,
    Expr,
    Intrin,
    Mad,
    Select,
    Splat,
    Type,
    Un,
    Var,
    const,
)
from meta_infer.ops.activation import sigmoid
from meta_infer.ops.elementwise_unary import erf
from meta_infer.ops.opdef import OpDef
from meta_infer.ops.registry import OPS, op_named
from meta_infer.support.dtypes import FLOAT32, dtype_of

MATH: Mapping[str, Callable[..., np.ndarray]] = {
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "sigmoid": sigmoid, "erf": erf, "sin": np.sin, "cos": np.cos,
    "pow": np.power}
UNARY: Mapping[str, Callable[..., np.ndarray]] = {
    "neg": np.negative, "not": np.invert, "abs": np.abs, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "rint": np.rint}
BINARY: Mapping[str, Callable[..., np.ndarray]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "min": lambda a, b: np.where(a < b, a, b),
    "max": lambda a, b: np.where(a > b, a, b), "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
    "<<": np.left_shift, ">>": np.right_shift, "rem": np.fmod, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}
ELEMENTWISE = [op for op in OPS if op.expr is not None]


def evaluate(expr: Expr, values: Mapping[str, np.ndarray]) -> np.ndarray:
    dtype = expr.type.dtype.numpy

    def walk(e: Expr) -> np.ndarray:
        return evaluate(e, values)

    match expr:
        case Var(name=name):
            return values[name]
        case Const(value=value):
            return np.array(value, dtype)
        case Splat(a=a):
            return walk(a)
        case Un(op=op, a=a):
            return UNARY[op](walk(a))
        case Bin(op="/", a=a, b=b):
            x, y = walk(a), walk(b)
            return x / y if expr.type.dtype.is_float else np.trunc(x / y).astype(dtype)
        case Bin(op=op, a=a, b=b):
            return BINARY[op](walk(a), walk(b))
        case Mad(a=a, b=b, c=c):
            return walk(a) * walk(b) + walk(c)
        case Select(cond=cond, a=a, b=b):
            return np.where(walk(cond), walk(a), walk(b)).astype(dtype)
        case Cast(a=a):
            return walk(a).astype(dtype)
        case Bitcast(a=a):
            return walk(a).view(dtype)
        case Intrin(name=name, args=args):
            return MATH[name](*map(walk, args)).astype(dtype)
    raise AssertionError(f"an elementwise op may not use {type(expr).__name__}")


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
@pytest.mark.parametrize("lanes", [1, 8])
def test_expression_computes_the_reference(op: OpDef, lanes: int) -> None:
    assert op.expr is not None
    for sample in op.samples(np.random.default_rng(8)):
        arrays = [a for a in sample.inputs if a is not None]
        names = [f"v{i}" for i in range(len(arrays))]
        registers = [Var(n, Type(dtype_of(a), lanes)) for n, a in zip(names, arrays, strict=True)]
        expr = op.expr(sample.attrs, registers)
        (expected,) = op.reference(sample.attrs, sample.inputs)
        assert expr.type == Type(dtype_of(expected), lanes)
        with np.errstate(all="ignore"):
            found = evaluate(expr, dict(zip(names, arrays, strict=True)))
        np.testing.assert_allclose(found, expected, 2e-5, 2e-6, equal_nan=True, err_msg=str(sample))


@pytest.mark.parametrize("name", ["Relu", "LeakyRelu", "Clip", "Max", "Min", "Sigmoid", "HardSigmoid", "HardSwish",
                                  "Gelu", "Softplus", "Sign", "Round", "Elu", "Selu"])
def test_nan_is_kept(name: str) -> None:
    op = op_named(name)
    assert op.expr is not None
    attrs = next(iter(op.samples(np.random.default_rng(0)))).attrs
    count = len(next(iter(op.samples(np.random.default_rng(0)))).inputs)
    for at in range(count):
        arrays = {f"v{i}": np.array([np.nan if i == at else 1.0], np.float32) for i in range(count)}
        expr = op.expr(attrs, [Var(n, Type(dtype_of(a))) for n, a in arrays.items()])
        with np.errstate(all="ignore"):
            assert np.isnan(evaluate(expr, arrays)).all(), f"NaN in operand {at}"


def test_max_with_a_constant_needs_no_care_for_nan() -> None:
    """One instruction where a bound is a constant, as in Clip; both orders keep a NaN of the other side."""
    op = op_named("Max")
    assert op.expr is not None
    x, bound = Var("x", Type(FLOAT32, 8)), const(0.0, Type(FLOAT32, 8))
    for args in ((x, bound), (bound, x)):
        expr = op.expr({}, args)
        assert isinstance(expr, Bin)
        assert np.isnan(evaluate(expr, {"x": np.array([np.nan], np.float32)})).all()
