"""The fine and the finetune stage ask for no more times than they may, and end with a plan whose parts were timed."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from meta_infer.hardware.load import load_profile
from meta_infer.ir.group import Variant
from meta_infer.search.fine import fine
from meta_infer.search.finetune import finetune
from meta_infer.search.space.sites import Site
from meta_infer.search.space.ways import way_of
from meta_infer.search.timing import Converted
from tests.search.made_up_market import made_up_market


class MadeUpTimer:
    """Times what is asked for by a random factor on its guess, and counts it."""

    def __init__(self, seed: int) -> None:
        self.rng, self.known = random.Random(seed), 0

    def time(self, wanted: Sequence[tuple[Site, Sequence[Variant]]]) -> None:
        for site, variants in wanted:
            for variant in variants:
                known = site.ways[way_of(site.group, variant)]
                assert known.measured is None
                known.measured = known.guess * self.rng.uniform(0.7, 1.5)
                self.known += 1

    def time_conversions(self, wanted: Sequence[Converted]) -> dict[Converted, float]:
        self.known += len(wanted)
        return dict.fromkeys(wanted, 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_stages_keep_within_a_number_of_times(seed: int) -> None:
    profile = load_profile("x86-64-v3")
    asked = {}
    for most in (0, 8, 12, math.inf):
        market, timer = made_up_market(seed, timed=0.0), MadeUpTimer(seed)
        solved = fine(market, timer, rivals=5, slack=2.0, until=math.inf, most=most)    # type: ignore[arg-type]
        parts = market.parts(solved)
        assert all(site.ways[way].measured is not None for site, way, _ in parts.values())
        assert not market.conversions_of(solved) - market.conversions.keys()
        after_fine = timer.known
        assert after_fine <= most + len(parts) + len(market.conversions)
        finetune(market, timer, profile, solved, tries=6, until=math.inf, most=after_fine + 7)  # type: ignore[arg-type]
        assert after_fine < timer.known <= after_fine + 7
        asked[most] = after_fine
    assert asked[0] <= asked[8] <= asked[12] <= asked[math.inf] and asked[0] < asked[math.inf]
