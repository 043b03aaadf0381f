"""Recognise Silu(x) = x * sigmoid(x), also called Swish.

    before                                   after
    %s: float32[N, 8] = Sigmoid(%x)          %y: float32[N, 8] = Silu(%x)
    %y: float32[N, 8] = Mul(%x, %s)

Source: Elfwing et al., arXiv:1702.03118.
"""

from __future__ import annotations

from meta_infer.ir.graph import Graph, Node
from meta_infer.passes.rewrite import Edit, apply_rule


def raise_silu(graph: Graph) -> Graph:
    """Replace the product of x and its sigmoid, which nobody else reads, by Silu. See the module."""
    return apply_rule(graph, _raise)


def _raise(edit: Edit, node: Node) -> bool:
    if node.op != "Mul":
        return False
    for x, gate in (node.inputs, node.inputs[::-1]):
        sigmoid = edit.made_by(gate, "Sigmoid")
        if sigmoid is None or sigmoid.inputs[0] != x or edit.only_user(gate) is not node:
            continue
        edit.remove([sigmoid, node])
        edit.emit("Silu", (x,), origins=[sigmoid, node], output=node.outputs[0])
        return True
    return False
