"""How elementwise ops are put together: one shape rule, one cost rule, samples by rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from meta_infer.ir.graph import Attr
from meta_infer.ir.loop import Expr
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.broadcast import broadcast_content, broadcast_shapes
from meta_infer.ops.opdef import InferContext, OnnxImport, OpDef, Sample, ShapeError, TensorType
from meta_infer.support.dtypes import BOOL, DType

UNARY_SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (7,), (0,), (3, 1, 5), (2, 3, 4, 5))
BINARY_SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()), ((5,), ()), ((), (3, 2)), ((3, 1), (1, 4)), ((2, 3, 5), (3, 1)), ((0, 3), (1, 3)),
    ((2, 3, 4, 5), (2, 3, 4, 5)), ((7,), (2, 1, 7)))

Content = Callable[..., Dim | None]


def elementwise(name: str, arity: int, reference: Callable[..., np.ndarray], expr: Callable[..., Expr],
                samples: Callable[[np.random.Generator], Iterable[Sample]], *,
                onnx: tuple[OnnxImport, ...] = (), keeps_zero: bool = False, cost: int = 1,
                gives: DType | None = None, takes: Callable[[DType], bool] | None = None,
                content: Content | None = None) -> OpDef:
    """An OpDef whose operands broadcast.

    `reference(attrs, *arrays)` and `expr(attrs, *exprs)` take operands one by one; `gives` is the result's dtype
    (None: the operands'); `takes` tells which dtypes are allowed; `content(dtype, *dims)` is the op on one element.
    `cost` is floating-point operations per element.
    """
    def infer(ctx: InferContext) -> tuple[TensorType, ...]:
        types = [ctx.input(i) for i in range(arity)]
        if any(t.dtype != types[0].dtype for t in types):
            raise ShapeError(f"operands have different dtypes: {', '.join(str(t.dtype) for t in types)}")
        if takes is not None and not takes(types[0].dtype):
            raise ShapeError(f"does not take {types[0].dtype}")
        shape = broadcast_shapes(*(t.shape for t in types))
        known = None
        if content is not None and len(shape) <= 1:
            known = broadcast_content([ctx.content(i) for i in range(arity)], shape,
                                      partial(content, types[-1].dtype))
        return (TensorType(gives or types[0].dtype, shape, known),)

    def run(attrs: Mapping[str, Attr], arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
        operands = [a for a in arrays if a is not None]
        with np.errstate(all="ignore"):
            result = np.asarray(reference(attrs, *operands))
        return (result.astype(gives.numpy if gives else np.result_type(*operands), copy=False),)

    def build(attrs: Mapping[str, Attr], args: Sequence[Expr]) -> Expr:
        return expr(attrs, *args)

    def flops(attrs: Mapping[str, Attr], inputs: Sequence[TensorType | None],
              outputs: Sequence[TensorType]) -> Dim:
        return product(outputs[0].shape) * cost

    return OpDef(name, infer, run, samples, onnx, build, flops, keeps_zero=keeps_zero)


def is_float(dtype: DType) -> bool:
    return dtype.is_float


def is_number(dtype: DType) -> bool:
    return dtype.kind != "bool"


def is_bool(dtype: DType) -> bool:
    return dtype == BOOL


def floats(rng: np.random.Generator, shape: tuple[int, ...], low: float = -4.0, high: float = 4.0) -> np.ndarray:
    return np.asarray(rng.uniform(low, high, shape)).astype(np.float32)


def ints(rng: np.random.Generator, shape: tuple[int, ...], dtype: type = np.int64, low: int = -9,
         high: int = 9) -> np.ndarray:
    return np.asarray(rng.integers(low, high, shape, endpoint=True)).astype(dtype)


def bools(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(rng.integers(0, 2, shape)).astype(np.bool_)


def unary_samples(low: float = -4.0, high: float = 4.0, attrs: Iterable[Mapping[str, Attr]] = ({},),
                  special: Sequence[float] = (), rtol: float = 1e-5, opset: int = 0,
                  ) -> Callable[[np.random.Generator], Iterable[Sample]]:
    """Float samples of every rank in [low, high], plus one that holds `special` values (NaN, infinities, ties)."""
    def samples(rng: np.random.Generator) -> Iterable[Sample]:
        for attr in attrs:
            for shape in UNARY_SHAPES:
                yield Sample((floats(rng, shape, low, high),), attr, rtol, opset=opset)
            if special:
                yield Sample((np.array(special, np.float32),), attr, rtol, opset=opset)
    return samples


def binary_samples(low: float = -4.0, high: float = 4.0, integer: bool = True, special: Sequence[float] = (),
                   divisor: bool = False) -> Callable[[np.random.Generator], Iterable[Sample]]:
    """Pairs that broadcast in every way, floats and (if `integer`) int64 and int32; `divisor`: no zeros in b."""
    def samples(rng: np.random.Generator) -> Iterable[Sample]:
        for a, b in BINARY_SHAPES:
            yield Sample((floats(rng, a, low, high), floats(rng, b, low, high)))
        if special:
            x = np.array(special, np.float32)
            yield Sample((x[:, None], x[None, :]))
        for dtype in (np.int64, np.int32) if integer else ():
            y = ints(rng, (3, 1, 5), dtype)
            yield Sample((ints(rng, (4, 5), dtype), np.where(y == 0, 1, y).astype(dtype) if divisor else y))
    return samples
