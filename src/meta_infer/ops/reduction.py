"""Reductions over axes: ReduceSum, Mean, Max, Min, Prod, and L1, L2, SumSquare, LogSum, LogSumExp, which decompose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ir.shapes import Dim, bounds, dim_max, dim_min, product
from meta_infer.ops.attrs import Attrs, bool_of, ints_of
from meta_infer.ops.bind_dims import bind_dims
from meta_infer.ops.elementwise import floats, ints
from meta_infer.ops.importing import attr_int, attr_ints, axis_in, core_node, ints_input, is_known, present, shape_of
from meta_infer.ops.opdef import (
    ImportContext,
    InferContext,
    OnnxImport,
    OnnxNode,
    OpDef,
    Sample,
    ShapeError,
    TensorType,
)
from meta_infer.ops.size_math import SizeMath
from meta_infer.support.dtypes import BOOL, FLOAT64, INT32, UINT8, DType

Fold = Callable[[Sequence[Dim]], Dim]
Decompose = Callable[[Node, Callable[[str], str], Callable[[np.ndarray, str], str], Mapping[str, TensorType]],
                     tuple[Node, ...] | None]


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def _infer(fold: Fold | None) -> Callable[[InferContext], tuple[TensorType, ...]]:
    def infer(ctx: InferContext) -> tuple[TensorType, ...]:
        x, axes = ctx.input(0), ints_of(ctx.node.attrs, "axes")
        if any(not 0 <= a < len(x.shape) for a in axes) or list(axes) != sorted(set(axes)):
            raise ShapeError(f"axes {axes} do not fit {len(x.shape)} dimensions")
        content = ctx.content(0)
        known = (fold(content),) if fold is not None and content and axes == (0,) else None
        return (TensorType(x.dtype, reduced_shape(x.shape, axes, bool_of(ctx.node.attrs, "keepdims")), known),)
    return infer


def _reference(function: Callable[[np.ndarray, tuple[int, ...]], np.ndarray],
               ) -> Callable[[Attrs, Sequence[np.ndarray | None]], tuple[np.ndarray, ...]]:
    """`function(x, axes)` keeps the reduced dims."""
    def run(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
        x, axes = arrays[0], ints_of(attrs, "axes")
        assert x is not None
        with np.errstate(all="ignore"):
            y = np.asarray(function(x, axes)).astype(x.dtype, copy=False)
        return (y if bool_of(attrs, "keepdims") else np.squeeze(y, axes),)
    return run


def _mean(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Integers truncate, as ONNX Runtime divides them."""
    if x.dtype.kind == "f":
        return np.asarray(x.mean(axes, keepdims=True))
    count = int(np.prod([x.shape[a] for a in axes]))
    return np.asarray(np.trunc(x.sum(axes, keepdims=True) / count))


def _lowest(x: np.ndarray) -> float | int:
    """What the largest of no elements is. bfloat16 is of kind 'V' to numpy, and a float all the same."""
    if x.dtype.kind == "b":
        return 0
    return int(np.iinfo(x.dtype).min) if x.dtype.kind in "iu" else -np.inf


def _highest(x: np.ndarray) -> float | int:
    if x.dtype.kind == "b":
        return 1
    return int(np.iinfo(x.dtype).max) if x.dtype.kind in "iu" else np.inf


