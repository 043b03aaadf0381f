"""Prices corrected by times in place: what is clearly off counts, noise and a slower machine do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from meta_infer.ir.group import Plan
from meta_infer.search.fine import Market
from meta_infer.search.space.solve import Solved
from meta_infer.search.space.ways import Way, way_of
from meta_infer.search.whole import in_context as module
from meta_infer.search.whole.contenders import choices_of
from meta_infer.search.whole.context import Context, Placed, level_of, weighted_median
from meta_infer.search.whole.in_context import in_context
from meta_infer.search.whole.placed import InPlace
from tests.search.made_up_market import made_up_market


def way(kernel: str, rows: int = 1) -> Way:
    return Way(kernel, "v", ("plain",), ("plain",), (("rows", rows),))


def placed(text: str, kernel: str, place: float, alone: float, **more: object) -> Placed:
    return Placed(text, way(kernel), 1, place, alone, **more)            # type: ignore[arg-type]


def test_without_a_run_prices_stay() -> None:
    assert Context().price("conv", way("direct"), 3e-6) == 3e-6


def test_a_machine_that_is_slower_as_a_whole_corrects_nothing() -> None:
    context = Context()
    runs = [placed(f"g{i}", "direct", 1.5 * (i + 1), i + 1.0) for i in range(5)]
    assert level_of(runs) == pytest.approx(1.5) and context.learn(runs) == 0
    assert context.price("g3", way("direct"), 4.0) == 4.0
    assert context.price("unseen", way("direct"), 4.0) == 4.0


def test_noise_corrects_nothing() -> None:
    context = Context()
    assert context.learn([placed("a", "direct", 1.0, 1.0), placed("b", "direct", 1.3, 1.0, spread=0.2),
                          placed("c", "direct", 1.0, 1.0)]) == 0
    assert context.price("b", way("direct"), 1.0) == 1.0


def test_a_kernel_that_is_slower_everywhere_in_place_is_to_blame_not_its_sites() -> None:
    context = Context()
    slow = [placed(f"s{i}", "scratch", 2.0, 1.0) for i in range(3)]
    usual = [placed(f"u{i}", "direct", 1.0, 1.0) for i in range(5)]
    assert context.learn([*slow, *usual]) == 3
    assert context.price("s0", way("scratch"), 1.0) == pytest.approx(2.0)
    assert context.price("s0", way("scratch", rows=2), 1.0) == pytest.approx(2.0), "other knobs of the same kernel"
    assert context.price("s0", way("direct"), 1.0) == pytest.approx(1.0), "its rival is not charged"
    assert context.price("u0", way("scratch"), 1.0) == pytest.approx(2.0), "where it was not chosen either"


def test_a_site_that_is_slower_by_a_kernel_that_is_not_elsewhere_is_slower_for_rivals_too() -> None:
    context = Context()
    context.learn([placed("cold", "direct", 2.0, 1.0), *(placed(f"u{i}", "direct", 1.0, 1.0) for i in range(5))])
    assert context.price("cold", way("pointwise"), 1.0) == pytest.approx(2.0)
    assert context.price("u1", way("pointwise"), 1.0) == pytest.approx(1.0)


def test_what_was_never_timed_alone_is_taken_as_it_was_in_place() -> None:
    context = Context()
    runs = [placed("a", "direct", 2.0, 1.0), placed("b", "guessed", 6.0, 1.0, is_timed=False)]
    assert context.learn(runs) == 0
    assert context.price("b", way("guessed"), 1.0) == pytest.approx(3.0), "at the level of times alone"
    assert context.was_seen("b", way("guessed")) and not context.was_seen("b", way("other"))
    assert context.was_seen("elsewhere", way("other"))


def test_a_later_run_takes_the_place_of_an_earlier_one() -> None:
    context = Context()
    usual = [placed(f"u{i}", "direct", 1.0, 1.0) for i in range(5)]
    context.learn([placed("a", "pool", 3.0, 1.0), *usual])
    context.learn([placed("a", "pool", 1.0, 1.0), *usual])
    assert context.price("a", way("pool"), 1.0) == 1.0


def test_medians_are_by_weight() -> None:
    assert weighted_median([]) == 0.0
    assert weighted_median([(1.0, 1.0), (5.0, 10.0), (9.0, 1.0)]) == 5.0


class Network:
    """A timer's place: runs plans as if ways took `times` what they take alone, and the whole as long as its parts."""

    def __init__(self, market: Market, times: dict[str, float]) -> None:
        self.market, self.times, self.runs = market, times, 0
        self.solved: dict[int, Solved] = {}
        self.own: dict[tuple[str, Way], float] = {}

    def remembered(self, solve: Callable[..., Solved]) -> Callable[..., Solved]:
        def solved(*given: object, **more: object) -> Solved:
            found = solve(*given, **more)
            self.solved[id(found.plan)] = found
            return found

        return solved

    def build(self, plan: Plan) -> Plan:
        return plan

    def run(self, plan: Plan) -> InPlace:
        solved = self.solved[id(plan)]
        self.runs += 1
        groups = {}
        whole = solved.conversions
        for offer, priced in solved.taken.values():
            taken = way_of(offer.group, priced.variant)
            known = self.market.sites[offer.text].ways[taken]
            seconds = known.measured or known.guess
            seconds *= self.own.get((offer.text, taken), self.times.get(taken.kernel, 1.0))
            groups[offer.text, taken] = seconds, 0.001 * seconds
            whole += seconds
        return InPlace(whole, solved.conversions, groups)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    """A network in which one of the two kernels that the best plan is made of takes three times as long as alone."""
    made = Network(made_up_market(0), {"conv_direct": 3.0})
    monkeypatch.setattr(module, "time_placed", lambda plans, *rest: [made.run(plan) for plan in plans])
    monkeypatch.setattr(Market, "solve", made.remembered(Market.solve))
    return made


