"""Probes for rules of one's own: ops that a board refuses, limits on sizes, allowed values of attributes."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from meta_infer.checklist.number_probes import OpListParams, ops_among
from meta_infer.checklist.probe import Fact, Probe
from meta_infer.checklist.subject import Subject
from meta_infer.hardware.schema import Count, Name, Positive, Section
from meta_infer.ir.shapes import product, usual_upper


def _ops_present(subject: Subject, params: OpListParams) -> Iterator[Fact]:
    for op, nodes in ops_among(subject, params.ops):
        yield Fact({"op": op}, tuple(node.name for node in nodes))


def _ops_outside(subject: Subject, params: OpListParams) -> Iterator[Fact]:
    others = tuple(dict.fromkeys(n.proto.op_type for n in subject.nodes if n.proto.op_type not in params.ops))
    for op, nodes in ops_among(subject, others):
        yield Fact({"op": op}, tuple(node.name for node in nodes))


class SizeParams(Section):
    """The most of each; what is left out is not limited."""

    nodes: Count | None = None
    parameters: Count | None = None
    weight_mib: Positive | None = None
    inputs: Count | None = None
    outputs: Count | None = None
    opset: Count | None = None


def _size_limits(subject: Subject, params: SizeParams) -> Iterator[Fact]:
    graph, arrays = subject.proto.graph, subject.arrays.values()
    stored = {tensor.name for tensor in graph.initializer}
    opset = next((o.version for o in subject.proto.opset_import if o.domain in ("", "ai.onnx")), 0)
    measured: dict[str, float] = {
        "nodes": len(subject.nodes), "parameters": sum(a.size for a in arrays),
        "weight_mib": sum(a.nbytes for a in arrays) / 2**20, "outputs": len(graph.output), "opset": opset,
        "inputs": sum(value.name not in stored for value in graph.input)}
    for name, value in measured.items():
        most = getattr(params, name)
        if most is not None and value > most:
            yield Fact({"what": name, "value": f"{value:.7g}", "most": f"{most:.7g}"})


class TensorParams(Section):
    """The most dimensions, and elements (at the usual_upper bound of dynamic sizes), of one tensor."""

    rank: Count | None = None
    elements: Count | None = None


def _tensor_limits(subject: Subject, params: TensorParams) -> Iterator[Fact]:
    for value in subject.graph.values.values() if subject.graph is not None else ():
        name = value.origin or value.name
        if params.rank is not None and value.rank > params.rank:
            yield Fact({"what": "rank", "value": value.rank, "most": params.rank}, (name,))
        if params.elements is not None and (size := usual_upper(product(value.shape))) > params.elements:
            yield Fact({"what": "elements", "value": size, "most": params.elements}, (name,))


class AttributeParams(Section):
    """Values that an attribute of an op may have: a list, a range, or both. Lists are looked at element by element."""

    op: Name
    attribute: Name
    allowed: tuple[int | float | str, ...] | None = None
    least: float | None = Field(default=None)
    most: float | None = Field(default=None)


def _attribute_values(subject: Subject, params: AttributeParams) -> Iterator[Fact]:
    found: dict[str, list[str]] = {}
    for _, nodes in ops_among(subject, (params.op,)):
        for node in nodes:
            value = node.attr(params.attribute)
            items = value if isinstance(value, list | tuple) else [] if value is None else [value]
            if not all(_allowed(item, params) for item in items):
                found.setdefault(str(value), []).append(node.name)
    for text, names in found.items():
        yield Fact({"op": params.op, "attribute": params.attribute, "value": text}, tuple(names))


def _allowed(item: object, params: AttributeParams) -> bool:
    if isinstance(item, bytes):
        item = item.decode(errors="replace")
    if params.allowed is not None and item not in params.allowed:
        return False
    if not isinstance(item, int | float):
        return True
    return (params.least is None or item >= params.least) and (params.most is None or item <= params.most)


RULE_PROBES: tuple[Probe, ...] = (
    Probe("ops_present", "any of `ops`", _ops_present, ("op",), OpListParams),
    Probe("ops_outside", "any op that is not one of `ops`", _ops_outside, ("op",), OpListParams),
    Probe("size_limits", "more nodes, parameters, MiB of weights, inputs, outputs or opset than given", _size_limits,
          ("what", "value", "most"), SizeParams),
    Probe("tensor_limits", "tensors of more dimensions or elements than given", _tensor_limits,
          ("what", "value", "most"), TensorParams),
    Probe("attribute_values", "values of an `attribute` of an `op` that are not allowed", _attribute_values,
          ("op", "attribute", "value"), AttributeParams),
)
