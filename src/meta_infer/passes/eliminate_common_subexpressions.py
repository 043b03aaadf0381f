"""Compute equal things once.

    before                              after
    %a: float32[4] = Exp(%x)            %a: float32[4] = Exp(%x)
    %b: float32[4] = Exp(%x)            %y: float32[4] = Add(%a, %a)
    %y: float32[4] = Add(%a, %b)

Two nodes are equal when op, operands and attributes are; equal constants become one first. Nodes with regions stay.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meta_infer.ir.graph import Graph, Node
from meta_infer.ir.graph_text import print_attr
from meta_infer.ir.same_graph import same_array
from meta_infer.passes.rewrite import Edit, edit_graphs, key_of, same_type


def eliminate_common_subexpressions(graph: Graph) -> Graph:
    """Merge equal constants and equal nodes of each graph of the region tree. See the module."""
    return edit_graphs(graph, _merge)


def _merge(edit: Edit) -> None:
    _merge_constants(edit)
    first: dict[tuple[object, ...], str] = {}
    for old in edit.nodes():
        node = edit.made_by(key_of(old))
        if node is None or node.regions:
            continue
        kept = edit.made_by(first.setdefault(_meaning(node), key_of(node)))
        if kept is not None and kept is not node and _merge_nodes(edit, kept, node):
            first[_meaning(node)] = kept.outputs[0] if edit.made_by(kept.outputs[0]) else node.outputs[0]


def _meaning(node: Node) -> tuple[object, ...]:
    attrs = tuple((name, print_attr(node.attrs[name])) for name in sorted(node.attrs))
    return node.op, node.inputs, attrs, tuple(map(bool, node.outputs))


def _merge_nodes(edit: Edit, kept: Node, node: Node) -> bool:
    """`node` computes what `kept` does: all read `kept`, which now stands for both."""
    pairs = [(old, new) for old, new in zip(node.outputs, kept.outputs, strict=True) if old]
    if not all(same_type(edit.value(old), edit.value(new)) and edit.can_redirect(old, new) for old, new in pairs):
        return False
    edit.remove([node])
    edit.swap(kept, replace(kept, origins=tuple(dict.fromkeys(kept.origins + node.origins))))
    for old, new in pairs:
        edit.redirect(old, new)
    return True


def _merge_constants(edit: Edit) -> None:
    first: dict[tuple[object, ...], list[str]] = {}
    for name, array in edit.own_constants().items():
        if name in edit.outputs:
            continue
        alike = first.setdefault(_fingerprint(array), [])
        kept = next((other for other in alike if _are_equal(edit, other, name)), None)
        if kept is None:
            alike.append(name)
            continue
        edit.drop_constants([name])
        edit.redirect(name, kept)


def _fingerprint(array: np.ndarray) -> tuple[object, ...]:
    """Cheap to take, also of many megabytes, and seldom equal for different constants."""
    flat = array.reshape(-1)
    return array.dtype.name, array.shape, flat[::max(1, flat.size // 64)].tobytes()


def _are_equal(edit: Edit, a: str, b: str) -> bool:
    left, right = edit.constant(a), edit.constant(b)
    assert left is not None and right is not None
    return same_type(edit.value(a), edit.value(b)) and same_array(left, right)
