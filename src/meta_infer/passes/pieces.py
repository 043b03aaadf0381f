"""The simpler ops that may stand for a node a device lacks, while they are tried: typed, and nothing changed yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape, attr_symbols
from meta_infer.ir.shapes import Dim, product, upper
from meta_infer.ops.infer import counted_symbols, infer_node
from meta_infer.ops.opdef import TensorType
from meta_infer.ops.registry import op_named
from meta_infer.ops.run_reference import run_reference
from meta_infer.passes.fold_constants import GROWTH, GROWTH_BYTES
from meta_infer.passes.rewrite import Edit
from meta_infer.support.dtypes import FLOAT32, DType, dtype_of


def _bytes(type: TensorType) -> int:
    return type.dtype.nbytes(upper(product(type.shape)))


class Scope:
    """Types and constants that the nodes under trial can see: those of the edited graph, and new ones beside it."""

    def __init__(self, edit: Edit) -> None:
        self._edit = edit
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.folded: set[str] = set()                      # results that the build computes, see `folds`

    def type(self, name: str) -> TensorType:
        if name in self.types:
            return self.types[name]
        value = self._edit.value(name)
        return TensorType(value.dtype, value.shape)

    def constant(self, name: str) -> np.ndarray | None:
        return self.constants[name] if name in self.constants else self._edit.constant(name)

    def is_constant(self, name: str) -> bool:
        return name in self.folded or self.constant(name) is not None

    def fresh(self, hint: str) -> str:
        return self._edit.fresh(hint)

    def folds(self, node: Node) -> bool:
        """Whether the build computes `node`: from constants alone, of known sizes, and without much growth."""
        types = [self.type(name) for name in node.outputs if name]
        if not node.reads or not all(map(self.is_constant, node.reads)) or node.regions:
            return False
        if any(map(attr_symbols, node.attrs.values())):
            return False
        if not all(isinstance(dim, int) for type in types for dim in type.shape):
            return False
        given = sum(_bytes(self.type(name)) for name in node.reads)
        return sum(map(_bytes, types)) <= max(GROWTH * given, GROWTH_BYTES)

    def compute(self, node: Node) -> None:
        """Make constants of what `node`, which folds, computes."""
        arrays = [self.constant(name) if name else None for name in node.inputs]
        types = [self.type(name).dtype if name else FLOAT32 for name in node.outputs]
        with np.errstate(all="ignore"):
            results = run_reference(op_named(node.op), node.attrs, arrays, types)
        for name, array in zip(node.outputs, results, strict=False):
            if name:
                self.constants[name] = np.ascontiguousarray(array).reshape(np.shape(array))

    def infer(self, node: Node) -> None:
        """Note the types of what `node` makes."""
        known = {name: array for name in node.reads if (array := self.constant(name)) is not None}
        found = infer_node(node, {name: self.type(name) for name in node.reads}, known, counted_symbols())
        self.types.update({name: type for name, type in zip(node.outputs, found, strict=False) if name})


class Pieces:
    """The nodes of one decomposition, in order."""

    def __init__(self, scope: Scope, origins: tuple[str, ...]) -> None:
        self._scope, self._origins = scope, origins
        self.nodes: list[Node] = []

    def put(self, node: Node) -> None:
        """Add a node as it is."""
        self._scope.infer(node)
        self.nodes.append(node)

    def emit(self, op: str, *inputs: str, out: str = "", **attrs: Attr) -> str:
        """Add a node of one output and give its name: `out`, or a fresh one. Absent operands at the end are dropped."""
        return self.add(op, inputs, attrs, out)

    def add(self, op: str, inputs: Sequence[str], attrs: Mapping[str, Attr], out: str = "") -> str:
        """The same with the attributes as one mapping."""
        names = list(inputs)
        while names and not names[-1]:
            names.pop()
        name = out or self.fresh(op.lower())
        self.put(Node(op, tuple(names), (name,), attrs, self._origins))
        return name

    def fresh(self, hint: str) -> str:
        return self._scope.fresh(hint)

    def type(self, name: str) -> TensorType:
        return self._scope.type(name)

    def constant(self, array: np.ndarray, hint: str = "constant") -> str:
        name = self.fresh(hint)
        self._scope.constants[name] = array
        self._scope.types[name] = TensorType(dtype_of(array), array.shape)
        return name

    def scalar(self, value: float, like: str) -> str:
        """A constant of the dtype of value `like`."""
        return self.constant(np.array(value, self.dtype(like).numpy))

    def shape(self, name: str) -> Shape:
        return self.type(name).shape

    def dtype(self, name: str) -> DType:
        return self.type(name).dtype

    def sliced(self, x: str, axis: int, start: int, size: Dim, out: str = "") -> str:
        """`size` elements of one axis from `start` on."""
        return self.sliced_all(x, {axis: (start, size)}, out)

    def sliced_all(self, x: str, cuts: Mapping[int, tuple[int, Dim]], out: str = "") -> str:
        """(start, size) by axis; other axes stay whole."""
        shape = self.shape(x)
        starts = tuple(cuts[i][0] if i in cuts else 0 for i in range(len(shape)))
        sizes = tuple(cuts[i][1] if i in cuts else d for i, d in enumerate(shape))
        return self.emit("Slice", x, out=out, starts=starts, sizes=sizes, steps=(1,) * len(shape))

    def reshape(self, x: str, shape: Shape, out: str = "") -> str:
        return self.emit("Reshape", x, out=out, shape=shape)


@dataclass(frozen=True)
class Bounds:
    """What op_limits allow of the op on the device, None where they say nothing."""

    kernel: int | None = None
    channels: int | None = None


Decomposition = Callable[[Node, Pieces, Bounds], bool]
"""Adds the pieces of a node, whose last ones make its outputs; False when it does not apply to this case."""
