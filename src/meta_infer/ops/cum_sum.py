"""CumSum: running sum along one axis, optionally from the end and without the element itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, bool_of, int_of
from meta_infer.ops.broadcast import text
from meta_infer.ops.elementwise import floats, ints
from meta_infer.ops.importing import attr_int, axis_in, core_node, ints_input, shape_of
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
from meta_infer.ops.upper_slice import sliced, upper_shape


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, axis = ctx.input(0), int_of(ctx.node.attrs, "axis")
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"axis {axis} is outside {text(x.shape)}")
    return (TensorType(x.dtype, x.shape),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, axis = arrays[0], int_of(attrs, "axis")
    assert x is not None
    ordered = np.flip(x, axis) if bool_of(attrs, "reverse", False) else x
    total = np.cumsum(ordered, axis, dtype=x.dtype)
    if bool_of(attrs, "exclusive", False):
        zero = np.zeros_like(np.take(total, [0], axis)) if x.shape[axis] else total
        total = np.concatenate((zero, np.delete(total, -1, axis)), axis) if x.shape[axis] else total
    return (np.ascontiguousarray(np.flip(total, axis) if bool_of(attrs, "reverse", False) else total),)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return product(outputs[0].shape)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    axis = axis_in(node, ints_input(node, ctx, 1, "axis")[0], len(shape_of(node, ctx)))
    return (core_node(node, "CumSum", node.inputs[:1], node.outputs, axis=axis,
                      exclusive=bool(attr_int(node, "exclusive")), reverse=bool(attr_int(node, "reverse"))),)


def _decompose(node: Node, fresh: Callable[[str], str], constant: Callable[[np.ndarray, str], str],
               types: Mapping[str, TensorType]) -> tuple[Node, ...] | None:
    """y = CumSum(x)  ->  y = ReduceSum(Where(mask, x, 0)): one sum per position over what comes up to it

    x gets a new dimension of the positions before `axis`; the mask of a longer axis starts with that of a shorter
    one. Quadratic in the axis, hence refused when the widened tensor could be large.
    """
    x, axis, origins = types[node.inputs[0]], int_of(node.attrs, "axis"), node.origins
    n, behind = x.shape[axis], len(x.shape) - axis - 1
    sizes = upper_shape((n, n))
    if sizes is None or upper_shape((*x.shape, n)) is None:
        return None
    ones, skipped = np.ones(sizes, np.bool_), int(bool_of(node.attrs, "exclusive", False))
    kept = np.triu(ones, skipped) if bool_of(node.attrs, "reverse", False) else np.tril(ones, -skipped)
    mask, cut = sliced(kept.reshape(*sizes, *(1,) * behind), (n, n, *(1,) * behind), fresh, constant, "mask", origins)
    zero = constant(np.zeros((), x.dtype.numpy), "zero")
    row, wide = fresh(node.inputs[0]), fresh(node.outputs[0])
    return (*cut, Node("Reshape", (node.inputs[0],), (row,), {"shape": (*x.shape[:axis], 1, *x.shape[axis:])}, origins),
            Node("Where", (mask, row, zero), (wide,), origins=origins),
            Node("ReduceSum", (wide,), node.outputs, {"axes": (axis + 1,), "keepdims": False}, origins))


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, axis in (((5,), 0), ((3, 7), 1), ((3, 7), 0), ((2, 1, 5), 1), ((2, 0), 1)):
        for exclusive in (False, True):
            for reverse in (False, True):
                x = floats(rng, shape) if axis else ints(rng, shape)
                flags = {"exclusive": exclusive, "reverse": reverse}
                yield Sample((x,), {"axis": axis, **flags}, onnx_inputs=(x, np.array(axis, np.int64)),
                             onnx_attrs=flags)


CUM_SUM = OpDef("CumSum", _infer, _reference, _samples, (OnnxImport("CumSum", 11, convert=_import),), flops=_flops,
                decompose=_decompose)

OPS: tuple[OpDef, ...] = (CUM_SUM,)
