"""NonZero: coordinates of the elements that are not zero. Their number is known only while running.

    %p: int64[2, n] = NonZero(%x)                                     n in [0, elements of %x]

Compress imports to it: elements are gathered from where the condition holds. So tensors that are compressed by one
condition have one size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import UNBOUNDED, Dim, bounds, dim_min, product
from meta_infer.ops.attrs import Attrs
from meta_infer.ops.broadcast import text
from meta_infer.ops.elementwise import bools, floats, ints
from meta_infer.ops.importing import attr_int, axis_in, core_node, origin_of, shape_of, unsupported
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
from meta_infer.support.dtypes import INT64


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x = ctx.input(0)
    if 0 in ctx.constants:
        size: Dim = int(np.count_nonzero(ctx.constants[0]))
    elif ctx.fresh_symbol is None:
        raise ShapeError("how many elements are not zero depends on data")
    else:
        size = ctx.fresh_symbol("nonzero", 0, min(bounds(product(x.shape))[1], UNBOUNDED))
    return (TensorType(INT64, (len(x.shape), size)),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x = arrays[0]
    assert x is not None
    if not x.ndim:                                       # ONNX: a scalar has no coordinates, but is counted
        return (np.zeros((0, int(bool(x))), np.int64),)
    return (np.stack(np.nonzero(x)).astype(np.int64),)


def _import_compress(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """The condition may be shorter than the axis; what it leaves out is not taken."""
    (data, condition), shape, origin = node.inputs, shape_of(node, ctx), origin_of(node)
    if len(ctx.type_of(condition).shape) != 1:
        raise unsupported(node, f"the condition {text(ctx.type_of(condition).shape)} must be a vector",
                          "correct the node: it breaks the specification")
    axis = 0
    if "axis" in node.attrs:
        axis = axis_in(node, attr_int(node, "axis"), len(shape))
    else:
        shape, flat = (product(shape),), ctx.fresh(f"{data}/flat")
        ctx.emit(Node("Reshape", (data,), (flat,), {"shape": shape}, (origin,)))
        data = flat
    length = ctx.type_of(condition).shape[0]
    if (used := dim_min(length, shape[axis])) != length:
        head = ctx.fresh(f"{condition}/head")
        ctx.emit(Node("Slice", (condition,), (head,), {"starts": (0,), "sizes": (used,), "steps": (1,)}, (origin,)))
        condition = head
    places, picks = ctx.fresh(f"{condition}/places"), ctx.fresh(f"{condition}/picks")
    ctx.emit(Node("NonZero", (condition,), (places,), {}, (origin,)))
    ctx.emit(Node("Reshape", (places,), (picks,), {"shape": ctx.type_of(places).shape[1:]}, (origin,)))
    return (core_node(node, "Gather", (data, picks), node.outputs, axis=axis),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape in ((5,), (3, 4), (2, 3, 5), (1, 1, 7, 2), (0,), (3, 0), (1,), (2, 1, 2, 1, 3)):
        yield Sample((floats(rng, shape) * bools(rng, shape),))
        yield Sample((bools(rng, shape),))
        yield Sample((ints(rng, shape, np.int64, -1, 1),))
    yield Sample((np.zeros((4, 3), np.float32),))
    yield Sample((np.array([0.0, -0.0, np.nan, np.inf, 1e-45], np.float32),))


NON_ZERO = OpDef("NonZero", _infer, _reference, _samples,
                 (OnnxImport("NonZero", 9), OnnxImport("Compress", 9, convert=_import_compress)),
                 flops=lambda attrs, inputs, outputs: 0)

OPS: tuple[OpDef, ...] = (NON_ZERO,)
