"""OneHot: a new dimension that is `on` at each index and `off` elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ops.attrs import Attrs, dims_of, int_of, ints_of
from meta_infer.ops.bind_dims import sizes_input
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


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    indices, values, axis = ctx.input(0), ctx.input(1), int_of(ctx.node.attrs, "axis")
    (depth,) = dims_of(ctx.node.attrs, "depth")
    if values.shape != (2,):
        raise ShapeError(f"values {text(values.shape)} should be [off, on]")
    if not 0 <= axis <= len(indices.shape):
        raise ShapeError(f"axis {axis} is outside the output of indices {text(indices.shape)}")
    return (TensorType(values.dtype, (*indices.shape[:axis], depth, *indices.shape[axis:])),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    indices, values = arrays
    assert indices is not None and values is not None
    axis, (depth,) = int_of(attrs, "axis"), ints_of(attrs, "depth")
    at = np.expand_dims(indices.astype(np.int64), axis)
    levels = np.arange(depth).reshape(-1, *(1,) * (indices.ndim - axis))
    return (np.where(np.where(at < 0, at + depth, at) == levels, values[1], values[0]).astype(values.dtype),)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Before version 11 indices did not count from the end; such a negative index was undefined."""
    axis = axis_in(node, attr_int(node, "axis", -1), len(shape_of(node, ctx)) + 1)
    depth = sizes_input(node, ctx, 1, "depth")
    return (core_node(node, "OneHot", (node.inputs[0], node.inputs[2]), node.outputs, axis=axis, depth=depth[:1]),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, axis, depth in (((4,), 1, 5), ((3, 2), 0, 4), ((3, 2), 1, 7), ((2, 1, 3), 3, 1)):
        for values in (floats(rng, (2,)), ints(rng, (2,))):
            indices = ints(rng, shape, np.int64, -depth - 1, depth)
            yield Sample((indices, values), {"axis": axis, "depth": (depth,)},
                         onnx_inputs=(indices, np.array([depth], np.int64), values), onnx_attrs={"axis": axis})


ONE_HOT = OpDef("OneHot", _infer, _reference, _samples, (OnnxImport("OneHot", 9, convert=_import),),
                flops=lambda attrs, inputs, outputs: 0)

OPS: tuple[OpDef, ...] = (ONE_HOT,)
