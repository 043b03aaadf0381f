"""Shape and Size: the sizes of a tensor as an integer tensor, known at build as dims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, int_of
from meta_infer.ops.elementwise import floats
from meta_infer.ops.importing import attr_int, core_node, shape_of
from meta_infer.ops.opdef import ImportContext, InferContext, OnnxImport, OnnxNode, OpDef, Sample, TensorType
from meta_infer.support.dtypes import INT64


def _infer_shape(ctx: InferContext) -> tuple[TensorType, ...]:
    shape = ctx.input(0).shape
    picked = shape[int_of(ctx.node.attrs, "start", 0):int_of(ctx.node.attrs, "end", len(shape))]
    return (TensorType(INT64, (len(picked),), picked),)


def _shape(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x = arrays[0]
    assert x is not None
    return (np.array(x.shape[int_of(attrs, "start", 0):int_of(attrs, "end", x.ndim)], np.int64),)


def _infer_size(ctx: InferContext) -> tuple[TensorType, ...]:
    return (TensorType(INT64, (), (product(ctx.input(0).shape),)),)


def _size(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    assert arrays[0] is not None
    return (np.array(arrays[0].size, np.int64),)


def _free(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return 0


def _import_shape(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """`start` and `end` (opset 15) count from the back when negative and are clamped to the rank."""
    rank = len(shape_of(node, ctx))
    start, end = (min(max(v + rank if v < 0 else v, 0), rank)
                  for v in (attr_int(node, "start"), attr_int(node, "end", rank)))
    return (core_node(node, "Shape", node.inputs, node.outputs, start=start, end=max(start, end)),)


def _shape_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape in ((), (3,), (0, 2), (2, 3, 5, 1)):
        yield Sample((floats(rng, shape),), {"start": 0, "end": len(shape)}, onnx_attrs={})
    yield Sample((floats(rng, (2, 3, 5)),), {"start": 1, "end": 3}, onnx_attrs={"start": -2})
    yield Sample((floats(rng, (2, 3, 5)),), {"start": 0, "end": 2}, onnx_attrs={"start": -9, "end": -1})
    yield Sample((floats(rng, (2, 3, 5)),), {"start": 2, "end": 2}, onnx_attrs={"start": 2, "end": 1})


def _size_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape in ((), (3,), (0, 2), (2, 3, 5, 1)):
        yield Sample((floats(rng, shape),))


SHAPE = OpDef("Shape", _infer_shape, _shape, _shape_samples, (OnnxImport("Shape", 1, convert=_import_shape),),
              flops=_free)
SIZE = OpDef("Size", _infer_size, _size, _size_samples, (OnnxImport("Size", 1),), flops=_free)

OPS: tuple[OpDef, ...] = (SHAPE, SIZE)
