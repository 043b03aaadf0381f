"""One Reshape instead of several in a row.

    before                                                  after
    %a: float32[6, 4] = Reshape(%x) {shape = (6, 4)}        %y: float32[2, 12] = Reshape(%x) {shape = (2, 12)}
    %y: float32[2, 12] = Reshape(%a) {shape = (2, 12)}

A first Reshape with other readers stays for them. When the shape comes out as it was, remove_identity drops the rest.
"""

from __future__ import annotations

from meta_infer.ir.graph import Graph, Node
from meta_infer.passes.rewrite import Edit, apply_rule


def simplify_reshape(graph: Graph) -> Graph:
    """Let a Reshape read what the Reshape before it reads. See the module."""
    return apply_rule(graph, _compose)


def _compose(edit: Edit, node: Node) -> bool:
    inner = edit.made_by(node.inputs[0], "Reshape") if node.op == "Reshape" else None
    if inner is None:
        return False
    shape = edit.value(node.outputs[0]).shape
    nodes = [inner, node] if edit.only_user(inner.outputs[0]) is node else [node]
    edit.remove(nodes)
    edit.emit("Reshape", inner.inputs, {"shape": shape}, origins=nodes, output=node.outputs[0])
    return True
