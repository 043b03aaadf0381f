"""What is compared while running: sizes that only data tells, where a node needs them to fit."""

from __future__ import annotations

from meta_infer.ir.graph import Node
from meta_infer.ir.group import Group
from meta_infer.ir.program import CheckDims, Command
from meta_infer.ir.shapes import bounds, dim_min, product
from meta_infer.ops.attrs import dims_of, int_of
from meta_infer.ops.broadcast import is_found, text
from meta_infer.ops.registry import op_named
from meta_infer.support.errors import InternalError


def size_checks(group: Group) -> list[Command]:
    """The checks that must pass before `group` runs; see frontend/settle_sizes.py for the nodes that need them.

    Raises InternalError for an elementwise node that was made after import from operands that are not settled.
    """
    for node in group.nodes:
        if op_named(node.op).expr is not None:
            _verify_settled(group, node)
    node = group.anchor
    if node.op == "TopK":
        return _enough_to_pick(group)
    if node.op not in ("AssertShape", "Expand", "Reshape"):
        return []
    old, new = group.values[node.inputs[0]].shape, group.values[node.outputs[0]].shape
    said = f"{node.label}: {text(old)} does not fit {text(new)}"
    if node.op == "Reshape":
        a, b = product(old), product(new)
        return [CheckDims(a, b, f"{said}, elements")] if a != b and is_found(a, b) else []
    pairs = [(a, b) for a, b in zip(reversed(old), reversed(new), strict=False) if a not in (1, b)]
    if node.op == "AssertShape":
        return [CheckDims(a, b, f"{said}, {a}") for a, b in pairs]
    # A size of 1 is repeated; any other must be the new one.
    return [CheckDims((a - 1) * (a - b), 0, f"{said}, ({a} - 1) * ({a} - ({b}))") for a, b in pairs]


def _enough_to_pick(group: Group) -> list[Command]:
    """That the axis of a TopK holds k elements, where only a run can tell."""
    node, axis = group.anchor, int_of(group.anchor.attrs, "axis")
    (k,), size = dims_of(node.attrs, "k"), group.values[node.inputs[0]].shape[axis]
    if bounds(k - size)[1] <= 0:
        return []
    return [CheckDims(dim_min(k, size), k, f"{node.label}: axis {axis} has fewer than k elements, {size}")]


def _verify_settled(group: Group, node: Node) -> None:
    """Kernels read operands of an elementwise node where its result lies, or again and again where they have size 1."""
    result = group.values[node.outputs[0]].shape
    for name in filter(None, node.inputs):
        shape = group.values[name].shape
        if not all(own in (1, size) for own, size in zip(reversed(shape), reversed(result), strict=False)):
            raise InternalError(f"operand %{name} {text(shape)} is not settled for a result {text(result)}",
                                what=node.label, hint="report this as a fault of meta-infer, with the model")
