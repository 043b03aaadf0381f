"""Bytes alive at each step, as sums over what might be taken: what the memory limit of the solver is made of.

Steps are nodes in the graph's order. A value is alive from the node that makes it to the last one that reads it, in
groups of several nodes from their first to their last; what a group keeps to itself does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from meta_infer.ir.graph import Graph, Node
from meta_infer.ir.group import Group, Layout, Variant
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.passes.moves import Move
from meta_infer.passes.rewrite import key_of

Terms = list[tuple[int, Any]]
"""(bytes, whether it exists) pairs whose sum is bounded."""


def weight_bytes(group: Group, variant: Variant) -> int:
    """Weights as the variant packs them, or constants as the model holds them, and what is made of them at load."""
    kept = variant.packed_bytes or sum(array.nbytes for array in group.constants.values())
    return kept + variant.prepared_bytes


class LiveBytes:
    """The values of one graph with the steps at which they are alive."""

    def __init__(self, graph: Graph, moves: Iterable[Move] = ()) -> None:
        self._values = dict(graph.values)
        self._steps = len(graph.nodes)
        self._place = {key_of(node): i for i, node in enumerate(graph.nodes)}
        self._made = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs if name}
        self._read = dict(self._made)
        for i, node in enumerate(graph.nodes):
            self._reads(node, i)
        for move in moves:                    # what it makes stands where the last node it takes out did
            place = max(self._place[key] for key in move.removes)
            self._values.update(move.values)
            for node in move.nodes:
                self._place.setdefault(key_of(node), place)
                for name in node.outputs:
                    if name:
                        self._made.setdefault(name, place)
                        self._read.setdefault(name, place)
                self._reads(node, place)
        for name in graph.outputs:
            if name in self._read:
                self._read[name] = self._steps - 1

    def _reads(self, node: Node, place: int) -> None:
        for name in node.reads:
            if name in self._read:
                self._read[name] = max(self._read[name], place)

    def bytes_of(self, name: str, layout: Layout) -> int:
        value = self._values[name]
        return usual_upper(product(layout.physical(value.shape))) * value.dtype.bytes

    def peaks(self, groups: Sequence[tuple[Group, Variant, Any]],
              copies: Iterable[tuple[str, Layout, Any]]) -> list[Terms]:
        """For every step what is alive then, of all that the groups and copies would make; steps that others cover
        are left out."""
        spans: list[tuple[int, int, int, Any]] = []
        for group, variant, exists in groups:
            places = [self._place[key_of(node)] for node in group.nodes]
            first = min(places)
            if variant.temp_bytes:
                spans.append((first, max(places), variant.temp_bytes, exists))
            for name in group.outputs:
                spans.append((first, self._read[name], self.bytes_of(name, variant.outputs[name]), exists))
        for name, layout, exists in copies:
            spans.append((self._made.get(name, 0), self._read.get(name, 0), self.bytes_of(name, layout), exists))
        steps = [[(count, exists) for first, last, count, exists in spans if first <= step <= last]
                 for step in range(self._steps)]
        return [terms for i, terms in enumerate(steps) if i == 0 or terms != steps[i - 1]]
