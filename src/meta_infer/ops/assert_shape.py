"""AssertShape: a view whose sizes are those of another shape, which only running can confirm.

    %p: float32[n, 4] = ...                                     n is told by data
    %y: float32[5, 4] = AssertShape(%p) {shape = (5, 4)}        an error of the run unless n is 5
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ops.attrs import Attrs, dims_of, ints_of
from meta_infer.ops.broadcast import check_may_equal, text
from meta_infer.ops.opdef import InferContext, OpDef, Sample, ShapeError, TensorType


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, shape = ctx.input(0), dims_of(ctx.node.attrs, "shape")
    if len(x.shape) != len(shape):
        raise ShapeError(f"{text(x.shape)} has not the rank of {text(shape)}")
    for own, wanted in zip(x.shape, shape, strict=True):
        check_may_equal(own, wanted)
    return (TensorType(x.dtype, shape, ctx.content(0)),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    """Raises ValueError when the sizes differ."""
    x, shape = arrays[0], ints_of(attrs, "shape")
    assert x is not None
    if x.shape != shape:
        raise ValueError(f"operands of sizes {list(x.shape)} and {list(shape)} do not fit each other")
    return (x,)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    """None: sizes that data tells are symbols, which a sample of arrays does not have."""
    return ()


ASSERT_SHAPE = OpDef("AssertShape", _infer, _reference, _samples, flops=lambda attrs, inputs, outputs: 0, is_view=True)

OPS: tuple[OpDef, ...] = (ASSERT_SHAPE,)
