"""If and Loop. Their bodies are regions of the node, which may read any value of the graphs around them.

The executor and the lowering run the regions themselves, so these ops have no reference of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Graph, Node
from meta_infer.ir.shapes import Dim, bounds
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
from meta_infer.support.dtypes import BOOL, INT64
from meta_infer.support.errors import InternalError

_MOST_TRIPS = 1 << 20


def _region(ctx: InferContext, region: Graph, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
    assert ctx.infer_region is not None, "inference of control flow needs a way into its regions"
    return ctx.infer_region(region, inputs)


def _scalar(name: str, type: TensorType | None) -> None:
    if type is not None and type.shape not in ((), (1,)):
        raise ShapeError(f"{name} should be a scalar, not {text(type.shape)}")


# --- If -------------------------------------------------------------------------------------------------------

def _infer_if(ctx: InferContext) -> tuple[TensorType, ...]:
    """Both branches must agree in dtype and rank; a size that differs is known only at run time."""
    _scalar("the condition", ctx.input(0))
    if len(ctx.node.regions) != 2:
        raise ShapeError("needs a then_branch and an else_branch")
    then, other = (_region(ctx, region, ()) for region in ctx.node.regions)
    if len(then) != len(other):
        raise ShapeError(f"then_branch gives {len(then)} outputs, else_branch {len(other)}")
    return tuple(_either(ctx, i, a, b) for i, (a, b) in enumerate(zip(then, other, strict=True)))


def _either(ctx: InferContext, i: int, a: TensorType, b: TensorType) -> TensorType:
    if a.dtype != b.dtype or len(a.shape) != len(b.shape):
        raise ShapeError(f"output {i} is {a.dtype}{text(a.shape)} in then_branch, {b.dtype}{text(b.shape)} in "
                         f"else_branch")
    shape = tuple(x if x == y else _unknown(ctx, f"if_{i}", x, y) for x, y in zip(a.shape, b.shape, strict=True))
    return TensorType(a.dtype, shape, a.content if a.content == b.content else None)


def _unknown(ctx: InferContext, hint: str, a: Dim, b: Dim) -> Dim:
    if ctx.fresh_symbol is None:
        raise ShapeError(f"size {a} of one branch and {b} of the other differ")
    (a_low, a_high), (b_low, b_high) = bounds(a), bounds(b)
    return ctx.fresh_symbol(hint, min(a_low, b_low), max(a_high, b_high))


def _import_if(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    regions = (node.regions["then_branch"], node.regions["else_branch"])
    return (Node("If", node.inputs, node.outputs, {}, (origin_of(node),), regions),)


# --- Loop -----------------------------------------------------------------------------------------------------

def _infer_loop(ctx: InferContext) -> tuple[TensorType, ...]:
    """Inputs M, cond, carried...; the body maps (iteration, cond, carried...) to (cond, carried..., scans...).

    Carried values keep dtype and shape; a scan output gets the number of iterations as first dimension.
    """
    _scalar("the trip count", ctx.optional(0))
    _scalar("the condition", ctx.optional(1))
    if len(ctx.node.regions) != 1:
        raise ShapeError("needs a body")
    body = ctx.node.regions[0]
    carried = [TensorType(t.dtype, t.shape) for t in (ctx.input(i) for i in range(2, len(ctx.inputs)))]
    if len(body.inputs) != len(carried) + 2 or len(body.outputs) < len(carried) + 1:
        raise ShapeError(f"{len(carried)} carried values do not fit a body with {len(body.inputs)} inputs and "
                         f"{len(body.outputs)} outputs")
    made = _region(ctx, body, (TensorType(INT64, ()), TensorType(BOOL, ()), *carried))
    for i, (before, after) in enumerate(zip(carried, made[1:], strict=False)):
        if (before.dtype, before.shape) != (after.dtype, after.shape):
            raise ShapeError(f"carried value {i} is {before.dtype}{text(before.shape)} before the body and "
                             f"{after.dtype}{text(after.shape)} behind it; it must not change")
    scans = made[1 + len(carried):]
    trips = _trips(ctx, body) if scans else 0
    return (*carried, *(TensorType(t.dtype, (trips, *t.shape)) for t in scans))


def _trips(ctx: InferContext, body: Graph) -> Dim:
    """The number of iterations: M where the condition never turns false, else a size known only at run time."""
    count = ctx.content(0)
    if count is not None and _never_stops(ctx, body):
        return count[0]
    if ctx.fresh_symbol is None:
        raise ShapeError("the number of iterations depends on data")
    return ctx.fresh_symbol("trips", 0, bounds(count[0])[1] if count is not None else _MOST_TRIPS)


def _never_stops(ctx: InferContext, body: Graph) -> bool:
    """True when the first condition is true and the body's condition is constant true or passes it on."""
    if ctx.optional(1) is not None and ctx.content(1) not in ((1,), (True,)):
        return False
    name, producers = body.outputs[0], body.producers()
    while name in producers and producers[name].op == "Identity":
        name = producers[name].inputs[0]
    return name == body.inputs[1] or (name in body.constants and bool(body.constants[name].all()))


def _import_loop(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return (Node("Loop", node.inputs, node.outputs, {}, (origin_of(node),), (node.regions["body"],)),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    raise InternalError("control flow is run by the graph executor, not by an array function")


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    """None: a sample has arrays only, and these ops need regions."""
    return ()


IF = OpDef("If", _infer_if, _reference, _samples, (OnnxImport("If", 1, convert=_import_if),), is_control_flow=True)
LOOP = OpDef("Loop", _infer_loop, _reference, _samples, (OnnxImport("Loop", 1, convert=_import_loop),),
             is_control_flow=True)

OPS: tuple[OpDef, ...] = (IF, LOOP)
