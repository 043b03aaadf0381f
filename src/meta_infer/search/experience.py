"""What the experience library has to say before a search, and what it is told after one.

Before: for a group whose structure was timed elsewhere (another chip or instruction set), the ways that did best
there are first candidates. They are always timed again, so they can only save time. After: what won for each group,
against what, on which capabilities.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Plan, Variant, walk_plans
from meta_infer.ir.group_text import group_text
from meta_infer.kernels.kernel import KnobValue, Refusal
from meta_infer.kernels.registry import kernel_named
from meta_infer.library.decisions import Decision
from meta_infer.library.samples import Sample
from meta_infer.library.store import Library
from meta_infer.search.default_plan import RISK_LIMIT
from meta_infer.search.space.coarse import Keeps
from meta_infer.search.space.guesses import Guesses
from meta_infer.search.space.sites import Site
from meta_infer.search.space.ways import Way, way_of
from meta_infer.support.errors import LibraryUnwritableError

_BETTER = 0.999
"""Times the least guess of a group that what did best elsewhere is guessed to take: plans are made of it, and are not
made to have such groups."""


def capabilities(profile: Profile) -> str:
    """What of a chip decides which kernel is quick: 'x86-64-v3, 256 bit, L1 32 KiB, L2 512 KiB, 2 cores'."""
    sizes = [f"{name} {size >> 10} KiB" for name, size in (("L1", profile.l1d_bytes), ("L2", profile.l2_bytes)) if size]
    return ", ".join([str(profile.isa), f"{profile.simd_bits} bit", *sizes, f"{profile.cores} cores"])


def take_over(sites: Iterable[Site], library: Library, profile: Profile, cpu: str, guesses: Guesses,
              keeps: Keeps, most: int) -> int:
    """Adds what did best elsewhere to the ways of each site, `most` of each, to be timed first; how many sites had any.

    Of another instruction set the kernel carries over rather than its knobs: where the plan by rule takes the same
    variant, it is with the knobs of the rule, which knows the registers here.
    """
    met = 0
    for site in sites:
        taken = 0
        for sample in library.near(site.structure, group=site.text, cpu=cpu, isa=str(profile.isa)):
            if (sample.cpu, sample.isa) == (cpu, str(profile.isa)):      # it grows with every build: not the same twice
                continue
            variant = _as_here(sample, site.group, site.variants, profile)
            if variant is None or variant.risk > RISK_LIMIT or not keeps(site.group, variant):
                continue
            way = way_of(site.group, variant)
            if sample.isa != str(profile.isa):
                way = next((one for one in site.by_rule if _are_alike(one, way)), way)
            if way not in site.ways:
                site.add(variant, guesses.seconds(site.group, variant))
            if way not in site.first:
                least = min(guesses.corrected(*item) for item in site.ways.items())
                known = site.ways[way]
                known.lowered = _BETTER ** (taken + 1) * least / guesses.corrected(way, known)
                known.guess *= known.lowered
                site.first.append(way)
                taken += 1
            if taken == most:
                break
        met += bool(taken)
    return met


def _as_here(sample: Sample, group: Group, variants: Iterable[Variant], profile: Profile) -> Variant | None:
    """The variant of a group that is most like the one of a sample: its kernel, its name but for the size of blocks,
    and of its knobs those that can be."""
    for variant in variants:
        if variant.kernel != sample.kernel or _stem(variant.name) != _stem(sample.variant):
            continue
        kernel = kernel_named(variant.kernel)
        offered: Mapping[str, tuple[KnobValue, ...]] = {knob.name: knob.values for knob in
                                                        kernel.knobs(group, variant, profile)}
        wanted = {name: value for name, value in sample.knobs.items() if value in offered.get(name, ())}
        tuned = kernel.tune(group, variant, wanted, profile)
        if not isinstance(tuned, Refusal):
            return tuned
        for name, value in wanted.items():
            one = kernel.tune(group, variant, {name: value}, profile)
            variant = variant if isinstance(one, Refusal) else one
        return variant
    return None


def _are_alike(one: Way, other: Way) -> bool:
    """Whether they differ in knobs at most."""
    return replace(one, knobs=()) == replace(other, knobs=())


def _stem(name: str) -> str:
    return re.sub(r"\d+$", "", name)


def decisions_of(plan: Plan, sites: Mapping[str, Site], profile: Profile, cpu: str, threads: int) -> Iterator[Decision]:
    """What a plan took for each distinct group that was timed, and what it was quicker than."""
    done: set[str] = set()
    for planned in (planned for one in walk_plans(plan) for planned in one.groups):
        text, way = group_text(planned.group), way_of(planned.group, planned.variant)
        site = sites.get(text)
        if site is None or text in done or way not in site.ways or site.ways[way].measured is None:
            continue
        done.add(text)
        known = site.ways[way]
        rivals = sorted((other.measured, rival) for rival, other in site.ways.items()
                        if rival != way and other.measured is not None)
        yield Decision(site.structure, capabilities(profile), text, way.kernel, way.variant, dict(way.knobs),
                       way.layouts, known.seconds, len(rivals), str(rivals[0][1]) if rivals else "",
                       rivals[0][0] if rivals else math.inf, plan.graph.name, threads, cpu, known.key)


def decide(library: Library | None, decisions: Iterable[Decision]) -> None:
    """Tells the library; one that cannot be written has said so before."""
    if library is None or not library.writable:
        return
    try:
        library.decide(decisions)
    except LibraryUnwritableError:
        return
