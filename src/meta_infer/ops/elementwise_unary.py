"""Elementwise maths of one operand: Exp, Log, Sqrt, Erf, Neg, Abs, Floor, Ceil, Round, Sign, Reciprocal, Sin, Cos,
Not, IsNaN, IsInf. Activation functions are in activation.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from meta_infer.ir.loop import Expr, const, intrin, select, unary
from meta_infer.ir.shapes import Dim, dim_max
from meta_infer.ops.attrs import Attrs, bool_of
from meta_infer.ops.elementwise import UNARY_SHAPES, bools, elementwise, ints, is_bool, is_float, unary_samples
from meta_infer.ops.opdef import OnnxImport, OpDef, Sample
from meta_infer.support.dtypes import BOOL, DType

_erf = np.frompyfunc(math.erf, 1, 1)

ODD = (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"))
TIES = (*ODD, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388609.0)


def erf(x: np.ndarray) -> np.ndarray:
    """The error function in double precision, in the dtype of x."""
    return np.asarray(_erf(x)).astype(x.dtype)


def _from(function: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda attrs, x: function(x)


def _call(name: str) -> Callable[..., Expr]:
    return lambda attrs, x: intrin(name, x)


def _apply(name: str) -> Callable[..., Expr]:
    return lambda attrs, x: unary(name, x)


def _same(dtype: DType, x: Dim) -> Dim:
    return x


def _sign_expr(attrs: Attrs, x: Expr) -> Expr:
    signs = select(x.gt(0), const(1, x.type), select(x.lt(0), const(-1, x.type), const(0, x.type)))
    return select(x.ne(x), x, signs) if x.type.dtype.is_float else signs


def _is_inf(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    above, below = bool_of(attrs, "detect_positive", True), bool_of(attrs, "detect_negative", True)
    return np.asarray((np.isposinf(x) & above) | (np.isneginf(x) & below))


def _is_inf_expr(attrs: Attrs, x: Expr) -> Expr:
    """Which infinities count is an attribute; with neither, no element does."""
    inf = const(float("inf"), x.type)
    above, below = bool_of(attrs, "detect_positive", True), bool_of(attrs, "detect_negative", True)
    if above and below:
        return unary("abs", x).eq(inf)
    return x.eq(inf) if above else x.eq(-inf) if below else x.gt(inf)


def _with_ints(samples: Callable[[np.random.Generator], Iterable[Sample]],
               ) -> Callable[[np.random.Generator], Iterable[Sample]]:
    def both(rng: np.random.Generator) -> Iterable[Sample]:
        yield from samples(rng)
        yield Sample((ints(rng, (3, 5)),))
        yield Sample((ints(rng, (7,), np.int32),))
    return both


def _not_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape in UNARY_SHAPES:
        yield Sample((bools(rng, shape),))


EXP = elementwise("Exp", 1, _from(np.exp), _call("exp"), unary_samples(-90, 80, special=ODD), takes=is_float,
                  onnx=(OnnxImport("Exp", 6),), cost=10)
LOG = elementwise("Log", 1, _from(np.log), _call("log"), unary_samples(1e-6, 50, special=(*ODD, 1e-40)),
                  takes=is_float, onnx=(OnnxImport("Log", 6),), cost=10)
SQRT = elementwise("Sqrt", 1, _from(np.sqrt), _apply("sqrt"), unary_samples(0, 50, special=ODD), takes=is_float,
                   onnx=(OnnxImport("Sqrt", 6),), keeps_zero=True)
ERF = elementwise("Erf", 1, _from(erf), _call("erf"), unary_samples(special=ODD), takes=is_float,
                  onnx=(OnnxImport("Erf", 9),), keeps_zero=True, cost=10)
NEG = elementwise("Neg", 1, _from(np.negative), _apply("neg"), _with_ints(unary_samples(special=ODD)),
                  onnx=(OnnxImport("Neg", 6),), keeps_zero=True, content=lambda dtype, x: -x)
ABS = elementwise("Abs", 1, _from(np.abs), _apply("abs"), _with_ints(unary_samples(special=ODD)),
                  onnx=(OnnxImport("Abs", 6),), keeps_zero=True, content=lambda dtype, x: dim_max(x, -x))
FLOOR = elementwise("Floor", 1, _from(np.floor), _apply("floor"), unary_samples(special=TIES), takes=is_float,
                    onnx=(OnnxImport("Floor", 6),), keeps_zero=True, content=_same)
CEIL = elementwise("Ceil", 1, _from(np.ceil), _apply("ceil"), unary_samples(special=TIES), takes=is_float,
                   onnx=(OnnxImport("Ceil", 6),), keeps_zero=True, content=_same)
ROUND = elementwise("Round", 1, _from(np.rint), _apply("rint"), unary_samples(special=TIES), takes=is_float,
                    onnx=(OnnxImport("Round", 11),), keeps_zero=True, content=_same)
SIGN = elementwise("Sign", 1, _from(np.sign), _sign_expr, _with_ints(unary_samples(special=ODD[:-1])),
                   onnx=(OnnxImport("Sign", 9),), keeps_zero=True)
RECIPROCAL = elementwise("Reciprocal", 1, _from(lambda x: 1 / x), lambda attrs, x: const(1.0, x.type) / x,
                         unary_samples(special=ODD), takes=is_float, onnx=(OnnxImport("Reciprocal", 6),))
SIN = elementwise("Sin", 1, _from(np.sin), _call("sin"), unary_samples(-20, 20), takes=is_float,
                  onnx=(OnnxImport("Sin", 7),), keeps_zero=True, cost=10)
COS = elementwise("Cos", 1, _from(np.cos), _call("cos"), unary_samples(-20, 20), takes=is_float,
                  onnx=(OnnxImport("Cos", 7),), cost=10)
NOT = elementwise("Not", 1, _from(np.logical_not), _apply("not"), _not_samples, takes=is_bool,
                  onnx=(OnnxImport("Not", 1),), content=lambda dtype, x: 1 - x)
IS_NAN = elementwise("IsNaN", 1, _from(np.isnan), lambda attrs, x: x.ne(x), unary_samples(special=ODD), gives=BOOL,
                     takes=is_float, onnx=(OnnxImport("IsNaN", 9),), keeps_zero=True)
IS_INF = elementwise("IsInf", 1, _is_inf, _is_inf_expr, unary_samples(special=ODD, attrs=tuple(
    {"detect_positive": p, "detect_negative": n} for p in (0, 1) for n in (0, 1))), gives=BOOL, takes=is_float,
    onnx=(OnnxImport("IsInf", 10),), keeps_zero=True)

OPS: tuple[OpDef, ...] = (EXP, LOG, SQRT, ERF, NEG, ABS, FLOOR, CEIL, ROUND, SIGN, RECIPROCAL, SIN, COS, NOT, IS_NAN,
                          IS_INF)
