"""The time of a lowered plan by the cost model, group by group, without compiling or running anything.

Within a network a kernel finds caches as the kernels before it left them. Where the cost model knows from packages that
were profiled (`profile --learn`) how times in networks differ from those of kernels by themselves, it says so by class.
Else a run is walked twice, the second time with what the first one touched: of every page of the arena and every
constant it is known how many bytes were touched since it was touched last, which tells the cache that still has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from meta_infer.cost import features as cost_features
from meta_infer.cost.algorithms import size_of
from meta_infer.cost.features import Features, features_of, group_flops
from meta_infer.cost.model import CostModel, precision_of
from meta_infer.cost.reuse import footprint, touched
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Plan, PlannedGroup, walk_plans
from meta_infer.ir.program import Call, MemoryPlan, Program, walk_commands
from meta_infer.memory.planner import plan_memory

DISPATCH, RUN = 1.5e-7, 8e-6
"""Seconds from one command of a package to the next, and of a run beyond its commands: the call from Python."""
_PAGE = 4096
_LARGE = 1 << 20
"""Bytes from which it is looked up how much of a buffer a kernel touches: of a table it may be a few rows."""


@dataclass(frozen=True)
class GroupPrediction:
    """One group, or one conversion between layouts: what it computes, by which kernel, seconds and their spread.

    `commands` are the places of its calls among all commands of the program.
    """

    label: str
    origins: tuple[str, ...]
    kernel: str
    seconds: float
    spread: float
    precision: str = "fp32"
    features: Features = field(default=Features({}, {}), repr=False)
    commands: tuple[int, ...] = ()


def predict_groups(plan: Plan, program: Program, profile: Profile, cost: CostModel,
                   sizes: Mapping[str, int]) -> list[GroupPrediction]:
    """Every group that takes time in `program`, which `plan` was lowered to, and every conversion; regions once each.

    One thread. `sizes` are those of the inputs' symbols; those that only running tells are at their usual upper bounds.
    """
    groups = {planned.group.outputs[0]: planned for one in walk_plans(plan) for planned in one.groups}
    runs = list(_runs(program))
    walk = _Walk(program, plan_memory(program), sizes)
    found: list[GroupPrediction] = []
    for is_second in (False, True):
        for commands, calls in runs:
            since = walk.since(calls)
            if is_second:
                planned = groups.get(calls[0].output) if calls[0].output else None
                found.append(_predicted(commands, calls, planned, since, walk, profile, cost))
            walk.touch(calls)
    return found


def _runs(program: Program) -> Iterable[tuple[tuple[int, ...], tuple[Call, ...]]]:
    """Calls of one group that follow each other, with their places among all commands of a run."""
    places: list[int] = []
    calls: list[Call] = []
    for place, command in enumerate(walk_commands(program.commands[program.prepares:])):
        same = isinstance(command, Call) and calls and command.output and command.output == calls[0].output
        if calls and not same:
            yield tuple(places), tuple(calls)
            places, calls = [], []
        if isinstance(command, Call):
            places, calls = [*places, place], [*calls, command]
    if calls:
        yield tuple(places), tuple(calls)


def _predicted(commands: tuple[int, ...], calls: tuple[Call, ...], planned: PlannedGroup | None,
               since: Mapping[str, float], walk: _Walk, profile: Profile, cost: CostModel) -> GroupPrediction:
    if planned is None:
        kernel, flops = "reorder", 0.0
        precision = precision_of(walk.program.buffers[calls[0].args[-1]].dtype.name)
    else:
        kernel, flops = planned.variant.kernel, float(size_of(group_flops(planned.group), walk.sizes))
        precision = precision_of(planned.group.values[planned.group.outputs[0]].dtype.name)
    made = [cost_features.Call(walk.program.kernels[call.kernel], call.args, walk.dims(call)) for call in calls]
    held = {arg: walk.bytes(arg) for call in calls for arg in call.args}
    constants = [arg for arg in held if walk.program.buffers[walk.program.root(arg)].kind in ("const", "prepared")]
    features = features_of(made, held, constants, profile, flops, None if cost.context else since)
    estimate = cost.seconds(kernel, precision, features, in_network=True)
    return GroupPrediction(calls[0].label or kernel, calls[0].origins, kernel,
                           estimate.seconds + DISPATCH * len(calls), estimate.spread, precision, features, commands)


class _Walk:
    """What a run touches: `clock` are bytes since the beginning, and each page and buffer has that of its last turn."""

    def __init__(self, program: Program, memory: MemoryPlan, sizes: Mapping[str, int]) -> None:
        self.program, self.sizes, self.clock = program, sizes, 0.0
        self._memory = memory
        self._pages = {space: np.full(-(-size // _PAGE) + 1, -np.inf) for space, size in memory.sizes.items()}
        self._last: dict[str, float] = {}
        self._touched: dict[tuple[str, int], float] = {}

    def bytes(self, name: str) -> int:
        return size_of(self.program.buffers[name].nbytes, self.sizes)

    def dims(self, call: Call) -> tuple[int, ...]:
        return tuple(size_of(dim, self.sizes) for dim in call.dims)

    def since(self, calls: Iterable[Call]) -> dict[str, float]:
        """Buffer -> bytes touched since its memory was: of half of its pages more, of half less.

        What is touched by the group itself counts half, on average, and so does what the one before it touched.
        """
        found = {}
        now = self.clock + sum(self._total(call) for call in calls) / 2
        for arg in {arg for call in calls for arg in call.args}:
            pages = self._where(arg)
            last = self._last.get(self.program.root(arg), -np.inf) if pages is None else float(np.median(pages))
            found[arg] = now - last
        return found

    def touch(self, calls: Iterable[Call]) -> None:
        for call in calls:
            total = self._total(call)
            for arg in call.args:
                pages = self._where(arg)
                if pages is None:
                    self._last[self.program.root(arg)] = self.clock + total / 2
                else:
                    pages[:] = self.clock + total / 2
            self.clock += total

    def _total(self, call: Call) -> float:
        return sum(self._share(call, position, arg) for position, arg in enumerate(call.args))

    def _share(self, call: Call, position: int, arg: str) -> float:
        size = self.bytes(arg)
        if size < _LARGE:
            return size
        key = call.kernel, position
        if key not in self._touched:
            func = self.program.kernels[call.kernel]
            nest = touched(func, self.dims(call), scattered=True)
            self._touched[key] = footprint(nest, {}).get(func.params[position].name, 0.0)
        return min(float(size), self._touched[key])

    def _where(self, name: str) -> np.ndarray | None:
        """The pages of a buffer in its arena; None for one that is in none."""
        decl, begin = self.program.buffers[name], 0
        while decl.alias is not None:
            begin += size_of(decl.offset, self.sizes) * decl.dtype.bytes
            decl = self.program.buffers[decl.alias]
        placed = self._memory.placements.get(decl.name)
        if placed is None or placed.space not in self._pages or decl.kind != "temp":
            return None
        begin += placed.offset
        end = begin + max(1, self.bytes(name))
        return self._pages[placed.space][begin // _PAGE:-(-end // _PAGE)]
