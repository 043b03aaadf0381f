"""The plan as an integer program: which groups cover the graph, by which variant each, in which formats between them.

    minimise    sum take[o, v] * seconds + sum convert[value, f -> g] * seconds, or joules, or bytes, or a sum of these
    every node  is in exactly one taken group, or taken out by exactly one taken move, whose nodes then are in one each
    every value that a taken variant reads in format g is made in g, or converted to g once, however many read it so
    limits      on seconds, on joules, and on packed weights and live bytes together

Solved by OR-tools CP-SAT: integer costs (10 ns), one worker, a fixed seed and a limit in deterministic time, so that
equal prices give equal plans on every machine. Boolean (cover, have, convert) as in: Liu et al., Optimizing CNN Model
Inference on CPUs (USENIX ATC 2019), where layouts alone are chosen, and Jia et al., TASO (SOSP 2019), covers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ortools.sat.python import cp_model

from meta_infer.ir.graph import Graph, Value
from meta_infer.ir.group import PLAIN, Format, Group, Layout, Plan, PlannedGroup, Variant
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.passes.group_order import cycle_of, in_order
from meta_infer.passes.moves import apply_moves
from meta_infer.passes.rewrite import key_of
from meta_infer.search.space.live_bytes import LiveBytes, Terms, weight_bytes
from meta_infer.search.space.space import Offer, Space, moved_key
from meta_infer.support.errors import UnsupportedError

UNIT = 1e-8
"""Seconds that costs are counted in."""
_JOULE = 1e-9
_ROOM = 1e-3
WORK = 60.0
"""Deterministic time (about seconds) after which the best plan so far is taken, with its gap."""


@dataclass(frozen=True)
class Priced:
    """A variant with the seconds and joules it takes."""

    variant: Variant
    seconds: float
    joules: float = 0.0


Prices = Callable[[Offer], Sequence[Priced]]
Conversion = Callable[[Value, Layout, Layout], float | None]
"""(value, from, to) -> seconds, None where there is no such conversion."""


Joules = Callable[[Value, Layout, Layout, float], float]
"""(value, from, to, seconds) -> joules of a conversion that takes these seconds."""


@dataclass(frozen=True)
class Limits:
    """What a plan may take at most: bytes of packed weights and live tensors together, joules, seconds. None: any."""

    memory_bytes: int | None = None
    joules: float | None = None
    seconds: float | None = None

    @property
    def are_set(self) -> bool:
        return self != NO_LIMITS

    def less(self, parts: Sequence[Solved]) -> Limits:
        """What is left beside these."""
        def left(limit: float | None, spent: Iterable[float]) -> float | None:
            return None if limit is None else limit - sum(spent)

        memory = left(self.memory_bytes, (one.bytes for one in parts))
        return Limits(None if memory is None else int(memory), left(self.joules, (one.joules for one in parts)),
                      left(self.seconds, (one.seconds for one in parts)))


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Goal:
    """What is minimised: seconds, joules and bytes with these weights, in whole `unit`s of the sum."""

    name: str
    seconds: float = 0.0
    joules: float = 0.0
    bytes: float = 0.0
    unit: float = UNIT

    def of(self, seconds: float, joules: float, count: float) -> float:
        return self.seconds * seconds + self.joules * joules + self.bytes * count


LATENCY = Goal("latency", seconds=1.0)
ENERGY = Goal("energy", joules=1.0, unit=1e-9)
MEMORY = Goal("memory", bytes=1.0, unit=1.0)


class NothingFits(UnsupportedError):
    """No plan keeps within the limits."""


@dataclass(frozen=True)
class Solved:
    """A plan, and how sure it is that none is better: `bound` is the least that any plan of these prices takes.

    `seconds` and `joules` are those of kernels and conversions, regions once each; `bytes` those of weights and of what
    is alive together at most; `objective` what was minimised, in the goal's own measure, as `bound` is. `taken` says by
    value which offers were taken.
    """

    plan: Plan
    seconds: float
    bound: float
    conversions: float
    choices: int
    taken: Mapping[str, tuple[Offer, Priced]] = field(repr=False)
    joules: float = 0.0
    bytes: int = 0
    objective: float = 0.0

    @property
    def gap(self) -> float:
        """Share by which a plan could at most be better; 0 when none is."""
        return max(0.0, (self.objective - self.bound) / self.objective) if self.objective else 0.0


def solve(space: Space, prices: Prices, conversion: Conversion, limits: Limits = NO_LIMITS, work: float = WORK,
          goal: Goal = LATENCY, joules: Joules = lambda value, source, target, seconds: 0.0) -> Solved:
    """The plan of a space that is best for `goal`, with those of its regions.

    Raises NothingFits when no plan keeps within the limits, UnsupportedError when there is none at all.
    """
    regions: dict[tuple[str, int], Solved] = {}
    for region_goal in (goal, *_scarce(limits)) if space.regions else (goal,):
        try:
            regions = {key: solve(region, prices, conversion, limits, work, region_goal, joules)
                       for key, region in space.regions.items()}
            found = _Program(space, prices, conversion, limits.less(list(regions.values())), goal, joules).solved(work)
            break
        except NothingFits:
            if not space.regions or region_goal is (goal, *_scarce(limits))[-1]:
                raise
    inner = [found, *regions.values()]
    seconds, spent, count = (sum(getattr(one, name) for one in inner) for name in ("seconds", "joules", "bytes"))
    objective = goal.of(seconds, spent, count)
    known = sum(one.bound for one in regions.values()) if region_goal is goal else 0.0
    bound = min(objective, found.bound + known)
    return Solved(
        Plan(found.plan.graph, found.plan.groups, found.plan.formats, {key: one.plan for key, one in regions.items()}),
        seconds, bound, sum(one.conversions for one in inner), sum(one.choices for one in inner),
        {**found.taken, **{name: choice for one in regions.values() for name, choice in one.taken.items()}},
        spent, count, objective)


def _scarce(limits: Limits) -> list[Goal]:
    """What regions are made small in where the rest of a plan would not fit beside them."""
    bounded = ((MEMORY, limits.memory_bytes), (ENERGY, limits.joules), (LATENCY, limits.seconds))
    return [goal for goal, limit in bounded if limit is not None]


@dataclass(frozen=True)
class _Choice:
    """One taken-or-not of the program."""

    offer: Offer
    priced: Priced
    taken: cp_model.IntVar


class _Program:
    """The variables and constraints of one graph."""

    def __init__(self, space: Space, prices: Prices, conversion: Conversion, limits: Limits, goal: Goal,
                 joules: Joules) -> None:
        self.graph, self.model, self._limits, self._goal = space.graph, cp_model.CpModel(), limits, goal
        self.moves = [(move, self.model.new_bool_var(f"{move.move}:{i}")) for i, move in enumerate(space.moves)]
        # A region names values of the graphs around it, which only its groups type.
        self.values = {name: value for offer in space.offers for name, value in offer.group.values.items()}
        offered = [(offer, prices(offer)) for offer in space.offers]
        if limits.memory_bytes is not None and _most_bytes(offered) <= limits.memory_bytes:
            limits = replace(limits, memory_bytes=None)
        keep_all = limits.are_set or goal.name != LATENCY.name
        self.choices = [
            _Choice(offer, one, self.model.new_bool_var(f"{offer.key}:{i}"))
            for offer, priced in offered for i, one in enumerate(best_of_each(offer, priced, keep_all))]
        self._cover()
        self.converted = self._formats(conversion)
        self._joules = {key: joules(self.values[key[0]], key[1], key[2], seconds)
                        for key, (seconds, _) in self.converted.items()}
        terms = self._terms(lambda seconds, spent: round((goal.seconds * seconds + goal.joules * spent) / goal.unit))
        if limits.seconds is not None:
            self.model.add(self._terms(lambda seconds, spent: round(seconds / UNIT)) <= _whole(limits.seconds / UNIT))
        if limits.joules is not None:
            self.model.add(self._terms(lambda seconds, spent: round(spent / _JOULE)) <= _whole(limits.joules / _JOULE))
        if limits.memory_bytes is not None or goal.bytes:
            terms = terms + self._memory(limits.memory_bytes)
        self.model.minimize(terms)

    def _terms(self, cost: Callable[[float, float], int]) -> Any:
        """A sum over all that might be taken, of what `cost` says of its seconds and joules."""
        return (sum(cost(c.priced.seconds, c.priced.joules) * c.taken for c in self.choices)
                + sum(cost(seconds, self._joules[key]) * var for key, (seconds, var) in self.converted.items()))

    def _cover(self) -> None:
        by_node: dict[str, list[cp_model.IntVar]] = {key_of(node): [] for node in self.graph.nodes}
        made: dict[str, cp_model.IntVar] = {}
        for i, (move, taken) in enumerate(self.moves):
            for key in move.removes:
                by_node[key].append(taken)
            made |= {moved_key(i, key_of(node)): taken for node in move.nodes}
        by_node |= {key: [] for key in made}
        for choice in self.choices:
            for key in choice.offer.covers:
                by_node[key].append(choice.taken)
        for key, ways in by_node.items():
            if key in made:
                self.model.add(sum(ways) == made[key])
            else:
                self.model.add_exactly_one(ways)

    def _formats(self, conversion: Conversion) -> dict[tuple[str, Layout, Layout], tuple[float, cp_model.IntVar]]:
        """`have` and `convert`: (seconds, variable) of every conversion that could be made."""
        made: dict[str, dict[Layout, list[cp_model.IntVar]]] = {}
        read: dict[str, dict[Layout, list[cp_model.IntVar]]] = {}
        for choice in self.choices:
            group, variant = choice.offer.group, choice.priced.variant
            for name in group.outputs:
                made.setdefault(name, {}).setdefault(variant.outputs.get(name, PLAIN), []).append(choice.taken)
            for name in group.inputs:
                if name not in group.constants:
                    read.setdefault(name, {}).setdefault(variant.inputs.get(name, PLAIN), []).append(choice.taken)
        outputs = {name for name in self.graph.outputs if name in made}
        for name in outputs:
            read.setdefault(name, {}).setdefault(PLAIN, [])
        converted: dict[tuple[str, Layout, Layout], tuple[float, cp_model.IntVar]] = {}
        for name, wanted in read.items():
            sources = made.get(name)
            for target, readers in wanted.items():
                ways = [] if sources is None else list(sources.get(target, []))
                if sources is None and target == PLAIN:
                    continue                                        # an input, or captured: it lies there plain
                for source in (PLAIN,) if sources is None else sources:
                    seconds = conversion(self.values[name], source, target) if source != target else None
                    if seconds is None:
                        continue
                    var = self.model.new_bool_var(f"{name}:{source}->{target}")
                    converted[name, source, target] = seconds, var
                    ways.append(var)
                    if sources is not None:
                        self.model.add_bool_or([*sources[source], ~var])
                for reader in readers:
                    self.model.add_bool_or([*ways, ~reader])
                if target == PLAIN and name in outputs:
                    self.model.add_bool_or(ways)
        return converted

    def _memory(self, most: int | None) -> Any:
        """Packed weights and, at every step, the values alive then: at most `most`; what the goal says of them."""
        weights = [(weight_bytes(c.offer.group, c.priced.variant), c.taken) for c in self.choices]
        steps = self._alive([(choice, choice.taken) for choice in self.choices],
                            [(key, var) for key, (_, var) in self.converted.items()])
        if most is not None:
            packed = sum(count * taken for count, taken in weights)
            for terms in steps:
                self.model.add(packed + sum(count * taken for count, taken in terms) <= most)
        if not self._goal.bytes:
            return 0
        scale = self._goal.bytes / self._goal.unit
        scaled = [[(round(scale * count), taken) for count, taken in terms] for terms in steps]
        peak = self.model.new_int_var(0, max((sum(count for count, _ in terms) for terms in scaled), default=0), "peak")
        for terms in scaled:
            self.model.add(sum(count * taken for count, taken in terms) <= peak)
        return sum(round(scale * count) * taken for count, taken in weights) + peak

    def _alive(self, choices: Sequence[tuple[_Choice, Any]],
               converted: Sequence[tuple[tuple[str, Layout, Layout], Any]]) -> list[Terms]:
        live = LiveBytes(self.graph, [move for move, _ in self.moves])
        return live.peaks([(choice.offer.group, choice.priced.variant, taken) for choice, taken in choices],
                          [(name, target, taken) for (name, _, target), taken in converted])

    def solved(self, work: float) -> Solved:
        """Solves until the taken groups can run in some order: two legal groups may wait for each other."""
        while True:
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = 1
            solver.parameters.random_seed = 0
            solver.parameters.linearization_level = 2               # covers are nearly integral: bounds are tight
            solver.parameters.catch_sigint_signal = False          # it would leave Ctrl-C without Python's handler
            solver.parameters.max_deterministic_time = work
            status = solver.solve(self.model)
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                what = f"model {self.graph.name!r}"
                if self._limits.are_set:
                    raise NothingFits("no combination of kernels fits the limits", what=what, hint="raise the limits")
                raise UnsupportedError("no combination of kernels covers the model", what=what, hint="report this case")
            taken = [choice for choice in self.choices if solver.boolean_value(choice.taken)]
            graph = apply_moves(self.graph, [move for move, var in self.moves if solver.boolean_value(var)])
            waiting = cycle_of(graph, [choice.offer.group for choice in taken])
            if not waiting:
                return self._result(graph, taken, solver)
            self.model.add_bool_or([~taken[i].taken for i in waiting])

    def _result(self, graph: Graph, taken: Sequence[_Choice], solver: cp_model.CpSolver) -> Solved:
        made = [key for key, (_, var) in self.converted.items() if solver.boolean_value(var)]
        conversions = sum(self.converted[key][0] for key in made)
        seconds = conversions + sum(choice.priced.seconds for choice in taken)
        joules = sum(self._joules[key] for key in made) + sum(choice.priced.joules for choice in taken)
        alive = self._alive([(choice, 1) for choice in taken], [(key, 1) for key in made])
        count = (sum(weight_bytes(choice.offer.group, choice.priced.variant) for choice in taken)
                 + max((sum(size for size, _ in terms) for terms in alive), default=0))
        objective = self._goal.of(seconds, joules, count)
        rounding = self._goal.unit / 2 * (len(taken) + len(self.converted) + 1)
        bound = min(objective, solver.best_objective_bound * self._goal.unit + rounding)
        return Solved(plan_of(graph, [(c.offer.group, c.priced.variant) for c in taken]), seconds, bound,
                      conversions, len(self.choices), {c.offer.key: (c.offer, c.priced) for c in taken}, joules, count,
                      objective)


def _most_bytes(offered: Iterable[tuple[Offer, Sequence[Priced]]]) -> int:
    """As many bytes as all offers have together, in every format: a limit above that limits nothing."""
    total = 0
    for offer, priced in offered:
        group = offer.group
        forms = {(name, PLAIN) for name in (*group.inputs, *group.outputs)}
        for one in priced:
            forms |= {*one.variant.inputs.items(), *one.variant.outputs.items()}
        total += max((weight_bytes(group, one.variant) for one in priced), default=0)
        total += sum(usual_upper(product(layout.physical(group.values[name].shape))) * group.values[name].dtype.bytes
                     for name, layout in forms if name not in group.constants)
    return total


def _whole(limit: float) -> int:
    """A limit in whole units, with room for what rounding the parts may add."""
    return math.floor(limit + _ROOM)


def best_of_each(offer: Offer, priced: Iterable[Priced], keep_all: bool = False) -> list[Priced]:
    """Of variants with the same formats the quickest, and with `keep_all` those that take less energy or memory."""
    kept: list[Priced] = []
    for one in sorted(priced, key=lambda p: p.seconds):
        alike = [other for other in kept if other.variant.inputs == one.variant.inputs
                 and other.variant.outputs == one.variant.outputs]
        if not alike or keep_all and not any(_is_no_worse(offer.group, other, one) for other in alike):
            kept.append(one)
    return kept


def _is_no_worse(group: Group, one: Priced, other: Priced) -> bool:
    return (one.seconds <= other.seconds and one.joules <= other.joules
            and weight_bytes(group, one.variant) <= weight_bytes(group, other.variant))


def plan_of(graph: Graph, chosen: Sequence[tuple[Group, Variant]]) -> Plan:
    """The plan of groups that cover `graph`, in an order in which they can run; its regions are left out."""
    variants = {group.outputs[0]: variant for group, variant in chosen}
    formats = {name: Format(graph.values[name].dtype) for name in (*graph.inputs, *graph.constants)}
    planned = []
    for group in in_order(graph, [group for group, _ in chosen]):
        variant = variants[group.outputs[0]]
        planned.append(PlannedGroup(group, variant))
        for name in group.outputs:
            formats[name] = Format(graph.values[name].dtype, variant.outputs[name])
    return Plan(graph, tuple(planned), formats)
