"""Limits against what plans really take, which the solver only guesses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meta_infer.backends.registry import backend_for
from meta_infer.cost.model import CostModel
from meta_infer.frontend.import_model import import_model
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.targets import target_profiles
from meta_infer.ir.group import Plan
from meta_infer.kernels.computed_by import kernels_take
from meta_infer.passes.legalize import legalize
from meta_infer.passes.pipeline import canonicalize
from meta_infer.search.aims import Aims
from meta_infer.search.fine import Market
from meta_infer.search.space.coarse import coarse
from meta_infer.search.space.guesses import Guesses, roofline_model
from meta_infer.search.space.sites import Translated, sites_of
from meta_infer.search.space.space import make_space
from meta_infer.search.within import Real, require_room, solve_within, weigher
from meta_infer.support.errors import UnsupportedError
from tests.search.test_search import small_model


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Market:
    chip = load_profile("x86-64-v3")
    (host,) = target_profiles(chip, ())
    imported = import_model(small_model(tmp_path_factory.mktemp("model")), {}, lambda text: None)
    graph = legalize(canonicalize(imported, frozenset()), chip, lambda text: None, takes=kernels_take((host,), ()))
    space, guesses = make_space(graph, host, backend_for(host).variants), Guesses(roofline_model(host))
    sites = sites_of(space)
    coarse(sites.values(), host, guesses, keep=8, slack=2.0)
    return Market(space, sites, Translated(sites, host), guesses, CostModel.of(host))


def limited(market: Market, memory: int) -> tuple[Market, Aims]:
    aims = Aims(memory_bytes=memory, memory_is_given=True)
    return replace(market, aims=aims, limits=aims.limits()), aims


def test_what_the_solver_counts_is_what_lowering_finds(market: Market) -> None:
    """Within a tenth, packing of biases and alignment apart."""
    chip = load_profile("x86-64-v3")
    (host,) = target_profiles(chip, ())
    for objective in ("latency", "memory"):
        found = market.solve(objective=objective)
        real = weigher(backend_for(host), host, Aims())(found.plan, found.seconds)
        assert found.bytes == pytest.approx(real.bytes, rel=0.1)


def test_a_cut_is_added_while_plans_take_more_than_was_thought(market: Market) -> None:
    quick, least = market.solve(), market.solve(objective="memory")
    assert least.bytes < quick.bytes
    seen: list[Plan] = []

    def weigh(plan: Plan, seconds: float) -> Real:
        seen.append(plan)
        return Real(quick.bytes + 4000 if len(seen) == 1 else least.bytes)

    own, aims = limited(market, quick.bytes)
    found = solve_within(own, aims, weigh)
    assert len(seen) == 2 and found.bytes <= quick.bytes - 4000 and found.plan is seen[1]


def test_what_never_fits_is_refused_with_the_figures(market: Market) -> None:
    quick, tries = market.solve(), []

    def weigh(plan: Plan, seconds: float) -> Real:
        tries.append(plan)
        return Real(quick.bytes + 2048)

    own, aims = limited(market, quick.bytes)
    with pytest.raises(UnsupportedError, match=r"2\.00 KiB above the limit of"):
        solve_within(own, aims, weigh)
    assert 2 <= len(tries) <= 7


def test_a_solver_that_counts_too_much_has_not_the_last_word(market: Market) -> None:
    least = market.solve(objective="memory")
    own, aims = limited(market, least.bytes - 1000)
    assert solve_within(own, aims, lambda plan, seconds: Real(least.bytes - 1000)).bytes == least.bytes


def test_room_is_looked_for_before_anything_is_timed(market: Market) -> None:
    quick = market.solve()
    own, _ = limited(market, 1000)
    with pytest.raises(UnsupportedError, match="above the limit of"):
        require_room(own, quick.plan, lambda plan, seconds: Real(5000))
    require_room(own, quick.plan, lambda plan, seconds: Real(1000))
    wide, _ = limited(market, 10 * quick.bytes)
    require_room(wide, quick.plan, lambda plan, seconds: pytest.fail("there is room enough"))
