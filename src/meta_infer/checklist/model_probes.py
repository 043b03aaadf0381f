"""Probes of the file itself: whether it can be compiled, versions, names, leftovers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from onnx import TensorProto, defs, helper

from meta_infer.checklist.probe import Fact, NoParams, Probe
from meta_infer.checklist.subject import NamedNode, Subject
from meta_infer.frontend.check_model import opsets_of
from meta_infer.frontend.schemas import schema_for
from meta_infer.hardware.schema import Count, Section
from meta_infer.ops.gaps import gaps_of
from meta_infer.ops.registry import ops_importing
from meta_infer.passes.decisions import counted_ops, listed
from meta_infer.report.units import bytes_text

_OP = re.compile(r"\((\w+)\)")


def _problems(subject: Subject, params: NoParams) -> Iterator[Fact]:
    for error in subject.problems:
        op = _OP.search(error.what)
        gaps = [f"known gap of {gap.op}: {gap.case} ({gap.reason}); {gap.instead}"
                for gap in gaps_of(op.group(1) if op else "")]
        more = "; ".join(filter(None, [error.hint, *gaps[:2]]))
        what = f"{error.what}: " if error.what else ""
        yield Fact({"problem": f"{what}{error.problem}", "hint": more})


def _versions(subject: Subject, params: NoParams) -> Iterator[Fact]:
    proto, opsets = subject.proto, opsets_of(subject.proto)
    domains = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(opsets.items()))
    made = f"{proto.producer_name} {proto.producer_version}".strip()
    yield Fact({"opsets": domains, "ir": proto.ir_version, "producer": made or "unknown"})


class OpsetParams(Section):
    """The oldest opset that is taken without a word."""

    oldest: Count


def _old_opset(subject: Subject, params: OpsetParams) -> Iterator[Fact]:
    opset = opsets_of(subject.proto).get("", params.oldest)
    if opset < params.oldest:
        yield Fact({"opset": opset, "oldest": params.oldest})


def _op_versions(subject: Subject, params: NoParams) -> Iterator[Fact]:
    opsets, found = opsets_of(subject.proto), {}
    for node in subject.nodes:
        schema = schema_for(node.domain, node.proto.op_type, opsets.get(node.domain, 1))
        if schema is not None:
            found[node.proto.op_type] = schema.since_version
    if found:
        texts = [f"{op} {version}" for op, version in sorted(found.items())]
        yield Fact({"ops": listed(texts, 12), "number": len(found)})


def _external_data(subject: Subject, params: NoParams) -> Iterator[Fact]:
    outside = [t for t in subject.tensors if t.data_location == TensorProto.EXTERNAL]
    if not outside:
        return
    files = dict.fromkeys(e.value for t in outside for e in t.external_data if e.key == "location")
    size = sum(math.prod(t.dims) * helper.tensor_dtype_to_np_dtype(t.data_type).itemsize for t in outside)
    yield Fact({"files": listed(list(files)), "size": bytes_text(size)}, tuple(t.name for t in outside))


def _custom_ops(subject: Subject, params: NoParams) -> Iterator[Fact]:
    functions = {(f.domain, f.name) for f in subject.proto.functions}
    opsets, known = opsets_of(subject.proto), {s.domain for s in defs.get_all_schemas()}
    found: dict[tuple[str, str], list[str]] = {}
    for node in subject.nodes:
        key = (node.domain, node.proto.op_type)
        if node.domain not in known and key not in functions:
            found.setdefault(key, []).append(node.name)
    for (domain, op), names in found.items():
        known_here = ops_importing(op, opsets.get(domain, 1), domain) is not None
        verdict = "is supported" if known_here else "is not supported"
        yield Fact({"domain": domain, "op": op, "verdict": verdict}, tuple(names))


class LeftoverParams(Section):
    """'removed': ops that do nothing in inference; 'training': ops that compute as in training."""

    kind: Literal["removed", "training"]


def _training_leftovers(subject: Subject, params: LeftoverParams) -> Iterator[Fact]:
    found: dict[str, list[str]] = {}
    for node in subject.nodes:
        if _leftover(subject, node) == params.kind:
            found.setdefault(node.proto.op_type, []).append(node.name)
    for op, names in found.items():
        yield Fact({"op": op}, tuple(names))


def _leftover(subject: Subject, node: NamedNode) -> str:
    op = node.proto.op_type
    if op == "Dropout":
        flag = subject.arrays.get(node.proto.input[2]) if len(node.proto.input) > 2 else None
        return "training" if flag is not None and bool(flag.any()) else "removed"
    if op == "BatchNormalization":
        opset = opsets_of(subject.proto).get("", 1)
        outputs = sum(map(bool, node.proto.output))
        return "training" if node.attr("training_mode") or (opset < 14 and outputs > 1) else ""
    return "removed" if op == "Identity" else ""


def _unused(subject: Subject, params: NoParams) -> Iterator[Fact]:
    read = {name for node in subject.nodes for name in node.proto.input}
    read |= {value.name for node in subject.nodes for value in node.graph.output}
    read |= {value.name for value in subject.proto.graph.output}
    idle = [t for t in subject.proto.graph.initializer if t.name not in read]
    if idle:
        yield Fact({"what": "initialisers"}, tuple(t.name for t in idle))
    inputs = [v.name for v in subject.proto.graph.input if v.name not in read]
    if inputs:
        yield Fact({"what": "inputs"}, tuple(inputs))
    dead = [node.name for node in subject.nodes if not any(name in read for name in node.proto.output)]
    if dead:
        yield Fact({"what": "nodes"}, tuple(dead))


def _duplicate_names(subject: Subject, params: NoParams) -> Iterator[Fact]:
    counts = Counter(node.proto.name for node in subject.nodes if node.proto.name)
    for name, times in counts.items():
        if times > 1:
            yield Fact({"name": name, "times": times}, (name,))


def _default_attributes(subject: Subject, params: NoParams) -> Iterator[Fact]:
    opsets = opsets_of(subject.proto)
    found: dict[str, list[str]] = {}
    for node in subject.nodes:
        schema = schema_for(node.domain, node.proto.op_type, opsets.get(node.domain, 1))
        given = {attribute.name for attribute in node.proto.attribute}
        for name, formal in schema.attributes.items() if schema is not None else ():
            if name not in given and formal.default_value.name:
                found.setdefault(node.proto.op_type, []).append(f"{name}={_default_text(formal.default_value)}")
    for op, names in sorted(found.items()):
        yield Fact({"op": op, "attributes": counted_ops(sorted(names))})


def _default_text(attribute: object) -> str:
    value = helper.get_attribute_value(attribute)  # type: ignore[arg-type]
    return value.decode() if isinstance(value, bytes) else f"{value:.4g}" if isinstance(value, float) else str(value)


MODEL_PROBES: tuple[Probe, ...] = (
    Probe("import_problems", "what keeps the model from being compiled", _problems, ("problem", "hint")),
    Probe("versions", "opsets, IR version, exporter", _versions, ("opsets", "ir", "producer")),
    Probe("old_opset", "an opset older than `oldest`", _old_opset, ("opset", "oldest"), OpsetParams),
    Probe("op_versions", "the version of each op that the opset implies", _op_versions, ("ops", "number")),
    Probe("external_data", "weights in files beside the model", _external_data, ("files", "size")),
    Probe("custom_ops", "ops of a domain that is not ONNX's", _custom_ops, ("domain", "op", "verdict")),
    Probe("training_leftovers", "ops of training: `kind` is 'removed' or 'training'", _training_leftovers, ("op",),
          LeftoverParams),
    Probe("unused", "initialisers, inputs and nodes that nothing reads", _unused, ("what",)),
    Probe("duplicate_names", "names that several nodes have", _duplicate_names, ("name", "times")),
    Probe("default_attributes", "attributes filled with ONNX's default, by op", _default_attributes,
          ("op", "attributes")),
)