def _log_sum_exp(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    top = x.max(axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0).astype(x.dtype)
    return np.asarray(np.log(np.exp(x - top).sum(axes, keepdims=True)) + top)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    x = inputs[0]
    assert x is not None
    return product(x.shape)


# --- decompositions -------------------------------------------------------------------------------------------

def _around_sum(before: Callable[[Node, str], Node] | None, after: str) -> Decompose:
    """y = ReduceXxx(x)  ->  y = after(ReduceSum(before(x)))"""
    def decompose(node: Node, fresh: Callable[[str], str], constant: Callable[[np.ndarray, str], str],
                  types: Mapping[str, TensorType]) -> tuple[Node, ...]:
        x, y = node.inputs[0], node.outputs[0]
        nodes: list[Node] = []
        if before is not None:
            prepared = before(node, fresh(x))
            nodes.append(prepared)
            x = prepared.outputs[0]
        total = fresh(y) if after else y
        nodes.append(Node("ReduceSum", (x,), (total,), node.attrs, node.origins))
        if after:
            nodes.append(Node(after, (total,), (y,), origins=node.origins))
        return tuple(nodes)
    return decompose


def _absolute(node: Node, out: str) -> Node:
    return Node("Abs", (node.inputs[0],), (out,), origins=node.origins)


def _square(node: Node, out: str) -> Node:
    return Node("Mul", (node.inputs[0], node.inputs[0]), (out,), origins=node.origins)


def _decompose_log_sum_exp(node: Node, fresh: Callable[[str], str], constant: Callable[[np.ndarray, str], str],
                           types: Mapping[str, TensorType]) -> tuple[Node, ...]:
    """y = ReduceLogSumExp(x)  ->  m = Max(ReduceMax(x), lowest float); y = Log(ReduceSum(Exp(x - m))) + m

    The lower bound on m keeps x - m from being inf - inf where all of x is -inf.
    """
    x, y, origins = node.inputs[0], node.outputs[0], node.origins
    axes, keep = ints_of(node.attrs, "axes"), bool_of(node.attrs, "keepdims")
    raw, top, below, powers, total, log = (fresh(x) for _ in range(6))
    held: dict[str, Attr] = {"axes": axes, "keepdims": True}
    lowest = constant(np.array(np.finfo(types[x].dtype.numpy).min, types[x].dtype.numpy), "lowest")
    answer = y if keep else fresh(y)
    nodes = (Node("ReduceMax", (x,), (raw,), held, origins), Node("Max", (raw, lowest), (top,), origins=origins),
             Node("Sub", (x, top), (below,), origins=origins), Node("Exp", (below,), (powers,), origins=origins),
             Node("ReduceSum", (powers,), (total,), held, origins), Node("Log", (total,), (log,), origins=origins),
             Node("Add", (log, top), (answer,), origins=origins))
    if keep:
        return nodes
    return (*nodes, Node("Reshape", (answer,), (y,), {"shape": reduced_shape(types[x].shape, axes, False)}, origins))


# --- import ---------------------------------------------------------------------------------------------------

_ROOTS_AND_LOGS = frozenset({"ReduceL2", "ReduceLogSum", "ReduceLogSumExp"})
"""Of integers they are computed as floats and truncated."""


def _import(node: OnnxNode, ctx: ImportContext, axes: tuple[int, ...] | None) -> Iterable[Node]:
    rank = len(shape_of(node, ctx))
    if not axes and attr_int(node, "noop_with_empty_axes"):
        return (core_node(node, "Identity", node.inputs[:1], node.outputs),)
    chosen = tuple(sorted({axis_in(node, a, rank) for a in axes})) if axes else tuple(range(rank))
    return _reduced(node, ctx, node.inputs[0], node.outputs[0], chosen, bool(attr_int(node, "keepdims", 1)))


def _computed_in(op: str, dtype: DType) -> DType:
    """Sums wrap around in the integers' own type; a mean does not, and bools are ordered as 0 and 1 are."""
    if dtype.is_float:
        return dtype
    if op in _ROOTS_AND_LOGS:
        return FLOAT64
    if dtype == BOOL:
        return UINT8
    return INT32 if op == "ReduceMean" and dtype.bits < 32 else dtype


def _reduced(node: OnnxNode, ctx: ImportContext, x: str, y: str, axes: tuple[int, ...], keep: bool) -> Iterable[Node]:
    dtype = ctx.type_of(x).dtype
    wide = _computed_in(node.op, dtype)
    if wide == dtype:
        return (core_node(node, node.op, (x,), (y,), axes=axes, keepdims=keep),)
    real, answer = ctx.fresh(x), ctx.fresh(y)
    return (core_node(node, "Cast", (x,), (real,), to=wide),
            core_node(node, node.op, (real,), (answer,), axes=axes, keepdims=keep),
            core_node(node, "Cast", (answer,), (y,), to=dtype))


def _import_attr(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return _import(node, ctx, attr_ints(node, "axes"))


def _import_input(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """`axes` is an input since opset 18, for ReduceSum since 13."""
    if present(node, 1) and not is_known(ctx, node.inputs[1]):
        return _import_computed_axes(node, ctx)
    return _import(node, ctx, ints_input(node, ctx, 1, "axes") if present(node, 1) else None)


def _import_computed_axes(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Axes that data tells. Every axis of n becomes two, [n, 1] or [1, n], and the second ones are reduced.

        y = ReduceSum(x, axes)  ->  y = ReduceSum(Reshape(x, [a0, b0, a1, b1])) {axes = (1, 3)}    a0 * b0 = size 0
    """
    shape, math = shape_of(node, ctx), SizeMath(node, ctx)
    axes, sizes, rank = math.vector(node.inputs[1], "axes"), math.dims(shape), len(shape)
    reduced = math.among(axes, rank)
    ranges = [(min(low, 1), max(high, 1)) for low, high in map(bounds, shape)]
    named = math.reduce("Max", math.max(axes, math.sub(-1, axes)), 0)     # an axis a, or -1 - a from the end
    sized = math.where(math.less(named, rank), sizes, -1)    # no sizes: an error of the run
    apart = [bind_dims(node, ctx, math.where(reduced, *pair), ranges, "reduce") for pair in ((1, sized), (sized, 1))]
    split, kept = ctx.fresh(node.inputs[0]), ctx.fresh(node.outputs[0])
    ctx.emit(core_node(node, "Reshape", node.inputs[:1], (split,), shape=tuple(d for two in zip(*apart, strict=True)
                                                                               for d in two)))
    if attr_int(node, "keepdims", 1):
        return _reduced(node, ctx, split, node.outputs[0], tuple(range(1, 2 * rank, 2)), False)
    for made in _reduced(node, ctx, split, kept, tuple(range(1, 2 * rank, 2)), False):
        ctx.emit(made)
    left = rank - math.length(axes)
    final = bind_dims(node, ctx, math.kept(sizes, reduced, left), [(0, max(h for _, h in ranges))] * left, "reduce")
    return (core_node(node, "Reshape", (kept,), node.outputs, shape=final),)


def _samples(low: float, high: float, integer: bool) -> Callable[[np.random.Generator], Iterable[Sample]]:
    def samples(rng: np.random.Generator) -> Iterable[Sample]:
        def sample(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> Sample:
            return Sample((x,), {"axes": axes, "keepdims": keep}, 1e-4, 1e-5,
                          onnx_inputs=(x, np.array(axes, np.int64)), onnx_attrs={"keepdims": int(keep)})

        for shape, axes in (((5,), (0,)), ((3, 7), (1,)), ((3, 7), (0,)), ((2, 3, 5), (0, 2)), ((2, 3, 4, 5), (2, 3)),
                            ((2, 3, 4, 5), (1,)), ((3, 1, 5), (1,)), ((2, 129), (1,)), ((0, 4), (1,))):
            for keep in (True, False):
                yield sample(floats(rng, shape, low, high), axes, keep)
        if integer:
            yield sample(ints(rng, (3, 5), low=-2, high=4), (1,), True)
            yield sample(ints(rng, (3, 5), np.int32, -2, 4), (0, 1), False)
    return samples


def _reduce(name: str, function: Callable[[np.ndarray, tuple[int, ...]], np.ndarray], *, low: float = -4,
            high: float = 4, integer: bool = True, fold: Fold | None = None, decompose: Decompose | None = None,
            input_since: int = 18) -> OpDef:
    onnx = (OnnxImport(name, 1, input_since - 1, _import_attr), OnnxImport(name, input_since, convert=_import_input))
    return OpDef(name, _infer(fold), _reference(function), _samples(low, high, integer), onnx, flops=_flops,
                 decompose=decompose)


def _fold(combine: Callable[[Dim, Dim], Dim]) -> Fold:
    def fold(dims: Sequence[Dim]) -> Dim:
        total = dims[0]
        for dim in dims[1:]:
            total = combine(total, dim)
        return total
    return fold


REDUCE_SUM = _reduce("ReduceSum", lambda x, axes: x.sum(axes, keepdims=True, dtype=x.dtype), input_since=13,
                     fold=_fold(lambda a, b: a + b))
REDUCE_MEAN = _reduce("ReduceMean", _mean)
REDUCE_MAX = _reduce("ReduceMax", lambda x, axes: x.max(axes, keepdims=True, initial=_lowest(x)), fold=_fold(dim_max))
REDUCE_MIN = _reduce("ReduceMin", lambda x, axes: x.min(axes, keepdims=True, initial=_highest(x)), fold=_fold(dim_min))
REDUCE_PROD = _reduce("ReduceProd", lambda x, axes: x.prod(axes, keepdims=True, dtype=x.dtype), low=0.5, high=1.5,
                      fold=_fold(lambda a, b: a * b))
REDUCE_L1 = _reduce("ReduceL1", lambda x, axes: np.abs(x).sum(axes, keepdims=True),
                    decompose=_around_sum(_absolute, ""))
REDUCE_L2 = _reduce("ReduceL2", lambda x, axes: np.sqrt((x * x).sum(axes, keepdims=True)), integer=False,
                    decompose=_around_sum(_square, "Sqrt"))
REDUCE_SUM_SQUARE = _reduce("ReduceSumSquare", lambda x, axes: (x * x).sum(axes, keepdims=True),
                            decompose=_around_sum(_square, ""))
REDUCE_LOG_SUM = _reduce("ReduceLogSum", lambda x, axes: np.log(x.sum(axes, keepdims=True)), low=0.5, integer=False,
                         decompose=_around_sum(None, "Log"))
REDUCE_LOG_SUM_EXP = _reduce("ReduceLogSumExp", _log_sum_exp, integer=False, decompose=_decompose_log_sum_exp)

OPS: tuple[OpDef, ...] = (REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD, REDUCE_L1, REDUCE_L2,
                          REDUCE_SUM_SQUARE, REDUCE_LOG_SUM, REDUCE_LOG_SUM_EXP)
