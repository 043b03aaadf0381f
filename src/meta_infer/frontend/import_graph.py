"""Walks an ONNX graph and its subgraphs, and makes the region tree of the graph IR."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto

from meta_infer.frontend.attributes import Attributes, read_attributes
from meta_infer.frontend.carried_shapes import CarriedShapes, assumptions
from meta_infer.frontend.check_model import node_label, node_name, opsets_of
from meta_infer.frontend.check_node import check_dtypes, domain_of
from meta_infer.frontend.declared import check_declared, declared_sizes, region_input_types
from meta_infer.frontend.fold import drop_dead, fold
from meta_infer.frontend.load_onnx import LoadedModel
from meta_infer.frontend.loop_operands import LOOPS, Operands, loop_operands
from meta_infer.frontend.names import NameTable
from meta_infer.frontend.schemas import schema_for, suggestion
from meta_infer.frontend.settle_sizes import settle_sizes
from meta_infer.frontend.shape_mismatch import ShapeMismatch
from meta_infer.frontend.topology import reads_of, sorted_nodes
from meta_infer.frontend.value_numbers import ValueNumbers, finds_sizes
from meta_infer.ir.graph import Graph, Node, Value, free_names
from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.ops.infer import constant_type, infer_node
from meta_infer.ops.opdef import ImportContext, OnnxNode, ShapeError, TensorType
from meta_infer.ops.registry import ops_importing
from meta_infer.support.errors import InternalError, MetaInferError, ModelError, UnsupportedError

Names = ChainMap[str, str]


@dataclass
class _Body:
    """A graph in the making. `names` maps ONNX names to IR names, outer scopes included."""

    names: Names
    where: str
    declared: Mapping[str, ValueInfoProto]
    nodes: list[Node] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    numbers: ValueNumbers = field(default_factory=ValueNumbers)


class GraphImporter:
    """Imports one model. Names are unique over the region tree, so types and constants are kept in one table.

    `symbols` are the names that the inputs' symbols have.
    """

    def __init__(self, model: LoadedModel, symbols: Iterable[str]) -> None:
        self._model, self._opsets = model, opsets_of(model.proto)
        self._names, self._symbols = NameTable(), NameTable()
        self._position = 0
        for name in symbols:
            self._symbols.identifier(name)
        self._types: dict[str, TensorType] = {}
        self._known: dict[str, np.ndarray] = {}
        self._origins: dict[str, str] = {}

    def graph(self, proto: GraphProto, inputs: Mapping[str, TensorType], outer: Names, where: str,
              name: str) -> Graph:
        """Import `proto`, its inputs (by ONNX name) being of the given types; initialised ones are constants.

        `where` names the graph in messages, '' for the outermost one. Raises ModelError, UnsupportedError.
        """
        declared = {value.name: value for value in (*proto.value_info, *proto.output)}
        body = _Body(outer.new_child(), where, declared)
        input_names = [self._define(body, onnx_name, found) for onnx_name, found in inputs.items()]
        for tensor in proto.initializer:
            if tensor.name not in inputs:
                array = self._model.array(tensor, f"initialiser {tensor.name!r}")
                self._constant(body, self._name(body, tensor.name), array)
        self._nodes(body, proto)
        for value in proto.output:
            check_declared(value, self._types[body.names[value.name]], f"output {value.name!r}")
        outputs = tuple(body.names[value.name] for value in proto.output)
        graph = drop_dead(Graph(name, tuple(input_names), outputs, tuple(body.nodes), body.values, body.constants))
        return graph.replace(captures=free_names(graph)) if where else graph

    # --- names and values -------------------------------------------------------------------------------------

    def _name(self, body: _Body, onnx_name: str) -> str:
        """A new IR name for an ONNX tensor, visible from here on."""
        name = self._names.unique(onnx_name)
        body.names[onnx_name], self._origins[name] = name, onnx_name
        return name

    def _define(self, body: _Body, onnx_name: str, found: TensorType) -> str:
        name = self._name(body, onnx_name)
        self._value(body, name, found)
        return name

    def _value(self, body: _Body, name: str, found: TensorType) -> None:
        self._types[name] = found
        body.values[name] = Value(name, found.dtype, found.shape, self._origins.get(name))

    def _constant(self, body: _Body, name: str, array: np.ndarray) -> None:
        body.constants[name] = self._known[name] = array
        self._value(body, name, constant_type(array))

    def _fresh_symbol(self, hint: str, lo: int, hi: int, maker: str) -> Dim:
        return Symbol(self._symbols.identifier(hint), lo, hi, maker=maker).dim

    # --- nodes ------------------------------------------------------------------------------------------------

    def _nodes(self, body: _Body, proto: GraphProto) -> None:
        order = sorted_nodes(proto, lambda i: node_label(proto.node[i], i, body.where))
        live = {value.name for value in proto.output}
        needed = []
        for i in reversed(order):
            if not live.isdisjoint(proto.node[i].output):
                needed.append(i)
                live.update(reads_of(proto.node[i]))
        for i in reversed(needed):
            self._node(body, proto.node[i], i, live)

    def _node(self, body: _Body, proto: NodeProto, index: int, live: set[str]) -> None:
        """Import one node; outputs that nothing reads count as absent."""
        label, domain = node_label(proto, index, body.where), domain_of(proto)
        schema = schema_for(domain, proto.op_type, self._opsets[domain])
        version = schema.since_version if schema is not None else self._opsets[domain]
        rule = ops_importing(proto.op_type, version, domain)
        if rule is None:
            raise UnsupportedError(f"op {proto.op_type!r} (version {version}) is not supported", what=label,
                                   hint=suggestion(proto.op_type))
        inputs = tuple(body.names[name] if name else "" for name in proto.input)
        attributes = read_attributes(proto.attribute, schema, self._model, label)
        if schema is not None:
            dtypes = [self._types[name].dtype.name if name else "" for name in inputs]
            check_dtypes(schema, dtypes, label)
        if proto.op_type == "If" and inputs[0] in self._known:
            return self._taken_branch(body, proto, attributes, bool(self._known[inputs[0]].any()), label)
        node = OnnxNode(proto.op_type, domain, version, inputs, (), attributes.plain, node_name(proto, index),
                        attributes.tensors)
        if node.op in LOOPS and "body" in attributes.graphs:
            node = self._with_loop_body(body, node, attributes.graphs["body"], label)
        else:
            regions = {name: self._region(body, graph, None, f"{name} of {label}", name)
                       for name, graph in attributes.graphs.items()}
            node = replace(node, regions=regions)
        outputs = tuple(self._name(body, name) if name in live else "" for name in proto.output)
        node = replace(node, outputs=outputs)
        convert = rule.convert
        with self._explained(label, inputs):
            made = [Node(node.op, inputs, outputs, node.attrs, (node.name,), tuple(node.regions.values()))
                    ] if convert is None else convert(node, self._context(body, node.name))
            for core in made:
                self._emit_for(body, node.name, core)
        self._position += 1
        for onnx_name in proto.output:
            if onnx_name not in live:
                continue
            if (name := body.names[onnx_name]) not in self._types:
                raise InternalError(f"its importer made no output {onnx_name!r}", what=label)
            if onnx_name in body.declared:
                check_declared(body.declared[onnx_name], self._types[name], f"{label}, output {onnx_name!r}")

    def _emit_for(self, body: _Body, origin: str, core: Node) -> None:
        self._emit(body, core if core.origins else replace(core, origins=(origin,)))

    def _emit(self, body: _Body, node: Node) -> None:
        """Type the outputs of a core node and add it, or the constants it is known to give."""
        try:
            before, node = settle_sizes(node, self._types, self._known, self._names.unique)
            for other in before:
                self._emit(body, other)
            types = infer_node(node, self._types, self._known, self._fresh_symbol)[:len(node.outputs)]
        except ShapeError as error:                      # `_explained` names node and operands as the model does
            text = str(error).removeprefix(f"{node.label}: ").rsplit("; its inputs are", 1)[0]
            raise ShapeError(text) from None
        if len(types) < len(node.outputs):
            raise ShapeError(f"gives {len(types)} outputs, the node names {len(node.outputs)}")
        folded = fold(node, types, self._known)
        if folded is not None:
            for name, array in zip(node.outputs, folded, strict=False):
                if name:
                    self._constant(body, name, array)
            return
        first = body.numbers.equal_node(node, self._known)
        if first is not None and finds_sizes(node, types):
            for name, same in zip(node.outputs, first.outputs, strict=True):
                if name:
                    self._emit(body, Node("Identity", (same,), (name,), origins=node.origins))
            return
        for name, found in zip(node.outputs, types, strict=True):
            if name:
                self._value(body, name, found)
        body.nodes.append(node)

    def _context(self, body: _Body, origin: str) -> ImportContext:
        def constant(array: np.ndarray, hint: str) -> str:
            name = self._names.unique(hint)
            self._constant(body, name, np.asarray(array))
            return name

        return ImportContext(constant, self._names.unique, self._known.get, self._types.__getitem__,
                             partial(self._emit_for, body, origin), self._fresh_symbol,
                             lambda name, ranges: body.numbers.sizes(name, ranges, self._known))

    # --- subgraphs --------------------------------------------------------------------------------------------

    def _region(self, body: _Body, graph: GraphProto, given: Sequence[TensorType] | None, where: str,
                name: str) -> Graph:
        return self.graph(graph, region_input_types(graph, given, where), body.names, where, name)

    def _with_loop_body(self, body: _Body, node: OnnxNode, graph: GraphProto, label: str) -> OnnxNode:
        """The node of a Loop or Scan with its body, and with the number of the pass as attribute `iteration`.

        The body is imported again until the carried values' shapes that it was imported for fit what it gives.
        """
        with self._explained(label, node.inputs):
            operands = loop_operands(node, [self._types[name] if name else None for name in node.inputs])
        names = self._names.copy()                       # to tell what the body's first input will be called
        maker = names.unique(graph.input[0].name) if graph.input else ""
        iteration = self._fresh_symbol("i", 0, max(operands.most - 1, 1), maker if node.op == "Loop" else "")
        stated = operands.carried_inputs(declared_sizes(graph))
        region, first = None, None
        for shapes in assumptions(operands.carried, iteration, operands.most, stated):
            state = self._state()
            try:
                region = self._loop_body(body, graph, operands, shapes, iteration, maker, label)
                break
            except (MetaInferError, ShapeMismatch) as error:
                first = first or error
                self._restore(state)
        if region is None:
            assert first is not None
            raise first
        contents = tuple(self._types[name].content for name in operands.carried_inputs(region.inputs))
        return replace(node, attrs={**node.attrs, "iteration": (iteration,), "contents": contents},
                       regions={"body": region})

    def _loop_body(self, body: _Body, graph: GraphProto, operands: Operands, shapes: CarriedShapes, iteration: Dim,
                   maker: str, label: str) -> Graph:
        while True:
            state = self._state()
            types = shapes.types(lambda hint, low, high: self._fresh_symbol(hint, low, high, maker))
            region = self._region(body, graph, operands.types(iteration, types), f"body of {label}", "body")
            if shapes.learn(operands.carried_results([self._types[name] for name in region.outputs])):
                return region
            self._restore(state)

    def _state(self) -> tuple[NameTable, NameTable, int, dict[str, TensorType], dict[str, np.ndarray], dict[str, str]]:
        """All that importing a graph changes here, to be taken back with `_restore`."""
        return (self._names.copy(), self._symbols.copy(), self._position, dict(self._types), dict(self._known),
                dict(self._origins))

    def _restore(self, state: tuple[NameTable, NameTable, int, dict[str, TensorType], dict[str, np.ndarray],
                                    dict[str, str]]) -> None:
        self._names, self._symbols, self._position, self._types, self._known, self._origins = state

    def _taken_branch(self, body: _Body, proto: NodeProto, attributes: Attributes, cond: bool, label: str) -> None:
        """An If whose condition is known becomes the nodes of the branch it takes."""
        name = "then_branch" if cond else "else_branch"
        branch = attributes.graphs[name]
        if len(branch.output) < len(proto.output):
            raise ModelError(f"{name} has {len(branch.output)} outputs, the node {len(proto.output)}", what=label,
                             hint="export the model again")
        inner = _Body(body.names.new_child(), f"{name} of {label}",
                      {value.name: value for value in (*branch.value_info, *branch.output)},
                      body.nodes, body.values, body.constants, body.numbers)
        for tensor in branch.initializer:
            array = self._model.array(tensor, f"initialiser {tensor.name!r}")
            self._constant(inner, self._name(inner, tensor.name), array)
        self._nodes(inner, branch)
        for outer_name, value in zip(proto.output, branch.output, strict=False):
            if outer_name:
                result = self._name(body, outer_name)
                origin = proto.name or outer_name
                self._emit(body, Node("Identity", (inner.names[value.name],), (result,), origins=(origin,)))

    @contextmanager
    def _explained(self, label: str, inputs: Sequence[str]) -> Iterator[None]:
        """Errors of op files get the ONNX node's name and its operands' types."""
        operands = ", ".join(self._describe(name) for name in inputs if name) or "none"
        types = [self._types[name] for name in inputs if name]
        try:
            yield
        except UnsupportedError as error:
            raise ShapeMismatch(error, self._position, types) from error
        except MetaInferError:
            raise
        except ShapeError as error:
            refused = ModelError(f"{error}; its inputs are {operands}", what=label,
                                 hint="check the shapes this node meets; --shape sets those of the model's inputs")
            raise ShapeMismatch(refused, self._position, types) from error
        except Exception as error:                       # an op file met something it did not foresee
            raise InternalError(f"{type(error).__name__}: {error}; its inputs are {operands}", what=label,
                                hint="check the node's attributes; if they are right, report this") from error

    def _describe(self, name: str) -> str:
        found = self._types[name]
        return f"{self._origins.get(name, name)}: {found.dtype}[{', '.join(map(str, found.shape))}]"
