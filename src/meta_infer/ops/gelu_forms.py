"""com.microsoft's Gelu family: Gelu, FastGelu, BiasGelu, QuickGelu, BiasSplitGelu."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim
from meta_infer.ops.importing import attr_float, present, shape_of, unsupported
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, Importer, OnnxImport, OnnxNode

MICROSOFT = "com.microsoft"


def _gelu(approximate: str) -> Importer:
    """Gelu of x, or of x + bias when there is a second input."""
    def convert(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
        b = NodeBuilder.importing(node, ctx)
        x = b.emit("Add", *node.inputs) if present(node, 1) else node.inputs[0]
        b.emit("Gelu", x, out=node.outputs[0], approximate=approximate)
        return b.nodes
    return convert


def _quick_gelu(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """x * sigmoid(alpha * x)."""
    b, x, alpha = NodeBuilder.importing(node, ctx), node.inputs[0], attr_float(node, "alpha", 1.702)
    scaled = x if alpha == 1.0 else b.emit("Mul", x, b.scalar(alpha, ctx.type_of(x).dtype, "alpha"))
    b.emit("Mul", x, b.emit("Sigmoid", scaled), out=node.outputs[0])
    return b.nodes


def _bias_split_gelu(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """left * gelu(right), the two halves of x + bias along the last axis."""
    shape = shape_of(node, ctx)
    width = shape[-1] if shape else 0
    if not isinstance(width, int) or width % 2:
        raise unsupported(node, f"the last dimension {width} has no two halves", "make it even and fixed")
    b = NodeBuilder.importing(node, ctx)
    total = b.emit("Add", *node.inputs)

    def half(first: int) -> str:
        starts: tuple[Dim, ...] = (*(0,) * (len(shape) - 1), first)
        return b.emit("Slice", total, starts=starts, sizes=(*shape[:-1], width // 2), steps=(1,) * len(shape))

    b.emit("Mul", half(0), b.emit("Gelu", half(width // 2), approximate="none"), out=node.outputs[0])
    return b.nodes


def _rule(op: str, convert: Callable[[OnnxNode, ImportContext], Iterable[Node]]) -> OnnxImport:
    return OnnxImport(op, 1, convert=convert, domain=MICROSOFT)


IMPORTS: tuple[OnnxImport, ...] = (
    _rule("Gelu", _gelu("none")), _rule("BiasGelu", _gelu("none")), _rule("FastGelu", _gelu("tanh")),
    _rule("QuickGelu", _quick_gelu), _rule("BiasSplitGelu", _bias_split_gelu))
