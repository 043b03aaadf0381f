"""Softmax and LogSoftmax over one axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, int_of
from meta_infer.ops.elementwise import floats
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

Arrays = Sequence[np.ndarray | None]


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, axis = ctx.input(0), int_of(ctx.node.attrs, "axis")
    if not x.dtype.is_float:
        raise ShapeError(f"takes floats, not {x.dtype}")
    if not 0 <= axis < max(len(x.shape), 1):
        raise ShapeError(f"axis {axis} is outside the {len(x.shape)} dimensions")
    return (TensorType(x.dtype, x.shape),)


def _shifted(attrs: Attrs, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x minus the maximum of its axis, so that exp cannot overflow, and the sum of its exponentials."""
    axis = int_of(attrs, "axis") if x.ndim else None
    with np.errstate(invalid="ignore"):
        below = x - np.max(x, axis, keepdims=True, initial=-np.inf)
    return below, np.sum(np.exp(below), axis, keepdims=True)


def _softmax(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    assert arrays[0] is not None
    below, total = _shifted(attrs, arrays[0])
    return (np.asarray(np.exp(below) / total),)


def _log_softmax(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    assert arrays[0] is not None
    below, total = _shifted(attrs, arrays[0])
    return (np.asarray(below - np.log(total)),)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return 14 * product(outputs[0].shape)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    axis = axis_in(node, attr_int(node, "axis", -1), len(shape_of(node, ctx)))
    return (core_node(node, node.op, node.inputs, node.outputs, axis=axis),)


def _import_flattened(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Before opset 13 the tensor is seen as a matrix [product of dims before axis, product from axis on]:

        y = Softmax(x, axis)  ->  y = Reshape(Softmax(Reshape(x, [rows, columns]), axis=1), shape of x)

    unless all dims behind `axis` are 1, when one axis alone says the same.
    """
    shape = shape_of(node, ctx)
    axis = axis_in(node, attr_int(node, "axis", 1), len(shape))
    if all(d == 1 for d in shape[axis + 1:]):
        return (core_node(node, node.op, node.inputs, node.outputs, axis=axis),)
    flat, soft = ctx.fresh(node.inputs[0]), ctx.fresh(node.outputs[0])
    matrix: Attr = (product(shape[:axis]), product(shape[axis:]))
    return (core_node(node, "Reshape", node.inputs, (flat,), shape=matrix),
            core_node(node, node.op, (flat,), (soft,), axis=1),
            core_node(node, "Reshape", (soft,), node.outputs, shape=shape))


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, axis in (((5,), 0), ((3, 7), 1), ((3, 7), 0), ((2, 3, 5), 1), ((2, 3, 4, 5), 3), ((1, 1), 1),
                        ((2, 1, 3), 1), ((0, 4), 1), ((2, 129), 1)):
        yield Sample((floats(rng, shape, -20, 20),), {"axis": axis})
    yield Sample((np.array([[1e4, 1e4 - 1, -1e30], [-np.inf, 0, 3]], np.float32),), {"axis": 1})
    for shape, axis in (((3, 7), 1), ((5, 4, 1), 1)):
        yield Sample((floats(rng, shape),), {"axis": axis}, opset=11)


SOFTMAX = OpDef("Softmax", _infer, _softmax, _samples,
                (OnnxImport("Softmax", 1, 12, _import_flattened), OnnxImport("Softmax", 13, convert=_import)),
                flops=_flops)
LOG_SOFTMAX = OpDef("LogSoftmax", _infer, _log_softmax, _samples,
                    (OnnxImport("LogSoftmax", 1, 12, _import_flattened), OnnxImport("LogSoftmax", 13, convert=_import)),
                    flops=_flops)

OPS: tuple[OpDef, ...] = (SOFTMAX, LOG_SOFTMAX)
