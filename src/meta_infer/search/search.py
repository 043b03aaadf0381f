"""The search, from a graph to a plan: space, coarse, fine, finetune, and whole plans against each other."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from meta_infer.cost.model import CostModel
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Plan, walk_plans
from meta_infer.ir.group_text import group_text
from meta_infer.search.budget import Budget
from meta_infer.search.coarse import Keeps, anything, coarse
from meta_infer.search.experience import decide, decisions_of, take_over
from meta_infer.search.fine import Market, fine, is_view
from meta_infer.search.finetune import finetune
from meta_infer.search.guesses import Guesses, Model
from meta_infer.search.sites import Known, Translated, sites_of
from meta_infer.search.solve import NO_LIMITS, Limits, Solved
from meta_infer.search.space import ANCHORS, Offer, Space
from meta_infer.search.timing import TimeOver, Timer
from meta_infer.search.ways import Way, way_of
from meta_infer.search.whole import Inputs, compare_plans
from meta_infer.support.errors import UnsupportedError

_ROUNDS, _SECONDS = 21, 6.0
_CLEARLY = 0.99
"""Share of the default plan's time below which another plan counts as quicker."""


@dataclass(frozen=True)
class Contender:
    """A whole plan: what its parts add up to, and what it took; infinite where it was not run."""

    name: str
    plan: Plan
    estimate: float
    measured: float = math.inf


@dataclass
class Story:
    """What a search did, for the report. Seconds are those of one run of the model.

    combinations  kernels with all values of their knobs over all distinct groups
    looked_at     of these, how many the coarse stage guessed the time of; `kept` those that it left
    refused       how many could not be, by reason
    timed         measured by this build, `recalled` known from the library
    taken_over    distinct groups whose first candidates did best on another chip or instruction set
    error         median error of guesses, corrected by what was timed
    gap           share by which a plan of these prices could at most be better than the one found
    ended         why measuring ended early; empty when everything was timed
    """

    combinations: int = 0
    groups: int = 0
    distinct: int = 0
    looked_at: int = 0
    kept: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    timed: int = 0
    recalled: int = 0
    taken_over: int = 0
    error: float = 0.0
    gap: float = 0.0
    sum_of_parts: float = 0.0
    contenders: tuple[Contender, ...] = ()
    ended: str = ""


@dataclass(frozen=True)
class Searched:
    """The plan that won, and how it came to that."""

    plan: Plan
    story: Story


def search(space: Space, default: Plan, profile: Profile, model: Model, timer: Timer, budget: Budget,
           inputs: Inputs, limits: Limits = NO_LIMITS, keeps: Keeps = anything,
           on_stage: Callable[[str], None] = lambda name: None) -> Searched:
    """The plan of `space` that takes the least time on this machine within `limits`, as far as `budget` reaches.

    `default` is a plan made without a search; it takes part as one of the whole plans. `inputs` are those of a run,
    for each of the timer's points, `keeps` says whether a variant with other knobs may be. Raises UnsupportedError when
    nothing fits the limits, ToolchainError.
    """
    until = time.monotonic() + budget.seconds
    sites = sites_of(space)
    guesses = Guesses(model, timer.points)
    market = Market(space, sites, Translated(sites, profile), guesses, CostModel.of(profile), limits, keeps)
    story = Story(space.combinations, len(space.all_offers), len(sites))

    on_stage("coarse")
    told = coarse(sites.values(), profile, guesses, keep=budget.keep, slack=budget.slack, keeps=keeps)
    story.looked_at, story.kept, story.refused = told.looked_at, told.kept, told.refused
    _add_default(default, market)
    if timer.library is not None:
        story.taken_over = take_over(sites.values(), timer.library, profile, timer.cpu, guesses, keeps)
    try:
        on_stage("fine")
        solved = fine(market, timer, rivals=budget.rivals, slack=budget.slack, until=until)
        on_stage("finetune")
        finetune(market, timer, profile, solved, tries=budget.tries, until=until)
        solved = fine(market, timer, rivals=1, slack=budget.slack, until=until)
    except TimeOver as over:
        story.ended = str(over)
        guesses.learn(sites.values())
        solved = market.solve()
    story.timed, story.recalled = timer.timed, timer.recalled
    story.error, story.gap, story.sum_of_parts = guesses.error(sites.values()), solved.gap, solved.seconds

    on_stage("whole plans")
    contenders = _contenders(market, solved, default, budget.plans)
    try:
        found = compare_plans([one.plan for one in contenders], timer, inputs, rounds=_ROUNDS, seconds=_SECONDS)
        contenders = [replace(one, measured=seconds) for one, seconds in zip(contenders, found, strict=True)]
    except TimeOver as over:
        story.ended = story.ended or str(over)
    story.contenders = tuple(sorted(contenders, key=lambda one: _standing(one, contenders[-1])))
    plan = story.contenders[0].plan
    if not timer.is_replay:
        decide(timer.library, decisions_of(plan, sites, profile, timer.cpu, timer.threads))
    return Searched(plan, story)


