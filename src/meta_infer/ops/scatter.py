"""ScatterElements (and the older Scatter), ScatterND, TensorScatter: updates written into a copy of the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim, bounds
from meta_infer.ops.attrs import Attrs, int_of, text_of
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.elementwise import floats, ints
from meta_infer.ops.importing import attr_int, attr_text, axis_in, core_node, shape_of
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
from meta_infer.support.dtypes import INT32, INT64

REDUCTIONS = ("none", "add", "mul", "max", "min")
_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}

Arrays = Sequence[np.ndarray | None]


def _operands(ctx: InferContext) -> tuple[TensorType, TensorType, TensorType]:
    data, indices, updates = ctx.input(0), ctx.input(1), ctx.input(2)
    reduction = text_of(ctx.node.attrs, "reduction")
    if indices.dtype not in (INT32, INT64):
        raise ShapeError(f"indices must be int32 or int64, not {indices.dtype}")
    if data.dtype != updates.dtype:
        raise ShapeError(f"updates of {updates.dtype} do not fit data of {data.dtype}")
    if reduction not in REDUCTIONS:
        raise ShapeError(f"reduction {reduction!r} is not one of {', '.join(REDUCTIONS)}")
    return data, indices, updates


def _same_shape(what: str, found: tuple[Dim, ...], wanted: tuple[Dim, ...]) -> None:
    if len(found) != len(wanted):
        raise ShapeError(f"{what} {text(found)} should be {text(wanted)}")
    for a, b in zip(found, wanted, strict=True):
        same_dim(a, b)


def _infer_elements(ctx: InferContext) -> tuple[TensorType, ...]:
    data, indices, updates = _operands(ctx)
    axis = int_of(ctx.node.attrs, "axis")
    _same_shape("updates", updates.shape, indices.shape)
    if len(data.shape) != len(indices.shape) or not 0 <= axis < len(data.shape):
        raise ShapeError(f"indices {text(indices.shape)} along axis {axis} do not fit {text(data.shape)}")
    for i, (part, whole) in enumerate(zip(indices.shape, data.shape, strict=True)):
        if i != axis and bounds(part - whole)[0] > 0:
            raise ShapeError(f"indices {text(indices.shape)} are larger than {text(data.shape)} on axis {i}")
    return (TensorType(data.dtype, data.shape),)


def _scatter(y: np.ndarray, at: tuple[np.ndarray, ...], updates: np.ndarray, reduction: str) -> None:
    """Write into y one update after another; of equal places the last wins, or all are combined."""
    if reduction == "none":
        y[at] = updates
    else:
        _UFUNCS[reduction].at(y, at, updates)


def _elements(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    data, indices, updates = arrays
    assert data is not None and indices is not None and updates is not None
    grid = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    grid[int_of(attrs, "axis")] = indices
    y = data.copy()
    at = tuple(np.broadcast_arrays(*grid))
    _scatter(y, tuple(a.reshape(-1) for a in at), updates.reshape(-1), text_of(attrs, "reduction"))
    return (y,)


def _infer_nd(ctx: InferContext) -> tuple[TensorType, ...]:
    data, indices, updates = _operands(ctx)
    if not indices.shape:
        raise ShapeError("indices must have at least one dimension")
    depth = indices.shape[-1]
    if not isinstance(depth, int) or depth > len(data.shape):
        raise ShapeError(f"indices {text(indices.shape)} do not name places of {text(data.shape)}")
    _same_shape("updates", updates.shape, (*indices.shape[:-1], *data.shape[depth:]))
    return (TensorType(data.dtype, data.shape),)


def _nd(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    data, indices, updates = arrays
    assert data is not None and indices is not None and updates is not None
    y, depth = data.copy(), indices.shape[-1]
    tuples = indices.reshape(-1, depth)
    rows = updates.reshape(len(tuples), *data.shape[depth:])
    for place, row in zip(tuples, rows, strict=True):
        at = tuple(int(i) for i in place)
        reduction = text_of(attrs, "reduction")
        y[at] = row if reduction == "none" else _UFUNCS[reduction](y[at], row)
    return (y,)


def _infer_tensor(ctx: InferContext) -> tuple[TensorType, ...]:
    past, update, first, axis = ctx.input(0), ctx.input(1), ctx.optional(2), int_of(ctx.node.attrs, "axis")
    if past.dtype != update.dtype:
        raise ShapeError(f"update of {update.dtype} does not fit a cache of {past.dtype}")
    if not 0 < axis < len(past.shape) or len(update.shape) != len(past.shape):
        raise ShapeError(f"update {text(update.shape)} along axis {axis} does not fit {text(past.shape)}")
    _same_shape("update", (*update.shape[:axis], *update.shape[axis + 1:]),
                (*past.shape[:axis], *past.shape[axis + 1:]))
    if first is not None:
        _same_shape("write_indices", first.shape, past.shape[:1])
    return (TensorType(past.dtype, past.shape),)


def _tensor(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    past, update, first = arrays[0], arrays[1], arrays[2] if len(arrays) > 2 else None
    assert past is not None and update is not None
    axis, size = int_of(attrs, "axis"), past.shape[int_of(attrs, "axis")]
    y = past.copy()
    for batch in range(past.shape[0]):
        at = (0 if first is None else int(first[batch])) + np.arange(update.shape[axis])
        if text_of(attrs, "mode") == "circular":
            at = at % size
        np.moveaxis(y[batch], axis - 1, 0)[at] = np.moveaxis(update[batch], axis - 1, 0)
    return (y,)


# --- import ---------------------------------------------------------------------------------------------------

def _import_elements(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """`reduction` exists since version 16, max and min since 18. Scatter (9, 11) is the same without it."""
    axis = axis_in(node, attr_int(node, "axis"), len(shape_of(node, ctx)))
    return (core_node(node, "ScatterElements", node.inputs, node.outputs, axis=axis,
                      reduction=attr_text(node, "reduction", "none")),)


def _import_nd(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return (core_node(node, "ScatterND", node.inputs, node.outputs, reduction=attr_text(node, "reduction", "none")),)


def _import_tensor(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    axis = axis_in(node, attr_int(node, "axis", -2), len(shape_of(node, ctx)))
    return (core_node(node, "TensorScatter", node.inputs, node.outputs, axis=axis,
                      mode=attr_text(node, "mode", "linear")),)


# --- samples --------------------------------------------------------------------------------------------------

def _distinct(rng: np.random.Generator, shape: tuple[int, ...], axis: int, size: int) -> np.ndarray:
    """Indices of which no two along `axis` are equal, some counted from the end."""
    lines = np.moveaxis(np.zeros(shape, np.int64), axis, -1)
    for at in np.ndindex(lines.shape[:-1]):
        lines[at] = rng.permutation(size)[:lines.shape[-1]]
    found = np.moveaxis(lines, -1, axis)
    return np.where(rng.random(shape) < 0.4, found - size, found)


def _elements_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, picked, axis in (((5,), (3,), 0), ((4, 7), (2, 7), 0), ((4, 7), (3, 5), 1), ((2, 3, 5), (2, 2, 4), 1),
                                ((3, 0), (2, 0), 0)):
        indices = _distinct(rng, picked, axis, shape[axis])
        yield Sample((floats(rng, shape), indices, floats(rng, picked)), {"axis": axis, "reduction": "none"})
        many = ints(rng, picked, np.int32, -shape[axis], shape[axis] - 1)
        for reduction in REDUCTIONS[1:]:
            yield Sample((floats(rng, shape), many, floats(rng, picked)), {"axis": axis, "reduction": reduction})
    data, where = ints(rng, (3, 4)), ints(rng, (5, 4), np.int64, 0, 2)
    yield Sample((data, where, ints(rng, (5, 4))), {"axis": 0, "reduction": "add"})


def _nd_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, tuples, depth in (((8,), (4,), 1), ((4, 5), (3,), 1), ((4, 5), (2, 2), 2), ((2, 3, 4), (3,), 2),
                                 ((2, 0), (1,), 1)):
        flat = rng.permutation(int(np.prod(shape[:depth])))[:int(np.prod(tuples))]
        places = np.stack(np.unravel_index(flat, shape[:depth]), -1).reshape(*tuples, depth)
        indices = np.where(rng.random(places.shape) < 0.3, places - np.array(shape[:depth]), places)
        updates = floats(rng, (*tuples, *shape[depth:]))
        yield Sample((floats(rng, shape), indices.astype(np.int64), updates), {"reduction": "none"})
        for reduction in REDUCTIONS[1:]:
            again = np.zeros_like(indices) if reduction in ("add", "max") else indices
            yield Sample((floats(rng, shape), again.astype(np.int64), updates), {"reduction": reduction})


def _tensor_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for past, update, axis in (((2, 3, 5, 4), (2, 3, 2, 4), 2), ((2, 6), (2, 3), 1), ((3, 4, 2), (3, 4, 2), 1)):
        room = past[axis] - update[axis]
        for mode in ("linear", "circular"):
            first = ints(rng, past[:1], np.int64, 0, room if mode == "linear" else past[axis] - 1)
            yield Sample((floats(rng, past), floats(rng, update), first), {"axis": axis, "mode": mode}, onnx_op="-")
        yield Sample((floats(rng, past), floats(rng, update)), {"axis": axis, "mode": "linear"}, onnx_op="-")


def _free(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return 0


SCATTER_ELEMENTS = OpDef(
    "ScatterElements", _infer_elements, _elements, _elements_samples,
    (OnnxImport("ScatterElements", 11, convert=_import_elements), OnnxImport("Scatter", 9, convert=_import_elements)),
    flops=_free)
SCATTER_ND = OpDef("ScatterND", _infer_nd, _nd, _nd_samples, (OnnxImport("ScatterND", 11, convert=_import_nd),),
                   flops=_free)
TENSOR_SCATTER = OpDef("TensorScatter", _infer_tensor, _tensor, _tensor_samples,
                       (OnnxImport("TensorScatter", 24, convert=_import_tensor),), flops=_free)

OPS: tuple[OpDef, ...] = (SCATTER_ELEMENTS, SCATTER_ND, TENSOR_SCATTER)
