"""Moves: parts of a graph in another shape, for a search to choose from.

A move takes nodes out and puts others in that compute the same values: what is read outside keeps its name and its
type, and the new nodes read nothing but what the old ones read. So any moves that take no node twice may be made
together, in any order, and covers (covers.py, alternatives.py) are then proposed of the nodes that came. Whether a move
pays depends on the chip: it is priced, never made for its own sake.

A move of which `approximate` is true changes results by more than the order of additions does. None of those below
is; such a move is only for a build that watches accuracy.

Each kind stands in a file of its own, with what makes it legal: merge_parallel.py, split_conv.py, pad_channels.py,
conv_to_matmul.py, matmul_to_conv.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Node, Value, free_names, walk_graphs
from meta_infer.passes.conv_to_matmul import conv_to_matmul
from meta_infer.passes.draft import Draft
from meta_infer.passes.matmul_to_conv import matmul_to_conv
from meta_infer.passes.merge_parallel import merge_parallel
from meta_infer.passes.pad_channels import pad_channels
from meta_infer.passes.rewrite import Edit, key_of
from meta_infer.passes.split_conv import split_conv
from meta_infer.passes.verify_types import verify
from meta_infer.support.errors import InternalError


@dataclass(frozen=True)
class Move:
    """`nodes`, in topological order, instead of the nodes whose first outputs are `removes`.

    `values` types what they make anew, `constants` are those that they read and the graph lacks. `waste` is the share
    of the old nodes' multiplications that comes on top (padding); who prices the new nodes has counted it.
    """

    move: str
    removes: tuple[str, ...]
    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    constants: Mapping[str, np.ndarray]
    approximate: bool = False
    waste: float = 0.0


def propose_moves(graph: Graph, disabled: frozenset[str] = frozenset(), profile: Profile | None = None,
                  root: Graph | None = None) -> tuple[Move, ...]:
    """All legal moves of `graph`; `disabled` may name MOVES' keys. Regions of control flow are not entered.

    Those that depend on the chip (its caches, its alignment) are left out without a `profile`. When `graph` is a
    region, `root` is the outermost graph, as for `propose_covers`. New names differ from all others and between moves.
    """
    edit = _edit_of(graph, root)
    nodes = edit.nodes()
    return tuple(_finished(name, draft, graph) for name, propose in MOVES.items() if name not in disabled
                 for node in nodes for draft in propose(edit, node, profile) if not _waits(draft))


def apply_moves(graph: Graph, moves: Sequence[Move]) -> Graph:
    """`graph` with the moves made, verified. Raises InternalError where two of them take one node."""
    gone = [name for move in moves for name in move.removes]
    if len(set(gone)) != len(gone):
        twice = sorted({name for name in gone if gone.count(name) > 1})
        raise InternalError("two moves take one node", what=", ".join(twice))
    if not moves:
        return graph
    edit = Edit(graph, {name for holder in walk_graphs(graph) for name in holder.values})
    for move in moves:
        removed = [node for name in move.removes if (node := edit.made_by(name)) is not None]
        if len(removed) != len(move.removes):
            raise InternalError("takes a node that is not there", what=f"move {move.move} of {move.removes[0]}")
        edit.visit(removed[0])
        edit.remove(removed)
        for value in move.values.values():
            edit.declare(value.name, value.dtype, value.shape)
        for name, array in move.constants.items():
            edit.define(name, array)
        for node in move.nodes:
            edit.insert(node)
    result = edit.finish()
    if graph.captures:                                       # types of what it captures are known outside only
        return result.replace(captures=free_names(result))
    verify(result)
    return result


def _edit_of(graph: Graph, root: Graph | None) -> Edit:
    """An index of `graph`; in a region, what it captures is looked up in the whole tree."""
    if root is None or root is graph:
        return Edit(graph, {name for holder in walk_graphs(graph) for name in holder.values})
    holders = [*walk_graphs(root), graph]
    values = {name: value for holder in holders for name, value in holder.values.items()}
    constants = {name: array for holder in holders for name, array in holder.constants.items()}
    used = set(values)
    return Edit(graph, used, Edit(root.replace(values=values, constants=constants), used))


def _waits(draft: Draft) -> bool:
    """Whether its shapes hold sizes that values tell which the old nodes did not wait for: those may be gone."""
    told = {name for node in draft.nodes for name in set(node.reads) - set(node.operands)}
    return not told <= {name for node in draft.removes for name in node.reads}


def _finished(name: str, draft: Draft, graph: Graph) -> Move:
    """The move of a draft. Raises InternalError when it is not one: see the module."""
    removes = tuple(map(key_of, draft.removes))
    what = f"move {name} of {removes[0]}"
    old = {out for node in draft.removes for out in node.outputs if out}
    made = {out for node in draft.nodes for out in node.outputs if out}
    read = {operand for node in draft.nodes for operand in node.reads}
    constants = {key: array for key, array in draft.scope.constants.items() if key in read}
    if foreign := read - made - set(constants) - {operand for node in draft.removes for operand in node.reads}:
        raise InternalError(f"reads {', '.join(sorted(foreign))}, which what it takes out does not", what=what)
    keys = set(removes)
    outside = {operand for node in graph.nodes if key_of(node) not in keys for operand in node.reads}
    if lost := (outside | set(graph.outputs)) & old - made:
        raise InternalError(f"loses {', '.join(sorted(lost))}", what=what)
    values = {out: Value(out, draft.scope.type(out).dtype, draft.scope.type(out).shape)
              for out in (*constants, *(out for node in draft.nodes for out in node.outputs)) if out and out not in old}
    return Move(name, removes, tuple(draft.nodes), values, constants, waste=draft.waste)


MOVES: Mapping[str, Callable[[Edit, Node, Profile | None], Iterator[Draft]]] = {
    "merge_parallel": merge_parallel,
    "split_conv": split_conv,
    "pad_channels": pad_channels,
    "conv_to_matmul": conv_to_matmul,
    "matmul_to_conv": matmul_to_conv,
}
"""Name, as `--disable` takes it -> what of that kind may be done with a node and its neighbours."""
