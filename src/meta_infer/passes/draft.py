"""A move while it is being made: nodes instead of others, typed, with the graph left as it is."""

from __future__ import annotations

from dataclasses import replace

from meta_infer.ir.graph import Node
from meta_infer.passes.pieces import Pieces, Scope
from meta_infer.passes.rewrite import Edit


class Draft:
    """`removes` go and `nodes` come; `waste` is the share of work that comes on top. See moves.py."""

    def __init__(self, edit: Edit) -> None:
        self.scope = Scope(edit)
        self.removes: list[Node] = []
        self.nodes: list[Node] = []
        self.waste = 0.0

    def instead_of(self, *nodes: Node) -> Pieces:
        """Where nodes that stand for `nodes`, which go, are added behind what is there already."""
        self.removes += [node for node in nodes if not any(node is gone for gone in self.removes)]
        pieces = Pieces(self.scope, tuple(dict.fromkeys(o for node in nodes for o in node.origins)))
        pieces.nodes = self.nodes
        return pieces

    def end_in(self, node: Node) -> None:
        """The last node that was added makes what `node`, which goes, made; both have one output."""
        self.instead_of(node)
        origins = tuple(dict.fromkeys((*self.nodes[-1].origins, *node.origins)))
        self.nodes[-1] = replace(self.nodes[-1], outputs=node.outputs, origins=origins)
        self.scope.infer(self.nodes[-1])
