"""The last stage of a search: whole plans in turns, the one that serves the objective within the limits, and the target
latency.

    limits     a plan that really takes more than a limit cannot win; where all do, the program is solved again with a
               cut until one fits (within.py)
    objective  of the plans that fit, the best as measured as a whole
    target     where the user gave one: once it is met, other plans are looked for that take less memory, then less
               energy, and still meet it; where the objective's plan misses it, a quicker one. The solver knows sums of
               kernels only, so its limit is the target by the ratio of sum to whole that a plan before had. Each is
               run as a whole, and counts only when it meets the target there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from meta_infer.ir.group import Plan
from meta_infer.search.aims import BALANCED, Aims
from meta_infer.search.fine import Market, fine
from meta_infer.search.space.solve import Solved
from meta_infer.search.space.ways import choices_of
from meta_infer.search.story import Contender
from meta_infer.search.timing import TimeOver, Timer
from meta_infer.search.whole.baseline import SHARE
from meta_infer.search.whole.built import Built
from meta_infer.search.whole.contenders import standing
from meta_infer.search.whole.outcome import Outcome
from meta_infer.search.whole.reach import reach_of
from meta_infer.search.whole.whole import Inputs, compare_built
from meta_infer.search.within import Real, fits, solve_within
from meta_infer.support.errors import UnsupportedError

_ROUNDS, _SECONDS = 21, 6.0
_RUNS, _TURN = 20, 0.005
_FINALISTS, _FINAL_ROUNDS, _FINAL_SECONDS = 3, 41, 15.0
_THREE_IN_FIVE = 0.38
"""Spreads above the median that three fifths of normal deviates stay below; one spread: three quarters."""
_NEAR = 1.02
"""Times the default plan's time that another may have taken and still be in the final."""
_AGAIN = 3
"""Plans that are tried for a target."""
_MARGIN = 0.98
"""Share of the target that the solver aims at: whole runs are not sums of kernels, and have noise."""
_CLEARLY = 0.99
_SLOW = 2.0
"""Seconds for all runs of a slow plan, about."""