def test_the_program_is_solved_again_with_what_the_network_says(network: Network) -> None:
    market, solved = network.market, network.market.solve()
    assert {priced.variant.kernel for _, priced in solved.taken.values()} == {"conv_winograd", "conv_direct"}
    plans, steps = in_context(market, network, [], solved, solved.plan)  # type: ignore[arg-type]
    assert 2 <= len(steps) <= 3 and network.runs == len(steps) and steps[0].clear == 1
    assert plans[0] is solved and choices_of(plans[-1].plan) != choices_of(solved.plan)
    assert network.run(plans[-1].plan).whole < network.run(solved.plan).whole, "quicker as a whole"
    off = [abs(one.whole / one.expected - 1) for one in steps]
    assert off[-1] < off[0], "the sum of parts comes nearer to the whole"
    assert len({repr(choices_of(one.plan)) for one in plans}) == len(plans)


def test_where_nothing_is_off_nothing_changes(network: Network) -> None:
    network.times = {}
    market, solved = network.market, network.market.solve()
    plans, steps = in_context(market, network, [], solved, solved.plan)  # type: ignore[arg-type]
    assert plans == [solved] and len(steps) == 1
    assert steps[0].clear == 0 and steps[0].level == pytest.approx(1.0)
    assert steps[0].expected == pytest.approx(steps[0].whole) == pytest.approx(steps[0].in_place)


def test_the_plan_by_rule_is_seen_in_place_too(network: Network) -> None:
    """What is quicker in place than alone is found there, although the best sum of parts has none of it."""
    market, solved = network.market, network.market.solve()
    mine = {priced.variant.kernel for _, priced in solved.taken.values()}
    first = next(offer.group.anchor for offer, _ in solved.taken.values() if offer.group.anchor.op == "Conv")
    rule = market.solve(lambda offer, way, known: first not in offer.group.nodes or way.kernel not in mine)
    others = {priced.variant.kernel for _, priced in rule.taken.values() if priced.variant.kernel not in mine}
    network.times = dict.fromkeys(others, 0.1)
    assert others and in_context(market, network, [], solved, solved.plan)[0] == [solved]  # type: ignore[arg-type]
    plans, steps = in_context(market, network, [], solved, rule.plan)    # type: ignore[arg-type]
    assert steps[0].clear == len(others) and others & {priced.variant.kernel for _, priced in plans[-1].taken.values()}
    assert network.run(plans[-1].plan).whole < network.run(solved.plan).whole


def near_rival(market: Market, solved: Solved) -> tuple[str, Way]:
    """Another way for the heaviest group of a plan, made 5% dearer than the best."""
    mine = {(offer.text, way_of(offer.group, priced.variant)) for offer, priced in solved.taken.values()}
    text, best = max(mine, key=lambda key: market.sites[key[0]].ways[key[1]].measured or 0.0)
    site = market.sites[text]
    near = next(one for one, known in site.ways.items() if one != best and known.measured is not None
                and one.inputs == best.inputs and one.outputs == best.outputs)
    site.ways[near].measured = 1.05 * (site.ways[best].measured or 0.0)
    return text, near


def test_the_next_best_ways_are_seen_in_place_beside_the_best(network: Network) -> None:
    """What is a little dearer alone and clearly cheaper in place is found, though no plan before had it."""
    market, solved = network.market, network.market.solve()
    text, near = near_rival(market, solved)
    network.times = {}
    network.own = {(text, near): 0.5}
    assert in_context(market, network, [], solved, solved.plan)[0] == [solved]      # type: ignore[arg-type]
    plans, steps = in_context(market, network, [], solved, solved.plan, 2)          # type: ignore[arg-type]
    assert (text, near) in {(offer.text, way_of(offer.group, priced.variant))
                            for offer, priced in plans[-1].taken.values()}
    assert steps[0].groups > len(market.parts(solved))
    assert network.run(plans[-1].plan).whole < network.run(solved.plan).whole


def test_a_rival_that_fails_in_place_leaves_the_best_plan(
        network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    market, solved = network.market, network.market.solve()
    near_rival(market, solved)
    asked: list[int] = []

    def placed(plans: list[Plan], *rest: object) -> list[InPlace] | None:
        asked.append(len(plans))
        return None if len(plans) > 1 else [network.run(plans[0])]

    monkeypatch.setattr(module, "time_placed", placed)
    _, steps = in_context(market, network, [], solved, solved.plan, 2)   # type: ignore[arg-type]
    assert asked[0] > 1 and set(asked[1:]) == {1} and steps[0].clear == 1


def test_ways_that_nobody_has_timed_are_not_tried(network: Network) -> None:
    """Corrections cost one run of the network each: what is dear in place makes room for what has been timed only."""
    market = network.market
    solved = market.solve()
    direct = {key for key, (_, priced) in solved.taken.items() if priced.variant.kernel == "conv_direct"}
    for site in market.sites.values():
        for tried, known in site.ways.items():
            if tried.kernel != "conv_direct" and any(site.text == solved.taken[key][0].text for key in direct):
                known.measured = None
    plans, _ = in_context(market, network, [], solved, solved.plan)      # type: ignore[arg-type]
    for one in plans[1:]:
        for offer, priced in one.taken.values():
            known = market.sites[offer.text].ways[way_of(offer.group, priced.variant)]
            assert known.measured is not None or all(k.measured is None for k in market.sites[offer.text].ways.values())
