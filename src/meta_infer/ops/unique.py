"""Unique: the distinct elements of a tensor, or slices along an axis. Their number is known only while running.

    %y: float32[n], %first: int64[n], %inverse: int64[m], %counts: int64[n] = Unique(%x) {sorted = true}

`axis` None takes all elements. NaNs count as one element, greater than any number (as in numpy; ONNX does not say).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import UNBOUNDED, Dim, bounds, product
from meta_infer.ops.attrs import Attrs, bool_of, int_of
from meta_infer.ops.broadcast import text
from meta_infer.ops.elementwise import floats, ints
from meta_infer.ops.importing import attr_int, axis_in, shape_of
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
from meta_infer.support.dtypes import INT64


def axis_of(attrs: Attrs) -> int | None:
    """The axis whose slices are compared, None for single elements."""
    return None if attrs.get("axis") is None else int_of(attrs, "axis")


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, axis = ctx.input(0), axis_of(ctx.node.attrs)
    if axis is not None and not 0 <= axis < len(x.shape):
        raise ShapeError(f"axis {axis} is outside {text(x.shape)}")
    items = product(x.shape) if axis is None else x.shape[axis]
    low, high = bounds(items)
    if 0 in ctx.constants:
        count: Dim = len(_reference(ctx.node.attrs, (ctx.constants[0],))[1])
    elif ctx.fresh_symbol is None:
        raise ShapeError("how many elements are distinct depends on data")
    else:
        count = ctx.fresh_symbol("unique", min(max(low, 0), 1), min(high, UNBOUNDED))
    shape = (count,) if axis is None else (*x.shape[:axis], count, *x.shape[axis + 1:])
    return (TensorType(x.dtype, shape), TensorType(INT64, (count,)), TensorType(INT64, (items,)),
            TensorType(INT64, (count,)))


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    """Items by their ranks among the sorted distinct values, element by element: NaNs have one rank."""
    x, axis = arrays[0], axis_of(attrs)
    assert x is not None
    moved = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
    items = moved.reshape(len(moved), math.prod(moved.shape[1:]))
    ranks = np.unique(items, return_inverse=True)[1].reshape(items.shape)
    keys = sorted({tuple(row): i for i, row in reversed(list(enumerate(ranks.tolist())))}.items())
    firsts = [first for _, first in keys]
    if not bool_of(attrs, "sorted"):
        firsts.sort()
    number = {tuple(ranks[first].tolist()): i for i, first in enumerate(firsts)}
    inverse = np.array([number[tuple(row)] for row in ranks.tolist()], np.int64)
    indices = np.array(firsts, np.int64)
    y = x.reshape(-1)[indices] if axis is None else np.take(x, indices, axis)
    return y, indices, inverse, np.bincount(inverse, minlength=len(firsts)).astype(np.int64)


def _import_unique(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    axis = axis_in(node, attr_int(node, "axis"), len(shape_of(node, ctx))) if "axis" in node.attrs else None
    return (Node("Unique", node.inputs, node.outputs, {"axis": axis, "sorted": bool(attr_int(node, "sorted", 1))}),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    def sample(x: np.ndarray, axis: int | None, sorted: bool) -> Sample:
        return Sample((x,), {"axis": axis, "sorted": sorted})

    for shape, axis in (((5,), None), ((40,), None), ((4, 9), None), ((1,), None), ((30,), 0), ((20, 2), 0),
                        ((2, 15), 1), ((2, 9, 2), 1), ((3, 1), 1)):
        for ordered in (True, False):
            yield sample(np.rint(floats(rng, shape)), axis, ordered)
            yield sample(ints(rng, shape, np.int64, -2, 2), axis, ordered)
            yield sample(ints(rng, shape, np.int8, 0, 1), axis, ordered)


UNIQUE = OpDef("Unique", _infer, _reference, _samples, (OnnxImport("Unique", 11, convert=_import_unique),),
               flops=lambda attrs, inputs, outputs: 0)

OPS: tuple[OpDef, ...] = (UNIQUE,)
