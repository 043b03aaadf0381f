"""Hardmax: 1 at the first largest element along an axis, 0 elsewhere.

    %y = Hardmax(%x)  ->  %m = ArgMax(%x);  %y = Cast(Equal(%m, (0, 1, 2, ...) along the axis))
"""

from __future__ import annotations

from collections.abc import Iterable

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import product
from meta_infer.ops.importing import attr_int, axis_in, shape_of
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Before opset 13 all dims from `axis` on are one."""
    build, x, shape = NodeBuilder.importing(node, ctx), node.inputs[0], shape_of(node, ctx)
    axis = axis_in(node, attr_int(node, "axis", -1 if node.version >= 13 else 1), len(shape))
    flat = node.version < 13
    if flat:
        x = build.reshape(x, (product(shape[:axis]), product(shape[axis:])))
    size, behind = (product(shape[axis:]), 0) if flat else (shape[axis], len(shape) - axis - 1)
    best = build.emit("ArgMax", x, axis=1 if flat else axis, keepdims=True, select_last_index=False)
    places = build.reshape(build.emit("Iota", size=(size,)), (size, *(1,) * behind))
    hot, dtype = build.emit("Equal", best, places), ctx.type_of(x if not flat else node.inputs[0]).dtype
    if flat:
        build.reshape(build.cast(hot, dtype), shape, out=node.outputs[0])
    else:
        build.cast(hot, dtype, out=node.outputs[0])
    return build.nodes


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("Hardmax", 1, convert=_import),)
