"""What an op is: one `OpDef` per op, in one place.

An op file defines its OpDefs and exports them in an explicit tuple `OPS`; `ops/registry.py` joins the tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from meta_infer.ir.graph import Attr, Graph, Node, Shape
from meta_infer.ir.loop import Expr
from meta_infer.ir.shapes import Dim
from meta_infer.support.dtypes import DType


@dataclass(frozen=True)
class TensorType:
    """dtype and shape of one tensor, and its contents where they are small integers known at build.

    `content` holds the elements of a tensor of rank 0 or 1 as dims (symbolic ones included), in order; None when
    unknown. It is what lets Shape -> Gather -> Concat -> Reshape chains fold. The tensor may be of floats or bools
    (0 and 1) whose values are integers, since exporters compute sizes in float: Shape -> Cast -> Mul -> Floor.
    """

    dtype: DType
    shape: Shape
    content: tuple[Dim, ...] | None = None


class ShapeError(Exception):
    """Inputs of an op do not fit each other; the caller adds the node's name."""


@dataclass(frozen=True)
class InferContext:
    """What `infer` may look at: input types (None = absent), attributes, constant inputs, and a symbol maker."""

    node: Node
    inputs: tuple[TensorType | None, ...]
    constants: Mapping[int, np.ndarray]                 # input position -> contents, when constant
    infer_region: Callable[[Graph, Sequence[TensorType | None]], tuple[TensorType, ...]] | None = None
    fresh_symbol: Callable[[str, int, int], Dim] | None = None   # (hint, lo, hi): a size known at run time

    def input(self, i: int) -> TensorType:
        """Type of a required input. Raises ShapeError when it is absent."""
        found = self.inputs[i] if i < len(self.inputs) else None
        if found is None:
            raise ShapeError(f"input {i} is required")
        return found

    def optional(self, i: int) -> TensorType | None:
        return self.inputs[i] if i < len(self.inputs) else None

    def attr(self, name: str, default: Attr = None) -> Attr:
        return self.node.attrs.get(name, default)

    def content(self, i: int) -> tuple[Dim, ...] | None:
        """Elements of a small integer input, if known: from its type or from its constant."""
        if i in self.constants:
            array = self.constants[i]
            if array.ndim <= 1 and array.dtype.kind in "iubf" and array.size <= 4096:
                if array.dtype.kind == "f":
                    wide = array.astype(np.float64)
                    if not np.all((abs(wide) < 1 << 24) & (wide == np.rint(wide))):
                        return None
                return tuple(int(x) for x in array.reshape(-1))
        found = self.optional(i)
        return found.content if found is not None else None


@dataclass(frozen=True)
class Sample:
    """One test case of an op: arrays (None = absent input) and attributes.

    It is compared with an ONNX node: the op of the same name with the same inputs and attributes, unless the
    `onnx_*` fields say how ONNX spells it. `opset` 0 is the tests' default; `onnx_op` "-" has no counterpart.
    """

    inputs: tuple[np.ndarray | None, ...]
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    rtol: float = 1e-5
    atol: float = 1e-6
    onnx_op: str = ""
    onnx_inputs: tuple[np.ndarray | None, ...] | None = None
    onnx_attrs: Mapping[str, Attr] | None = None
    opset: int = 0


@dataclass(frozen=True)
class OnnxNode:
    """An ONNX node as importers see it: attributes filled with the defaults of its own opset version."""

    op: str
    domain: str
    version: int                                        # since_version of the schema that applies
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Attr]                           # only those present or with a default in the schema
    name: str
    tensors: Mapping[str, np.ndarray] = field(default_factory=dict)   # attributes that are tensors
    regions: Mapping[str, Graph] = field(default_factory=dict)


@dataclass(frozen=True)
class ImportContext:
    """Lets an importer make and look up values: `constant(array, hint) -> name`, `fresh(hint) -> unused name`.

    What `emit` adds can be looked up as soon as it returns.
    """

    constant: Callable[[np.ndarray, str], str]
    fresh: Callable[[str], str]
    known: Callable[[str], np.ndarray | None]           # contents of a value that is constant at import
    type_of: Callable[[str], TensorType]
    emit: Callable[[Node], None]                        # adds a core node at once, before those the importer gives
    fresh_symbol: Callable[[str, int, int, str], Dim]   # (hint, lo, hi, value that tells the size while running)
    bound_before: Callable[[str, tuple[tuple[int, int], ...]], tuple[Dim, ...] | None]
    # ^ (vector, ranges): sizes within the ranges that an equal vector has been bound to already


Importer = Callable[[OnnxNode, ImportContext], Iterable[Node]]

NEWEST_OPSET = 28
"""Newest version of the ONNX operator set whose changes to the ops here have been read; newer ones are refused."""


@dataclass(frozen=True)
class OnnxImport:
    """Versions [since, until] of the ONNX op `op` become core nodes through `convert`.

    `convert=None`: same op name, same inputs and outputs, attributes as they are.
    """

    op: str
    since: int
    until: int = NEWEST_OPSET
    convert: Importer | None = None
    domain: str = ""


@dataclass(frozen=True)
class OpDef:
    """The single definition of a core op.

    infer      (ctx) -> output types. Raises ShapeError when inputs do not fit.
    reference  (node attrs, arrays) -> outputs, in plain numpy; float64 in gives float64 out.
    onnx       which ONNX ops and versions import to it; empty for ops only the compiler makes.
    expr       elementwise ops only: (attrs, loop expressions of equal lanes) -> loop expression. An op with
               `expr` can be fused into any kernel's epilogue and needs no kernel of its own.
    flops      (attrs, input types, output types) -> floating-point operations, for rooflines and reports.
    decompose  (node, fresh-name maker, constant maker, types) -> nodes of simpler ops, or None.
    keeps_zero elementwise only: f(0, ...) == 0 whatever other operands, so padding lanes stay zero.
    samples    (rng) -> test cases.
    """

    name: str
    infer: Callable[[InferContext], tuple[TensorType, ...]]
    reference: Callable[[Mapping[str, Attr], Sequence[np.ndarray | None]], tuple[np.ndarray, ...]]
    samples: Callable[[np.random.Generator], Iterable[Sample]] = lambda rng: ()
    onnx: tuple[OnnxImport, ...] = ()
    expr: Callable[[Mapping[str, Attr], Sequence[Expr]], Expr] | None = None
    flops: Callable[[Mapping[str, Attr], Sequence[TensorType | None], Sequence[TensorType]],
                    Dim] | None = None
    decompose: Callable[[Node, Callable[[str], str], Callable[[np.ndarray, str], str],
                         Mapping[str, TensorType]], tuple[Node, ...] | None] | None = None
    keeps_zero: bool = False
    is_control_flow: bool = False
    is_view: bool = False                               # output is the input's elements in the same order
