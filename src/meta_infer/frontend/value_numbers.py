"""Which values of a graph in the making are equal: made by equal nodes from equal operands.

Sizes that data tells get a symbol where they are found. Two tensors that are compressed by one condition, or reshaped
to one computed shape, have the same size; only when it is the same symbol can that be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.graph_text import print_attr
from meta_infer.ir.shapes import Dim, bounds, symbols_of
from meta_infer.ops.attrs import dims_of
from meta_infer.ops.opdef import TensorType

_LARGEST_CONSTANT = 256                                  # elements: larger ones are equal to themselves only


def finds_sizes(node: Node, types: Iterable[TensorType]) -> bool:
    """Whether the outputs of `node`, being of these types, have sizes that its computation tells."""
    return any(s.maker in node.outputs for found in types for dim in found.shape for s in symbols_of(dim) if s.maker)


class ValueNumbers:
    """The nodes of one graph so far, by what they mean."""

    def __init__(self) -> None:
        self._first: dict[tuple[object, ...], Node] = {}
        self._equals: dict[str, str] = {}                # value -> the first value that is equal
        self._sizes: dict[object, tuple[Dim, ...]] = {}  # operand of a BindDims -> its sizes

    def equal_node(self, node: Node, constants: Mapping[str, np.ndarray]) -> Node | None:
        """The node before that gives the same values, if there is one; else `node` is remembered."""
        if node.regions:
            return None
        if node.op == "BindDims":
            self._sizes.setdefault(self._meaning(node.inputs[0], constants), dims_of(node.attrs, "sizes"))
            return None
        attrs = tuple((name, print_attr(node.attrs[name])) for name in sorted(node.attrs))
        operands = tuple(self._meaning(name, constants) for name in node.inputs)
        first = self._first.setdefault((node.op, operands, attrs, tuple(map(bool, node.outputs))), node)
        if first is node:
            return None
        self._equals.update((new, self._equals.get(old, old))
                            for new, old in zip(node.outputs, first.outputs, strict=True) if new)
        return first

    def sizes(self, name: str, ranges: tuple[tuple[int, int], ...], constants: Mapping[str, np.ndarray]
              ) -> tuple[Dim, ...] | None:
        """What the elements of vector `name` have been bound to before, within these ranges."""
        found = self._sizes.get(self._meaning(name, constants))
        if found is None or not all(lo <= bounds(size)[0] and bounds(size)[1] <= hi
                                    for size, (lo, hi) in zip(found, ranges, strict=True)):
            return None
        return found

    def _meaning(self, name: str, constants: Mapping[str, np.ndarray]) -> object:
        array = constants.get(name)
        if array is not None and array.size <= _LARGEST_CONSTANT:
            return array.dtype.name, array.shape, array.tobytes()
        return self._equals.get(name, name)
