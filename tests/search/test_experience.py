"""What is known of elsewhere: it is timed first, beside what the plan by rule takes where that is of another kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_infer.hardware.load import load_profile
from meta_infer.ir.group import Variant
from meta_infer.library.store import Library
from meta_infer.search.experience import take_over
from meta_infer.search.fine import Market, _promising
from meta_infer.search.finetune import finetune
from meta_infer.search.space.coarse import anything
from meta_infer.search.space.guesses import Guesses
from meta_infer.search.space.sites import Known, Site
from meta_infer.search.space.ways import Way, way_of
from tests.library.made_up import sample
from tests.search.made_up_market import made_up_market
from tests.search.test_fine import MadeUpTimer

PROFILE = load_profile("x86-64-v3")


def convolution(market: Market) -> Site:
    return next(site for site in market.sites.values()
                if site.group.anchor.op == "Conv" and len(site.group.nodes) == 1)


def known_elsewhere(market: Market, site: Site, way: Way, folder: Path) -> int:
    """Has the library say that `way` did best in code for another instruction set; how many sites took it over."""
    with Library.open(folder / "library.sqlite") as library:
        library.add([sample(kernel=way.kernel, variant=way.variant, structure=site.structure, group=site.text,
                            knobs=dict(way.knobs), layouts=way.layouts, isa="x86-64-v2", cpu="here")])
        return take_over([site], library, PROFILE, "here", market.guesses, anything, 1)


def best_and_last(site: Site) -> tuple[Way, Way]:
    """The way with the least guess, and the one with the greatest of another kind."""
    ranked = [way for way, _ in site.ranked()]
    return ranked[0], next(way for way in reversed(ranked) if of_kind(way) != of_kind(ranked[0]))


def of_kind(way: Way) -> tuple[str, str]:
    return way.kernel, way.variant


def kinds(variants: list[Variant]) -> list[tuple[str, str]]:
    return [(variant.kernel, variant.name) for variant in variants]


def test_what_did_best_elsewhere_is_timed_first_and_alone(tmp_path: Path) -> None:
    market = made_up_market(0, timed=0.0)
    site = convolution(market)
    best, last = best_and_last(site)
    site.by_rule.append(last)
    guess = site.ways[last].guess
    assert known_elsewhere(market, site, last, tmp_path) == 1 and site.first == [last]
    assert site.ways[last].guess < site.ways[best].guess < guess, "plans are made of it"
    found = [way_of(site.group, one) for one in _promising(site, last, market.guesses, 5, 2.0)]
    assert found == [last], "no rivals"


def test_what_the_rule_takes_is_timed_too_where_it_is_of_another_kind(tmp_path: Path) -> None:
    market = made_up_market(0, timed=0.0)
    site = convolution(market)
    best, last = best_and_last(site)
    site.by_rule.append(best)
    known_elsewhere(market, site, last, tmp_path)
    assert kinds(_promising(site, last, market.guesses, 5, 2.0)) == [of_kind(last), of_kind(best)]


def test_a_lowered_guess_tells_nothing_of_other_sites(tmp_path: Path) -> None:
    """Guesses that were right are right after experience has lowered one of them."""
    market = made_up_market(0, timed=0.0)
    site = convolution(market)
    last = site.ranked()[-1][0]
    true = site.ways[last].guess
    known_elsewhere(market, site, last, tmp_path)
    site.ways[last].measured = true
    market.guesses.learn([site])
    assert market.guesses.corrected(last, Known(site.ways[last].variant, 1.0)) == pytest.approx(1.0)


def test_an_untimed_sibling_has_the_level_of_the_timed_one() -> None:
    market = made_up_market(0, timed=0.0)
    site = convolution(market)
    groups: dict[tuple[str, str], list[Way]] = {}
    for way in site.ways:
        groups.setdefault(of_kind(way), []).append(way)
    timed, sibling = next(ways for ways in groups.values() if len(ways) > 1)[:2]
    other = next(way for way in site.ways if of_kind(way) != of_kind(timed))
    site.ways[timed].measured = 2 * site.ways[timed].guess
    half = {way: Known(site.ways[way].variant, 1.0, 0.5) for way in (timed, other)}
    elsewhere = Site("elsewhere", "", site.group, site.variants, ways=half)
    guesses = Guesses(market.guesses.model)
    guesses.learn([site, elsewhere])
    known = site.ways[sibling]
    assert 2 * known.guess < guesses.corrected(sibling, known, site.text) < 2.1 * known.guess
    assert guesses.corrected(sibling, known) == pytest.approx(1.25 * known.guess), "the median of both sites"
    assert guesses.corrected(sibling, known, "elsewhere") < 0.55 * known.guess


def test_knobs_that_were_tuned_elsewhere_have_fewer_tries() -> None:
    asked = []
    for first in (False, True):
        market, timer = made_up_market(1, timed=1.0), MadeUpTimer(1)
        solved = market.solve()
        for site, way, _ in market.parts(solved).values():
            site.first += [way] if first else []
        finetune(market, timer, PROFILE, solved, tries=10, until=float("inf"))  # type: ignore[arg-type]
        asked.append(timer.known)
    assert 0 < asked[1] < 0.5 * asked[0]
