"""Remove what nobody reads: nodes, optional outputs, constants.

    before                                   after
    %a: float32[4] = Exp(%x)                 %y: float32[4] = Relu(%x)
    %y: float32[4] = Relu(%x)

    %y: .., %h: .., %c: .. = LSTM(..)        %y: .., _, _ = LSTM(..)          when nobody reads %h and %c
"""

from __future__ import annotations

from dataclasses import replace

from meta_infer.ir.graph import Graph, Node
from meta_infer.passes.rewrite import Edit, edit_graphs

OPTIONAL_OUTPUTS = frozenset({"GRU", "LSTM", "MaxPool", "RNN", "TopK", "Unique"})
"""Ops whose every output may be absent."""


def eliminate_dead_code(graph: Graph) -> Graph:
    """Remove nodes and constants without readers, in every region; inputs of graphs stay. See the module."""
    return edit_graphs(graph, _sweep_backwards)


def _sweep_backwards(edit: Edit) -> None:
    for node in reversed(edit.nodes()):
        used = [bool(name) and _is_read(edit, name) for name in node.outputs]
        if not any(used):
            edit.remove([node])
        elif node.op in OPTIONAL_OUTPUTS and sum(used) < sum(map(bool, node.outputs)):
            edit.swap(node, _without(node, used))
    edit.drop_constants(edit.unread_constants())


def _is_read(edit: Edit, name: str) -> bool:
    return name in edit.outputs or bool(edit.users(name))


def _without(node: Node, used: list[bool]) -> Node:
    outputs = tuple(name if keep else "" for name, keep in zip(node.outputs, used, strict=True))
    return replace(node, outputs=outputs)
