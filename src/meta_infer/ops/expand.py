"""Expand to a larger shape by repetition. ONNX Expand, ConstantOfShape and Tile import to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import Dim
from meta_infer.ops.attrs import Attrs, dims_of, ints_of
from meta_infer.ops.bind_dims import sizes_input
from meta_infer.ops.broadcast import broadcast_content, broadcast_shapes, text
from meta_infer.ops.elementwise import bools, floats, ints
from meta_infer.ops.importing import core_node, dims_input, shape_of, unsupported
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
    x, shape = ctx.input(0), dims_of(ctx.node.attrs, "shape")
    if len(x.shape) > len(shape):
        raise ShapeError(f"{text(x.shape)} does not expand to the lower rank of {text(shape)}")
    broadcast_shapes(x.shape, shape)
    return (TensorType(x.dtype, shape, broadcast_content([ctx.content(0)], shape, lambda element: element)),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    assert arrays[0] is not None
    return (np.broadcast_to(arrays[0], ints_of(attrs, "shape")).copy(),)


def _import_expand(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """The shape operand broadcasts with the input's shape: its 1s keep the input's size."""
    shape = broadcast_shapes(shape_of(node, ctx), dims_input(node, ctx, 1, "shape"))
    return (core_node(node, "Expand", node.inputs[:1], node.outputs, shape=shape),)


def _import_constant_of_shape(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """An absent value is float32 zero."""
    fill = node.tensors.get("value", np.zeros(1, np.float32)).reshape(())
    shape = sizes_input(node, ctx, 0, "shape")
    return (core_node(node, "Expand", (ctx.constant(fill, "fill"),), node.outputs, shape=shape),)


def _import_tile(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """[a, b] tiled (r, s)  ->  Reshape to [1, a, 1, b], Expand to [r, a, s, b], Reshape to [r*a, s*b]"""
    shape, repeats = shape_of(node, ctx), dims_input(node, ctx, 1, "repeats")
    if len(repeats) != len(shape):
        raise unsupported(node, f"{len(repeats)} repeats for the {len(shape)} dimensions of {text(shape)}",
                          "the model breaks the ONNX specification here")
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
