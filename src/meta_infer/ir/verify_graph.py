"""Invariants of the graph IR that need no knowledge of ops.

The types that ops give their outputs are checked by passes/verify_types.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Graph, Node, Value, free_names, walk_graphs
from meta_infer.ir.graph_text import print_node, symbols_used
from meta_infer.ir.shapes import Symbol
from meta_infer.support.errors import InternalError

_AROUND = 2


def verify_graph(graph: Graph) -> None:
    """Check every invariant of the region tree.

    SSA and topological order; names unique over the tree; every name typed, and no more; constants as their
    types say; captures equal to the names a region reads from outside; one range per symbol name. Raises
    InternalError with the lines of IR around the fault.
    """
    if free := free_names(graph):
        raise _fault(graph, f"%{free[0]} is not defined before its use", _first_reader(graph, free[0]))
    if graph.captures:
        raise _fault(graph, f"the outermost graph captures {graph.captures}")
    _verify_names(graph)
    _verify_symbols(symbols_used(graph), graph)
    for holder in walk_graphs(graph):
        _verify_holder(holder)


def _verify_names(graph: Graph) -> None:
    seen: set[str] = set()
    for holder in walk_graphs(graph):
        for name, node in _definitions(holder):
            if name in seen:
                raise _fault(holder, f"%{name} is defined twice", node)
            seen.add(name)


def _definitions(graph: Graph) -> Iterable[tuple[str, Node | None]]:
    for name in (*graph.inputs, *graph.constants):
        yield name, None
    for node in graph.nodes:
        for name in node.outputs:
            if name:
                yield name, node


def _verify_symbols(symbols: set[Symbol], graph: Graph) -> None:
    ranges: dict[str, Symbol] = {}
    for symbol in sorted(symbols, key=lambda s: (s.name, s.lo, s.hi, s.step)):
        if not symbol.name.isidentifier():
            raise _fault(graph, f"symbol name {symbol.name!r} is not an identifier")
        other = ranges.setdefault(symbol.name, symbol)
        if other != symbol:
            raise _fault(graph, f"symbol {symbol.name} has two ranges: {other!r} and {symbol!r}")
        if symbol.lo > symbol.hi or symbol.step < 1:
            raise _fault(graph, f"symbol {symbol.name} has an empty range: {symbol!r}")


def _verify_holder(graph: Graph) -> None:
    defined = {name for name, _ in _definitions(graph)}
    if untyped := defined - set(graph.values):
        raise _fault(graph, f"%{min(untyped)} has no type", _producer(graph, min(untyped)))
    if stale := set(graph.values) - defined:
        raise _fault(graph, f"%{min(stale)} is typed but nothing defines it")
    for name, value in graph.values.items():
        if value.name != name:
            raise _fault(graph, f"the type of %{name} says it is %{value.name}", _producer(graph, name))
    for name, array in graph.constants.items():
        _verify_constant(graph, graph.values[name], array)
    for node in graph.nodes:
        if not any(node.outputs):
            raise _fault(graph, f"{node.op} has no outputs", node)
        for region in node.regions:
            if set(region.captures) != set(free_names(region)):
                raise _fault(graph, f"region {region.name!r} captures {region.captures} but reads "
                                    f"{free_names(region)} from outside", node)


def _verify_constant(graph: Graph, value: Value, array: np.ndarray) -> None:
    if value.shape != array.shape:
        raise _fault(graph, f"constant {value} holds an array of shape {array.shape}")
    if value.dtype.numpy != array.dtype:
        raise _fault(graph, f"constant {value} holds an array of {array.dtype}")


def _producer(graph: Graph, name: str) -> Node | None:
    return next((node for node in graph.nodes if name in node.outputs), None)


def _first_reader(graph: Graph, name: str) -> Node | None:
    return next((node for node in graph.nodes if name in node.reads), None)


def _fault(graph: Graph, problem: str, node: Node | None = None) -> InternalError:
    return InternalError(problem, what=f"graph {graph.name!r}" if node is None else node.label,
                         hint=around(graph, node))


def around(graph: Graph, node: Node | None) -> str:
    """A few lines of IR around `node`, as a hint of an error about it."""
    at = next((i for i, other in enumerate(graph.nodes) if other is node), 0)
    lines = []
    for other in graph.nodes[max(0, at - _AROUND):at + _AROUND + 1]:
        try:
            lines.append(print_node(other, graph).split("\n")[0])
        except KeyError:                                 # the fault may be the very type that is missing
            lines.append(f"{', '.join(other.outputs)} = {other.op}({', '.join(other.inputs)})")
    mark = "report this as a fault of meta-infer, with the IR around it:"
    return "\n    ".join([mark, *lines])
