"""What importers share: making core nodes, resolving shape operands, and refusing what is not supported."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ir.shapes import Dim
from meta_infer.ops.opdef import ImportContext, OnnxNode
from meta_infer.support.errors import UnsupportedError


def origin_of(node: OnnxNode) -> str:
    """The name an ONNX node is known by: its own, or its first output's when it has none."""
    return node.name or next((out for out in node.outputs if out), node.op)


def core_node(node: OnnxNode, op: str, inputs: Iterable[str], outputs: Iterable[str], **attrs: Attr) -> Node:
    """A core node that stands for (a part of) `node`. Trailing absent inputs are dropped."""
    names = list(inputs)
    while names and not names[-1]:
        names.pop()
    return Node(op, tuple(names), tuple(outputs), attrs, (origin_of(node),))


def unsupported(node: OnnxNode, problem: str, hint: str = "") -> UnsupportedError:
    """The error for a node that is valid ONNX but has no way into the core op set."""
    what = f"node {origin_of(node)!r} ({node.op}, opset version {node.version})"
    return UnsupportedError(problem, what=what, hint=hint or "export the model without this case, or simplify it "
                            "with constant folding first")


def present(node: OnnxNode, i: int) -> bool:
    """True when optional input `i` is given."""
    return i < len(node.inputs) and bool(node.inputs[i])


def wanted(node: OnnxNode, i: int) -> bool:
    """True when output `i` is used by its name."""
    return i < len(node.outputs) and bool(node.outputs[i])


def shape_of(node: OnnxNode, ctx: ImportContext, i: int = 0) -> Shape:
    return ctx.type_of(node.inputs[i]).shape


def axis_in(node: OnnxNode, axis: int, rank: int) -> int:
    """`axis` counted from the front. Raises UnsupportedError outside [-rank, rank)."""
    if not -rank <= axis < max(rank, 1):
        raise unsupported(node, f"axis {axis} is outside the tensor's {rank} dimensions",
                          "check the axis attribute; the model breaks the ONNX specification here")
    return axis + rank if axis < 0 else axis


def constant_of(node: OnnxNode, ctx: ImportContext, i: int, what: str) -> np.ndarray:
    """Contents of input `i`, which must be constant at import. Raises UnsupportedError when it is not."""
    found = ctx.known(node.inputs[i])
    if found is None:
        raise unsupported(node, f"{what} ({node.inputs[i]!r}) is computed at run time, it must be constant",
                          f"export the model with a constant {what}")
    return found


def is_known(ctx: ImportContext, name: str) -> bool:
    """Whether the elements of a small integer value depend on shapes only, not on data."""
    found = ctx.type_of(name)
    return ctx.known(name) is not None or found.content is not None or found.shape == (0,)


def dims_input(node: OnnxNode, ctx: ImportContext, i: int, what: str) -> tuple[Dim, ...]:
    """The elements of a small integer input as dims (symbolic ones included).

    Raises UnsupportedError when they depend on data and not only on shapes.
    """
    known = ctx.known(node.inputs[i])
    if known is not None:
        return tuple(int(x) for x in np.asarray(known).reshape(-1))
    found = ctx.type_of(node.inputs[i])
    content = () if found.shape == (0,) else found.content
    if content is None:
        raise unsupported(node, f"{what} ({node.inputs[i]!r}) depends on data, not only on shapes",
                          f"make {what} a constant, or compute it from Shape of a tensor")
    return content


def ints_input(node: OnnxNode, ctx: ImportContext, i: int, what: str) -> tuple[int, ...]:
    """Like `dims_input` for operands that must be plain numbers (axes, pads, repeats of an attribute)."""
    numbers = []
    for dim in dims_input(node, ctx, i, what):
        if not isinstance(dim, int):
            raise unsupported(node, f"{what} holds the dynamic size {dim}, it must be constant",
                              "fix that dimension with --shape")
        numbers.append(dim)
    return tuple(numbers)


def attr_ints(node: OnnxNode, name: str) -> tuple[int, ...] | None:
    """An ints attribute, or None when absent."""
    found = node.attrs.get(name)
    if found is None:
        return None
    assert isinstance(found, (tuple, list)), f"{name} of {node.op}"
    return tuple(int(x) for x in found)  # type: ignore[arg-type]


def attr_int(node: OnnxNode, name: str, default: int = 0) -> int:
    found = node.attrs.get(name, default)
    assert isinstance(found, int), f"{name} of {node.op}"
    return int(found)


def attr_float(node: OnnxNode, name: str, default: float = 0.0) -> float:
    found = node.attrs.get(name, default)
    assert isinstance(found, (int, float)), f"{name} of {node.op}"
    return float(found)


def attr_text(node: OnnxNode, name: str, default: str = "") -> str:
    found = node.attrs.get(name, default)
    assert isinstance(found, str), f"{name} of {node.op}"
    return found
