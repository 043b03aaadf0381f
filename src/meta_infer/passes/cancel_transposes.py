"""Compose transposes that follow each other, and turn those that move no data into Reshape.

    before                                                        after
    %a: float32[4, 2, 3] = Transpose(%x) {perm = (2, 0, 1)}       %y: float32[2, 3, 4] = Relu(%x)
    %b: float32[2, 3, 4] = Transpose(%a) {perm = (1, 2, 0)}
    %y: float32[2, 3, 4] = Relu(%b)

    %y: float32[1, 3, 4] = Transpose(%x) {perm = (1, 0, 2)}       %y: float32[1, 3, 4] = Reshape(%x)
                                                                      {shape = (1, 3, 4)}    for %x of [3, 1, 4]
"""

from __future__ import annotations

from meta_infer.ir.graph import Graph, Node
from meta_infer.ops.attrs import ints_of
from meta_infer.passes.rewrite import Edit, apply_rule


def cancel_transposes(graph: Graph) -> Graph:
    """Compose Transpose after Transpose (the first stays for its other readers). See the module."""
    return apply_rule(graph, lambda edit, node: node.op == "Transpose" and (
        _drop(edit, node) or _compose(edit, node) or _reshape(edit, node)))


def _drop(edit: Edit, node: Node) -> bool:
    perm = ints_of(node.attrs, "perm")
    return perm == tuple(range(len(perm))) and edit.bypass(node, node.inputs[0])


def _compose(edit: Edit, node: Node) -> bool:
    inner = edit.made_by(node.inputs[0], "Transpose")
    if inner is None:
        return False
    first = ints_of(inner.attrs, "perm")
    perm = tuple(first[axis] for axis in ints_of(node.attrs, "perm"))
    alone = edit.only_user(inner.outputs[0]) is node
    edit.remove([inner, node] if alone else [node])
    origins = [inner, node] if alone else [node]
    edit.emit("Transpose", inner.inputs, {"perm": perm}, origins=origins, output=node.outputs[0])
    return True


def _reshape(edit: Edit, node: Node) -> bool:
    """A Transpose that keeps the order of all axes longer than 1."""
    shape = edit.value(node.inputs[0]).shape
    moved = [axis for axis in ints_of(node.attrs, "perm") if shape[axis] != 1]
    if moved != sorted(moved) or len(moved) == len(shape):
        return False
    edit.remove([node])
    result = edit.value(node.outputs[0]).shape
    edit.emit("Reshape", node.inputs, {"shape": result}, origins=[node], output=node.outputs[0])
    return True
