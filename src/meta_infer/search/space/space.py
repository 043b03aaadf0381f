"""What the search chooses from: groups that could cover a graph, and the variants of each.

The groups of several covers lie beside each other, from no fusion at all to groups of several anchors; which of them
cover the graph is decided together with their variants and the formats between them (solve.py). A variant stands here
with its kernel's own knobs; how many others its knobs span is counted without listing them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph
from meta_infer.ir.graph_text import content_hash
from meta_infer.ir.group import Group, Variant
from meta_infer.ir.group_text import group_text
from meta_infer.kernels.registry import kernel_named
from meta_infer.ops.registry import op_named
from meta_infer.passes.alternatives import propose_alternatives
from meta_infer.passes.covers import propose_covers
from meta_infer.passes.moves import Move, apply_moves, propose_moves
from meta_infer.passes.rewrite import key_of
from meta_infer.search.default_plan import Variants, no_variant, region_variant, view_variant

LEVELS: Mapping[str, frozenset[str]] = {
    "none": frozenset({"fuse_epilogue", "fuse_elementwise"}),
    "elementwise": frozenset({"fuse_epilogue"}),
    "epilogue": frozenset({"fuse_elementwise"}),
    "full": frozenset(),
}
"""Covers from basic to aggressive: name -> fusions left out. `anchors`, groups of several anchors, comes after them."""
ANCHORS = "anchors"
HALF_LARGEST = 65504.0
"""The largest finite number of IEEE 754 half precision."""


@dataclass(frozen=True)
class Offer:
    """A group that could be part of the plan: what it covers, the least level of fusion that has it, its variants.

    `text` is that of all groups like it. Where a move of the space has made some of its nodes, `move` is its place
    among the moves and `moved` the keys of these nodes. `combinations` counts what the variants and their knobs span,
    feasible or not. Offers of one `kind` have the same variants but for the names of their values.
    """

    group: Group
    text: str
    level: str
    variants: tuple[Variant, ...]
    combinations: int = 1
    move: int | None = None
    moved: frozenset[str] = frozenset()
    kind: Hashable = None

    @property
    def key(self) -> str:
        """The first value it makes."""
        return self.group.outputs[0]

    @cached_property
    def covers(self) -> frozenset[str]:
        """Its nodes, by key; those that a move has made say which, for they may have the keys of the old ones."""
        keys = [key_of(node) for node in self.group.nodes]
        return frozenset(moved_key(self.move, key) if key in self.moved else key for key in keys)

    @property
    def is_free(self) -> bool:
        """A view moves no byte; a region's time is that of its own groups."""
        return self.variants[0].kernel in ("view", "region")


def moved_key(move: int | None, key: str) -> str:
    """What a node of a move is called in `Offer.covers`."""
    return f"{key}#{move}"


@dataclass(frozen=True)
class Space:
    """All offers of one graph, the moves that some of them stand on, and the spaces of its regions, keyed as in a
    Plan."""

    graph: Graph
    offers: tuple[Offer, ...]
    regions: Mapping[tuple[str, int], Space] = field(default_factory=dict)
    moves: tuple[Move, ...] = ()

    @property
    def combinations(self) -> int:
        """Kernels with all their knob values over distinct groups: what would have to be timed to try everything."""
        return sum({offer.text: offer.combinations for offer in self.all_offers}.values())

    @property
    def all_offers(self) -> tuple[Offer, ...]:
        """Those of the regions too."""
        inner = [offer for region in self.regions.values() for offer in region.all_offers]
        return (*self.offers, *inner)


def make_space(graph: Graph, profile: Profile, variants: Variants, disabled: frozenset[str] = frozenset(),
               root: Graph | None = None, levels: Sequence[str] = (*LEVELS, ANCHORS)) -> Space:
    """Offers of all `levels` of fusion, and of all moves that are exact.

    `variants(group, profile)` gives what a backend computes a group by. `disabled` names fusions and moves as --disable
    does. Raises UnsupportedError when some node is in no group that has a variant.
    """
    found: dict[frozenset[str], Offer] = {}
    catalogue = _Catalogue(profile, variants)

    def add(groups: Iterable[Group], level: str, move: int | None = None, moved: frozenset[str] = frozenset()) -> None:
        for group in groups:
            offer = Offer(group, group_text(group), level, (), move=move, moved=moved & set(map(key_of, group.nodes)))
            if offer.covers in found or (move is not None and not offer.moved):
                continue
            kind = catalogue.kind(group, offer.text)
            offered, count = catalogue.variants(group, kind)
            if offered:
                found[offer.covers] = replace(offer, variants=offered, combinations=count, kind=kind)

    for level, groups in _covers(graph, disabled, root, levels):
        add(groups, level)
    for group in propose_covers(graph, disabled, root):
        if not all(any(key in keys for keys in found) for key in map(key_of, group.nodes)):
            raise no_variant(group)
    moves = tuple(move for move in propose_moves(graph, disabled, profile, root) if not move.approximate)
    for apart in _apart(graph, moves):
        after = apply_moves(graph, [moves[i] for i in apart])
        made = {i: frozenset(map(key_of, moves[i].nodes)) for i in apart}
        for level, groups in _covers(after, disabled, root, ("none", "full", ANCHORS)):
            for group in groups:
                own = [i for i in apart if not made[i].isdisjoint(map(key_of, group.nodes))]
                if len(own) == 1:
                    add([group], level, own[0], made[own[0]])
    regions = {(key_of(node), i): make_space(region, profile, variants, disabled, root or graph, levels)
               for node in graph.nodes for i, region in enumerate(node.regions)}
    return Space(graph, tuple(found.values()), regions, moves)


