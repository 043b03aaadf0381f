"""Remove ops that return their input as it is.

    before                                                       after
    %a: float32[2, 3] = Identity(%x)                             %y: float32[2, 3] = Relu(%x)
    %b: float32[2, 3] = Transpose(%a) {perm = (0, 1)}
    %y: float32[2, 3] = Relu(%b)

Likewise Cast to the same type, Reshape and Expand to the same shape, Slice and Pad that change nothing, Concat of
one tensor, Clip without bounds. An Identity between an input (or constant) and an output of the graph stays.
"""

from __future__ import annotations

import math

from meta_infer.ir.graph import Graph, Node
from meta_infer.ops.attrs import dims_of, float_of
from meta_infer.passes.rewrite import Edit, apply_rule


def remove_identity(graph: Graph) -> Graph:
    """Let readers of an op that changes nothing read its input. See the module."""
    return apply_rule(graph, _remove)


def _remove(edit: Edit, node: Node) -> bool:
    return _changes_nothing(edit, node) and edit.bypass(node, node.inputs[0])


def _changes_nothing(edit: Edit, node: Node) -> bool:
    if not node.inputs or not node.inputs[0] or len(node.outputs) != 1:
        return False
    a, b = edit.value(node.inputs[0]), edit.value(node.outputs[0])
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    match node.op:
        case "Identity" | "Cast" | "Reshape" | "Expand":
            return True
        case "Concat":
            return len(node.inputs) == 1
        case "Transpose":
            return dims_of(node.attrs, "perm") == tuple(range(a.rank))
        case "Slice":
            return all(step == 1 for step in dims_of(node.attrs, "steps"))
        case "Pad":
            return all(pad == 0 for pad in dims_of(node.attrs, "pads"))
        case "Clip":
            low, high = float_of(node.attrs, "min", -math.inf), float_of(node.attrs, "max", math.inf)
            return low == -math.inf and high == math.inf
    return False
