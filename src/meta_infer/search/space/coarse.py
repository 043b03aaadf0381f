"""The coarse stage: by guesses alone, from everything the kernels offer to what is worth timing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Variant
from meta_infer.kernels.kernel import Refusal
from meta_infer.search.default_plan import RISK_LIMIT
from meta_infer.search.space.guesses import Guesses
from meta_infer.search.space.sites import Site
from meta_infer.search.space.ways import moves, way_of

Keeps = Callable[[Group, Variant], bool]
"""Whether a variant with other knobs is what the user has pinned."""


def anything(group: Group, variant: Variant) -> bool:
    return True


@dataclass
class Coarse:
    """What the coarse stage did: ways looked at, kept, and refused by reason."""

    looked_at: int = 0
    kept: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def coarse(sites: Iterable[Site], profile: Profile, guesses: Guesses, *, keep: int, slack: float,
           keeps: Keeps = anything) -> Coarse:
    """Fills every site with ways: its variants, and the best few of those with other values of one knob or two.

    `keep` ways remain at most, of these only such that are guessed to take at most `slack` times the least; of every
    kernel the first stays whatever its guess says, because a guess of one kernel says little of another. `keeps` says
    of one with other knobs whether it may be.
    """
    told = Coarse()
    for site in sites:
        offered = [variant for variant in site.variants if variant.risk <= RISK_LIMIT]
        told.refused["risk"] += len(site.variants) - len(offered)
        ranked = sorted(((guesses.seconds(site.group, v), i, v) for i, v in enumerate(offered)), key=lambda r: r[:2])
        told.looked_at += len(ranked)
        least = ranked[0][0] if ranked else 0.0
        for seconds, _, variant in ranked:
            if seconds <= slack * least:
                near = _neighbours(site, variant, profile, guesses, told, keeps)
                for guess, moved in sorted(near, key=lambda item: item[0])[:keep]:
                    if guess <= seconds:
                        site.add(moved, guess)
            site.add(variant, seconds)
        told.kept += _prune(site, keep, slack)
    return told


def _neighbours(site: Site, variant: Variant, profile: Profile, guesses: Guesses, told: Coarse,
                keeps: Keeps) -> list[tuple[float, Variant]]:
    found = []
    for moved in moves(site.group, variant, profile):
        told.looked_at += 1
        if isinstance(moved, Refusal):
            told.refused[moved.reason] += 1
        elif moved.risk <= RISK_LIMIT and keeps(site.group, moved):
            found.append((guesses.seconds(site.group, moved), moved))
    return found


def _prune(site: Site, keep: int, slack: float) -> int:
    ranked = sorted(site.ways.items(), key=lambda item: item[1].guess)
    least = ranked[0][1].guess if ranked else 0.0
    own = {way_of(site.group, variant) for variant in site.variants}
    kept = [way for way, known in ranked if known.guess <= slack * least][:keep]
    firsts = {way.kernel: way for way, known in reversed(ranked) if way in own and known.guess <= slack ** 2 * least}
    site.ways = {way: known for way, known in site.ways.items() if way in kept or way in firsts.values()}
    return len(site.ways)
