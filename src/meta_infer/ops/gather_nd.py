"""GatherND: slices picked by tuples of indices, after dimensions that data and indices share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ops.attrs import Attrs, int_of
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.elementwise import floats, ints
from meta_infer.ops.importing import attr_int, core_node
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
    data, indices, batch = ctx.input(0), ctx.input(1), int_of(ctx.node.attrs, "batch_dims")
    depth = indices.shape[-1] if indices.shape else None
    if not isinstance(depth, int) or not 0 <= batch < len(indices.shape) or batch + depth > len(data.shape):
        raise ShapeError(f"indices {text(indices.shape)} after {batch} batch dimensions do not name places of "
                         f"{text(data.shape)}")
    shared = tuple(same_dim(a, b) for a, b in zip(data.shape[:batch], indices.shape[:batch], strict=True))
    return (TensorType(data.dtype, (*shared, *indices.shape[batch:-1], *data.shape[batch + depth:])),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    data, indices = arrays
    assert data is not None and indices is not None
    batch, depth = int_of(attrs, "batch_dims"), indices.shape[-1]
    lead, rest = indices.shape[:batch], data.shape[batch + depth:]
    count = int(np.prod(lead))
    x, tuples = data.reshape(count, *data.shape[batch:]), indices.reshape(count, -1, depth)
    y = np.empty((count, tuples.shape[1], *rest), data.dtype)
    for i in range(count):
        for j, place in enumerate(tuples[i]):
            y[i, j] = x[(i, *(int(p) for p in place))]
    return (y.reshape(*indices.shape[:-1], *rest),)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """`batch_dims` exists since version 12."""
    return (core_node(node, "GatherND", node.inputs, node.outputs, batch_dims=attr_int(node, "batch_dims")),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, lead, depth, batch in (((5,), (3,), 1, 0), ((4, 7), (2, 3), 1, 0), ((4, 7), (3,), 2, 0),
                                      ((2, 3, 5), (2, 4), 1, 1), ((2, 3, 5, 2), (2, 3, 2), 1, 2),
                                      ((2, 3, 5), (1, 2), 3, 0), ((3, 0), (2,), 1, 0)):
        sizes = np.array(shape[batch:batch + depth])
        indices = rng.integers(-sizes, sizes, (*lead, depth))
        yield Sample((floats(rng, shape), indices.astype(np.int64)), {"batch_dims": batch})
    yield Sample((ints(rng, (4, 2)), np.array([[3], [-4]])), {"batch_dims": 0})


GATHER_ND = OpDef("GatherND", _infer, _reference, _samples, (OnnxImport("GatherND", 11, convert=_import),),
                  flops=lambda attrs, inputs, outputs: 0)

OPS: tuple[OpDef, ...] = (GATHER_ND,)
