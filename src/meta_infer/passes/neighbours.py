"""Which groups of a cover feed which: what fusions of several anchors look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meta_infer.ir.graph import Graph
from meta_infer.ir.group import Group


@dataclass(frozen=True)
class Neighbours:
    groups: Sequence[Group]
    maker: Mapping[str, int]                   # value -> the group that makes it
    readers: Mapping[str, tuple[int, ...]]
    kept: frozenset[str]                       # values that the graph yields

    def before(self, i: int) -> int | None:
        """The group whose one output is the first operand of group i's anchor and is read there only."""
        group = self.groups[i]
        name = group.anchor.inputs[0] if group.anchor.inputs else ""
        made = self.maker.get(name)
        if made is None or self.groups[made].outputs != (name,) or self.readers[name] != (i,) or name in self.kept:
            return None
        reads = [operand for node in group.nodes for operand in node.inputs]
        return made if reads.count(name) == 1 else None


def neighbours_of(graph: Graph, groups: Sequence[Group]) -> Neighbours:
    readers: dict[str, list[int]] = {}
    for i, group in enumerate(groups):
        for name in dict.fromkeys(name for node in group.nodes for name in node.reads):
            readers.setdefault(name, []).append(i)
    return Neighbours(groups, {name: i for i, group in enumerate(groups) for name in group.outputs},
                      {name: tuple(found) for name, found in readers.items()}, frozenset(graph.outputs))
