"""Replaces calls by bodies: functions of the model, and those ONNX ships for ops that have no importer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import onnx
from onnx import GraphProto, NodeProto, inliner

from meta_infer.frontend.attributes import default_attributes
from meta_infer.frontend.check_model import opsets_of
from meta_infer.frontend.check_node import domain_of
from meta_infer.frontend.schemas import schema_for
from meta_infer.frontend.topology import subgraphs
from meta_infer.ops.registry import ops_importing
from meta_infer.support.errors import ModelError

_ROUNDS = 8                                              # bodies of function ops may use function ops again


def inline_functions(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto` without functions of its own.

    External data is left where it is. Raises ModelError for functions that call themselves or do not fit.
    """
    if not proto.functions:
        return proto
    _refuse_recursion(proto)
    return _inlined(proto, inliner.inline_local_functions, "functions of the model")


def expand_function_ops(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto` with every op that has no importer, but is a function of other ops, replaced by its body.

    An op whose body onnx cannot work out (it may need types that the model does not declare) stays as it is.
    """
    stuck: set[tuple[str, str]] = set()
    for _ in range(_ROUNDS):
        wanted = sorted(_expandable(proto.graph, opsets_of(proto)) - stuck)
        if not wanted:
            break
        for op in wanted:
            expand = partial(inliner.inline_selected_functions, function_ids=[op], inline_schema_functions=True)
            try:
                whole = _with_defaults(proto, op)
                proto = _inlined(whole, expand, f"op {op[1]}")
                _name_bodies(whole.graph, proto.graph, op)
            except ModelError:
                stuck.add(op)                            # the checks will say that it is not supported
    return proto


def _with_defaults(proto: onnx.ModelProto, op: tuple[str, str]) -> onnx.ModelProto:
    """Write the default attributes of an op out: the inliner drops what a body takes from a default."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    opsets = opsets_of(copy)
    for node in _all_nodes(copy.graph):
        key = (domain_of(node), node.op_type)
        schema = schema_for(*key, opsets[key[0]]) if key == op else None
        present = {attribute.name for attribute in node.attribute}
        node.attribute.extend(a for a in default_attributes(schema) if a.name not in present)
    return copy


def _name_bodies(before: GraphProto, after: GraphProto, op: tuple[str, str]) -> None:
    """Give the nodes of each body the name of the call that they replace: reports and errors speak of that node.

    The inliner keeps the order of nodes, so a body stands where its call stood, and ends with the call's outputs.
    """
    kept = {tuple(node.output): node for node in before.node if (domain_of(node), node.op_type) != op}
    calls = iter([node for node in before.node if (domain_of(node), node.op_type) == op])
    call, missing = None, set[str]()
    for node in after.node:
        if (same := kept.get(tuple(node.output))) is not None:
            for (_, old), (_, new) in zip(subgraphs(same), subgraphs(node), strict=True):
                _name_bodies(old, new, op)
            continue
        if not missing:
            call = next(calls, call)
            missing = {name for name in call.output if name} if call is not None else set()
        if call is not None and call.name:
            node.name = call.name
        missing -= set(node.output)


def _inlined(proto: onnx.ModelProto, inline: Callable[[onnx.ModelProto], onnx.ModelProto],
             what: str) -> onnx.ModelProto:
    try:
        return inline(proto)
    except Exception as error:                           # C++ code of onnx: whatever it throws comes as such
        raise ModelError(f"cannot be inlined: {error}", what=what,
                         hint="inline them in the exporter (onnx.inliner.inline_local_functions)") from error


def _expandable(graph: GraphProto, opsets: dict[str, int]) -> set[tuple[str, str]]:
    """(domain, op) of every op that is not imported but is a function of others."""
    found = set()
    for node in _all_nodes(graph):
        domain = domain_of(node)
        schema = schema_for(domain, node.op_type, opsets[domain]) if domain in opsets else None
        if schema is None or ops_importing(node.op_type, schema.since_version, domain) is not None:
            continue
        if schema.has_function or schema.has_context_dependent_function:  # type: ignore[attr-defined]
            found.add((domain, node.op_type))
    return found


def _all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for _, sub in subgraphs(node):
            yield from _all_nodes(sub)


def _refuse_recursion(proto: onnx.ModelProto) -> None:
    """Raise ModelError when a function reaches itself: inlining would never end."""
    bodies = {(f.domain, f.name): f for f in proto.functions}
    calls = {key: {(n.domain, n.op_type) for node in body.node for n in (node, *_inner(node))} & bodies.keys()
             for key, body in bodies.items()}
    left = dict(calls)
    while left:
        leaves = [key for key, called in left.items() if not called & left.keys()]
        if not leaves:
            domain, name = min(left)
            raise ModelError("calls itself, directly or through others", what=f"function {domain}.{name}",
                             hint="express the recursion with Loop")
        for key in leaves:
            del left[key]


def _inner(node: NodeProto) -> Iterator[NodeProto]:
    for _, sub in subgraphs(node):
        yield from _all_nodes(sub)
