"""CumSum and CumProd: running sum or product along one axis, optionally from the end and without the element itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, bool_of, int_of
from meta_infer.ops.broadcast import text
from meta_infer.ops.elementwise import floats, ints
from meta_infer.ops.importing import attr_int, axis_in, shape_of
from meta_infer.ops.node_builder import NodeBuilder
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
from meta_infer.ops.run_time_axis import axis_view


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, axis = ctx.input(0), int_of(ctx.node.attrs, "axis")
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"axis {axis} is outside {text(x.shape)}")
    return (TensorType(x.dtype, x.shape),)


def _reference(running: Callable[..., np.ndarray], neutral: int,
               ) -> Callable[[Attrs, Sequence[np.ndarray | None]], tuple[np.ndarray, ...]]:
    def run(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
        x, axis = arrays[0], int_of(attrs, "axis")
        assert x is not None
        ordered = np.flip(x, axis) if bool_of(attrs, "reverse", False) else x
        total = running(ordered, axis, dtype=x.dtype)
        if bool_of(attrs, "exclusive", False) and x.shape[axis]:
            first = np.full_like(np.take(total, [0], axis), neutral)
            total = np.concatenate((first, np.delete(total, -1, axis)), axis)
        return (np.ascontiguousarray(np.flip(total, axis) if bool_of(attrs, "reverse", False) else total),)
    return run


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return product(outputs[0].shape)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    build, op = NodeBuilder.importing(node, ctx), node.op
    exclusive, reverse = bool(attr_int(node, "exclusive")), bool(attr_int(node, "reverse"))
    known = ctx.known(node.inputs[1])
    if known is not None:
        axis = axis_in(node, int(known.reshape(-1)[0]), len(shape_of(node, ctx)))
        build.emit(op, node.inputs[0], out=node.outputs[0], axis=axis, exclusive=exclusive, reverse=reverse)
        return build.nodes
    view = axis_view(node, ctx, 1)
    lines = build.reshape(node.inputs[0], view.shape)
    summed = build.emit(op, lines, axis=1, exclusive=exclusive, reverse=reverse)
    build.reshape(summed, shape_of(node, ctx), out=node.outputs[0])
    return build.nodes


def _samples(name: str) -> Callable[[np.random.Generator], Iterable[Sample]]:
    """ONNX Runtime has no kernel for CumProd."""
    def samples(rng: np.random.Generator) -> Iterable[Sample]:
        for shape, axis in (((5,), 0), ((3, 7), 1), ((3, 7), 0), ((2, 1, 5), 1), ((2, 0), 1), ((2, 3, 17), 1)):
            for exclusive in (False, True):
                for reverse in (False, True):
                    x = floats(rng, shape) if axis else ints(rng, shape)
                    flags = {"exclusive": exclusive, "reverse": reverse}
                    yield Sample((x,), {"axis": axis, **flags}, onnx_inputs=(x, np.array(axis, np.int64)),
                                 onnx_attrs=flags, onnx_op="" if name == "CumSum" else "-")
    return samples


def _define(name: str, since: int, running: Callable[..., np.ndarray], neutral: int) -> OpDef:
    return OpDef(name, _infer, _reference(running, neutral), _samples(name),
                 (OnnxImport(name, since, convert=_import),), flops=_flops)


CUM_SUM = _define("CumSum", 11, np.cumsum, 0)
CUM_PROD = _define("CumProd", 26, np.cumprod, 1)

OPS: tuple[OpDef, ...] = (CUM_SUM, CUM_PROD)
