"""Distinct groups: what is timed once for all its like, and what is known of every way to compute it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Variant
from meta_infer.ir.group_text import structure_hash
from meta_infer.search.space.space import Offer, Space, renamed
from meta_infer.search.space.ways import Way, variant_as, way_of


@dataclass
class Known:
    """Seconds of one way: the guess, and what was measured, infinite when it failed. `key` is that of its sample.

    `is_counted` tells guesses of the cost model, from what the lowered kernels do, from those that kernels state.
    `lowered` is what the guess was multiplied by for what is known of elsewhere.
    """

    variant: Variant
    guess: float
    measured: float | None = None
    spread: float = 0.0
    key: str = ""
    is_counted: bool = False
    lowered: float = 1.0

    @property
    def seconds(self) -> float:
        return self.guess if self.measured is None else self.measured


@dataclass
class Site:
    """A distinct group with every way that was looked at; `variants` are those of `group`, the first of its kind.

    `first` are ways that did best elsewhere: they are timed before others, and of these fewer. `by_rule` are those that
    the plan without a search takes.
    """

    text: str
    structure: str
    group: Group
    variants: tuple[Variant, ...]
    count: int = 0
    ways: dict[Way, Known] = field(default_factory=dict)
    first: list[Way] = field(default_factory=list)
    by_rule: list[Way] = field(default_factory=list)

    def add(self, variant: Variant, guess: float) -> bool:
        """Whether it was new."""
        way = way_of(self.group, variant)
        if way in self.ways:
            return False
        self.ways[way] = Known(variant, guess)
        return True

    def best(self, measured: bool = False) -> tuple[Way, Known] | None:
        """The quickest way as far as is known; with `measured`, of those that were timed."""
        known = [(way, one) for way, one in self.ways.items() if one.measured is not None or not measured]
        found = min(known, key=lambda item: (item[1].seconds, item[0]), default=None)
        return None if found is None or math.isinf(found[1].seconds) else found

    def ranked(self) -> list[tuple[Way, Known]]:
        return sorted(self.ways.items(), key=lambda item: (item[1].seconds, item[0]))


def sites_of(space: Space) -> dict[str, Site]:
    """By text, in the order of the graph; views and regions take no time and are none."""
    found: dict[str, Site] = {}
    for offer in space.all_offers:
        if not offer.is_free:
            if offer.text not in found:
                found[offer.text] = Site(offer.text, structure_hash(offer.group), offer.group, offer.variants)
            found[offer.text].count += 1
    return found


class Translated:
    """Variants of every group from the ways of its site, each worked out once."""

    def __init__(self, sites: Mapping[str, Site], profile: Profile) -> None:
        self._sites, self._profile = sites, profile
        self._variants: dict[tuple[frozenset[str], Way], Variant | None] = {}
        self._kinds: dict[tuple[Hashable, Way], tuple[Group, Variant | None]] = {}

    def ways(self, offer: Offer) -> Iterator[tuple[Variant, Way, Known]]:
        """Every way of the offer's site as a variant of its own group."""
        for way, known in self._sites[offer.text].ways.items():
            variant = self.variant(offer, way)
            if variant is not None:
                yield variant, way, known

    def as_site(self, site: Site, way: Way) -> Variant | None:
        """The variant that `way` names, of the group that stands for the site."""
        return variant_as(way, site.group, site.variants, self._profile)

    def variant(self, offer: Offer, way: Way) -> Variant | None:
        key = offer.covers, way
        if key not in self._variants:
            site = self._sites[offer.text]
            own = site.ways[way].variant if way in site.ways and site.group is offer.group else None
            self._variants[key] = own or self._as_its_kind(offer, way)
        return self._variants[key]

    def _as_its_kind(self, offer: Offer, way: Way) -> Variant | None:
        """Worked out for the first offer of a kind; others have it under their own names."""
        key = offer.kind or offer.covers, way
        if key not in self._kinds:
            self._kinds[key] = offer.group, variant_as(way, offer.group, offer.variants, self._profile)
        group, variant = self._kinds[key]
        return variant if variant is None or group is offer.group else renamed(variant, group, offer.group)
