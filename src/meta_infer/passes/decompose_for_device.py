"""Which simpler ops stand for one that the device lacks, chosen so that the device has all of them.

Each op has one form or several (the tables below, then the decomposition of its OpDef). A form may use ops that are
themselves decomposed, to any depth; the first form that ends in ops the device runs is taken. What depends on
constants alone is computed at build and need not be supported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Node
from meta_infer.ops.registry import op_named
from meta_infer.passes.decompose_attention import ATTENTION
from meta_infer.passes.decompose_convolution import CONVOLUTION
from meta_infer.passes.decompose_elementwise import ELEMENTWISE
from meta_infer.passes.decompose_normalization import NORMALIZATION
from meta_infer.passes.decompose_recurrent import RECURRENT
from meta_infer.passes.op_limits import Refusal, limits_of, refusal
from meta_infer.passes.pieces import Bounds, Decomposition, Pieces, Scope
from meta_infer.passes.profile_words import profile_words
from meta_infer.passes.rewrite import Edit, key_of

FORMS: Mapping[str, tuple[Decomposition, ...]] = {**ELEMENTWISE, **NORMALIZATION, **RECURRENT, **CONVOLUTION,
                                                **ATTENTION}


def _own_form(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """The decomposition that the op itself defines."""
    decompose = op_named(node.op).decompose
    types = {name: to.type(name) for name in (*node.reads, *filter(None, node.outputs))}
    nodes = decompose(node, to.fresh, to.constant, types) if decompose is not None else None
    for piece in nodes or ():
        to.put(piece)
    return nodes is not None


@dataclass(frozen=True)
class Trial:
    """One attempt to express a node on the device of `profile`; `has_kernel` says which ops can be computed at all."""

    profile: Profile
    scope: Scope
    has_kernel: Callable[[Node], bool]

    def refuse(self, node: Node) -> Refusal | None:
        if not self.has_kernel(node):
            return Refusal(f"no kernel computes {node.op}", "")
        shapes = [self.scope.type(name).shape for name in node.inputs if name]
        return refusal(self.profile, node, shapes, self.scope.type(key_of(node)).shape)

    def expand(self, node: Node, used: frozenset[Decomposition] = frozenset()) -> list[Node] | Refusal:
        """Nodes that the device runs and that compute `node`; why there are none. `used` are the forms around it."""
        why = self.refuse(node)
        if why is None:
            return [node]
        needs: list[str] = []
        for form in (*FORMS.get(node.op, ()), _own_form):
            if form in used:
                continue
            to = Pieces(self.scope, node.origins)
            if not form(node, to, self._bounds(node)):
                continue
            found = self._expand_all(to, used if form is _own_form else used | {form})
            if not isinstance(found, Refusal):
                return found
            needs.append(found.missing or found.reason)
        if not needs or used:
            return why
        return Refusal(f"{why.reason}; in simpler ops it needs {' or '.join(dict.fromkeys(needs))}", why.field)

    def _expand_all(self, to: Pieces, used: frozenset[Decomposition]) -> list[Node] | Refusal:
        nodes: list[Node] = []
        for piece in to.nodes:
            if self.scope.folds(piece):
                self.scope.folded.update(piece.outputs)
                nodes.append(piece)
                continue
            found = self.expand(piece, used)
            if isinstance(found, Refusal):
                return found
            nodes += found
        return nodes

    def _bounds(self, node: Node) -> Bounds:
        limits = limits_of(self.profile, profile_words(node, self.scope.type(key_of(node)).shape))
        kernels = [limit.max_kernel for limit in limits if limit.max_kernel is not None]
        channels = [limit.max_channels for limit in limits if limit.max_channels is not None]
        return Bounds(min(kernels, default=None), min(channels, default=None))


def decompose_for_device(edit: Edit, node: Node, profile: Profile, has_kernel: Callable[[Node], bool]
                         ) -> list[Node] | Refusal:
    """Put nodes that the device runs in the place of `node`; why that cannot be.

    A node that it runs already comes back alone, and nothing changes.
    """
    scope = Scope(edit)
    found = Trial(profile, scope, has_kernel).expand(node)
    if isinstance(found, Refusal) or found == [node]:
        return found
    edit.remove([node])
    for piece in found:
        if scope.folded.issuperset(piece.outputs):
            scope.compute(piece)
    pieces = [piece for piece in found if not scope.folded.issuperset(piece.outputs)]
    read = {name for piece in pieces for name in piece.inputs} | set(node.outputs)
    for name, array in scope.constants.items():
        if name in read:
            if name not in node.outputs:                   # those have their type and provenance
                edit.declare(name, scope.types[name].dtype, array.shape)
            edit.define(name, array)
    for piece in pieces:
        edit.insert(piece)
    return pieces
