"""Attributes of an ONNX node, with the defaults of the very opset the model declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import AttributeProto, GraphProto, defs

from meta_infer.frontend.load_onnx import LoadedModel
from meta_infer.ir.graph import Attr
from meta_infer.support.errors import UnsupportedError

_FIELDS = {
    AttributeProto.FLOAT: "f", AttributeProto.INT: "i", AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t", AttributeProto.GRAPH: "g", AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints", AttributeProto.STRINGS: "strings", AttributeProto.GRAPHS: "graphs",
}


@dataclass(frozen=True)
class Attributes:
    """One node's attributes by kind: plain values, tensors, and subgraphs not yet imported."""

    plain: Mapping[str, Attr] = field(default_factory=dict)
    tensors: Mapping[str, np.ndarray] = field(default_factory=dict)
    graphs: Mapping[str, GraphProto] = field(default_factory=dict)


def attribute_type(attribute: AttributeProto) -> int:
    """The attribute's type; models of IR version 1 leave it out, so it is told by the field that is set."""
    if attribute.type != AttributeProto.UNDEFINED:
        return attribute.type
    for kind, name in _FIELDS.items():
        if attribute.HasField(name) if name in ("f", "i", "s", "t", "g") else getattr(attribute, name):
            return kind
    return AttributeProto.UNDEFINED


def read_attributes(present: Iterable[AttributeProto], schema: defs.OpSchema | None, model: LoadedModel,
                    what: str) -> Attributes:
    """Attributes of a node that passed `check_node`; those it lacks take the schema's default, if any.

    `schema` is None for ops of other domains that ONNX ships no schema for. Raises ModelError for a malformed
    tensor, UnsupportedError for a kind of attribute no op here has (sparse tensors, types).
    """
    plain: dict[str, Attr] = {}
    tensors: dict[str, np.ndarray] = {}
    graphs: dict[str, GraphProto] = {}
    for attribute in [*present, *default_attributes(schema)]:
        name, kind = attribute.name, attribute_type(attribute)
        if name in plain or name in tensors or name in graphs:
            continue                                     # a default of an attribute that is present
        if kind == AttributeProto.TENSOR:
            tensors[name] = model.array(attribute.t, f"{what}, attribute {name!r}")
        elif kind == AttributeProto.GRAPH:
            graphs[name] = attribute.g
        else:
            plain[name] = _plain(attribute, kind, what)
    return Attributes(plain, tensors, graphs)


def default_attributes(schema: defs.OpSchema | None) -> list[AttributeProto]:
    """Every attribute that has a default, with it; none without a schema."""
    if schema is None:
        return []
    found = [(name, formal.default_value) for name, formal in schema.attributes.items()]
    return [_named(default, name) for name, default in found if default.type != AttributeProto.UNDEFINED]


def _named(default: AttributeProto, name: str) -> AttributeProto:
    copy = AttributeProto()
    copy.CopyFrom(default)
    copy.name = name
    return copy


def _plain(attribute: AttributeProto, kind: int, what: str) -> Attr:
    match kind:
        case AttributeProto.FLOAT:
            return float(attribute.f)
        case AttributeProto.INT:
            return int(attribute.i)
        case AttributeProto.STRING:
            return attribute.s.decode("utf-8", "replace")
        case AttributeProto.FLOATS:
            return tuple(map(float, attribute.floats))
        case AttributeProto.INTS:
            return tuple(map(int, attribute.ints))
        case AttributeProto.STRINGS:
            return tuple(s.decode("utf-8", "replace") for s in attribute.strings)
    name = AttributeProto.AttributeType.Name(kind)
    raise UnsupportedError(f"attribute {attribute.name!r} is of kind {name.lower()}, which is not supported",
                           what=what, hint="export the model without it")