@dataclass
class Settling:
    """What the last stage needs at hand. `until` is the time (time.monotonic) when measuring of kernels ends."""

    market: Market
    timer: Timer
    inputs: Inputs
    slack: float
    until: float
    ended: str = ""

    @property
    def aims(self) -> Aims:
        return self.market.aims

    def run(self, contenders: Sequence[Contender], base: Contender | None = None, rounds: int = _ROUNDS,
            seconds: float = _SECONDS) -> list[Contender]:
        """The contenders with their memory, and their times as whole plans: beside `base`, where its time is known."""
        built = [self._built(one.plan) for one in contenders]
        contenders = [replace(one, bytes=made.bytes) for one, made in zip(contenders, built, strict=True)]
        beside = base is not None and math.isfinite(base.measured)
        try:
            found = compare_built([*built, *([self._built(base.plan)] if beside and base else [])], self.timer,
                                  self.inputs, rounds=rounds,
                                  seconds=_enough([*contenders, *([base] if beside and base else [])], rounds, seconds),
                                  base=base.measured if beside and base else None)
        except TimeOver as over:
            self.ended = self.ended or str(over)
            return contenders
        return [replace(one, measured=took.seconds, spread=took.spread)
                for one, took in zip(contenders, found, strict=False)]

    def final(self, contenders: Sequence[Contender]) -> list[Contender]:
        """The best ones and the default, which is the last, once more and for longer: of many plans in few rounds the
        least is often the lucky one, and what is a little quicker cannot be told. Who is not in it is out."""
        default = contenders[-1]
        able = sorted((one for one in contenders[:-1] if one.measured <= _NEAR * default.measured and self._fits(one)),
                      key=lambda one: (one.measured, one.estimate))[:_FINALISTS]
        if not able or not math.isfinite(default.measured):
            return list(contenders)
        again = [replace(one, doubt=_THREE_IN_FIVE)
                 for one in self.run(able, default, _FINAL_ROUNDS, _FINAL_SECONDS)]
        return [*again, *(replace(one, is_out=True) for one in contenders[:-1] if all(one is not it for it in able)),
                default]

    def settle(self, contenders: Sequence[Contender], baseline: Plan | None) -> tuple[list[Contender], Outcome]:
        """The contenders as they stand, the winner first, and what it came to; the last of those given is the default.

        Raises UnsupportedError when no plan keeps within the limits.
        """
        default = contenders[-1]
        fitting = [one for one in contenders if self._fits(one)] or [self._cut(default)]
        others = [one for one in contenders if all(one is not other for other in fitting)]
        ranked = [*self._ranked(fitting, default), *others]
        seconds = None if baseline is None else self._baseline(baseline, ranked[0])
        points = len(self.timer.points)
        target, spent, quickest = self.aims.target_seconds, "", ranked[0]
        if target is not None and math.isfinite(ranked[0].measured):
            found = self._towards(ranked[0], target * points)
            if found is not None:
                goals = "memory and energy" if self.aims.weighs_energy else "memory"
                spent = goals if self.aims.objective == "latency" else ""
                ranked = [found, *(one for one in ranked if one is not found)]
        winner = ranked[0]
        label = target if target is not None else None if seconds is None else SHARE * seconds
        outcome = Outcome(self.aims.objective, winner.name, _mean(winner.measured, points), winner.bytes,
                          self._joules(winner, points), seconds, label, target is not None, spent,
                          _mean(quickest.measured, points) if spent else None, quickest.bytes if spent else None)
        if outcome.is_given and outcome.met is False:
            outcome = replace(outcome, reach=reach_of(self.market, winner.plan, self.timer))
        return ranked, outcome

    def _built(self, plan: Plan) -> Built:
        return self.timer.build(plan)

    def _joules(self, one: Contender, points: int = 1) -> float | None:
        energy = self.aims.energy
        seconds = one.measured if math.isfinite(one.measured) else one.estimate
        return None if energy is None else energy.plan(one.plan, seconds) / points

    def _fits(self, one: Contender) -> bool:
        return fits(Real(one.bytes, self._joules(one)), self.aims)

    def _cut(self, default: Contender) -> Contender:
        """A plan within limits that no contender keeps."""
        tried: list[Contender] = []

        def weigh(plan: Plan, seconds: float) -> Real:
            (one,) = self.run([Contender("within the limits", plan, seconds)], default)
            tried.append(one)
            return Real(one.bytes, self._joules(one))

        found = solve_within(self.market, self.aims, weigh, self._timed)
        return next(one for one in tried if one.plan is found.plan)

    def _timed(self, market: Market) -> Solved:
        """The best plan of a market whose parts were timed, or are known where there is no time left."""
        try:
            return fine(market, self.timer, rivals=1, slack=self.slack, until=self.until)
        except TimeOver:
            market.guesses.learn(market.sites.values())
            return market.solve(lambda offer, way, known: known.measured is not None)

    def _ranked(self, contenders: Sequence[Contender], default: Contender) -> list[Contender]:
        """Best first, by the objective."""
        if self.aims.objective == "latency":
            return sorted(contenders, key=lambda one: standing(one, default))
        quickest = min(contenders, key=lambda one: (one.measured, one.estimate))
        return sorted(contenders, key=lambda one: (self._worth(one, quickest), one.measured, one.estimate))

    def _worth(self, one: Contender, quickest: Contender) -> float:
        """The objective of a whole plan; for 'balanced' beside the quickest one."""
        joules = self._joules(one)
        if self.aims.objective == "memory":
            return float(one.bytes)
        if self.aims.objective == "energy":
            return math.inf if joules is None else joules
        least = self._joules(quickest)
        pairs = {"seconds": (_seconds(one), _seconds(quickest)), "bytes": (float(one.bytes), float(quickest.bytes)),
                 "joules": (joules or 0.0, least or 0.0)}
        return sum(BALANCED[name] * mine / its for name, (mine, its) in pairs.items() if its > 0)

    def _towards(self, winner: Contender, target: float) -> Contender | None:
        """Another plan that serves the target better: smaller where `winner` meets it, quicker where it does not."""
        meets = winner.measured <= target
        if meets and self.aims.objective != "latency":
            return None                                        # it is the best for the objective already
        if not meets and self.aims.objective == "latency":
            return None                                        # nothing quicker is known
        objective = "memory" if meets else self.aims.objective
        found = self._meeting(objective, winner, target)
        if meets:
            return found if found is not None and self._is_smaller(found, winner) else None
        return found or self._quicker(winner)

    def _meeting(self, objective: str, start: Contender, target: float) -> Contender | None:
        """The best plan for an objective that meets the target when it is run as a whole."""
        limit = target * _MARGIN * start.estimate / start.measured
        for _ in range(_AGAIN):
            aims = replace(self.aims, objective=objective)
            market = replace(self.market, aims=aims, limits=replace(self.market.limits, seconds=limit))
            try:
                solved = self._timed(market)
            except UnsupportedError:
                return None
            if choices_of(solved.plan) == choices_of(start.plan):
                return None
            (found,) = self.run([Contender(f"least {objective} within the target", solved.plan, solved.seconds)], start)
            if not math.isfinite(found.measured):
                return None
            if found.measured <= target and self._fits(found):
                return found
            limit = min(limit, solved.seconds) * min(_MARGIN, _MARGIN * target / found.measured)
        return None

    def _quicker(self, winner: Contender) -> Contender | None:
        """The quickest plan, where the target is out of reach for the objective's own."""
        market = replace(self.market, aims=replace(self.aims, objective="latency"))
        try:
            solved = self._timed(market)
        except UnsupportedError:
            return None
        (found,) = self.run([Contender("quickest", solved.plan, solved.seconds)], winner)
        return found if found.measured < _CLEARLY * winner.measured and self._fits(found) else None

    def _is_smaller(self, one: Contender, other: Contender) -> bool:
        if one.bytes != other.bytes:
            return one.bytes < other.bytes
        mine, its = self._joules(one), self._joules(other)
        return mine is not None and its is not None and mine < _CLEARLY * its

    def _baseline(self, plan: Plan, winner: Contender) -> float | None:
        """Seconds of the baseline beside the winner, few rounds of a slow one; None where there is no time for it."""
        if not math.isfinite(winner.measured):
            return None
        seconds = self.market.guesses.model
        guess = sum(seconds(planned.group, planned.variant, sizes) for planned in plan.groups
                    for sizes in self.timer.points if planned.variant.kernel not in ("view", "region"))
        rounds = max(1, min(7, int(_SLOW / guess)))
        try:
            found, _ = compare_built([self._built(plan), self._built(winner.plan)], self.timer, self.inputs,
                                     rounds=rounds, seconds=_SLOW, base=winner.measured)
        except TimeOver:
            return None
        return _mean(found.seconds, len(self.timer.points))


def _enough(contenders: Sequence[Contender], rounds: int, most: float) -> float:
    """Seconds in which every plan has _RUNS runs in each turn, in turns of _TURN seconds at least; at most `most`."""
    return min(most, rounds * sum(max(_TURN, _RUNS * _seconds(one)) for one in contenders))


def _seconds(one: Contender) -> float:
    return one.measured if math.isfinite(one.measured) else one.estimate


def _mean(seconds: float, points: int) -> float | None:
    return seconds / points if math.isfinite(seconds) else None
