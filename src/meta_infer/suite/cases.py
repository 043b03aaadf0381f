"""The cases of the operator suite that onnx ships, `onnx.backend.test.case.node`, sorted by what they need."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, TensorProto, TypeProto

KINDS = ("plain", "narrow", "string", "sequence", "training")
"""What a case needs beyond ordinary tensors; 'narrow' are bfloat16 and types below 8 bits or floats of 8."""

OUT = ("string", "sequence", "training")
"""Kinds that stay out as a whole: there are no tensors of strings, no lists of tensors, and no training."""

_NARROW = frozenset(getattr(TensorProto, name) for name in dir(TensorProto)
                    if name.startswith(("BFLOAT16", "FLOAT8", "FLOAT4", "FLOAT6", "INT4", "UINT4", "INT2", "UINT2")))


@dataclass(frozen=True)
class Case:
    """One test of the suite: a model, its inputs, and what it should give."""

    name: str
    op: str
    kind: str
    model: onnx.ModelProto
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    rtol: float
    atol: float


def collect_cases(match: Sequence[str] = ()) -> list[Case]:
    """The cases whose name matches one of the patterns `match`; all of them when it is empty.

    Takes about ten seconds: onnx computes the expected outputs of some cases when they are collected.
    """
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.random.seed(0)                               # cases draw from numpy's global generator
        found = collect_testcases(None)
    cases = []
    for test in sorted(found, key=lambda t: t.name):
        if match and not any(fnmatchcase(test.name, pattern) for pattern in match):
            continue
        assert test.model is not None and test.data_sets is not None, f"case {test.name} was collected"
        inputs, outputs = test.data_sets[0]
        kind = kind_of(test.model, (*inputs, *outputs))
        cases.append(Case(test.name, _op(test), kind, test.model, tuple(inputs), tuple(outputs), test.rtol, test.atol))
    return cases


def _op(test: Any) -> str:
    """The op a case is about. The body of an expanded function belongs to the op that it stands for."""
    nodes = test.model.graph.node
    if len(nodes) == 1:
        return str(nodes[0].op_type)
    return str(test.name.removeprefix("test_").split("_")[0])


def kind_of(model: onnx.ModelProto, data: Iterable[Any]) -> str:
    """Which of KINDS a case with these models, inputs and outputs is."""
    if any("training" in opset.domain for opset in model.opset_import):
        return "training"
    found = {kind for graph in _graphs(model.graph) for kind in _graph_kinds(graph)}
    for value in data:
        if isinstance(value, list) or value is None:
            found.add("sequence")
        elif isinstance(value, np.ndarray) and value.dtype.kind in "OUS":
            found.add("string")
    return next((kind for kind in ("sequence", "string", "narrow") if kind in found), "plain")


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def _graph_kinds(graph: GraphProto) -> Iterator[str]:
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield _type_kind(value.type)
    for node in graph.node:
        if node.op_type.startswith(("Sequence", "Optional", "SplitToSequence", "ConcatFromSequence")):
            yield "sequence"
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR and attribute.t.data_type == TensorProto.STRING:
                yield "string"
            if attribute.name in ("keys_strings", "values_strings"):
                yield "string"


def _type_kind(type: TypeProto) -> str:
    which = type.WhichOneof("value")
    if which in ("sequence_type", "optional_type", "map_type"):
        return "sequence"
    element = type.tensor_type.elem_type
    return "string" if element == TensorProto.STRING else "narrow" if element in _NARROW else "plain"
