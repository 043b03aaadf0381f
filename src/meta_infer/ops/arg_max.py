"""ArgMax and ArgMin: position of the extreme element along an axis, as int64."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, bool_of, int_of
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
from meta_infer.ops.reduction import reduced_shape
from meta_infer.support.dtypes import INT64


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, axis = ctx.input(0), int_of(ctx.node.attrs, "axis")
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"axis {axis} is outside {text(x.shape)}")
    return (TensorType(INT64, reduced_shape(x.shape, (axis,), bool_of(ctx.node.attrs, "keepdims"))),)


def _reference(pick: Callable[..., np.ndarray]) -> Callable[[Attrs, Sequence[np.ndarray | None]], tuple[np.ndarray]]:
    """Of equal elements the first counts, or the last with select_last_index."""
    def run(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray]:
        x, axis = arrays[0], int_of(attrs, "axis")
        assert x is not None
        if bool_of(attrs, "select_last_index", False):
            found = x.shape[axis] - 1 - pick(np.flip(x, axis), axis=axis, keepdims=True)
        else:
            found = pick(x, axis=axis, keepdims=True)
        return (np.asarray(found if bool_of(attrs, "keepdims") else np.squeeze(found, axis), np.int64),)
    return run


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    assert inputs[0] is not None
    return product(inputs[0].shape)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """`select_last_index` exists since opset 12."""
    axis = axis_in(node, attr_int(node, "axis"), len(shape_of(node, ctx)))
    return (core_node(node, node.op, node.inputs, node.outputs, axis=axis,
                      keepdims=bool(attr_int(node, "keepdims", 1)),
                      select_last_index=bool(attr_int(node, "select_last_index"))),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, axis in (((5,), 0), ((3, 7), 1), ((3, 7), 0), ((2, 3, 5), 1), ((4, 1), 1)):
        for keep in (True, False):
            for last in (False, True):
                yield Sample((np.rint(floats(rng, shape, -2, 2)),),
                             {"axis": axis, "keepdims": keep, "select_last_index": last})
    yield Sample((ints(rng, (3, 5), np.int32),), {"axis": 1, "keepdims": True, "select_last_index": False})


ARG_MAX = OpDef("ArgMax", _infer, _reference(np.argmax), _samples, (OnnxImport("ArgMax", 1, convert=_import),),
                flops=_flops)
ARG_MIN = OpDef("ArgMin", _infer, _reference(np.argmin), _samples, (OnnxImport("ArgMin", 1, convert=_import),),
                flops=_flops)

OPS: tuple[OpDef, ...] = (ARG_MAX, ARG_MIN)
