"""The search, from a graph to a plan: space, coarse, fine, finetune, and whole plans against each other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Plan, walk_plans
from meta_infer.ir.group_text import group_text
from meta_infer.search.aims import NO_AIMS, Aims
from meta_infer.search.budget import Budget
from meta_infer.search.calibrate.learned_model import learned_model
from meta_infer.search.experience import decide, decisions_of, take_over
from meta_infer.search.fine import Market, fine
from meta_infer.search.finetune import finetune
from meta_infer.search.space.coarse import Keeps, anything, coarse
from meta_infer.search.space.guesses import Guesses, Model
from meta_infer.search.space.levels import NAMES, fusion_levels
from meta_infer.search.space.sites import Translated, sites_of
from meta_infer.search.space.solve import Solved
from meta_infer.search.space.space import Space
from meta_infer.search.space.ways import way_of
from meta_infer.search.story import Searched, Story
from meta_infer.search.timing import TimeOver, Timer
from meta_infer.search.told import heaviest, moves_of, raw_error
from meta_infer.search.whole.contenders import contenders_of
from meta_infer.search.whole.in_context import in_context
from meta_infer.search.whole.settle import Settling
from meta_infer.search.whole.whole import Inputs
from meta_infer.search.within import require_room, weigher


def search(space: Space, default: Plan, profile: Profile, model: Model, timer: Timer, budget: Budget,
           inputs: Inputs, aims: Aims = NO_AIMS, keeps: Keeps = anything, baseline: Plan | None = None,
           on_stage: Callable[[str], None] = lambda name: None,
           on_wanted: Callable[[int], None] = lambda count: None) -> Searched:
    """The plan of `space` that serves `aims` best on this machine, as far as `budget` reaches.

    `default` is a plan made without a search; it takes part as one of the whole plans. `baseline` is what a target is
    read off. `inputs` are those of a run, for each of the timer's points, `keeps` says whether a variant with other
    knobs may be. Raises UnsupportedError when nothing fits the limits, ToolchainError.
    """
    until = math.inf if timer.is_replay else time.monotonic() + budget.seconds     # a replay ends where records do
    sites = sites_of(space)
    guesses, aims = Guesses(model, timer.points), aims.at(tuple(timer.points))
    learned = learned_model(profile, timer.library, timer.cpu, timer.threads, timer.is_replay)
    market = Market(space, sites, Translated(sites, profile), guesses, learned, aims.limits(), keeps,
                    on_wanted=on_wanted, aims=aims)
    story = Story(space.combinations, len(space.all_offers), len(sites))

    on_stage("coarse")
    told = coarse(sites.values(), profile, guesses, keep=budget.keep, slack=aims.slack(budget.slack), keeps=keeps)
    story.looked_at, story.kept, story.refused = told.looked_at, told.kept, told.refused
    _add_default(default, market)
    require_room(market, default, weigher(timer.backend, profile, aims))
    if timer.library is not None:
        story.taken_over = take_over(sites.values(), timer.library, profile, timer.cpu, guesses, keeps,
                                     budget.taken)
    try:
        on_stage("fine")
        solved = fine(market, timer, rivals=budget.rivals, counted=budget.counted, slack=budget.slack, until=until,
                      most=budget.kernels - budget.tuning)
        on_stage("finetune")
        finetune(market, timer, profile, solved, tries=budget.tries, until=until, most=budget.kernels)
        solved = fine(market, timer, rivals=1, slack=budget.slack, until=until, most=budget.kernels)
    except TimeOver as over:
        story.ended = str(over)
        guesses.learn(sites.values())
        solved = market.solve()
    plans = [solved]
    if budget.in_place:
        on_stage("in place")
        plans, steps = in_context(market, timer, inputs, solved, default, budget.beside)
        solved, story.context = plans[-1], tuple(steps)
    tell_prices(story, market, solved, NAMES if budget.moves else NAMES[:-1])

    on_stage("whole plans")
    settling = Settling(market, timer, inputs, budget.slack, until)
    contenders = settling.run(contenders_of(market, solved, default, budget.plans, plans[:-1]))
    if budget.in_place and aims.objective == "latency":
        contenders = settling.final(contenders)
    ranked, story.outcome = settling.settle(contenders, baseline)
    story.contenders, story.ended = tuple(ranked), story.ended or settling.ended
    plan = ranked[0].plan
    story.timed, story.recalled = timer.timed, timer.recalled
    story.heaviest, story.moves = heaviest(market, plan), moves_of(space, plan)
    if not timer.is_replay:
        decide(timer.library, decisions_of(plan, sites, profile, timer.cpu, timer.threads))
    return Searched(plan, story)


def tell_prices(story: Story, market: Market, solved: Solved, levels: Sequence[str] = NAMES) -> None:
    """What prices say of the plan that was solved for: how wrong guesses were, and what these levels of fusion are
    worth."""
    story.raw_error, story.error = raw_error(market.sites.values()), market.guesses.error(market.sites.values())
    story.gap, story.sum_of_parts = solved.gap, solved.seconds
    story.levels = fusion_levels(market, solved, levels)


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
                way = way_of(site.group, variant)
                if way not in site.by_rule:
                    site.by_rule.append(way)
