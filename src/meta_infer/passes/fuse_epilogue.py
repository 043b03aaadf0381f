"""What may follow an anchor in its group: elementwise ops on each element while it is still in a register.

    before (three groups)                                     after (one group)
    %c: float32[1, 8, 4, 4] = Conv(%x, %w)                    {%c = Conv(%x, %w);
    %s: float32[1, 8, 4, 4] = Add(%c, %residual)               %s = Add(%c, %residual);
    %y: float32[1, 8, 4, 4] = Relu(%s)                         %y = Relu(%s)}

A node joins when it is elementwise, its result has the shape of the anchor's, so that no other operand broadcasts
that up, and, some nodes later, one value only leaves the group: what the links carry has no other reader, and no
other operand can depend on the group (it would have to through a value that leaves it).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from meta_infer.ir.graph import Graph, Node
from meta_infer.ops.registry import op_named
from meta_infer.passes.rewrite import key_of

ANCHORS = (
    # What computes most comes first: between two anchors whose results meet in one Add, it takes the Add.
    frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm", "ConvInteger", "MatMulInteger", "MatMulNBits"}),
    frozenset({"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Softmax", "LogSoftmax",
               "LayerNormalization", "InstanceNormalization", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin",
               "ReduceProd", "Attention"}),
)
MAX_NODES = 24


@dataclass(frozen=True)
class Flow:
    """Who reads what in one graph, and where nodes stand; keys are first outputs."""

    graph: Graph
    nodes: Mapping[str, Node]
    places: Mapping[str, int]
    readers: Mapping[str, tuple[str, ...]]
    makers: Mapping[str, str]
    outputs: frozenset[str]


def flow_of(graph: Graph) -> Flow:
    readers: dict[str, list[str]] = {}
    for node in graph.nodes:
        for name in node.reads:
            readers.setdefault(name, []).append(key_of(node))
    return Flow(graph, {key_of(node): node for node in graph.nodes},
                {key_of(node): i for i, node in enumerate(graph.nodes)},
                {name: tuple(keys) for name, keys in readers.items()},
                {name: key_of(node) for node in graph.nodes for name in node.outputs if name},
                frozenset(graph.outputs))


def is_elementwise(node: Node) -> bool:
    """Whether `node` can be part of an epilogue: an element in, an element out, and not just a view."""
    definition = op_named(node.op)
    return definition.expr is not None and not definition.is_view and len(node.outputs) == 1


def leaving(flow: Flow, keys: Set[str]) -> list[str]:
    """Values made inside that are read outside or are outputs of the graph."""
    made = [name for key in keys for name in flow.nodes[key].outputs if name]
    return [name for name in made
            if name in flow.outputs or any(reader not in keys for reader in flow.readers.get(name, ()))]


def fuse_epilogue(flow: Flow, anchor: Node, taken: Set[str]) -> frozenset[str]:
    """Keys of the largest legal group of `anchor` and nodes after it that no other group has `taken`."""
    shape = flow.graph.values[key_of(anchor)].shape
    best = keys = frozenset({key_of(anchor)})
    while len(keys) <= MAX_NODES:
        following = {reader for name in leaving(flow, keys) for reader in flow.readers.get(name, ())} - keys
        if not following:
            break
        first = min(following, key=lambda key: flow.places[key])
        node = flow.nodes[first]
        if first in taken or not is_elementwise(node) or flow.graph.values[first].shape != shape:
            break
        keys |= {first}
        if len(leaving(flow, keys)) == 1:
            best = keys
    return best
