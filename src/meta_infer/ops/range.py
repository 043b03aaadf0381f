"""Range: start, start + delta, ... below limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import UNBOUNDED, Dim, ceildiv, dim_max, product
from meta_infer.ops.attrs import Attrs
from meta_infer.ops.bind_dims import bind_dims
from meta_infer.ops.broadcast import CONTENT_LIMIT
from meta_infer.ops.importing import core_node, is_known
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
from meta_infer.support.dtypes import BOOL, FLOAT64, INT64


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    types = [ctx.input(i) for i in range(3)]
    if any(t.shape not in ((), (1,)) or t.dtype != types[0].dtype for t in types):
        raise ShapeError("start, limit and delta must be scalars of one dtype")
    if types[0].dtype.is_float and all(i in ctx.constants for i in range(3)):
        start, limit, delta = (float(ctx.constants[i].reshape(-1)[0]) for i in range(3))
        if delta == 0:
            raise ShapeError("delta is 0")
        return (TensorType(types[0].dtype, (max(math.ceil((limit - start) / delta), 0),)),)
    known = [ctx.content(i) for i in range(3)]
    if any(k is None for k in known):
        raise ShapeError("the number of elements depends on data; make start, limit and delta constant")
    first, last, step = (k[0] for k in known if k is not None)
    if not isinstance(step, int) or step == 0:
        raise ShapeError(f"delta {step} must be a constant other than 0")
    size = dim_max(ceildiv(last - first, step) if step > 0 else ceildiv(first - last, -step), 0)
    elements: tuple[Dim, ...] | None = None
    if isinstance(size, int) and size <= CONTENT_LIMIT:
        elements = tuple(first + i * step for i in range(size))
    return (TensorType(types[0].dtype, (size,), elements),)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Bounds that data tells: the number of elements is worked out while running, in float64 for floats."""
    if all(is_known(ctx, name) for name in node.inputs):
        return (core_node(node, "Range", node.inputs, node.outputs),)
    math, dtype = SizeMath(node, ctx), ctx.type_of(node.inputs[0]).dtype
    wide = FLOAT64 if dtype.is_float else INT64
    start, limit, delta = (math.cast(name, wide) for name in node.inputs)
    span = math.sub(limit, start)
    count = math.ceil_quotient(span, delta) if dtype.is_float else math.ceil_div(span, delta)
    counted = math.where(math.cast(delta, BOOL), math.max(count, 0), -1)     # a step of 0 has no size
    (size,) = bind_dims(node, ctx, counted, [(0, UNBOUNDED)], "range")
    steps, scaled = ctx.fresh("steps"), ctx.fresh(node.outputs[0])
    ctx.emit(core_node(node, "Iota", (), (steps,), size=(size,)))
    typed = math.cast(steps, dtype)
    return (core_node(node, "Mul", (typed, node.inputs[2]), (scaled,)),
            core_node(node, "Add", (scaled, node.inputs[0]), node.outputs))


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    start, limit, delta = (a.reshape(-1)[0] for a in arrays if a is not None)
    size = max(math.ceil((limit - start) / delta), 0)
    return ((start + np.arange(size).astype(start.dtype) * delta).astype(start.dtype),)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return product(outputs[0].shape)


def _decompose(node: Node, fresh: Callable[[str], str], constant: Callable[[np.ndarray, str], str],
               types: Mapping[str, TensorType]) -> tuple[Node, ...] | None:
    """y = Range(start, limit, delta)  ->  y = start + delta * (0, 1, 2, ...)"""
    made, origins = types[node.outputs[0]], node.origins
    counted, steps, scaled = fresh("counted"), fresh("steps"), fresh(node.outputs[0])
    return (Node("Iota", (), (counted,), {"size": made.shape}, origins),
            Node("Cast", (counted,), (steps,), {"to": made.dtype}, origins),
            Node("Mul", (steps, node.inputs[2]), (scaled,), origins=origins),
            Node("Add", (scaled, node.inputs[0]), node.outputs, origins=origins))


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for start, limit, delta in ((0, 5, 1), (3, 3, 1), (10, -1, -3), (2, 11, 4), (5, 0, 1)):
        for dtype in (np.int64, np.int32, np.float32):
            yield Sample((np.array(start, dtype), np.array(limit, dtype), np.array(delta, dtype)))
    yield Sample(tuple(np.array(v, np.float32) for v in (0.5, 2.1, 0.25)))


RANGE = OpDef("Range", _infer, _reference, _samples, (OnnxImport("Range", 11, convert=_import),), flops=_flops,
              decompose=_decompose)

OPS: tuple[OpDef, ...] = (RANGE,)
