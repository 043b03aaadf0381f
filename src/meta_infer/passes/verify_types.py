"""The part of the graph verifier that knows ops: every value has the type its op infers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from meta_infer.ir.graph import Graph, Node, Value
from meta_infer.ir.shapes import Dim, evaluate, symbols_of
from meta_infer.ir.verify_graph import around, verify_graph
from meta_infer.ops.infer import constant_type, counted_symbols, infer_node
from meta_infer.ops.loop import body_types
from meta_infer.ops.opdef import ShapeError, TensorType
from meta_infer.support.dtypes import dtype_of
from meta_infer.support.errors import InternalError

_FRESH = "size_known_at_run_time"


def verify(graph: Graph) -> None:
    """`verify_graph` and `verify_types` together. Raises InternalError."""
    verify_graph(graph)
    verify_types(graph)


def verify_types(graph: Graph) -> None:
    """Infer every node of the region tree again and compare with the declared types.

    Dimensions an op can only know at run time are not compared. Raises InternalError with the IR around the fault.
    """
    _verify(graph, {}, {}, {})


def _verify(graph: Graph, outer: Mapping[str, TensorType], outer_constants: Mapping[str, np.ndarray],
            inputs: Mapping[str, TensorType]) -> None:
    types = dict(outer)
    constants = {**outer_constants, **graph.constants}
    types.update({name: TensorType(v.dtype, v.shape) for name, v in graph.values.items()})
    types.update(inputs)                                 # the number of the pass has a content
    types.update({name: constant_type(array) for name, array in graph.constants.items()
                  if dtype_of(array) == graph.values[name].dtype})
    for node in graph.nodes:
        for region in node.regions:
            inside = zip(region.inputs, body_types(node), strict=True) if node.op == "Loop" else ()
            _verify(region, types, constants, dict(inside))
        try:
            found = infer_node(node, types, constants, counted_symbols(_FRESH))
        except ShapeError as error:
            raise InternalError(f"its operands do not fit: {error}", what=node.label,
                                hint=around(graph, node)) from None
        except KeyError as error:
            raise InternalError(f"no op or value is called {error}", what=node.label,
                                hint=around(graph, node)) from None
        for name, inferred in zip(node.outputs, found, strict=False):
            if name:
                _compare(graph, node, graph.values[name], inferred)
                types[name] = TensorType(inferred.dtype, graph.values[name].shape, inferred.content)


def _compare(graph: Graph, node: Node, value: Value, inferred: TensorType) -> None:
    same = value.dtype == inferred.dtype and value.rank == len(inferred.shape)
    if not same or not all(map(_may_equal, value.shape, inferred.shape)):
        dims = ", ".join(map(str, inferred.shape))
        raise InternalError(f"{value} is declared, but its op gives {inferred.dtype}[{dims}]", what=node.label,
                            hint=around(graph, node))


def _may_equal(declared: Dim, inferred: Dim) -> bool:
    """Equal as polynomials, or at the ends and the middle of all ranges; unknown sizes equal anything."""
    if declared == inferred:
        return True
    symbols = symbols_of(declared) | symbols_of(inferred)
    if any(symbol.name.startswith(_FRESH) for symbol in symbols):
        return True
    ends = ({s.name: s.lo for s in symbols}, {s.name: s.hi for s in symbols},
            {s.name: s.lo + (s.hi - s.lo) // s.step // 2 * s.step for s in symbols})
    return bool(symbols) and all(evaluate(declared, at) == evaluate(inferred, at) for at in ends)
