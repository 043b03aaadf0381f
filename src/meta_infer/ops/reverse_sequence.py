"""ReverseSequence: the first `sequence_lens[i]` steps of every sequence in reverse order."""

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
    x, lengths = ctx.input(0), ctx.input(1)
    axes = int_of(ctx.node.attrs, "time_axis"), int_of(ctx.node.attrs, "batch_axis")
    if sorted(axes) != [0, 1] or len(x.shape) < 2:
        raise ShapeError(f"time and batch axes {axes} of {text(x.shape)} must be 0 and 1")
    if len(lengths.shape) != 1:
        raise ShapeError(f"sequence_lens {text(lengths.shape)} must have one dimension")
    same_dim(lengths.shape[0], x.shape[axes[1]])
    return (TensorType(x.dtype, x.shape),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, lengths = arrays
    assert x is not None and lengths is not None
    y = x.copy()
    for i, n in enumerate(lengths):
        at = (slice(int(n)), i) if int_of(attrs, "time_axis") == 0 else (i, slice(int(n)))
        y[at] = x[at][::-1]
    return (y,)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return (core_node(node, "ReverseSequence", node.inputs, node.outputs, time_axis=attr_int(node, "time_axis"),
                      batch_axis=attr_int(node, "batch_axis", 1)),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape in ((4, 3), (5, 2, 3), (1, 1, 2), (3, 4, 2, 2)):
        for time in (0, 1):
            lengths = ints(rng, (shape[1 - time],), np.int64, 1, shape[time])
            yield Sample((floats(rng, shape), lengths), {"time_axis": time, "batch_axis": 1 - time})


REVERSE_SEQUENCE = OpDef("ReverseSequence", _infer, _reference, _samples,
                         (OnnxImport("ReverseSequence", 10, convert=_import),),
                         flops=lambda attrs, inputs, outputs: 0)

OPS: tuple[OpDef, ...] = (REVERSE_SEQUENCE,)