def _apart(graph: Graph, moves: Sequence[Move]) -> list[list[int]]:
    """Moves in sets of which no two touch neighbouring nodes: what is around one of a set is as without the others."""
    near = _neighbours(graph)
    reach = [{other for key in move.removes for other in (key, *near[key])} for move in moves]
    sets: list[tuple[set[str], list[int]]] = []
    for i, own in enumerate(reach):
        for taken, members in sets:
            if taken.isdisjoint(own):
                taken |= own
                members.append(i)
                break
        else:
            sets.append((set(own), [i]))
    return [members for _, members in sets]


def _neighbours(graph: Graph) -> dict[str, set[str]]:
    """For every node those that it reads from or that read from it."""
    makers = {name: key_of(node) for node in graph.nodes for name in node.outputs if name}
    near: dict[str, set[str]] = {key_of(node): set() for node in graph.nodes}
    for node in graph.nodes:
        for name in node.reads:
            if name in makers:
                near[key_of(node)].add(makers[name])
                near[makers[name]].add(key_of(node))
    return near


def _covers(graph: Graph, disabled: frozenset[str], root: Graph | None,
            levels: Sequence[str]) -> Iterator[tuple[str, Iterable[Group]]]:
    """(level, groups) of every level."""
    for level in levels:
        if level != ANCHORS:
            yield level, propose_covers(graph, disabled | LEVELS[level], root)
        else:
            plain = propose_covers(graph, disabled, root)
            yield level, [one.group for one in propose_alternatives(graph, plain, disabled, root)]


class _Catalogue:
    """Variants of groups, worked out once for all groups that are alike."""

    def __init__(self, profile: Profile, variants: Variants) -> None:
        self._profile, self._variants = profile, variants
        self._known: dict[Hashable, tuple[Group, tuple[Variant, ...], int]] = {}
        self._contents: dict[int, Hashable] = {}

    def kind(self, group: Group, text: str) -> Hashable:
        """What variants of a group of this text depend on, of all but names."""
        return text, tuple(self._content(array) for array in group.constants.values())

    def variants(self, group: Group, kind: Hashable) -> tuple[tuple[Variant, ...], int]:
        """What computes a group of this kind, and how many combinations that spans."""
        if kind not in self._known:
            offered = offered_variants(group, self._profile, self._variants)
            self._known[kind] = group, offered, combinations(group, offered, self._profile)
        first, offered, count = self._known[kind]
        return (offered if first is group else tuple(renamed(v, first, group) for v in offered)), count

    def _content(self, array: np.ndarray) -> Hashable:
        """What variants may depend on of a constant's elements: integers, and whether floats fit half precision."""
        if id(array) not in self._contents:
            if array.dtype.kind == "f" and array.dtype.itemsize >= 4:
                largest = float(np.abs(array).max(initial=0.0))
                self._contents[id(array)] = largest <= HALF_LARGEST
            else:
                self._contents[id(array)] = content_hash(array)
        return self._contents[id(array)]


def renamed(variant: Variant, old: Group, new: Group) -> Variant:
    """A variant of `old` as one of `new`, which is like it."""
    inputs, outputs = dict(zip(old.inputs, new.inputs, strict=True)), dict(zip(old.outputs, new.outputs, strict=True))
    return replace(variant, inputs={inputs[name]: layout for name, layout in variant.inputs.items()},
                   outputs={outputs[name]: layout for name, layout in variant.outputs.items()})


def offered_variants(group: Group, profile: Profile, variants: Variants) -> tuple[Variant, ...]:
    """What computes a group: views and regions have one variant, which moves nothing."""
    op = op_named(group.anchor.op)
    if op.is_control_flow:
        return (region_variant(group),)
    if op.is_view and not group.epilogue and not group.prologue:
        return (view_variant(group),)
    return tuple(variants(group, profile))


def combinations(group: Group, variants: Iterable[Variant], profile: Profile) -> int:
    """Variants times the values of their knobs."""
    total = 0
    for variant in variants:
        known = variant.kernel not in ("view", "region")
        knobs = kernel_named(variant.kernel).knobs(group, variant, profile) if known else ()
        total += prod(len(knob.values) for knob in knobs)
    return total
