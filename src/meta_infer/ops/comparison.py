"""Comparisons, logic and choice: Equal, Less, LessOrEqual, Greater, GreaterOrEqual, And, Or, Xor, Where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from meta_infer.ir.loop import Expr, select, unary
from meta_infer.ir.shapes import Dim, bounds, product
from meta_infer.ops.attrs import Attrs
from meta_infer.ops.broadcast import broadcast_content, broadcast_shapes
from meta_infer.ops.elementwise import BINARY_SHAPES, bools, elementwise, floats, ints, is_bool, is_number
from meta_infer.ops.elementwise_unary import ODD
from meta_infer.ops.opdef import InferContext, OnnxImport, OpDef, Sample, ShapeError, TensorType
from meta_infer.support.dtypes import BOOL, DType

Samples = Callable[[np.random.Generator], Iterable[Sample]]


def _equal_content(dtype: DType, a: Dim, b: Dim) -> Dim | None:
    low, high = bounds(a - b)
    if low == high == 0:
        return 1
    return 0 if low > 0 or high < 0 else None


def _less_content(dtype: DType, a: Dim, b: Dim) -> Dim | None:
    low, high = bounds(a - b)
    if high < 0:
        return 1
    return 0 if low >= 0 else None


def _less_or_equal_content(dtype: DType, a: Dim, b: Dim) -> Dim | None:
    low, high = bounds(a - b)
    if high <= 0:
        return 1
    return 0 if low > 0 else None


def _equal_expr(attrs: Attrs, a: Expr, b: Expr) -> Expr:
    return unary("not", a ^ b) if a.type.dtype == BOOL else a.eq(b)


def _compare_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for a, b in BINARY_SHAPES:
        yield Sample((ints(rng, a, np.float32, -4, 4), ints(rng, b, np.float32, -4, 4)))
    x = np.array(ODD, np.float32)
    yield Sample((x[:, None], x[None, :]))
    for dtype in (np.int64, np.int32):
        yield Sample((ints(rng, (4, 5), dtype, -2, 2), ints(rng, (3, 1, 5), dtype, -2, 2)))


def _equal_samples(rng: np.random.Generator) -> Iterable[Sample]:
    yield from _compare_samples(rng)
    yield from _bool_samples(rng)


def _bool_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for a, b in BINARY_SHAPES:
        yield Sample((bools(rng, a), bools(rng, b)))


def _where_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for c, a, b in (((), (), ()), ((3, 1), (1, 4), ()), ((2, 1, 4), (3, 1), (4,)), ((0,), (1,), ()),
                    ((5,), (5,), (5,))):
        yield Sample((bools(rng, c), floats(rng, a), floats(rng, b)))
    yield Sample((bools(rng, (3, 4)), ints(rng, (4,)), ints(rng, (3, 1))))
    yield Sample((np.array([True, False]), np.array([np.nan, 1], np.float32), np.array([2, np.nan], np.float32)))


def _where_infer(ctx: InferContext) -> tuple[TensorType, ...]:
    cond, a, b = ctx.input(0), ctx.input(1), ctx.input(2)
    if cond.dtype != BOOL or a.dtype != b.dtype:
        raise ShapeError(f"takes a bool condition and two operands of one dtype, not {cond.dtype}, {a.dtype} and "
                         f"{b.dtype}")
    shape = broadcast_shapes(cond.shape, a.shape, b.shape)
    return (TensorType(a.dtype, shape, _where_content(ctx, shape)),)


def _where_content(ctx: InferContext, shape: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    def pick(c: Dim, x: Dim, y: Dim) -> Dim:
        return x if c == 1 else y
    a, b = ctx.content(1), ctx.content(2)
    known = broadcast_content([ctx.content(0), a, b], shape, pick)
    if known is not None:
        return known
    return broadcast_content([a, b], shape, lambda x, y: x if x == y else None)


def _where(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    cond, a, b = arrays
    assert cond is not None and a is not None and b is not None
    return (np.asarray(np.where(cond, a, b)),)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return product(outputs[0].shape)


def _compare(name: str, reference: Callable[..., np.ndarray], expr: Callable[..., Expr], since: int,
             content: Callable[..., Dim | None], samples: Samples = _compare_samples,
             takes: Callable[[DType], bool] | None = is_number) -> OpDef:
    return elementwise(name, 2, lambda attrs, a, b: reference(a, b), expr, samples, onnx=(OnnxImport(name, since),),
                       gives=BOOL, takes=takes, content=content)


EQUAL = _compare("Equal", np.equal, _equal_expr, 7, _equal_content, _equal_samples, None)
LESS = _compare("Less", np.less, lambda attrs, a, b: a.lt(b), 7, _less_content)
LESS_OR_EQUAL = _compare("LessOrEqual", np.less_equal, lambda attrs, a, b: a.le(b), 12, _less_or_equal_content)
GREATER = _compare("Greater", np.greater, lambda attrs, a, b: a.gt(b), 7,
                   lambda dtype, a, b: _less_content(dtype, b, a))
GREATER_OR_EQUAL = _compare("GreaterOrEqual", np.greater_equal, lambda attrs, a, b: a.ge(b), 12,
                            lambda dtype, a, b: _less_or_equal_content(dtype, b, a))
AND = _compare("And", np.logical_and, lambda attrs, a, b: a & b, 7, lambda dtype, a, b: a * b, _bool_samples, is_bool)
OR = _compare("Or", np.logical_or, lambda attrs, a, b: a | b, 7, lambda dtype, a, b: a + b - a * b, _bool_samples,
              is_bool)
XOR = _compare("Xor", np.logical_xor, lambda attrs, a, b: a ^ b, 7, lambda dtype, a, b: a + b - 2 * a * b,
               _bool_samples, is_bool)
WHERE = OpDef(
    "Where", _where_infer, _where, _where_samples, (OnnxImport("Where", 9),),
    lambda attrs, args: select(args[0], args[1], args[2]), _flops)

OPS: tuple[OpDef, ...] = (EQUAL, LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL, AND, OR, XOR, WHERE)
