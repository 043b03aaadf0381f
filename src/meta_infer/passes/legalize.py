"""Bring every op to a form the device has: decompose, else leave it to the host CPU, else refuse.

    before                                                          after
    %y: float32[4] = ReduceL2(%x) {axes = (1,), keepdims = false}   %q: float32[4, 3] = Mul(%x, %x)
                                                                    %s: float32[4] = ReduceSum(%q) {...}
                                                                    %y: float32[4] = Sqrt(%s)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Node, Shape, walk_nodes
from meta_infer.ops.opdef import OpDef, TensorType
from meta_infer.ops.registry import op_named
from meta_infer.passes.eliminate_dead_code import eliminate_dead_code
from meta_infer.passes.fold_constants import fold_constants
from meta_infer.passes.profile_words import profile_words
from meta_infer.passes.rewrite import Edit, apply_rule
from meta_infer.passes.store_narrow import store_narrow
from meta_infer.passes.widen_narrow import widen_narrow
from meta_infer.support.errors import UnsupportedError


def legalize(graph: Graph, profile: Profile, warn: Callable[[str], None] | None = None,
             anchors: Collection[str] | None = None) -> Graph:
    """Decompose ops without a kernel, and where it helps those the device's `supported_ops` lack.

    `anchors` are the ops that kernels compute (None: every op that has no decomposition). Elementwise ops, views
    and control flow need no kernel of their own. `warn` is told of every op that falls back to the host CPU.
    Raises UnsupportedError for an op that has neither kernel nor decomposition.
    """
    graph = widen_narrow(graph)
    graph = apply_rule(graph, lambda edit, node: not _has_kernel(node, anchors) and _decompose(
        edit, node, _require(node, profile)))
    graph = widen_narrow(graph)                            # what ops of MOVES decomposed into
    graph = eliminate_dead_code(fold_constants(graph))     # a piece may read constants alone, and not all of them
    graph = eliminate_dead_code(store_narrow(graph))
    if profile.supported_ops is None:
        return graph
    graph = eliminate_dead_code(
        apply_rule(graph, lambda edit, node: _decompose_for_device(edit, node, profile, anchors)))
    for node in host_nodes(graph, profile):
        if warn is not None:
            warn(f"{node.label}: {profile.name} does not run it (supported_ops); it is placed on the host CPU, "
                 "which costs two copies")
    return graph


def host_nodes(graph: Graph, profile: Profile) -> tuple[Node, ...]:
    """Nodes of the region tree that the device does not run by its `supported_ops`: they fall back to the host."""
    return tuple(node for holder, node in walk_nodes(graph) if not _on_device(node, holder, profile))


def _on_device(node: Node, graph: Graph, profile: Profile) -> bool:
    definition = op_named(node.op)
    if definition.is_view or definition.is_control_flow:
        return True
    name = next(name for name in node.outputs if name)
    return _supports(profile, node, graph.values[name].shape)


def _supports(profile: Profile, node: Node, shape: Shape | None = None) -> bool:
    return any(profile.supports_op(word) for word in profile_words(node, shape))


def _has_kernel(node: Node, anchors: Collection[str] | None) -> bool:
    definition = op_named(node.op)
    if definition.expr is not None or definition.is_view or definition.is_control_flow:
        return True
    return definition.decompose is None if anchors is None else node.op in anchors


def _require(node: Node, profile: Profile) -> Callable[[], None]:
    def refuse() -> None:
        raise UnsupportedError(
            f"no kernel computes {node.op} with these attributes for {profile.name} (backend: "
            f"{profile.backend or 'none'}), and it cannot be decomposed into ops that have one", what=node.label,
            hint="replace the op in the model, or see docs/add-an-op.md to add a kernel or a decomposition")

    return refuse


def _decompose(edit: Edit, node: Node, refuse: Callable[[], None]) -> bool:
    nodes = _pieces(edit, node, op_named(node.op))
    if nodes is None:
        refuse()
        return False
    _put(edit, node, nodes)
    return True


def _pieces(edit: Edit, node: Node, definition: OpDef) -> tuple[Node, ...] | None:
    """The nodes that compute `node` by the op's own decomposition, None when it has none for this case."""
    if definition.decompose is None:
        return None
    names = [*node.reads, *(name for name in node.outputs if name)]
    types = {name: TensorType(edit.value(name).dtype, edit.value(name).shape) for name in names}
    return definition.decompose(node, edit.fresh, edit.add_constant, types)


def _put(edit: Edit, node: Node, nodes: tuple[Node, ...]) -> None:
    edit.remove([node])
    for piece in nodes:
        edit.insert(replace(piece, origins=node.origins))


def _decompose_for_device(edit: Edit, node: Node, profile: Profile, anchors: Collection[str] | None) -> bool:
    """Decompose a node the device lacks when it has all the pieces."""
    definition = op_named(node.op)
    if definition.decompose is None or definition.is_view or definition.is_control_flow:
        return False
    if _supports(profile, node, edit.value(node.outputs[0]).shape):
        return False
    pieces = _pieces(edit, node, definition)
    if pieces is None or not all(_has_kernel(piece, anchors) and _supports(profile, piece) for piece in pieces):
        return False
    _put(edit, node, pieces)
    return True
