"""Transpose, and the ONNX ops that are reshapes around one: DepthToSpace, SpaceToDepth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import Dim
from meta_infer.ops.attrs import Attrs, ints_of
from meta_infer.ops.broadcast import text
from meta_infer.ops.elementwise import bools, floats, ints
from meta_infer.ops.importing import attr_int, attr_ints, attr_text, core_node, shape_of
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
    x, perm = ctx.input(0), ints_of(ctx.node.attrs, "perm")
    if sorted(perm) != list(range(len(x.shape))):
        raise ShapeError(f"perm {perm} does not permute {len(x.shape)} dimensions")
    return (TensorType(x.dtype, tuple(x.shape[p] for p in perm), ctx.content(0)),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    assert arrays[0] is not None
    return (np.ascontiguousarray(np.transpose(arrays[0], ints_of(attrs, "perm"))).reshape(
        tuple(arrays[0].shape[p] for p in ints_of(attrs, "perm"))),)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """An absent perm reverses the dimensions."""
    rank = len(shape_of(node, ctx))
    perm = attr_ints(node, "perm") or tuple(reversed(range(rank)))
    return (core_node(node, "Transpose", node.inputs, node.outputs, perm=perm),)


def _around(node: OnnxNode, ctx: ImportContext, before: Shape, perm: tuple[int, ...], after: Shape) -> Iterable[Node]:
    split, moved = ctx.fresh(node.inputs[0]), ctx.fresh(node.outputs[0])
    return (core_node(node, "Reshape", node.inputs, (split,), shape=before),
            core_node(node, "Transpose", (split,), (moved,), perm=perm),
            core_node(node, "Reshape", (moved,), node.outputs, shape=after))


def _blocks(node: OnnxNode, ctx: ImportContext) -> tuple[Shape, int]:
    """The input's four dims and the block size, 1 or more."""
    shape, block = shape_of(node, ctx), attr_int(node, "blocksize", 1)
    if len(shape) != 4 or block < 1:
        raise ShapeError(f"takes four dimensions and a positive blocksize, not {text(shape)} and {block}")
    return shape, block


def _check_divides(what: str, size: Dim, by: int) -> None:
    if isinstance(size, int) and size % by:
        raise ShapeError(f"{what} {size} is not a multiple of {by}")


def _import_depth_to_space(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """DCR takes the block position from the slow part of the channels, CRD (opset 11) from the fast one."""
    (n, c, h, w), block = _blocks(node, ctx)
    _check_divides("channel count", c, block * block)
    depth, after = c // (block * block), (n, c // (block * block), h * block, w * block)
    if attr_text(node, "mode", "DCR") == "CRD":
        return _around(node, ctx, (n, depth, block, block, h, w), (0, 1, 4, 2, 5, 3), after)
    return _around(node, ctx, (n, block, block, depth, h, w), (0, 3, 4, 1, 5, 2), after)


def _import_space_to_depth(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """`mode` exists since opset 28; before, it is DCR."""
    (n, c, h, w), block = _blocks(node, ctx)
    _check_divides("height", h, block)
    _check_divides("width", w, block)
    after = (n, c * (block * block), h // block, w // block)
    perm = (0, 1, 3, 5, 2, 4) if attr_text(node, "mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    return _around(node, ctx, (n, c, h // block, block, w // block, block), perm, after)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, perm in (((), ()), ((5,), (0,)), ((3, 7), (1, 0)), ((2, 3, 4), (0, 2, 1)), ((2, 3, 4), (2, 0, 1)),
                        ((2, 3, 4, 5), (0, 2, 3, 1)), ((2, 3, 4, 5), (0, 3, 1, 2)), ((1, 3, 1, 5), (2, 3, 0, 1)),
                        ((0, 3), (1, 0)), ((2, 3, 4, 5, 6), (4, 1, 3, 0, 2)), ((33, 17), (1, 0))):
        yield Sample((floats(rng, shape),), {"perm": perm}, onnx_attrs={"perm": perm} if perm else {})
    yield Sample((ints(rng, (3, 5)),), {"perm": (1, 0)})
    yield Sample((bools(rng, (3, 5)),), {"perm": (1, 0)})


TRANSPOSE = OpDef(
    "Transpose", _infer, _reference, _samples,
    (OnnxImport("Transpose", 1, convert=_import), OnnxImport("DepthToSpace", 1, convert=_import_depth_to_space),
     OnnxImport("SpaceToDepth", 1, convert=_import_space_to_depth)),
    flops=lambda attrs, inputs, outputs: 0)

OPS: tuple[OpDef, ...] = (TRANSPOSE,)
