"""Folding at import: what is known before the model runs becomes a constant, so that shape chains vanish."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Graph, Node
from meta_infer.ir.shapes import Expr
from meta_infer.ops.opdef import TensorType
from meta_infer.ops.registry import op_named
from meta_infer.ops.run_reference import run_reference
from meta_infer.support.dtypes import dtype_of

_LARGEST_RESULT = 4096                                   # elements: larger tables are left to the passes
_LARGEST_OPERAND = 1 << 16


def fold(node: Node, types: Sequence[TensorType], known: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
    """Contents of the node's outputs when they are known now, else None.

    Known are small integers that `infer` has worked out, views of constants, and small results of small
    constants. `types` are those of the outputs.
    """
    contents = [_from_content(found) for found in types]
    if all(array is not None for array in contents):
        return [array for array in contents if array is not None]
    op = op_named(node.op)
    operands = [known.get(name) if name else None for name in node.inputs]
    if node.regions or any(name and array is None for name, array in zip(node.inputs, operands, strict=True)):
        return None
    if any(isinstance(d, Expr) for t in types for d in t.shape) or any(map(_is_symbolic, node.attrs.values())):
        return None
    small = all(_elements(t) <= _LARGEST_RESULT for t in types) and sum(
        a.size for a in operands if a is not None) <= _LARGEST_OPERAND
    if not small and not op.is_view:
        return None
    with np.errstate(all="ignore"):
        results = run_reference(op, node.attrs, operands, [found.dtype for found in types])
    fits = all(r.shape == t.shape and dtype_of(r) == t.dtype for r, t in zip(results, types, strict=False))
    return list(results) if fits else None


def _from_content(found: TensorType) -> np.ndarray | None:
    if found.content is None or found.dtype.is_float or any(isinstance(d, Expr) for d in found.content):
        return None
    return np.array(found.content, found.dtype.numpy).reshape(found.shape)  # type: ignore[arg-type]


def _is_symbolic(attr: object) -> bool:
    return any(map(_is_symbolic, attr)) if isinstance(attr, tuple) else isinstance(attr, Expr)


def _elements(found: TensorType) -> int:
    return math.prod(dim for dim in found.shape if isinstance(dim, int))


def drop_dead(graph: Graph) -> Graph:
    """`graph` without nodes and constants that nothing reads; inputs stay. Captures are worked out anew."""
    live, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if not live.isdisjoint(node.outputs):
            kept.append(node)
            live.update(node.reads)
    nodes = tuple(reversed(kept))
    constants = {name: array for name, array in graph.constants.items() if name in live}
    defined = {*graph.inputs, *constants, *(name for node in nodes for name in node.outputs)}
    values = {name: value for name, value in graph.values.items() if name in defined}
    return graph.replace(nodes=nodes, constants=constants, values=values)
