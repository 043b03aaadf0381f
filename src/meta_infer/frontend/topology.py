"""Order of the nodes of an ONNX graph: sorted by dependency, cycles named, subgraphs counted as readers."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence

from onnx import AttributeProto, GraphProto, NodeProto

from meta_infer.support.errors import ModelError


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The graphs that a node's attributes hold, by attribute name."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH or attribute.HasField("g"):
            yield attribute.name, attribute.g
        for graph in attribute.graphs:
            yield attribute.name, graph


def reads_of(node: NodeProto) -> list[str]:
    """Every tensor the node needs: its inputs, and what its subgraphs take from around them."""
    names = [name for name in node.input if name]
    for _, graph in subgraphs(node):
        names += outer_reads(graph)
    return list(dict.fromkeys(names))


def defined_in(graph: GraphProto) -> set[str]:
    """Every tensor that `graph` itself defines."""
    names = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    return names | {name for node in graph.node for name in node.output if name}


def outer_reads(graph: GraphProto) -> list[str]:
    """Tensors that a subgraph takes from the graphs around it."""
    own = defined_in(graph)
    names = [name for node in graph.node for name in reads_of(node)] + [value.name for value in graph.output]
    return [name for name in dict.fromkeys(names) if name not in own]


def sorted_nodes(graph: GraphProto, label: Callable[[int], str]) -> list[int]:
    """Positions of the graph's nodes in an order in which every node follows those it reads.

    A graph already in order keeps it. Raises ModelError naming the nodes of a cycle; `label` names a node.
    """
    producer = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    needs = [{producer[name] for name in reads_of(node) if name in producer} for node in graph.node]
    users: list[list[int]] = [[] for _ in needs]
    for i, before in enumerate(needs):
        for other in before:
            users[other].append(i)
    waiting = [len(before) for before in needs]
    ready = [i for i, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        done = heapq.heappop(ready)
        order.append(done)
        for i in users[done]:
            waiting[i] -= 1
            if waiting[i] == 0:
                heapq.heappush(ready, i)
    if len(order) == len(needs):
        return order
    cycle = _cycle({i for i, count in enumerate(waiting) if count}, needs)
    names = " -> ".join(label(i) for i in [*cycle[:6], cycle[0]])
    raise ModelError(f"the graph is cyclic: {names}", what=label(cycle[0]),
                     hint="unroll the recurrence, or express it with Loop")


def _cycle(stuck: set[int], needs: Sequence[set[int]]) -> list[int]:
    """Nodes of one cycle, each before the node that reads it."""
    path, at = [], min(stuck)
    while at not in path:
        path.append(at)
        at = min(needs[at] & stuck)
    return path[path.index(at):][::-1]
