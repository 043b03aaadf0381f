"""Covers beside the plain one: groups of several anchors, each in the place of neighbouring groups of the plain cover.

All are proposals: whoever plans takes any of them that do not overlap, as it takes variants, and the rest stays plain.
A proposal is legal when what passes between its parts is read by nobody else. Its anchor is that of its last part, or
of the last one that is no view; the earlier anchors and their elementwise nodes are its prologue, and a kernel that
does not know such a prologue offers no variant.

Which groups may be one stands in a file per fusion: fuse_channel_shuffle.py,
fuse_conv_chain.py, fuse_conv_pool.py, fuse_squeeze.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from meta_infer.ir.graph import Graph, Node
from meta_infer.ir.group import Group
from meta_infer.ops.registry import op_named
from meta_infer.passes.covers import build_groups
from meta_infer.passes.fuse_channel_shuffle import fuse_channel_shuffle
from meta_infer.passes.fuse_conv_chain import fuse_conv_chain
from meta_infer.passes.fuse_conv_pool import fuse_conv_pool
from meta_infer.passes.fuse_squeeze import fuse_squeeze
from meta_infer.passes.neighbours import Neighbours, neighbours_of
from meta_infer.support.errors import InternalError


@dataclass(frozen=True)
class Alternative:
    """`group` instead of the groups of the plain cover whose first outputs are `replaces`, in order."""

    fusion: str
    group: Group
    replaces: tuple[str, ...]


def propose_alternatives(graph: Graph, groups: Sequence[Group], disabled: frozenset[str] = frozenset(),
                         root: Graph | None = None) -> tuple[Alternative, ...]:
    """All legal alternatives to parts of `groups`, the plain cover of `graph`; `disabled` may name FUSIONS' keys.

    When `graph` is a region, `root` is the outermost graph, as for `propose_covers`.
    """
    near = neighbours_of(graph, groups)
    found = [(fusion, parts) for fusion, propose in FUSIONS.items() if fusion not in disabled
             for i in range(len(groups)) for parts in propose(near, i)]
    merged = build_groups(graph, [([node for part in parts for node in groups[part].nodes],
                                   _anchor([groups[part] for part in parts])) for _, parts in found], root)
    return tuple(Alternative(fusion, group, tuple(groups[part].outputs[0] for part in parts))
                 for (fusion, parts), group in zip(found, merged, strict=True))


def _anchor(parts: Sequence[Group]) -> Node:
    """The last one that is no view."""
    return next(part.anchor for part in reversed(parts) if not op_named(part.anchor.op).is_view)


def take_alternatives(groups: Sequence[Group], taken: Sequence[Alternative]) -> tuple[Group, ...]:
    """`groups` with those that the alternatives replace left out, each alternative where the first of those stood
    whose result is still read elsewhere.

    What comes after that in a group reads values of the group only, so everything can run in this order.
    Raises InternalError when two alternatives replace one group.
    """
    last = {next(name for name in one.replaces if name in one.group.outputs): one for one in taken}
    gone = [name for alternative in taken for name in alternative.replaces]
    if len(set(gone)) != len(gone):
        raise InternalError("two alternatives replace one group", what=", ".join(sorted(gone)))
    found = []
    for group in groups:
        key = group.outputs[0] if group.outputs else ""
        if key in last:
            found.append(last[key].group)
        elif key not in gone:
            found.append(group)
    return tuple(found)


FUSIONS: Mapping[str, Callable[[Neighbours, int], Iterator[tuple[int, ...]]]] = {
    "fuse_channel_shuffle": fuse_channel_shuffle,
    "fuse_conv_chain": fuse_conv_chain,
    "fuse_conv_pool": fuse_conv_pool,
    "fuse_squeeze": fuse_squeeze,
}
"""Name, as `--disable` takes it -> groups (their places, in order) that could be one ending with group i."""
