"""Iota: 0, 1, 2, ... as int64, as many as `size` says. Made by importers whose sizes only a run can tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ops.attrs import Attrs, dims_of, ints_of
from meta_infer.ops.opdef import InferContext, OpDef, Sample, TensorType
from meta_infer.support.dtypes import INT64


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    return (TensorType(INT64, dims_of(ctx.node.attrs, "size")),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    return (np.arange(*ints_of(attrs, "size"), dtype=np.int64),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for size in (0, 1, 7, 1000):
        yield Sample((), {"size": (size,)}, onnx_op="-")


IOTA = OpDef("Iota", _infer, _reference, _samples, flops=lambda attrs, inputs, outputs: 0)

OPS: tuple[OpDef, ...] = (IOTA,)
