"""What the search chooses from: groups that could cover a graph, and the variants of each.

The groups of several covers lie beside each other, from no fusion at all to groups of several anchors; which of them
cover the graph is decided together with their variants and the formats between them (solve.py). A variant stands here
with its kernel's own knobs; how many others its knobs span is counted without listing them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph
from meta_infer.ir.group import Group, Variant
from meta_infer.ir.group_text import group_text
from meta_infer.kernels.registry import kernel_named
from meta_infer.ops.registry import op_named
from meta_infer.passes.alternatives import propose_alternatives
from meta_infer.passes.covers import propose_covers
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


@dataclass(frozen=True)
class Offer:
    """A group that could be part of the plan: what it covers, the least level of fusion that has it, its variants.

    `text` is that of all groups like it. `combinations` counts what the variants and their knobs span, feasible or not.
    """

    group: Group
    text: str
    level: str
    variants: tuple[Variant, ...]
    combinations: int = 1

    @property
    def key(self) -> str:
        """The first value it makes."""
        return self.group.outputs[0]

    @cached_property
    def covers(self) -> frozenset[str]:
        """Keys of its nodes."""
        return frozenset(key_of(node) for node in self.group.nodes)

    @property
    def is_free(self) -> bool:
        """A view moves no byte; a region's time is that of its own groups."""
        return self.variants[0].kernel in ("view", "region")


@dataclass(frozen=True)
class Space:
    """All offers of one graph, and the spaces of its regions, keyed as in a Plan."""

    graph: Graph
    offers: tuple[Offer, ...]
    regions: Mapping[tuple[str, int], Space] = field(default_factory=dict)

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
    """Offers of all `levels` of fusion.

    `variants(group, profile)` gives what a backend computes a group by. `disabled` names fusions as --disable does.
    Raises UnsupportedError when some node is in no group that has a variant.
    """
    found: dict[frozenset[str], Offer] = {}

    def add(groups: Iterable[Group], level: str) -> None:
        for group in groups:
            keys = frozenset(key_of(node) for node in group.nodes)
            if keys not in found:
                offered = offered_variants(group, profile, variants)
                if offered:
                    found[keys] = Offer(group, group_text(group), level, offered, combinations(group, offered, profile))

    plain: Sequence[Group] = ()
    for level in levels:
        if level == ANCHORS:
            plain = plain or propose_covers(graph, disabled, root)
            add((one.group for one in propose_alternatives(graph, plain, disabled, root)), level)
        else:
            plain = propose_covers(graph, disabled | LEVELS[level], root)
            add(plain, level)
    covered = {key for keys in found for key in keys}
    for group in propose_covers(graph, disabled, root):
        if not covered.issuperset(map(key_of, group.nodes)):
            raise no_variant(group)
    regions = {(key_of(node), i): make_space(region, profile, variants, disabled, root or graph, levels)
               for node in graph.nodes for i, region in enumerate(node.regions)}
    return Space(graph, tuple(found.values()), regions)


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
