"""The order in which groups run, and what stands in its way."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from meta_infer.ir.graph import Graph, Node
from meta_infer.ir.group import Group
from meta_infer.passes.rewrite import key_of
from meta_infer.support.errors import InternalError


def in_order(graph: Graph, groups: Sequence[Group]) -> tuple[Group, ...]:
    """Groups in an order in which they can run, near that of their last nodes.

    Raises InternalError when groups wait for each other.
    """
    return tuple(groups[i] for i in order_of(graph, [group.nodes for group in groups]))


def order_of(graph: Graph, groups: Sequence[Sequence[Node]]) -> list[int]:
    """As `in_order` for groups that are their nodes: places in the order in which they can run."""
    order, waiting = _sorted(graph, groups)
    if waiting:
        raise InternalError("groups depend on each other in a cycle", what=f"graph {graph.name!r}")
    return order


def cycle_of(graph: Graph, groups: Sequence[Group]) -> tuple[int, ...]:
    """Places of groups that wait for each other in a circle; empty when they can run."""
    _, waiting = _sorted(graph, [group.nodes for group in groups])
    if not waiting:
        return ()
    path = [min(waiting)]                                   # each waits for another one that waits
    while True:
        following = min(waiting[path[-1]] & waiting.keys())
        if following in path:
            return tuple(sorted(path[path.index(following):]))
        path.append(following)


def _sorted(graph: Graph, groups: Sequence[Sequence[Node]]) -> tuple[list[int], dict[int, set[int]]]:
    """(places in order, what the rest still waits for)."""
    places = {key_of(node): i for i, node in enumerate(graph.nodes)}
    makers = {name: i for i, nodes in enumerate(groups) for node in nodes for name in node.outputs if name}
    waits = {i: {makers[name] for node in nodes for name in node.reads if name in makers} - {i}
             for i, nodes in enumerate(groups)}
    last = [max(places[key_of(node)] for node in nodes) for nodes in groups]
    after: dict[int, list[int]] = {}
    for i, needed in waits.items():
        for other in needed:
            after.setdefault(other, []).append(i)
    ready = [(last[i], i) for i, needed in waits.items() if not needed]
    heapify(ready)
    order: list[int] = []
    while ready:
        _, i = heappop(ready)
        del waits[i]
        order.append(i)
        for other in after.get(i, []):
            waits[other].discard(i)
            if not waits[other]:
                heappush(ready, (last[other], other))
    return order, waits
