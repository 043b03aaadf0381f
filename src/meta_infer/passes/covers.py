"""Covers: which nodes of a graph become one unit of code. Every node is in exactly one group.

Groups come in topological order. First every heavy anchor takes the elementwise ops after it (fuse_epilogue.py),
then the lighter anchors, then elementwise ops group among themselves (fuse_elementwise.py). All else, views,
shape-changing ops, LSTM, GRU and control flow, stands alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Graph, Node, Value, walk_graphs
from meta_infer.ir.group import Group
from meta_infer.passes.fuse_elementwise import fuse_elementwise
from meta_infer.passes.fuse_epilogue import ANCHORS, Flow, flow_of, fuse_epilogue, is_elementwise, leaving
from meta_infer.passes.group_order import order_of
from meta_infer.passes.rewrite import key_of


def propose_covers(graph: Graph, disabled: frozenset[str] = frozenset(),
                   root: Graph | None = None) -> tuple[Group, ...]:
    """Maximal legal groups, in an order in which they can run; regions of control flow are not entered.

    `disabled` may name fuse_epilogue and fuse_elementwise. When `graph` is a region, `root` is the outermost graph,
    which types what the region captures.
    """
    flow = flow_of(graph)
    groups: list[frozenset[str]] = []
    taken: set[str] = set()

    def add(keys: frozenset[str]) -> None:
        groups.append(keys)
        taken.update(keys)

    if "fuse_epilogue" not in disabled:
        reserved = {key_of(node) for node in graph.nodes if not is_elementwise(node)}
        for ops in ANCHORS:
            for node in graph.nodes:
                if node.op in ops:
                    add(fuse_epilogue(flow, node, taken | reserved))
    for node in graph.nodes:
        if key_of(node) in taken:
            continue
        alone = frozenset({key_of(node)})
        fuse = is_elementwise(node) and "fuse_elementwise" not in disabled
        add(fuse_elementwise(flow, node, taken) if fuse else alone)
    values, constants = _scope(graph, root)
    return tuple(_group(flow, nodes, nodes[0], values, constants) for nodes in _ordered(flow, groups))


def build_group(graph: Graph, nodes: Sequence[Node], anchor: Node, root: Graph | None = None) -> Group:
    """The group of `nodes` of `graph` (in topological order) around `anchor`, which is one of them.

    Inputs are the anchor's in its order, then what the other nodes add, each once; outputs are the values that are
    read outside, in order.
    """
    return _group(flow_of(graph), nodes, anchor, *_scope(graph, root))


def build_groups(graph: Graph, parts: Sequence[tuple[Sequence[Node], Node]],
                 root: Graph | None = None) -> tuple[Group, ...]:
    """As `build_group` for many: each of `parts` is (nodes in any order, which of them is the anchor)."""
    flow, scope = flow_of(graph), _scope(graph, root)
    return tuple(_group(flow, sorted(nodes, key=lambda node: flow.places[key_of(node)]), anchor, *scope)
                 for nodes, anchor in parts)


def _scope(graph: Graph, root: Graph | None) -> tuple[Mapping[str, Value], Mapping[str, np.ndarray]]:
    """Values and constants that `graph` can name: those of the whole tree, whose names are unique."""
    if root is None or root is graph:
        return graph.values, graph.constants
    holders = [*walk_graphs(root), graph]
    return ({name: value for holder in holders for name, value in holder.values.items()},
            {name: array for holder in holders for name, array in holder.constants.items()})


def _group(flow: Flow, nodes: Sequence[Node], anchor: Node, values: Mapping[str, Value],
           constants: Mapping[str, np.ndarray]) -> Group:
    keys = frozenset(map(key_of, nodes))
    at = next(i for i, node in enumerate(nodes) if key_of(node) == key_of(anchor))
    made = [name for node in nodes for name in node.outputs if name]
    reads = [name for node in (anchor, *nodes[:at], *nodes[at + 1:]) for name in node.operands]
    inputs = tuple(dict.fromkeys(name for name in reads if name not in made))
    out = set(leaving(flow, keys))
    return Group(anchor, inputs, tuple(name for name in made if name in out),
                 {name: values[name] for name in (*inputs, *made)},
                 {name: constants[name] for name in inputs if name in constants},
                 tuple(nodes[:at]), tuple(nodes[at + 1:]))


def _ordered(flow: Flow, groups: list[frozenset[str]]) -> list[list[Node]]:
    """Nodes of each group in topological order, and the groups too, else near the order of their last nodes.

    Raises InternalError when groups depend on each other in a cycle.
    """
    nodes = [[flow.nodes[key] for key in sorted(keys, key=lambda key: flow.places[key])] for keys in groups]
    return [nodes[i] for i in order_of(flow.graph, nodes)]
