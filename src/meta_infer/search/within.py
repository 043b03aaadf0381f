"""Limits that can be kept: what the solver counts and what a plan takes once it is lowered are brought together, and a
limit that no plan keeps is refused with the figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from meta_infer.backends.base import Backend
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Plan, walk_plans
from meta_infer.ir.program import MemoryPlan, Program
from meta_infer.lower.lower_graph import lower_graph
from meta_infer.memory.planner import plan_memory
from meta_infer.search.aims import Aims
from meta_infer.search.fine import Market
from meta_infer.search.space.live_bytes import LiveBytes, weight_bytes
from meta_infer.search.space.solve import Limits, Solved
from meta_infer.search.whole.built import memory_bytes
from meta_infer.support.errors import UnsupportedError

TRIES = 5
"""Times that the program is solved again with a cut."""
_SLACK = 1e-6
_MIB = 2 ** 20


@dataclass(frozen=True)
class Real:
    """What a plan takes: bytes of weights, arena and what is prepared at load, and joules of all sizes together."""

    bytes: int
    joules: float | None = None


Weigh = Callable[[Plan, float], Real]
"""(plan, seconds by its parts) -> what it takes."""


def fits(real: Real, aims: Aims) -> bool:
    joules = aims.limits().joules
    return ((aims.memory_bytes is None or real.bytes <= aims.memory_bytes)
            and (joules is None or real.joules is None or real.joules <= joules))


def cut(solved: Solved, real: Real, limits: Limits, aims: Aims) -> Limits:
    """The limits for the next try: plans like this one, which is above the limits, will not be found again."""
    memory, joules, most = limits.memory_bytes, limits.joules, aims.limits()
    if most.memory_bytes is not None and real.bytes > most.memory_bytes:
        memory = solved.bytes - max(1, real.bytes - most.memory_bytes)
    if most.joules is not None and real.joules is not None and real.joules > most.joules:
        joules = solved.joules * most.joules / real.joules * 0.999
    return replace(limits, memory_bytes=memory, joules=joules)


def solve_within(market: Market, aims: Aims, weigh: Weigh, solve: Callable[[Market], Solved] = Market.solve) -> Solved:
    """The best plan that really keeps within the limits: cuts are added while what was found does not.

    Raises UnsupportedError, with by how much, when none was found; the smallest plan there is has the last word.
    """
    limits = market.limits
    for _ in range(TRIES):
        found = solve(replace(market, limits=limits))
        real = weigh(found.plan, found.seconds)
        if fits(real, aims):
            return found
        if _is_above(found, limits):                         # there is nothing smaller
            break
        limits = cut(found, real, limits, aims)
    else:
        objective = "energy" if aims.memory_bytes is None or real.bytes <= aims.memory_bytes else "memory"
        found = replace(market, limits=Limits(), aims=replace(market.aims, objective=objective)).solve()
        real = weigh(found.plan, found.seconds)
    if not fits(real, aims):
        raise refusal(found.plan.graph.name, real, aims)
    return found


def _is_above(found: Solved, limits: Limits) -> bool:
    return ((limits.memory_bytes is not None and found.bytes > limits.memory_bytes)
            or (limits.joules is not None and found.joules > limits.joules * (1 + _SLACK)))


def require_room(market: Market, default: Plan, weigh: Weigh) -> None:
    """Raises UnsupportedError when even the smallest plan is above the limit on memory: before anything is timed."""
    aims, most = market.aims, market.aims.memory_bytes
    if most is None or plan_estimate(default) <= most / 2:
        return
    market = replace(market, aims=replace(market.aims, objective="latency"), limits=Limits(most))
    found = market.solve()
    if found.bytes > most:
        real = weigh(found.plan, found.seconds)
        if real.bytes > most:
            raise over_memory(found.plan.graph.name, real.bytes, aims)


def plan_estimate(plan: Plan) -> int:
    """Bytes of weights and of what is alive together at most, as the solver counts them; copies left out."""
    total = 0
    for one in walk_plans(plan):
        groups = [(planned.group, planned.variant, 1) for planned in one.groups]
        alive = LiveBytes(one.graph).peaks(groups, ())
        total += sum(weight_bytes(group, variant) for group, variant, _ in groups)
        total += max((sum(count for count, _ in terms) for terms in alive), default=0)
    return total


def weigher(backend: Backend, profile: Profile, aims: Aims) -> Weigh:
    """Weighs plans by lowering them, without compiling anything."""
    def weigh(plan: Plan, seconds: float) -> Real:
        program = lower_graph(plan, profile, backend.lower, plan.graph.inputs, plan.graph.outputs)
        joules = None if aims.energy is None else aims.energy.plan(plan, seconds)
        return Real(memory_bytes(program, plan_memory(program)), joules)

    return weigh


def refusal(model: str, real: Real, aims: Aims) -> UnsupportedError:
    """The error of limits that no plan keeps."""
    what = f"model {model!r}"
    if aims.memory_bytes is not None and real.bytes > aims.memory_bytes:
        return over_memory(model, real.bytes, aims)
    assert aims.joules is not None and aims.energy is not None and real.joules is not None
    joules = real.joules / len(aims.energy.sizes)
    above = (joules - aims.joules) * 1e3
    return UnsupportedError(
        f"takes {joules * 1e3:.3g} mJ a run by the profile's power figures in the best plan found, {above:.3g} mJ "
        f"above the limit of {aims.joules * 1e3:g} mJ", what=what,
        hint="raise --energy-limit-mj, give smaller sizes with --shape, or time kernels with --search-mode")


def over_memory(model: str, count: int, aims: Aims, how: str = " in the smallest plan found") -> UnsupportedError:
    """The error of a package that takes `count` bytes, above the limit."""
    assert aims.memory_bytes is not None
    whose = f"the limit of {mib(aims.memory_bytes)}" if aims.memory_is_given else (
        f"the {mib(aims.memory_bytes)} of memory that the profile states")
    return UnsupportedError(
        f"takes {mib(count)} for weights and tensors{how}, {mib(count - aims.memory_bytes)} above {whose}",
        what=f"model {model!r}",
        hint="raise --memory-limit, or give smaller sizes with --shape")


def require_within(program: Program, memory: MemoryPlan, aims: Aims) -> None:
    """Raises UnsupportedError when a program takes more memory than it may."""
    count = memory_bytes(program, memory)
    if aims.memory_bytes is not None and count > aims.memory_bytes:
        raise over_memory(program.name, count, aims, "")


def mib(count: int) -> str:
    return f"{count / _MIB:.2f} MiB" if count >= _MIB / 10 else f"{count / 1024:.2f} KiB"
