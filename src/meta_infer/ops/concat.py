"""Concat along one axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim
from meta_infer.ops.attrs import Attrs, int_of
from meta_infer.ops.broadcast import CONTENT_LIMIT, same_dim, text
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
    types = [ctx.input(i) for i in range(len(ctx.inputs))]
    axis, first = int_of(ctx.node.attrs, "axis"), types[0]
    if any(len(t.shape) != len(first.shape) or t.dtype != first.dtype for t in types):
        raise ShapeError(f"inputs differ in rank or dtype: {', '.join(f'{t.dtype}{text(t.shape)}' for t in types)}")
    if not 0 <= axis < len(first.shape):
        raise ShapeError(f"axis {axis} is outside {text(first.shape)}")
    shape = [*first.shape]
    for t in types[1:]:
        for i, dim in enumerate(t.shape):
            if i == axis:
                shape[i] = shape[i] + dim
                continue
            try:
                shape[i] = same_dim(shape[i], dim)
            except ShapeError as error:
                shapes = " and ".join(text(t.shape) for t in types)
                raise ShapeError(f"shapes {shapes}, dimension {i}: {error}") from None
    return (TensorType(first.dtype, tuple(shape), _content(ctx, len(types)) if len(shape) == 1 else None),)


def _content(ctx: InferContext, count: int) -> tuple[Dim, ...] | None:
    joined: list[Dim] = []
    for i in range(count):
        part = ctx.content(i)
        if part is None:
            return None
        joined.extend(part)
    return tuple(joined) if len(joined) <= CONTENT_LIMIT else None


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    return (np.concatenate([a for a in arrays if a is not None], int_of(attrs, "axis")),)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    axis = axis_in(node, attr_int(node, "axis", 1), len(shape_of(node, ctx)))
    return (core_node(node, "Concat", node.inputs, node.outputs, axis=axis),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shapes, axis in ((((3,), (1,)), 0), (((2, 3), (2, 5)), 1), (((2, 3), (4, 3)), 0), (((2, 3),), 1),
                         (((1, 8, 3, 5), (1, 5, 3, 5), (1, 1, 3, 5)), 1), (((2, 3, 4), (2, 3, 1)), 2),
                         (((0, 3), (2, 3)), 0), (((2, 0), (2, 3)), 1)):
        yield Sample(tuple(floats(rng, s) for s in shapes), {"axis": axis})
    yield Sample((ints(rng, (2, 3)), ints(rng, (2, 1))), {"axis": 1})


CONCAT = OpDef("Concat", _infer, _reference, _samples, (OnnxImport("Concat", 4, convert=_import),),
               flops=lambda attrs, inputs, outputs: 0)

OPS: tuple[OpDef, ...] = (CONCAT,)