def _add_default(default: Plan, market: Market) -> None:
    """Makes sure that the ways of the default plan are among those that may be timed."""
    for plan in walk_plans(default):
        for planned in plan.groups:
            site = market.sites.get(group_text(planned.group))
            if site is None or planned.variant.kernel in ("view", "region"):
                continue
            variant = market.translated.as_site(site, way_of(planned.group, planned.variant))
            if variant is not None:
                site.add(variant, market.guesses.seconds(site.group, variant))


def _standing(one: Contender, default: Contender) -> tuple[bool, float, float]:
    """Sorts plans: what is not clearly quicker than the default plan comes after it."""
    beats = one is default or not one.measured > _CLEARLY * default.measured or math.isinf(default.measured)
    return not beats, one.measured, one.estimate


def _contenders(market: Market, solved: Solved, default: Plan, most: int) -> list[Contender]:
    """The best plan, the best without what carries the most weight in it, and, last, the default one."""
    by_rule = Contender("default", default, _estimate(market, default))
    found = [Contender("searched", solved.plan, solved.seconds)]
    heaviest = _kernels_by_weight(market, solved)
    rules: list[tuple[str, Callable[[Offer, Way, Known], bool]]] = [
        ("one anchor per group", lambda offer, way, known: offer.level != ANCHORS),
        *((f"without {kernel}", lambda offer, way, known, kernel=kernel: way.kernel != kernel) for kernel in heaviest),
    ]
    for name, rule in rules:
        if len(found) + 1 >= most:
            break
        try:
            other = market.solve(rule)
        except UnsupportedError:
            continue
        if all(_choices(other.plan) != _choices(one.plan) for one in found):
            found.append(Contender(name, other.plan, other.seconds))
    return [*(one for one in found if _choices(one.plan) != _choices(default)), by_rule]


def _choices(plan: Plan) -> list[tuple[str, Way]]:
    return [(group.group.outputs[0], way_of(group.group, group.variant)) for one in walk_plans(plan)
            for group in one.groups]


def _estimate(market: Market, plan: Plan) -> float:
    total = 0.0
    for one in walk_plans(plan):
        for planned in one.groups:
            site, way = market.sites.get(group_text(planned.group)), way_of(planned.group, planned.variant)
            if site is not None and way in site.ways and not is_view(planned.group, planned.variant):
                total += market.guesses.corrected(way, site.ways[way])
    return total


def _kernels_by_weight(market: Market, solved: Solved) -> list[str]:
    weight: Counter[str] = Counter()
    for site, way, count in market.parts(solved).values():
        weight[way.kernel] += count * market.guesses.corrected(way, site.ways[way])     # type: ignore[assignment]
    return [kernel for kernel, _ in weight.most_common()]
