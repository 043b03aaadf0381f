"""Graph IR: nodes over typed, shaped, named values.

A `Graph` is immutable. Nodes refer to values by name and stand in topological order; `values` types every name
that is an input, a constant or a node's output. Names are unique over the whole region tree, so a region (the body
of an If or Loop) may read any value of an enclosing graph simply by naming it: `captures` lists those names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from meta_infer.ir.shapes import Dim, Expr, Symbol, symbols_of
from meta_infer.support.dtypes import DType

Shape = tuple[Dim, ...]
Attr = int | float | str | bool | DType | tuple["Attr", ...] | Dim | None
"""What an attribute may hold. Arrays never are attributes: they are constants. Dims may be symbolic."""


@dataclass(frozen=True)
class Quant:
    """How the integers of a value stand for reals: `real = scale * (stored - zero_point)`.

    `axis` is the dimension along which scale and zero_point vary (None: one for the whole tensor) and `block` the
    number of consecutive elements of that axis that share one pair (0: one pair per index).
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None
    block: int = 0


@dataclass(frozen=True)
class Value:
    """A tensor's type and where it came from.

    `origin` is the name of the ONNX tensor that this value equals, or None for a tensor the compiler made up
    (for example the output of half a fused chain); comparison by layer stands on it.
    """

    name: str
    dtype: DType
    shape: Shape
    origin: str | None = None
    quant: Quant | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return all(isinstance(d, int) for d in self.shape)

    def __str__(self) -> str:
        return f"%{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


def attr_symbols(attr: Attr) -> set[Symbol]:
    """Every symbol in the dimensions that an attribute holds."""
    if isinstance(attr, tuple):
        return {symbol for item in attr for symbol in attr_symbols(item)}
    return symbols_of(attr) if isinstance(attr, Expr) else set()


_NO_ATTRS: Mapping[str, Attr] = MappingProxyType({})


@dataclass(frozen=True)
class Node:
    """One application of an op.

    An absent optional input is the empty string, as in ONNX. `origins` are the names of the ONNX nodes this node
    stands for: one after import, several after a fusion or raising. `regions` are bodies of control flow.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Attr] = field(default_factory=lambda: _NO_ATTRS)
    origins: tuple[str, ...] = ()
    regions: tuple[Graph, ...] = ()

    @property
    def label(self) -> str:
        """How messages name this node: its ONNX node name(s) and op."""
        return f"node {'+'.join(self.origins) or self.outputs[0]!r} ({self.op})"

    @property
    def operands(self) -> tuple[str, ...]:
        """Every value whose elements this node reads: its inputs that are present and what its regions capture."""
        captured = [c for region in self.regions for c in region.captures]
        return tuple(dict.fromkeys([i for i in self.inputs if i] + captured))

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Every value that must be computed before this node: its operands, and what tells its attributes' sizes.

        Reshape(%x) {shape = ([n], 2)} waits for the value that tells n, though it reads no element of it. Sizes that
        the inputs of its own regions tell are known there only.
        """
        own = {*self.outputs, *(name for region in self.regions for name in region.inputs)}
        makers = [s.maker for attr in self.attrs.values() for s in attr_symbols(attr) if s.maker]
        return tuple(dict.fromkeys([*self.operands, *(m for m in makers if m not in own)]))


@dataclass(frozen=True)
class Graph:
    """A dataflow graph. `outputs` may repeat a name and may name an input or a constant."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    captures: tuple[str, ...] = ()

    def replace(self, **changes: object) -> Graph:
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def symbols(self) -> dict[str, Symbol]:
        """Every named dimension of this graph and its regions, by name."""
        found: dict[str, Symbol] = {}
        for graph in walk_graphs(self):
            for value in graph.values.values():
                for dim in value.shape:
                    found.update({s.name: s for s in symbols_of(dim)})
            for node in graph.nodes:
                for attr in node.attrs.values():
                    found.update({s.name: s for s in attr_symbols(attr)})
        return found

    @property
    def input_symbols(self) -> dict[str, Symbol]:
        """The named dimensions that inputs have, by name; others are known only after running."""
        found = {s.name: s for name in self.inputs for dim in self.values[name].shape for s in symbols_of(dim)}
        return dict(sorted(found.items()))

    def producers(self) -> dict[str, Node]:
        """Value name -> the node of this graph that makes it."""
        return {out: node for node in self.nodes for out in node.outputs if out}

    def consumers(self) -> dict[str, list[Node]]:
        """Value name -> nodes of this graph that read it, regions' captures included; graph outputs not."""
        users: dict[str, list[Node]] = {name: [] for name in self.values}
        for node in self.nodes:
            for name in node.reads:
                users.setdefault(name, []).append(node)
        return users

    def only_consumer(self, name: str, consumers: Mapping[str, list[Node]]) -> Node | None:
        """The one node that reads `name`, once or several times; None when there are more, or it is an output."""
        users = consumers.get(name, [])
        return users[0] if len(users) == 1 and name not in self.outputs else None


def names_of(graph: Graph, values: Iterable[str]) -> tuple[str, ...]:
    """The ONNX names of values, the compiler's own where they have none."""
    return tuple(graph.values[name].origin or name for name in values)


def walk_graphs(graph: Graph) -> Iterator[Graph]:
    """`graph` and every region below it, outermost first."""
    yield graph
    for node in graph.nodes:
        for region in node.regions:
            yield from walk_graphs(region)


def walk_nodes(graph: Graph) -> Iterator[tuple[Graph, Node]]:
    """Every node of the region tree with the graph that holds it."""
    for holder in walk_graphs(graph):
        for node in holder.nodes:
            yield holder, node


def free_names(graph: Graph) -> tuple[str, ...]:
    """The names a region reads but does not define: what its `captures` must be."""
    defined = set(graph.inputs) | set(graph.constants)
    free: dict[str, None] = {}
    for node in graph.nodes:
        for name in node.reads:
            if name not in defined:
                free[name] = None
        defined.update(node.outputs)
    free.update({name: None for name in graph.outputs if name not in defined})
    return tuple(free)
