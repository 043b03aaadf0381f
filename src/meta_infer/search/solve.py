"""The plan as an integer program: which groups cover the graph, by which variant each, in which formats between them.

    minimise    sum take[o, v] * seconds + sum convert[value, f -> g] * seconds
    every node  is in exactly one taken group, or taken out by exactly one taken move, whose nodes then are in one each
    every value that a taken variant reads in format g is made in g, or converted to g once, however many read it so
    limits      on packed weights and live bytes

Solved by OR-tools CP-SAT: integer costs in 10 ns, one worker, a fixed seed and a limit in deterministic time, so that
equal prices give equal plans on every machine. Boolean (cover, have, convert) as in: Liu et al., Optimizing CNN Model
Inference on CPUs (USENIX ATC 2019), where layouts alone are chosen, and Jia et al., TASO (SOSP 2019), covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ortools.sat.python import cp_model

from meta_infer.ir.graph import Graph, Value
from meta_infer.ir.group import PLAIN, Format, Group, Layout, Plan, PlannedGroup, Variant
from meta_infer.passes.group_order import cycle_of, in_order
from meta_infer.passes.moves import apply_moves
from meta_infer.passes.rewrite import key_of
from meta_infer.search.live_bytes import LiveBytes
from meta_infer.search.space import Offer, Space, moved_key
from meta_infer.support.errors import UnsupportedError

_UNIT = 1e-8
WORK = 60.0
"""Deterministic time (about seconds) after which the best plan so far is taken, with its gap."""


@dataclass(frozen=True)
class Priced:
    """A variant with the seconds it takes."""

    variant: Variant
    seconds: float


Prices = Callable[[Offer], Sequence[Priced]]
Conversion = Callable[[Value, Layout, Layout], float | None]
"""(value, from, to) -> seconds, None where there is no such conversion."""


@dataclass(frozen=True)
class Limits:
    """Bytes that a plan may take for packed weights and live tensors together; None: any."""

    memory_bytes: int | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Solved:
    """A plan, and how sure it is that none is better: `bound` is the least that any plan of these prices takes.

    `seconds` are those of kernels and conversions, regions once each; `taken` says by value which offers were taken.
    """

    plan: Plan
    seconds: float
    bound: float
    conversions: float
    choices: int
    taken: Mapping[str, tuple[Offer, Priced]] = field(repr=False)

    @property
    def gap(self) -> float:
        """Share by which a better plan could at most be quicker; 0 when there is none."""
        return max(0.0, (self.seconds - self.bound) / self.seconds) if self.seconds else 0.0


def solve(space: Space, prices: Prices, conversion: Conversion, limits: Limits = NO_LIMITS,
          work: float = WORK) -> Solved:
    """The cheapest plan of a space, with those of its regions.

    Raises UnsupportedError when nothing fits the limits.
    """
    regions = {key: solve(region, prices, conversion, limits, work) for key, region in space.regions.items()}
    found = _Program(space, prices, conversion, limits).solved(work)
    inner = regions.values()
    return Solved(
        Plan(found.plan.graph, found.plan.groups, found.plan.formats, {key: one.plan for key, one in regions.items()}),
        found.seconds + sum(one.seconds for one in inner), found.bound + sum(one.bound for one in inner),
        found.conversions + sum(one.conversions for one in inner), found.choices + sum(one.choices for one in inner),
        {**found.taken, **{name: choice for one in inner for name, choice in one.taken.items()}})


@dataclass(frozen=True)
class _Choice:
    """One taken-or-not of the program."""

    offer: Offer
    priced: Priced
    taken: cp_model.IntVar


class _Program:
    """The variables and constraints of one graph."""

    def __init__(self, space: Space, prices: Prices, conversion: Conversion, limits: Limits) -> None:
        self.graph, self.model, self._limits = space.graph, cp_model.CpModel(), limits
        self.moves = [(move, self.model.new_bool_var(f"{move.move}:{i}")) for i, move in enumerate(space.moves)]
        # A region names values of the graphs around it, which only its groups type.
        self.values = {name: value for offer in space.offers for name, value in offer.group.values.items()}
        keep_all = limits.memory_bytes is not None
        self.choices = [
            _Choice(offer, priced, self.model.new_bool_var(f"{offer.key}:{i}"))
            for offer in space.offers for i, priced in enumerate(best_of_each(offer, prices(offer), keep_all))]
        self._cover()
        self.converted = self._formats(conversion)
        if limits.memory_bytes is not None:
            self._limit_memory(limits.memory_bytes)
        self.model.minimize(sum(_cost(c.priced.seconds) * c.taken for c in self.choices)
                            + sum(_cost(seconds) * var for seconds, var in self.converted.values()))

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

    def _limit_memory(self, most: int) -> None:
        """Packed weights and, at every step, the values alive then."""
        live = LiveBytes(self.graph, [move for move, _ in self.moves])
        weights = [(c.priced.variant.packed_bytes or live.weight_bytes(c.offer.group), c.taken) for c in self.choices]
        packed = sum(count * taken for count, taken in weights if count)
        exists = [(c.offer.group, c.priced.variant, c.taken) for c in self.choices]
        copies = [(name, target, var) for (name, _, target), (_, var) in self.converted.items()]
        for terms in live.peaks(exists, copies):
            self.model.add(packed + sum(count * taken for count, taken in terms) <= most)

    def solved(self, work: float) -> Solved:
        """Solves until the taken groups can run in some order: two legal groups may wait for each other."""
        while True:
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = 1
            solver.parameters.random_seed = 0
            solver.parameters.max_deterministic_time = work
            status = solver.solve(self.model)
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                limit = self._limits.memory_bytes
                raise UnsupportedError("no combination of kernels fits the limits" if limit else
                                       "no combination of kernels covers the model", what=f"model {self.graph.name!r}",
                                       hint="raise --memory-limit" if limit else "report this case")
            taken = [choice for choice in self.choices if solver.boolean_value(choice.taken)]
            graph = apply_moves(self.graph, [move for move, var in self.moves if solver.boolean_value(var)])
            waiting = cycle_of(graph, [choice.offer.group for choice in taken])
            if not waiting:
                return self._result(graph, taken, solver)
            self.model.add_bool_or([~taken[i].taken for i in waiting])

    def _result(self, graph: Graph, taken: Sequence[_Choice], solver: cp_model.CpSolver) -> Solved:
        conversions = sum(seconds for seconds, var in self.converted.values() if solver.boolean_value(var))
        seconds = conversions + sum(choice.priced.seconds for choice in taken)
        bound = min(seconds, solver.best_objective_bound * _UNIT + _rounding(len(taken) + len(self.converted)))
        return Solved(plan_of(graph, [(c.offer.group, c.priced.variant) for c in taken]), seconds, bound,
                      conversions, len(self.choices), {c.offer.key: (c.offer, c.priced) for c in taken})


def _cost(seconds: float) -> int:
    return round(seconds / _UNIT)


def _rounding(terms: int) -> float:
    """What costs in whole units may be off by, so that a proven optimum shows no gap."""
    return _UNIT / 2 * terms


def best_of_each(offer: Offer, priced: Iterable[Priced], keep_all: bool = False) -> list[Priced]:
    """Of variants with the same formats the quickest, and with `keep_all` those that take less memory besides."""
    kept: list[Priced] = []
    for one in sorted(priced, key=lambda p: p.seconds):
        alike = [other for other in kept if other.variant.inputs == one.variant.inputs
                 and other.variant.outputs == one.variant.outputs]
        if not alike or keep_all and all(one.variant.packed_bytes < other.variant.packed_bytes for other in alike):
            kept.append(one)
    return kept


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
