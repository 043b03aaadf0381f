"""Bring every op to a form the device has: decompose, else leave it to the host CPU, else refuse.

Ops without a kernel are decomposed first, then those that the profile rules out (decompose_for_device.py).

    before                                                          after
    %y: float32[4] = ReduceL2(%x) {axes = (1,), keepdims = false}   %q: float32[4, 3] = Mul(%x, %x)
                                                                    %s: float32[4] = ReduceSum(%q) {...}
                                                                    %y: float32[4] = Sqrt(%s)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Node, walk_nodes
from meta_infer.ir.group import Group
from meta_infer.ops.opdef import OpDef, TensorType
from meta_infer.ops.registry import op_named
from meta_infer.passes.decisions import Decision, counted_ops
from meta_infer.passes.decompose_for_device import Trial, decompose_for_device
from meta_infer.passes.eliminate_dead_code import eliminate_dead_code
from meta_infer.passes.fold_constants import fold_constants
from meta_infer.passes.op_limits import Refusal, restricts_ops
from meta_infer.passes.pieces import Scope
from meta_infer.passes.rewrite import Edit, apply_rule
from meta_infer.passes.store_narrow import store_narrow
from meta_infer.passes.widen_narrow import widen_narrow
from meta_infer.support.errors import UnsupportedError


def legalize(graph: Graph, profile: Profile, warn: Callable[[str], None] | None = None,
             anchors: Collection[str] | None = None, record: list[Decision] | None = None,
             takes: Callable[[Group], bool] | None = None) -> Graph:
    """Decompose ops without a kernel, and those that the device lacks by `supported_ops` and `op_limits`.

    `anchors` are the ops that kernels compute (None: every op that has no decomposition). Elementwise ops, views
    and control flow need no kernel of their own. `takes` says of a node alone in its group whether a kernel computes
    it: an op that has a decomposition stays then (None: it never does). `warn` is told of every op that falls back
    to the host CPU, and `record` gets what was decided for each op that does not simply run.
    Raises UnsupportedError for an op that has neither kernel nor decomposition.
    """
    seen = record if record is not None else []
    own_casts = {node.origins for _, node in walk_nodes(graph) if node.op == "Cast"}
    graph = widen_narrow(graph)
    graph = apply_rule(graph, lambda edit, node: not _has_kernel(node, anchors) and not (
        takes and takes(_alone(edit, node))) and _decompose(edit, node, profile, seen))
    graph = widen_narrow(graph)                            # what ops of MOVES decomposed into
    graph = eliminate_dead_code(fold_constants(graph))     # a piece may read constants alone, and not all of them
    graph = eliminate_dead_code(store_narrow(graph))
    if not restricts_ops(profile):
        return graph
    graph = apply_rule(graph, lambda edit, node: _decompose_for_device(edit, node, profile, anchors, seen))
    graph = eliminate_dead_code(fold_constants(graph))
    for node, why in _refused(graph, profile, anchors):
        if node.op == "Cast" and node.origins not in own_casts:
            continue                                       # widening put it there, for the code that runs here
        seen.append(Decision(node.op, node.origins, "host", why.reason, why.field))
        if warn is not None:
            warn(f"{node.label}: {profile.name} does not run it ({why.field}); it is placed on the host CPU, "
                 "which costs two copies")
    return graph


def host_nodes(graph: Graph, profile: Profile) -> tuple[Node, ...]:
    """Nodes of the region tree that the device does not run: they fall back to the host."""
    return tuple(node for node, _ in _refused(graph, profile, None))


def _refused(graph: Graph, profile: Profile, anchors: Collection[str] | None) -> list[tuple[Node, Refusal]]:
    """The nodes that the device does not run, and why: also why simpler ops would not do."""
    found: list[tuple[Node, Refusal]] = []

    def look(edit: Edit, node: Node) -> bool:
        why = Trial(profile, Scope(edit), lambda piece: _has_kernel(piece, anchors)).expand(node)
        if isinstance(why, Refusal):
            found.append((node, why))
        return False

    apply_rule(graph, look)
    places = {id(node): i for i, (_, node) in enumerate(walk_nodes(graph))}
    return sorted(found, key=lambda item: places[id(item[0])])


def _has_kernel(node: Node, anchors: Collection[str] | None) -> bool:
    definition = op_named(node.op)
    if definition.expr is not None or definition.is_view or definition.is_control_flow:
        return True
    return definition.decompose is None if anchors is None else node.op in anchors


def _alone(edit: Edit, node: Node) -> Group:
    """The group of one node."""
    inputs, outputs = tuple(dict.fromkeys(node.operands)), tuple(name for name in node.outputs if name)
    arrays = {name: edit.constant(name) for name in inputs}
    return Group(node, inputs, outputs, {name: edit.value(name) for name in (*inputs, *outputs)},
                 {name: array for name, array in arrays.items() if array is not None})


def _decompose(edit: Edit, node: Node, profile: Profile, seen: list[Decision]) -> bool:
    nodes = _pieces(edit, node, op_named(node.op))
    if nodes is None:
        backend = profile.backend or "none"
        problem = f"no kernel computes {node.op} with these attributes for {profile.name} (backend: {backend})"
        seen.append(Decision(node.op, node.origins, "impossible", problem, "backend"))
        raise UnsupportedError(
            f"{problem}, and it cannot be decomposed into ops that have one", what=node.label,
            hint="replace the op in the model, or see docs/add-an-op.md to add a kernel or a decomposition")
    seen.append(Decision(node.op, node.origins, "decomposed", counted_ops(piece.op for piece in nodes)))
    edit.remove([node])
    for piece in nodes:
        edit.insert(replace(piece, origins=node.origins))
    return True


def _pieces(edit: Edit, node: Node, definition: OpDef) -> tuple[Node, ...] | None:
    """The nodes that compute `node` by the op's own decomposition, None when it has none for this case."""
    if definition.decompose is None:
        return None
    names = [*node.reads, *(name for name in node.outputs if name)]
    types = {name: TensorType(edit.value(name).dtype, edit.value(name).shape) for name in names}
    return definition.decompose(node, edit.fresh, edit.add_constant, types)


def _decompose_for_device(edit: Edit, node: Node, profile: Profile, anchors: Collection[str] | None,
                          seen: list[Decision]) -> bool:
    """Decompose a node that the device lacks when it has all the pieces."""
    found = decompose_for_device(edit, node, profile, lambda piece: _has_kernel(piece, anchors))
    if isinstance(found, Refusal) or edit.has(node):
        return False
    seen.append(Decision(node.op, node.origins, "decomposed", counted_ops(piece.op for piece in found)))
    return True
