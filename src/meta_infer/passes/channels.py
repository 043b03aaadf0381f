"""Elementwise nodes that treat every channel by itself, and the constants that they add or multiply by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.passes.fuse_epilogue import is_elementwise
from meta_infer.passes.pieces import Pieces
from meta_infer.passes.rewrite import Edit


def channel_vector(array: np.ndarray, rank: int, axis: int, count: int) -> np.ndarray | None:
    """A constant that varies along `axis` only of a tensor of `rank`, as [count] or [1]; None for others."""
    if array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(size != 1 for at, size in enumerate(shape) if at != axis) or shape[axis] not in (1, count):
        return None
    return array.reshape(-1)


def channel_constant(vector: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """A vector [n] or [1] as it broadcasts along `axis` of a tensor of `rank`."""
    return vector.reshape(() if vector.size == 1 else (-1, *(1,) * (rank - 1 - axis)))


@dataclass(frozen=True)
class Link:
    """An elementwise node that reads value `name`, constants along its channels (by position), and nothing else."""

    node: Node
    name: str
    vectors: Mapping[int, np.ndarray]

    def emit(self, to: Pieces, name: str, axis: int, vectors: Mapping[int, np.ndarray] | None = None) -> str:
        """The same node on value `name`, whose channels lie on `axis`, with other constants where they are given."""
        rank, vectors = len(to.shape(name)), self.vectors if vectors is None else vectors
        inputs = [name if given == self.name else
                  to.constant(channel_constant(vectors[i], rank, axis), f"{self.node.op.lower()}_operand")
                  if i in vectors else "" for i, given in enumerate(self.node.inputs)]
        return to.add(self.node.op, inputs, self.node.attrs)


def next_link(edit: Edit, name: str, axis: int) -> Link | None:
    """The node that alone reads `name`, whose channels lie on `axis`, if it may be moved along with what makes it."""
    node = edit.only_user(name)
    if node is None or not is_elementwise(node) or "axis" in node.attrs:
        return None
    value, out = edit.value(name), edit.value(node.outputs[0])
    count = value.shape[axis]
    if value.shape != out.shape or value.quant or out.quant or not isinstance(count, int):
        return None
    vectors = {}
    for i, other in enumerate(node.inputs):
        if not other or other == name:
            continue
        array = edit.constant(other)
        vector = channel_vector(array, value.rank, axis, count) if array is not None else None
        if vector is None or edit.value(other).quant:
            return None
        vectors[i] = vector
    return Link(node, name, vectors)
