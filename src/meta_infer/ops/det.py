"""Det: determinants of square matrices, the last two dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.elementwise import floats
from meta_infer.ops.opdef import InferContext, OnnxImport, OpDef, Sample, ShapeError, TensorType


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x = ctx.input(0)
    if len(x.shape) < 2 or not x.dtype.is_float:
        raise ShapeError(f"takes matrices of floats, not {x.dtype}{text(x.shape)}")
    same_dim(x.shape[-1], x.shape[-2])
    return (TensorType(x.dtype, x.shape[:-2]),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x = arrays[0]
    assert x is not None
    return (np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype),)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    assert inputs[0] is not None
    return product(inputs[0].shape) * inputs[0].shape[-1]


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape in ((1, 1), (3, 3), (2, 5, 5), (2, 3, 2, 2), (1, 12, 12)):
        yield Sample((floats(rng, shape, -1, 1),), rtol=1e-4, atol=1e-4)
    yield Sample((np.array([[0, 1], [1, 0]], np.float32),))
    yield Sample((np.array([[1, 2], [2, 4]], np.float32),))
    yield Sample((np.zeros((0, 3, 3), np.float32),))


DET = OpDef("Det", _infer, _reference, _samples, (OnnxImport("Det", 11),), flops=_flops)

OPS: tuple[OpDef, ...] = (DET,)
