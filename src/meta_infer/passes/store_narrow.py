"""Values of narrow types become the unsigned integers that hold them, so that no kernel has to know those types.

    before                                              after
    %x: bfloat16[4]  (an input)                         %x_narrow: bfloat16[4]  (the input)
                                                        %x: uint16[4] = BitCast(%x_narrow) {to = uint16}
    %y: float32[4] = Cast(%x) {to = float32}            %y: float32[4] = FromBits(%x) {of = bfloat16}

Runs last, after passes/widen_narrow.py: by then only casts and ops that move elements see narrow values. Inputs and
outputs of the model keep their types; BitCast is a view, so they cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from meta_infer.ir.graph import Attr, Graph, Node, Value, walk_graphs
from meta_infer.ops.attrs import bool_of, dtype_attr
from meta_infer.ops.storage import wide_of
from meta_infer.support.dtypes import FLOAT32, FLOAT64, INT32, DType, as_storage


def store_narrow(graph: Graph) -> Graph:
    """Replace every narrow value of the region tree by its storage; a graph without any comes back as it is."""
    values = {name: value for holder in walk_graphs(graph) for name, value in holder.values.items()}
    if not any(value.dtype.is_narrow for value in values.values()):
        return graph
    return _Storing(values, set(values)).outermost(graph)


@dataclass
class _Storing:
    """One run over a region tree: the values as they were, and every name in use."""

    values: Mapping[str, Value]
    used: set[str]
    made: dict[str, Value] = field(default_factory=dict)

    def outermost(self, graph: Graph) -> Graph:
        """The graph with its inputs and outputs in their own types."""
        inside = self.graph(graph)
        given = {name: self.fresh(f"{name}_narrow", self.values[name].dtype, self.values[name])
                 for name in graph.inputs if self.values[name].dtype.is_narrow}
        results = {name: given[name] if name in given else
                   self.fresh(f"{name}_narrow", self.values[name].dtype, self.values[name])
                   for name in graph.outputs if self.values[name].dtype.is_narrow}
        views = [Node("BitCast", (new,), (name,), {"to": self.values[name].dtype.storage})
                 for name, new in given.items()]
        back = [Node("BitCast", (name,), (new,), {"to": self.values[name].dtype})
                for name, new in results.items() if name not in given]
        borders = {name: self.made[name] for name in (*given.values(), *results.values())}
        return inside.replace(inputs=tuple(given.get(name, name) for name in graph.inputs),
                              outputs=tuple(results.get(name, name) for name in graph.outputs),
                              nodes=(*views, *inside.nodes, *back), values={**inside.values, **borders})

    def graph(self, graph: Graph) -> Graph:
        before = set(self.made)
        nodes = tuple(new for node in graph.nodes for new in self.node(node))
        added = {name: value for name, value in self.made.items() if name not in before and name in
                 {out for node in nodes for out in node.outputs}}
        values = {name: _stored(value) for name, value in graph.values.items()}
        constants = {name: as_storage(array) for name, array in graph.constants.items()}
        return graph.replace(nodes=nodes, values={**values, **added}, constants=constants)

    def node(self, node: Node) -> Iterator[Node]:
        if node.op == "Cast":
            yield from self.cast(node)
        elif node.op == "BitCast":
            to = dtype_attr(node.attrs, "to").storage
            same = self.values[node.inputs[0]].dtype.storage == to
            yield replace(node, op="Identity" if same else "BitCast", attrs={} if same else {"to": to})
        else:
            yield replace(node, regions=tuple(self.graph(region) for region in node.regions))

    def cast(self, node: Node) -> Iterator[Node]:
        """One Cast as up to three steps: out of the storage, to the type that the target is made from, into storage."""
        source, to = self.values[node.inputs[0]].dtype, dtype_attr(node.attrs, "to")
        if not source.is_narrow and not to.is_narrow:
            yield node
            return
        saturate = bool_of(node.attrs, "saturate", False)
        have, name = source, node.inputs[0]
        for op, gives, attrs in _steps(source, to, saturate, node.attrs):
            if gives == have:
                continue
            out = node.outputs[0] if gives == to.storage and (op != "Cast" or not to.is_narrow) else self.fresh(
                f"{node.outputs[0]}_{gives}", gives, self.values[node.outputs[0]])
            yield Node(op, (name,), (out,), attrs, node.origins)
            have, name = gives, out

    def fresh(self, hint: str, dtype: DType, like: Value) -> str:
        """A new value of `dtype`; one of the original type stands for the same ONNX tensor."""
        name, count = hint, 0
        while name in self.used:
            count += 1
            name = f"{hint}_{count}"
        self.used.add(name)
        self.made[name] = Value(name, dtype, like.shape, like.origin if dtype == like.dtype else None)
        return name


def _stored(value: Value) -> Value:
    if not value.dtype.is_narrow:
        return value
    return replace(value, dtype=value.dtype.storage, origin=None, quant=None)


def _steps(source: DType, to: DType, saturate: bool, attrs: Mapping[str, Attr]
           ) -> Iterator[tuple[str, DType, dict[str, Attr]]]:
    """(op, the type it gives, its attributes); a step that gives what is there already is left out by the caller."""
    have = source
    if source.is_narrow:
        have = wide_of(source)
        yield "FromBits", have, {"of": source}
    if not to.is_narrow:
        yield "Cast", to, {"to": to, "saturate": saturate}
        return
    base = wide_of(to)
    if to.is_float and have.bits > 16 and have != FLOAT32:
        base = FLOAT64                                   # exact for all but the largest 64-bit integers
    if base != have:
        yield "Cast", base, {"to": base, "saturate": saturate and base == INT32}
    rounding = {key: attrs[key] for key in ("saturate", "round_mode") if key in attrs}
    yield "ToBits", to.storage, {"of": to, **rounding}
