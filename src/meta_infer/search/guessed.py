"""A plan without timing anything that serves an objective or keeps within limits: the search's program at guesses.

The plan by rule stays where the objective is latency and it keeps within the limits.
"""

from __future__ import annotations

from collections.abc import Callable

from meta_infer.backends.base import Backend
from meta_infer.cost.model import CostModel
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Plan, walk_plans
from meta_infer.search.aims import Aims
from meta_infer.search.fine import Market
from meta_infer.search.space.coarse import Keeps, anything, coarse
from meta_infer.search.space.guesses import Guesses, roofline_model
from meta_infer.search.space.sites import Translated, sites_of
from meta_infer.search.space.space import Space
from meta_infer.search.timing import Points
from meta_infer.search.within import fits, plan_estimate, solve_within, weigher

_KEEP = 8
_NEAR = 0.8
"""Share of the limit on memory above which what a plan really takes is worked out."""


def guessed_plan(default: Plan, make: Callable[[], Space], profile: Profile, backend: Backend, aims: Aims,
                 points: Points = ({},), keeps: Keeps = anything) -> Plan:
    """`default` where it serves the aims, else the best plan of the space at guesses.

    Raises UnsupportedError, with by how much, when none keeps within the limits.
    """
    aims = aims.at(tuple(points))
    guesses = Guesses(roofline_model(profile), points)
    if aims.objective == "latency" and _keeps_within(default, guesses, profile, backend, aims):
        return default
    space = make()
    sites = sites_of(space)
    coarse(sites.values(), profile, guesses, keep=_KEEP, slack=aims.slack(2.0), keeps=keeps)
    market = Market(space, sites, Translated(sites, profile), guesses, CostModel.of(profile), aims.limits(), keeps,
                    aims=aims)
    return solve_within(market, aims, weigher(backend, profile, aims)).plan


def guessed_joules(plan: Plan, profile: Profile, aims: Aims, points: Points = ({},)) -> float | None:
    """Joules of a run at guessed times, a mean over the points; None where the profile states no power."""
    energy = aims.at(tuple(points)).energy
    if energy is None:
        return None
    return energy.plan(plan, _seconds(plan, Guesses(roofline_model(profile), points))) / len(points)


def _seconds(plan: Plan, guesses: Guesses) -> float:
    return sum(guesses.seconds(planned.group, planned.variant) for one in walk_plans(plan) for planned in one.groups
               if planned.variant.kernel not in ("view", "region"))


def _keeps_within(plan: Plan, guesses: Guesses, profile: Profile, backend: Backend, aims: Aims) -> bool:
    if aims.joules is None and (aims.memory_bytes is None or plan_estimate(plan) <= _NEAR * aims.memory_bytes):
        return True
    return fits(weigher(backend, profile, aims)(plan, _seconds(plan, guesses)), aims)
