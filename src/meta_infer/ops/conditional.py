"""If. Its branches are regions of the node, which may read any value of the graphs around them.

The executor and the lowering run the regions themselves, so the op has no reference of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import UNBOUNDED, Dim, bounds
from meta_infer.ops.attrs import Attrs
from meta_infer.ops.broadcast import text
from meta_infer.ops.importing import origin_of
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
from meta_infer.support.errors import InternalError


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    """Both branches must agree in dtype and rank; a size that differs is known only at run time."""
    cond = ctx.input(0)
    if cond.shape not in ((), (1,)):
        raise ShapeError(f"the condition should be a scalar, not {text(cond.shape)}")
    if len(ctx.node.regions) != 2:
        raise ShapeError("needs a then_branch and an else_branch")
    assert ctx.infer_region is not None, "inference of control flow needs a way into its regions"
    then, other = (ctx.infer_region(region, ()) for region in ctx.node.regions)
    if len(then) != len(other):
        raise ShapeError(f"then_branch gives {len(then)} outputs, else_branch {len(other)}")
    differing: dict[Dim, tuple[Dim, Dim]] = {}
    return tuple(_either(ctx, i, a, b, differing) for i, (a, b) in enumerate(zip(then, other, strict=True)))


def _either(ctx: InferContext, i: int, a: TensorType, b: TensorType, differing: dict[Dim, tuple[Dim, Dim]]
            ) -> TensorType:
    if a.dtype != b.dtype or len(a.shape) != len(b.shape):
        raise ShapeError(f"output {i} is {a.dtype}{text(a.shape)} in then_branch, {b.dtype}{text(b.shape)} in "
                         f"else_branch")
    shape = tuple(x if x == y else _unknown(ctx, f"if_{i}", x, y, differing)
                  for x, y in zip(a.shape, b.shape, strict=True))
    return TensorType(a.dtype, shape, a.content if a.content == b.content else None)


def _unknown(ctx: InferContext, hint: str, a: Dim, b: Dim, differing: dict[Dim, tuple[Dim, Dim]]) -> Dim:
    """The size that is `a` after then_branch and `b` after else_branch.

    Where these are a constant apart it is the smaller one and a symbol from 0 to that constant, so what is known of
    it stays known; sizes that differ alike share their symbol. `differing` maps each difference to the first `a` that
    had it, and to its size.
    """
    if ctx.fresh_symbol is None:
        raise ShapeError(f"size {a} of one branch and {b} of the other differ")
    apart = b - a
    if apart in differing and isinstance(a - differing[apart][0], int):
        return differing[apart][1] + (a - differing[apart][0])
    if isinstance(apart, int):
        size = (a if apart > 0 else b) + ctx.fresh_symbol(hint, 0, abs(apart))
    else:
        (a_low, a_high), (b_low, b_high) = bounds(a), bounds(b)
        size = ctx.fresh_symbol(hint, max(min(a_low, b_low), 0), min(max(a_high, b_high), UNBOUNDED))
    differing.setdefault(apart, (a, size))
    return size


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    regions = (node.regions["then_branch"], node.regions["else_branch"])
    return (Node("If", node.inputs, node.outputs, {}, (origin_of(node),), regions),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    raise InternalError("control flow is run by the graph executor, not by an array function")


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    """None: a sample has arrays only, and these ops need regions."""
    return ()


IF = OpDef("If", _infer, _reference, _samples, (OnnxImport("If", 1, convert=_import),), is_control_flow=True)

OPS: tuple[OpDef, ...] = (IF,)
