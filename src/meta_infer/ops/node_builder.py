"""Builds the core nodes of an importer or a decomposition one after the other, each named after what it stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ops.importing import origin_of
from meta_infer.ops.opdef import ImportContext, OnnxNode
from meta_infer.support.dtypes import DType


class NodeBuilder:
    """`emit` adds a node and returns its output's name.

    A decomposition finds its nodes in `nodes`, in order. An importer's go to the graph at once, so that the context
    can tell their types, and `nodes` stays empty.
    """

    def __init__(self, fresh: Callable[[str], str], constant: Callable[[np.ndarray, str], str],
                 origins: tuple[str, ...] = (), add: Callable[[Node], None] | None = None) -> None:
        self._fresh, self._constant, self._origins = fresh, constant, origins
        self.nodes: list[Node] = []
        self._add = add or self.nodes.append

    @classmethod
    def importing(cls, node: OnnxNode, ctx: ImportContext) -> NodeBuilder:
        """For the nodes that an ONNX node becomes."""
        return cls(ctx.fresh, ctx.constant, (origin_of(node),), ctx.emit)

    def emit(self, op: str, *inputs: str, out: str = "", **attrs: Attr) -> str:
        """`out` names the output (a fresh name by default); trailing absent inputs are dropped."""
        return self.add(op, inputs, attrs, out)

    def add(self, op: str, inputs: Sequence[str], attrs: Mapping[str, Attr], out: str = "") -> str:
        """The same with the attributes as one mapping."""
        names = list(inputs)
        while names and not names[-1]:
            names.pop()
        output = out or self._fresh(op.lower())
        self._add(Node(op, tuple(names), (output,), attrs, self._origins))
        return output

    def put(self, node: Node) -> None:
        """Add a node as it is, for instance one of several outputs."""
        self._add(node)

    def constant(self, array: np.ndarray, hint: str = "constant") -> str:
        return self._constant(array, hint)

    def scalar(self, value: float, dtype: DType, hint: str = "constant") -> str:
        return self._constant(np.array(value, dtype.numpy), hint)

    def reshape(self, x: str, shape: Shape, out: str = "") -> str:
        return self.emit("Reshape", x, out=out, shape=shape)

    def transpose(self, x: str, perm: Sequence[int], out: str = "") -> str:
        return self.emit("Transpose", x, out=out, perm=tuple(perm))

    def cast(self, x: str, dtype: DType, out: str = "") -> str:
        return self.emit("Cast", x, out=out, to=dtype)

    def finish(self, x: str, output: str) -> None:
        """Give the value `x` the name `output`."""
        self.emit("Identity", x, out=output)
