"""Gather (whole slices along one axis) and GatherElements (one element per index)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim
from meta_infer.ops.attrs import Attrs, int_of
from meta_infer.ops.broadcast import text
from meta_infer.ops.elementwise import floats, ints
from meta_infer.ops.importing import attr_int, axis_in, core_node, shape_of
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


def _operands(ctx: InferContext) -> tuple[TensorType, TensorType, int]:
    x, indices, axis = ctx.input(0), ctx.input(1), int_of(ctx.node.attrs, "axis")
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"axis {axis} is outside {text(x.shape)}")
    if indices.dtype.name not in ("int32", "int64"):
        raise ShapeError(f"indices must be int32 or int64, not {indices.dtype}")
    return x, indices, axis


def _infer_gather(ctx: InferContext) -> tuple[TensorType, ...]:
    x, indices, axis = _operands(ctx)
    picks, size = ctx.content(1), x.shape[axis]
    for pick in picks or ():
        if isinstance(pick, int) and isinstance(size, int) and not -size <= pick < size:
            raise ShapeError(f"index {pick} is outside axis {axis} of {text(x.shape)}")
    content = ctx.content(0) if len(x.shape) == 1 and len(indices.shape) <= 1 else None
    known = None
    if content is not None and picks is not None and all(isinstance(p, int) for p in picks):
        known = tuple(content[p] for p in picks if isinstance(p, int))
    return (TensorType(x.dtype, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1:]), known),)


def _gather(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, indices = arrays[0], arrays[1]
    assert x is not None and indices is not None
    return (np.asarray(np.take(x, indices, int_of(attrs, "axis"))),)


def _infer_elements(ctx: InferContext) -> tuple[TensorType, ...]:
    x, indices, _ = _operands(ctx)
    if len(x.shape) != len(indices.shape):
        raise ShapeError(f"indices {text(indices.shape)} must have the rank of {text(x.shape)}")
    return (TensorType(x.dtype, indices.shape),)


def _gather_elements(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, indices, axis = arrays[0], arrays[1], int_of(attrs, "axis")
    assert x is not None and indices is not None
    grid = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    grid[axis] = indices
    return (x[tuple(grid)],)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    axis = axis_in(node, attr_int(node, "axis"), len(shape_of(node, ctx)))
    return (core_node(node, node.op, node.inputs, node.outputs, axis=axis),)


def _free(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return 0


def _gather_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, picked, axis in (((5,), (), 0), ((5,), (3,), 0), ((4, 7), (2, 3), 0), ((4, 7), (3,), 1),
                                ((2, 3, 5), (), 1), ((2, 3, 5), (1, 2), 2), ((5, 0), (2,), 0), ((30, 16), (0,), 0)):
        for dtype in (np.int64, np.int32):
            n = shape[axis]
            yield Sample((floats(rng, shape), ints(rng, picked, dtype, -n, n - 1)), {"axis": axis})
    yield Sample((ints(rng, (5, 2)), ints(rng, (3,), np.int64, -5, 4)), {"axis": 0})


def _elements_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, picked, axis in (((5,), (3,), 0), ((4, 7), (2, 7), 0), ((4, 7), (4, 3), 1), ((2, 3, 5), (1, 2, 6), 2)):
        n = shape[axis]
        yield Sample((floats(rng, shape), ints(rng, picked, np.int64, -n, n - 1)), {"axis": axis})


GATHER = OpDef("Gather", _infer_gather, _gather, _gather_samples, (OnnxImport("Gather", 1, convert=_import),),
               flops=_free)
GATHER_ELEMENTS = OpDef("GatherElements", _infer_elements, _gather_elements, _elements_samples,
                        (OnnxImport("GatherElements", 11, convert=_import),), flops=_free)

OPS: tuple[OpDef, ...] = (GATHER, GATHER_ELEMENTS)
