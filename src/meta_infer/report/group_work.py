"""What a group computes, in a form that report.json carries and `profile` reads back: types and attributes, no weights.

    {"graph": "graph group(%x: float32[N, 4], %w: float32[4, 8]) -> (%y) {...}", "anchor": 0, "weights": ["w"]}

`graph` is that of ir/graph_text.py: all nodes of the group, and small constants with their contents. `anchor` is the
place of the group's anchor among the nodes, `weights` names the operands that are constants too large for a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from meta_infer.ir.graph import Graph
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.ir.graph_text import is_inline, print_graph
from meta_infer.ir.group import Group
from meta_infer.ops.registry import op_named

LONGEST = 1 << 14
"""Characters of a text; the few groups with longer attributes, such as the tables of decision trees, go without."""


def work_of(group: Group) -> dict[str, Any] | None:
    """None for control flow, whose bodies have groups of their own, and for what has no short text."""
    if op_named(group.anchor.op).is_control_flow:
        return None
    names = dict.fromkeys([*group.inputs, *(name for node in group.nodes for name in (*node.inputs, *node.outputs)
                                            if name), *group.outputs])
    values = {name: replace(group.values[name], origin=None, quant=None) for name in names}
    constants = {name: array for name, array in group.constants.items()
                 if name in names and is_inline(array, values[name].dtype)}
    weights = [name for name in names if name in group.constants and name not in constants]
    nodes = tuple(replace(node, origins=()) for node in group.nodes)
    text = print_graph(Graph("group", tuple(n for n in group.inputs if n not in constants), group.outputs, nodes,
                             values, constants))
    if len(text) > LONGEST:
        return None
    return {"graph": text, "anchor": len(group.prologue), "inputs": list(group.inputs), "weights": weights}


def group_of(work: Mapping[str, Any]) -> Group:
    """The group that `work_of` wrote; large constants hold zeros.

    Raises ValueError for what it did not write, or wrote in a version with other operators.
    """
    try:
        graph = parse_graph(work["graph"])
        at, weights, inputs = int(work["anchor"]), list(work["weights"]), tuple(work["inputs"])
        constants = {**graph.constants, **{name: _zeros(graph, name) for name in weights}}
        before, anchor, after = graph.nodes[:at], graph.nodes[at], graph.nodes[at + 1:]
        for node in graph.nodes:
            op_named(node.op)
        return Group(anchor, inputs, graph.outputs, graph.values, constants, before, after)
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError, SyntaxError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _zeros(graph: Graph, name: str) -> np.ndarray:
    value = graph.values[name]
    shape = tuple(d for d in value.shape if isinstance(d, int))
    if len(shape) != value.rank:
        raise ValueError(f"constant %{name} has a size that is not fixed")
    return np.broadcast_to(np.zeros((), value.dtype.numpy), shape)
