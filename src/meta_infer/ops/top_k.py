"""TopK: the k largest or smallest elements along an axis, best first, and their indices.

Of equal elements the one with the lower index comes first. NaN counts as the largest number. ONNX leaves the order
open with sorted=0; it is the same here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim, bounds, product, upper
from meta_infer.ops.attrs import Attrs, bool_of, dims_of, int_of, ints_of
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
from meta_infer.support.dtypes import BOOL, INT64


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, axis = ctx.input(0), int_of(ctx.node.attrs, "axis")
    (k,) = dims_of(ctx.node.attrs, "k")
    if not 0 <= axis < len(x.shape) or x.dtype == BOOL:
        raise ShapeError(f"axis {axis} of {x.dtype}{text(x.shape)} cannot be sorted")
    if bounds(k - x.shape[axis])[0] > 0:
        raise ShapeError(f"k {k} is more than axis {axis} of {text(x.shape)} has")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1:])
    return TensorType(x.dtype, shape), TensorType(INT64, shape)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, axis, (k,) = arrays[0], int_of(attrs, "axis"), ints_of(attrs, "k")
    assert x is not None
    if bool_of(attrs, "largest"):
        # Sorting the flipped line and flipping back keeps lower indices first among equals.
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    picked = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, picked, axis), picked.astype(np.int64)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    assert inputs[0] is not None
    return product(inputs[0].shape)


def _axis(node: OnnxNode, ctx: ImportContext) -> int:
    return axis_in(node, attr_int(node, "axis", -1), len(shape_of(node, ctx)))


def _top_k(node: OnnxNode, ctx: ImportContext, k: tuple[Dim, ...]) -> Iterable[Node]:
    return (core_node(node, "TopK", node.inputs[:1], node.outputs, axis=_axis(node, ctx), k=k[:1],
                      largest=bool(attr_int(node, "largest", 1))),)


def _import_attr(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return _top_k(node, ctx, (attr_int(node, "k"),))


def _import_input(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """K is an input since version 10; `largest` and `sorted` exist since 11."""
    size = shape_of(node, ctx)[_axis(node, ctx)]
    return _top_k(node, ctx, sizes_input(node, ctx, 1, "K", hi=upper(size)))


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, axis, k in (((5,), 0, 3), ((3, 7), 1, 7), ((3, 7), 0, 2), ((2, 3, 5), 1, 1), ((4, 70), 1, 50),
                           ((2, 9), 1, 0), ((65, 2), 0, 65)):
        for largest in (True, False):
            for x in (np.rint(floats(rng, shape)), floats(rng, shape), ints(rng, shape)):
                yield Sample((x,), {"axis": axis, "k": (k,), "largest": largest},
                             onnx_inputs=(x, np.array([k], np.int64)), onnx_attrs={"axis": axis, "largest": largest})


TOP_K = OpDef("TopK", _infer, _reference, _samples,
              (OnnxImport("TopK", 1, 9, _import_attr), OnnxImport("TopK", 10, convert=_import_input)), flops=_flops)

OPS: tuple[OpDef, ...] = (TOP_K,)
