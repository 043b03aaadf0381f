"""Types of a whole graph from the types of its inputs: each op's `infer`, with small integer contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Graph, Node
from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.ops.opdef import InferContext, ShapeError, TensorType
from meta_infer.ops.registry import op_named
from meta_infer.support.dtypes import dtype_of

FreshSymbol = Callable[[str, int, int, str], Dim]
"""(hint, lo, hi, maker) -> a new symbol, whose size the computation of value `maker` tells."""


def infer_node(node: Node, types: Mapping[str, TensorType], constants: Mapping[str, np.ndarray],
               fresh_symbol: FreshSymbol) -> tuple[TensorType, ...]:
    """Types of `node`'s outputs; `types` and `constants` must reach whatever the node reads or captures.

    Raises ShapeError naming the node when its inputs do not fit, KeyError for an unknown op.
    """
    def infer_region(region: Graph, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        given = [known or value_type(region, name) for name, known in zip(region.inputs, inputs, strict=True)]
        inside = infer_graph(region, given, types, constants, fresh_symbol)
        return tuple(inside[name] for name in region.outputs)

    inputs = tuple(types[name] if name else None for name in node.inputs)
    known = {i: constants[name] for i, name in enumerate(node.inputs) if name in constants}
    maker = next((name for name in node.outputs if name), "")
    context = InferContext(node, inputs, known, infer_region,
                           lambda hint, lo, hi: fresh_symbol(hint, lo, hi, maker))
    try:
        return tuple(op_named(node.op).infer(context))
    except ShapeError as error:
        shapes = ", ".join("absent" if t is None else f"{t.dtype}{_shape(t)}" for t in inputs)
        raise ShapeError(f"{node.label}: {error}; its inputs are {shapes}") from None


def infer_graph(graph: Graph, inputs: Sequence[TensorType], outer: Mapping[str, TensorType],
                outer_constants: Mapping[str, np.ndarray], fresh_symbol: FreshSymbol) -> dict[str, TensorType]:
    """Types of every value that `graph` defines or may read from `outer`, its inputs being of types `inputs`."""
    types = dict(outer)
    constants = {**outer_constants, **graph.constants}
    types.update(zip(graph.inputs, inputs, strict=True))
    types.update({name: constant_type(array) for name, array in graph.constants.items()})
    for node in graph.nodes:
        found = infer_node(node, types, constants, fresh_symbol)
        for name, known in zip(node.outputs, found, strict=False):
            if name:                                     # the sizes that the graph gives it: no symbol is made anew
                shape = graph.values[name].shape if name in graph.values else known.shape
                types[name] = TensorType(known.dtype, shape, known.content)
    return types


def counted_symbols(prefix: str = "dyn") -> FreshSymbol:
    """A maker of symbols for sizes known only at run time: `dyn_hint_1`, `dyn_hint_2`, ..."""
    count = 0

    def fresh(hint: str, lo: int, hi: int, maker: str) -> Dim:
        nonlocal count
        count += 1
        return Symbol(f"{prefix}_{hint}_{count}", lo, hi, maker=maker).dim

    return fresh


def value_type(graph: Graph, name: str) -> TensorType:
    """The type `graph` declares for `name`, contents unknown."""
    value = graph.values[name]
    return TensorType(value.dtype, value.shape)


def constant_type(array: np.ndarray) -> TensorType:
    """The type of a constant, with its contents when it is a small integer tensor."""
    small = array.ndim <= 1 and array.dtype.kind in "iub" and array.size <= 4096
    content = tuple(int(x) for x in array.reshape(-1)) if small else None
    return TensorType(dtype_of(array), array.shape, content)


def _shape(found: TensorType) -> str:
    return f"[{', '.join(map(str, found.shape))}]"
