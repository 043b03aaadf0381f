"""Loop, which ONNX's Loop and Scan import to. loop_node.py says what its attributes mean.

Its body is a region, which may read any value of the graphs around it. The executor and the lowering run it
themselves, so the op has no reference of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np

from meta_infer.ir.graph import Graph, Node, Shape
from meta_infer.ir.shapes import Dim, bounds, substitute, symbols_of
from meta_infer.ops.attrs import Attrs, dims_of
from meta_infer.ops.broadcast import text
from meta_infer.ops.importing import origin_of
from meta_infer.ops.loop_node import loop_node
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
from meta_infer.ops.scan import import_scan
from meta_infer.support.dtypes import BOOL, INT64
from meta_infer.support.errors import InternalError


def body_types(node: Node) -> tuple[TensorType, ...]:
    """Types of the inputs of a Loop's body, the number of the pass with its content."""
    body = node.regions[0]
    carried = [body.values[name] for name in body.inputs[2:]]
    contents = cast(tuple[tuple[Dim, ...] | None, ...], node.attrs.get("contents") or (None,) * len(carried))
    return (TensorType(INT64, (), dims_of(node.attrs, "iteration")), TensorType(BOOL, ()),
            *(TensorType(value.dtype, value.shape, content)
              for value, content in zip(carried, contents, strict=True)))


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    """Inputs M, cond, carried...; the body maps (iteration, cond, carried...) to (cond, carried..., scans...)."""
    node = ctx.node
    for name, found in (("the trip count", ctx.optional(0)), ("the condition", ctx.optional(1))):
        if found is not None and found.shape not in ((), (1,)):
            raise ShapeError(f"{name} should be a scalar, not {text(found.shape)}")
    if len(node.regions) != 1:
        raise ShapeError("needs a body")
    body: Graph = node.regions[0]
    carried = [ctx.input(i) for i in range(2, len(ctx.inputs))]
    if len(body.inputs) != len(carried) + 2 or len(body.outputs) < len(carried) + 1:
        raise ShapeError(f"{len(carried)} carried values do not fit a body with {len(body.inputs)} inputs and "
                         f"{len(body.outputs)} outputs")
    assert ctx.infer_region is not None, "inference of control flow needs a way into its regions"
    inside = body_types(node)
    made = ctx.infer_region(body, inside)
    shapes = node.attrs["shapes"]
    assert isinstance(shapes, tuple) and len(shapes) == len(made) - 1
    step = {symbol.name: symbol.dim + 1 for dim in dims_of(node.attrs, "iteration") for symbol in symbols_of(dim)}
    for i, (first, before, after) in enumerate(zip(carried, inside[2:], made[1:], strict=False)):
        if (first.dtype, len(first.shape)) != (after.dtype, len(after.shape)):
            raise ShapeError(f"carried value {i} is {first.dtype}{text(first.shape)} before the body and "
                             f"{after.dtype}{text(after.shape)} behind it; dtype and rank must not change")
        _check(f"carried value {i} before the first pass", before.shape, first.shape, dict.fromkeys(step, 0), first)
        _check(f"carried value {i} behind the body", before.shape, after.shape, step, first)
    types = [*carried, *made[1 + len(carried):]]
    return tuple(TensorType(found.dtype, tuple(shape)) for found, shape in zip(types, shapes, strict=True))  # type: ignore[arg-type]


def _check(what: str, declared: Shape, found: Shape, step: dict[str, Dim], first: TensorType) -> None:
    """Sizes without a symbol of their own must be what the body's input says for that pass.

    One that may be it, and may not, is checked while running: the model declares it so.
    """
    outer = {s for dim in first.shape for s in symbols_of(dim)}
    for before, size in zip(declared, found, strict=True):
        own = {s for s in symbols_of(before) if s.name not in step} - outer
        low, high = bounds(substitute(before, step) - size)
        if not own and not low <= 0 <= high:
            raise ShapeError(f"{what} is {text(found)}, the body takes {text(declared)}")


def _import_loop(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    inputs = (*node.inputs, "", "")[:max(len(node.inputs), 2)]
    starts = [ctx.type_of(name).shape for name in inputs[2:]]
    iteration = dims_of(node.attrs, "iteration")[0]
    return (loop_node(inputs, starts, node.outputs, node.regions["body"], iteration, origin_of(node), ctx,
                      node.attrs["contents"]),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    raise InternalError("control flow is run by the graph executor, not by an array function")


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    """None: a sample has arrays only, and the op needs a region."""
    return ()


LOOP = OpDef("Loop", _infer, _reference, _samples,
             (OnnxImport("Loop", 1, convert=_import_loop), OnnxImport("Scan", 8, convert=import_scan)),
             is_control_flow=True)

OPS: tuple[OpDef, ...] = (LOOP,)
