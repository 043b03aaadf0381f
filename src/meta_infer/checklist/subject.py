"""What is examined: the ONNX file, the graph it imports to (or why it does not), and the profile of the chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from meta_infer.frontend.check_model import find_problems, node_name
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.inline_functions import expand_function_ops, inline_functions
from meta_infer.frontend.load_onnx import LoadedModel, load_onnx
from meta_infer.frontend.symbols import DimSpec
from meta_infer.frontend.topology import subgraphs
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph
from meta_infer.kernels.computed_by import computed_by, kernels_take
from meta_infer.passes.decisions import Decision, native_decisions
from meta_infer.passes.legalize import legalize
from meta_infer.passes.pipeline import canonicalize
from meta_infer.support.dtypes import BFLOAT16, FLOAT16
from meta_infer.support.errors import InternalError, MetaInferError, ModelError, UnsupportedError

_WIDE = ("fp32", "tf32")


@dataclass(frozen=True)
class NamedNode:
    """A node of the model or of a graph inside it, with the name that messages give it."""

    name: str
    proto: NodeProto
    graph: GraphProto

    @property
    def domain(self) -> str:
        return "" if self.proto.domain == "ai.onnx" else self.proto.domain

    def attr(self, name: str, default: object = None) -> object:
        """An attribute as a Python value (text decoded), `default` when it is absent."""
        for attribute in self.proto.attribute:
            if attribute.name == name:
                value = helper.get_attribute_value(attribute)
                return value.decode(errors="replace") if isinstance(value, bytes) else value
        return default


@dataclass(frozen=True)
class Subject:
    """One model and one chip. `graph` is None when the model cannot be imported; `problems` say why.

    `notes` tell what had to be assumed, `decisions` what became of each op on the chip. Where `proto` breaks the
    specification (`is_broken`) nothing else of it can be relied on.
    """

    path: Path
    profile: Profile
    model: LoadedModel | None = None
    graph: Graph | None = None
    problems: tuple[MetaInferError, ...] = ()
    notes: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()

    @property
    def is_broken(self) -> bool:
        return self.model is None or any(isinstance(p, ModelError | InternalError) for p in self.problems)

    @property
    def proto(self) -> ModelProto:
        """The model as it is in the file. Only to be asked for when `is_broken` is false."""
        assert self.model is not None
        return self.model.proto

    @cached_property
    def nodes(self) -> tuple[NamedNode, ...]:
        """Every node, those of the bodies of control flow included, outermost first."""
        found: list[NamedNode] = []

        def walk(graph: GraphProto) -> None:
            found.extend(NamedNode(node_name(node, i), node, graph) for i, node in enumerate(graph.node))
            for node in graph.node:
                for _, body in subgraphs(node):
                    walk(body)

        walk(self.proto.graph)
        return tuple(found)

    @cached_property
    def tensors(self) -> tuple[TensorProto, ...]:
        """Every stored tensor: initialisers, and those of Constant nodes under the name of their output."""
        found: list[TensorProto] = []
        for graph in {id(node.graph): node.graph for node in self.nodes}.values():
            found.extend(graph.initializer)
        for node in self.nodes:
            value = node.attr("value") if node.proto.op_type == "Constant" else None
            if isinstance(value, TensorProto) and node.proto.output:
                named = TensorProto()
                named.CopyFrom(value)
                named.name = node.proto.output[0]
                found.append(named)
        return tuple(found)

    @cached_property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The stored tensors that can be read, by name."""
        assert self.model is not None
        found = {}
        for tensor in self.tensors:
            try:
                found[tensor.name] = self.model.array(tensor, tensor.name)
            except MetaInferError:
                continue                                 # strings, and what import refuses with its own message
        return found

    @cached_property
    def readers(self) -> Mapping[str, list[NamedNode]]:
        """The nodes that read each tensor."""
        found: dict[str, list[NamedNode]] = {}
        for node in self.nodes:
            for name in node.proto.input:
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def makers(self) -> Mapping[str, NamedNode]:
        return {name: node for node in self.nodes for name in node.proto.output if name}

    @property
    def low_precision(self) -> bool:
        """Whether values are computed in fewer than 32 bits: the chip's best type, or types in the model."""
        if self.profile.precisions and self.profile.precisions[0] not in _WIDE:
            return True
        return self.graph is not None and any(v.dtype in (FLOAT16, BFLOAT16) for v in self.graph.values.values())


def examine(path: Path, profile: Profile, shapes: Mapping[str, Sequence[DimSpec]] | None = None) -> Subject:
    """Read the model, import it, and legalize it for the chip; what fails on the way becomes `problems`.

    Raises UsageError for `shapes` that name no input or do not fit.
    """
    try:
        model = load_onnx(path)
    except (ModelError, UnsupportedError) as error:
        return Subject(path, profile, problems=(error,))
    notes: list[str] = []
    try:
        graph = import_model(path, shapes, notes.append)
    except (ModelError, UnsupportedError, InternalError) as error:
        return Subject(path, profile, model, problems=_all_problems(model, error), notes=tuple(notes))
    decisions: list[Decision] = []
    problems: tuple[MetaInferError, ...] = ()
    try:
        simple = canonicalize(graph)
        legal = legalize(simple, profile, record=decisions, takes=kernels_take((profile,)))
        decisions += native_decisions(simple, legal, profile, decisions, computed_by)
    except (UnsupportedError, InternalError) as error:
        problems = (error,)
    return Subject(path, profile, model, graph, problems, tuple(notes), tuple(decisions))


def _all_problems(model: LoadedModel, first: MetaInferError) -> tuple[MetaInferError, ...]:
    """What the structural checks find, when they are what failed: all of it, not only the first."""
    try:
        proto = expand_function_ops(inline_functions(model.proto))
        found = tuple(find_problems(proto))
    except MetaInferError:
        return (first,)
    same = [error for error in found if str(error) == str(first)]
    return found if same else (first,)
