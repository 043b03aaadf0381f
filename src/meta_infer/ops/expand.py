"""Expand to a larger shape by repetition. ONNX Expand, ConstantOfShape and Tile import to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import UNBOUNDED, Dim, bounds
from meta_infer.ops.attrs import Attrs, dims_of, ints_of
from meta_infer.ops.bind_dims import bind_dims, sizes_input
from meta_infer.ops.broadcast import broadcast_content, broadcast_dim, broadcast_shapes, is_found, text
from meta_infer.ops.elementwise import bools, floats, ints
from meta_infer.ops.importing import core_node, dims_input, is_known, shape_of, unsupported
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
from meta_infer.ops.size_math import SizeMath
from meta_infer.support.dtypes import INT64


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, shape = ctx.input(0), dims_of(ctx.node.attrs, "shape")
    if len(x.shape) > len(shape):
        raise ShapeError(f"{text(x.shape)} does not expand to the lower rank of {text(shape)}")
    for own, wanted in zip(reversed(x.shape), reversed(shape), strict=False):
        if own != wanted and broadcast_dim(own, wanted) != wanted and not is_found(own, wanted):
            raise ShapeError(f"{text(x.shape)} does not expand to {text(shape)}")
    return (TensorType(x.dtype, shape, broadcast_content([ctx.content(0)], shape, lambda element: element)),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    assert arrays[0] is not None
    return (np.broadcast_to(arrays[0], ints_of(attrs, "shape")).copy(),)


def _import_expand(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """The shape operand broadcasts with the input's shape: its 1s keep the input's size."""
    if not is_known(ctx, node.inputs[1]):
        return _expand_to_data(node, ctx)
    shape = broadcast_shapes(shape_of(node, ctx), dims_input(node, ctx, 1, "shape"))
    return (core_node(node, "Expand", node.inputs[:1], node.outputs, shape=shape),)


def _expand_to_data(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """A shape that data tells: an axis of the input that may be 1 is repeated by gathering it."""
    math, old = SizeMath(node, ctx), shape_of(node, ctx)
    asked = math.vector(node.inputs[1], "shape")
    rank = max(math.length(asked), len(old))
    own = (1,) * (rank - len(old)) + old
    padded = math.pad_front(asked, rank, 1)
    ranges = [(0, UNBOUNDED) if dim == 1 or bounds(dim)[0] < 2 else (1, bounds(dim)[1]) for dim in own]
    # An axis of several elements keeps its size: another is out of range, or found not to fit where Expand runs.
    x, shape = node.inputs[0], bind_dims(node, ctx, math.where(math.equal(padded, 1), math.dims(own), padded), ranges,
                                         "expand")
    for axis, dim in enumerate(own):
        if dim == 1 or bounds(dim)[0] > 1:
            continue
        steps, index, wide = ctx.fresh("steps"), ctx.fresh("index"), ctx.fresh(x)
        ctx.emit(core_node(node, "Iota", (), (steps,), size=(shape[axis],)))
        several = math.cast(math.less(1, math.dims((dim,))), INT64)       # 0: the one element again and again
        ctx.emit(core_node(node, "Mul", (steps, several), (index,)))
        ctx.emit(core_node(node, "Gather", (x, index), (wide,), axis=axis - (rank - len(old))))
        x = wide
    return (core_node(node, "Expand", (x,), node.outputs, shape=shape),)


def _import_constant_of_shape(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """An absent value is float32 zero."""
    fill = node.tensors.get("value", np.zeros(1, np.float32)).reshape(())
    shape = sizes_input(node, ctx, 0, "shape")
    return (core_node(node, "Expand", (ctx.constant(fill, "fill"),), node.outputs, shape=shape),)


def _import_tile(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """[a, b] tiled (r, s)  ->  Reshape to [1, a, 1, b], Expand to [r, a, s, b], Reshape to [r*a, s*b]"""
    shape, repeats = shape_of(node, ctx), sizes_input(node, ctx, 1, "repeats")
    if len(repeats) != len(shape):
        raise unsupported(node, f"{len(repeats)} repeats for the {len(shape)} dimensions of {text(shape)}",
                          "correct the node: it breaks the specification")
    if all(r == 1 for r in repeats):
        return (core_node(node, "Identity", node.inputs[:1], node.outputs),)
    apart, repeated, final = _interleaved((1,) * len(shape), shape), _interleaved(repeats, shape), []
    for r, d in zip(repeats, shape, strict=True):
        final.append(r * d)
    split, wide = ctx.fresh(node.inputs[0]), ctx.fresh(node.outputs[0])
    return (core_node(node, "Reshape", node.inputs[:1], (split,), shape=apart),
            core_node(node, "Expand", (split,), (wide,), shape=repeated),
            core_node(node, "Reshape", (wide,), node.outputs, shape=tuple(final)))


def _interleaved(a: Sequence[Dim], b: Sequence[Dim]) -> Shape:
    return tuple(dim for pair in zip(a, b, strict=True) for dim in pair)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    def sample(x: np.ndarray, shape: tuple[int, ...], given: tuple[int, ...]) -> Sample:
        return Sample((x,), {"shape": shape}, onnx_inputs=(x, np.array(given, np.int64)), onnx_attrs={})

    yield sample(floats(rng, ()), (2, 3), (2, 3))
    yield sample(floats(rng, (3, 1)), (2, 3, 4), (2, 1, 4))
    yield sample(floats(rng, (1, 5)), (7, 5), (7, 1))
    yield sample(floats(rng, (2, 3)), (2, 3), (1,))
    yield sample(floats(rng, (1, 3)), (0, 3), (0, 1))
    yield sample(ints(rng, (1,)), (5,), (5,))
    yield sample(bools(rng, (3, 1)), (3, 4), (3, 4))


EXPAND = OpDef(
    "Expand", _infer, _reference, _samples,
    (OnnxImport("Expand", 8, convert=_import_expand),
     OnnxImport("ConstantOfShape", 9, convert=_import_constant_of_shape), OnnxImport("Tile", 6, convert=_import_tile)),
    flops=lambda attrs, inputs, outputs: 0)

OPS: tuple[OpDef, ...] = (EXPAND,)
