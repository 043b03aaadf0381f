"""Checks a loaded model as a whole: versions, names, order, and each node, before anything is imported."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping

import onnx
from onnx import GraphProto, NodeProto, defs

from meta_infer.frontend.check_node import find_node_problems
from meta_infer.frontend.topology import defined_in, reads_of, sorted_nodes, subgraphs
from meta_infer.support.errors import MetaInferError, ModelError, UnsupportedError

OLDEST_OPSET = 7
_CONVERT = "convert the model: onnx.version_converter.convert_version(model, {})"


def check_model(proto: onnx.ModelProto) -> None:
    """Raise the first problem of `find_problems`, if there is one."""
    for problem in find_problems(proto):
        raise problem


def check_versions(proto: onnx.ModelProto) -> None:
    """Raise when the model's IR version or opset cannot be read, before anything else is looked at."""
    for problem in _version_problems(proto, opsets_of(proto)):
        raise problem


def find_problems(proto: onnx.ModelProto) -> Iterator[MetaInferError]:
    """Every structural problem of the model, as errors ready to be raised; shapes are not looked at."""
    opsets = opsets_of(proto)
    before = list(_version_problems(proto, opsets))
    yield from before
    if not before:
        yield from _graph_problems(proto.graph, opsets, frozenset(), "")


def opsets_of(proto: onnx.ModelProto) -> dict[str, int]:
    """The opset of each operator domain ('' for ONNX's own)."""
    return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in proto.opset_import}


def node_name(node: NodeProto, index: int) -> str:
    """The node's own name, else one made of its op and its position in the graph."""
    return node.name or f"{node.op_type}_{index}"


def node_label(node: NodeProto, index: int, where: str = "") -> str:
    """How messages name a node. `where` names the subgraph that holds it."""
    text = f"node {node.name!r} ({node.op_type})" if node.name else f"node #{index} ({node.op_type})"
    return f"{text} in {where}" if where else text


def _version_problems(proto: onnx.ModelProto, opsets: Mapping[str, int]) -> Iterator[MetaInferError]:
    what = "the model"
    if proto.ir_version < 1:
        yield ModelError("declares no IR version", what=what,
                         hint="it is cut off or damaged: copy or export it again")
    if proto.ir_version > onnx.IR_VERSION:
        yield UnsupportedError(f"has IR version {proto.ir_version}, the installed onnx {onnx.__version__} "
                               f"reads up to {onnx.IR_VERSION}", what=what,
                               hint="pip install -U onnx, or export the model again")
    if len(opsets) < len(proto.opset_import):
        yield ModelError("opset_import lists an operator domain twice", what=what,
                         hint="keep one entry for each domain")
    if not opsets:
        yield ModelError("has no opset_import", what=what,
                         hint="it is cut off or damaged: copy or export it again")
    newest, opset = defs.onnx_opset_version(), opsets.get("", OLDEST_OPSET)
    if opset < OLDEST_OPSET:
        yield UnsupportedError(f"opset {opset} is older than {OLDEST_OPSET}", what=what,
                               hint=_CONVERT.format(13))
    if opset > newest:
        yield UnsupportedError(f"opset {opset} is newer than {newest}, the newest that the installed onnx "
                               f"{onnx.__version__} knows", what=what,
                               hint=f"pip install -U onnx, or {_CONVERT.format(newest)}")


def _graph_problems(graph: GraphProto, opsets: Mapping[str, int], outer: Collection[str],
                    where: str) -> Iterator[MetaInferError]:
    """Problems of one graph and its subgraphs. `outer` are the tensors it may read from around it."""
    def label(i: int) -> str:
        return node_label(graph.node[i], i, where)

    yield from _definition_problems(graph, label, where)
    if graph.sparse_initializer:
        name = graph.sparse_initializer[0].values.name
        yield UnsupportedError("sparse initialisers are not supported", what=f"tensor {name!r}",
                               hint="store the tensor densely")
    visible = defined_in(graph) | set(outer)
    for i, node in enumerate(graph.node):
        yield from find_node_problems(node, opsets, label(i))
        for name in dict.fromkeys(name for name in node.input if name and name not in visible):
            yield _undeclared(name, visible, label(i))
        for attribute, sub in subgraphs(node):
            yield from _graph_problems(sub, opsets, visible, f"{attribute} of {label(i)}")
    for value in graph.output:
        if value.name not in visible:
            yield _undeclared(value.name, visible, f"output of {where or 'the graph'}")
    if all(name in visible for node in graph.node for name in reads_of(node)):
        yield from _order_problems(graph, label)


def _order_problems(graph: GraphProto, label: Callable[[int], str]) -> Iterator[MetaInferError]:
    try:
        sorted_nodes(graph, label)
    except ModelError as error:
        yield error


def _undeclared(name: str, visible: Collection[str], what: str) -> ModelError:
    near = difflib.get_close_matches(name, visible, 1)
    return ModelError(f"reads tensor {name!r}, which nothing declares or computes", what=what,
                      hint=f"did you mean {near[0]!r}?" if near else "export the model again; a node is missing")


def _definition_problems(graph: GraphProto, label: Callable[[int], str],
                         where: str) -> Iterator[MetaInferError]:
    """Names that are empty or defined twice. An initialiser may repeat an input: it is its default."""
    place = where or "the graph"
    again = "rename one of the two"
    owners: dict[str, str] = {}
    for value in graph.input:
        if not value.name:
            yield ModelError("an input has no name", what=place, hint="name every input")
        if value.name in owners:
            yield ModelError(f"input {value.name!r} is declared twice", what=place, hint=again)
        owners[value.name] = "an input"
    tensors: set[str] = set()
    for tensor in graph.initializer:
        if not tensor.name:
            yield ModelError("an initialiser has no name", what=place, hint="name every initialiser")
        if tensor.name in tensors:
            yield ModelError(f"initialiser {tensor.name!r} stands twice", what=place, hint=again)
        tensors.add(tensor.name)
        owners.setdefault(tensor.name, "an initialiser")
    for i, node in enumerate(graph.node):
        for name in node.output:
            if name in owners:
                yield ModelError(f"output {name!r} is already {owners[name]}: every tensor is assigned once",
                                 what=label(i), hint=again)
            elif name:
                owners[name] = f"an output of {label(i)}"
    outputs: set[str] = set()
    for value in graph.output:
        if value.name in outputs and not where:
            yield ModelError(f"output {value.name!r} is listed twice", what=place, hint="list it once")
        outputs.add(value.name)
    if not graph.output:
        yield ModelError("has no output", what=place, hint="list at least one tensor as output")
