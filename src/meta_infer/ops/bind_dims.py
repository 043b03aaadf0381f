"""BindDims: elements of an integer tensor that become sizes while the model runs.

    %t: int64[2] = ...                                          computed from data
    %s: int64[2] = BindDims(%t) {sizes = ([a], [b])}            from here on a and b have values
    %y: float32[a, b] = Reshape(%x) {shape = ([a], [b])}

It gives its operand unchanged, with the symbols as its content, so whatever takes shapes that are computed from other
shapes takes these as well. A value outside the range of its symbol is an error of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import UNBOUNDED, Dim
from meta_infer.ops.attrs import Attrs, dims_of
from meta_infer.ops.importing import origin_of
from meta_infer.ops.opdef import ImportContext, InferContext, OnnxNode, OpDef, Sample, ShapeError, TensorType
from meta_infer.ops.size_math import SizeMath
from meta_infer.support.dtypes import INT64


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, sizes = ctx.input(0), dims_of(ctx.node.attrs, "sizes")
    if x.dtype != INT64 or x.shape != (len(sizes),) and not (x.shape == () and len(sizes) == 1):
        raise ShapeError(f"sizes come from {len(sizes)} elements of int64, not from {x.dtype}{list(x.shape)}")
    return (TensorType(x.dtype, x.shape, sizes),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    assert arrays[0] is not None
    return (arrays[0],)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    """None: sizes are symbols, which a sample of arrays does not have."""
    return ()


def bind_dims(node: OnnxNode, ctx: ImportContext, name: str, ranges: Sequence[tuple[int, int]],
              hint: str) -> tuple[Dim, ...]:
    """Elements of the int64 vector (or scalar) `name` as sizes, element i in `ranges[i]`, both ends included.

    What is known already stays as it is, and what is equal has the same symbols; a BindDims node is added for the rest.
    """
    known, content = ctx.known(name), ctx.type_of(name).content
    if known is not None:
        return tuple(int(x) for x in np.asarray(known).reshape(-1))
    if content is not None:
        return content
    before = ctx.bound_before(name, tuple(ranges))
    if before is not None:
        return before
    bound = ctx.fresh(f"{name}/sizes")
    sizes = tuple(ctx.fresh_symbol(f"{hint}_{i}" if len(ranges) > 1 else hint, lo, hi, bound)
                  for i, (lo, hi) in enumerate(ranges))
    ctx.emit(Node("BindDims", (name,), (bound,), {"sizes": sizes}, (origin_of(node),)))
    return sizes


def sizes_input(node: OnnxNode, ctx: ImportContext, i: int, what: str, lo: int = 0,
                hi: int = UNBOUNDED) -> tuple[Dim, ...]:
    """The elements of a small integer input as sizes of [lo, hi]: known ones, or found while running.

    Raises UnsupportedError when not even their number is known.
    """
    math = SizeMath(node, ctx)
    vector = math.vector(node.inputs[i], what)
    return bind_dims(node, ctx, vector, [(lo, hi)] * math.length(vector), f"{node.op.lower()}_{what}")


BIND_DIMS = OpDef("BindDims", _infer, _reference, _samples, flops=lambda attrs, inputs, outputs: 0, is_view=True)

OPS: tuple[OpDef, ...] = (BIND_DIMS,)
