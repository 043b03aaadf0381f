"""Groups of plans timed in place: whole plans run in turns in a child process, with a clock around every command.

The times go into the experience library as those of `meta-infer profile --learn` do, `place: network`, and come from
there when the same code is met again.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from meta_infer.ir.group_text import group_text
from meta_infer.ir.program import Call, If, Loop, walk_commands
from meta_infer.library.samples import IN_NETWORK, OK, Sample
from meta_infer.search.measure.described import described
from meta_infer.search.measure.measure_protocol import VERSION, median_and_spread
from meta_infer.search.space.ways import Way, way_of
from meta_infer.search.timing import TimeOver, Timer
from meta_infer.search.whole.built import Built, write_packages
from meta_infer.search.whole.child_files import ask
from meta_infer.search.whole.whole import Inputs
from meta_infer.search.whole.whole_board import placed_on_board

_ROUNDS, _SECONDS = 8, 2.0
_STRUCTURE = "plan in place"
_WHOLE, _REST = "whole", "rest"

Part = str | tuple[str, Way]
Round = tuple[float, list[float]]
"""Seconds of the whole, and of every command."""


@dataclass(frozen=True)
class InPlace:
    """Seconds of one run, all points added up: of the whole, of commands that are no group's (conversions, copies), and
    by site and way of one group, with the spread."""

    whole: float
    rest: float
    groups: Mapping[tuple[str, Way], tuple[float, float]]


def time_placed(built: Sequence[Built], timer: Timer, inputs: Inputs) -> list[InPlace] | None:
    """The groups of plans in place, those of regions left out: what ran in turns compares. None where one failed.

    Raises TimeOver in a replay that does not know them.
    """
    placements = [_Placement(i, one, built, timer) for i, one in enumerate(built)]
    if not all(one.is_known for one in placements):
        if timer.is_replay:
            raise TimeOver("groups in place")
        found = _run(built, inputs, timer)
        if found is None:
            return None
        timer.remember([sample for one, points in zip(placements, found, strict=True) for sample in one.take(points)])
    return [one.found() for one in placements]


class _Placement:
    """One of the plans that run in turns: what its samples are known by, and those that are known."""

    def __init__(self, at: int, built: Built, together: Sequence[Built], timer: Timer) -> None:
        self.built, self.timer, self.groups = built, timer, _groups(built)
        self.distinct, self.points = list(dict.fromkeys(self.groups.values())), range(len(timer.points))
        self.place = "\0".join([str(at), *(one.key for one in together), _STRUCTURE])
        parts: list[Part] = [_WHOLE, _REST, *self.distinct]
        keys = [self._key(k, part) for k in self.points for part in parts]
        self.known = dict(timer.library.known(keys)) if timer.library else {}

    @property
    def is_known(self) -> bool:
        return all(self._key(k, _WHOLE) in self.known for k in self.points)

    def take(self, points: Sequence[Sequence[Round]]) -> list[Sample]:
        """The samples of rounds at every point."""
        made = [replace(sample, key=self._key(k, part)) for k, rounds in enumerate(points)
                for part, sample in _samples(self.built, self.groups, rounds, self.timer, k) if sample.seconds]
        self.known = {sample.key: sample for sample in made}
        return made

    def found(self) -> InPlace:
        def added(part: Part) -> tuple[float, float]:           # what takes no time has no sample
            known = [self.known[key] for k in self.points if (key := self._key(k, part)) in self.known]
            return sum(sample.seconds for sample in known), sum(sample.spread for sample in known)

        return InPlace(added(_WHOLE)[0], added(_REST)[0], {part: added(part) for part in self.distinct})

    def _key(self, point: int, part: Part) -> str:
        name = part if isinstance(part, str) else repr(part)
        return hashlib.sha256("\0".join([self.place, str(point), name]).encode()).hexdigest()[:32]


def _groups(built: Built) -> dict[str, tuple[str, Way]]:
    """By the first value that a group makes, its text and way: as its calls name it."""
    return {one.group.outputs[0]: (group_text(one.group), way_of(one.group, one.variant)) for one in built.plan.groups
            if one.variant.kernel not in ("view", "region")}


def _run(built: Sequence[Built], inputs: Inputs, timer: Timer) -> list[list[list[Round]]] | None:
    """Of every plan and point the rounds. On a board plans run one after the other."""
    commands = [list(walk_commands(one.target.program.commands)) for one in built]
    holders = [[i for i, command in enumerate(own) if isinstance(command, If | Loop)] for own in commands]
    with tempfile.TemporaryDirectory(prefix="meta-infer-place-") as name:
        folder = Path(name)
        files = write_packages(folder, built)
        if timer.board is None:
            answer: list[list[list[Round]]] | None = ask(
                "meta_infer.search.whole.in_place_child", folder, inputs, len(built) * _SECONDS,
                packages=[file.name for file in files], threads=timer.threads, rounds=_ROUNDS, holders=holders)
            return answer
        found = []
        for file, own, held in zip(files, commands, holders, strict=True):
            points = timer.board.again(partial(placed_on_board, timer.board, file, inputs, held, len(own),
                                               threads=timer.threads, rounds=_ROUNDS, seconds=_SECONDS))
            if points is None:
                return None
            found.append(points)
        return found


def _samples(built: Built, groups: Mapping[str, tuple[str, Way]], rounds: Sequence[Round], timer: Timer,
             point: int) -> Iterable[tuple[Part, Sample]]:
    """Of one point: the whole, what is no group's, and every distinct group, averaged over its places."""
    calls: dict[str, list[int]] = {}
    for i, command in enumerate(walk_commands(built.target.program.commands)):
        name = command.output if isinstance(command, Call) else ""
        calls.setdefault(name if name in groups else "", []).append(i)
    took = np.array([commands for _, commands in rounds]).reshape(len(rounds), -1)
    graph = built.plan.graph
    common = Sample("plan", "in place", op="Graph", group=f"graph {graph.name} of {len(graph.nodes)} nodes",
                    structure=_STRUCTURE)
    about = replace(common, isa=str(timer.profile.isa), cpu=timer.cpu, threads=timer.threads, place=IN_NETWORK,
                    sizes=dict(timer.points[point]), protocol=VERSION, compiler=built.target.artifact.compiler,
                    rounds=len(rounds), status=OK)

    def timed(sample: Sample, turns: np.ndarray) -> Sample:
        seconds, spread = median_and_spread(turns.tolist())
        return replace(sample, seconds=seconds, spread=spread)

    yield _WHOLE, timed(about, np.array([whole for whole, _ in rounds]))
    yield _REST, timed(replace(about, variant="beside groups"), took[:, calls.get("", [])].sum(axis=1))
    members = {one.group.outputs[0]: one for one in built.plan.groups}
    for part in dict.fromkeys(groups.values()):
        places = [name for name in calls if name and groups[name] == part]
        turns = sum((took[:, calls[name]].sum(axis=1) for name in places), np.zeros(len(rounds))) / max(len(places), 1)
        group = members[next(name for name, other in groups.items() if other == part)].group
        named = described(group, part[1])
        sample = replace(named, isa=about.isa, cpu=about.cpu, threads=about.threads, place=about.place,
                         sizes=about.sizes, protocol=VERSION, compiler=about.compiler, rounds=about.rounds)
        yield part, timed(sample, turns)
