"""A plan's groups timed in place: the whole runs in a child process with a clock around every command.

The times go into the experience library as those of `meta-infer profile --learn` do, `place: network`, and come from
there when the same code is met again.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from meta_infer.ir.group_text import group_text
from meta_infer.ir.program import Call, If, Loop, walk_commands
from meta_infer.library.samples import IN_NETWORK, OK, Sample
from meta_infer.package.writer import write_package
from meta_infer.search.measure.described import described
from meta_infer.search.measure.measure_protocol import VERSION, median_and_spread
from meta_infer.search.space.ways import Way, way_of
from meta_infer.search.timing import TimeOver, Timer
from meta_infer.search.whole.built import Built
from meta_infer.search.whole.child_files import ask
from meta_infer.search.whole.whole import Inputs
from meta_infer.search.whole.whole_board import placed_on_board

_ROUNDS, _SECONDS = 7, 2.0
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


def time_placed(built: Built, timer: Timer, inputs: Inputs) -> InPlace | None:
    """The groups of a plan in place, those of regions left out; None where it failed.

    Raises TimeOver in a replay that does not know them.
    """
    groups = _groups(built)
    distinct = list(dict.fromkeys(groups.values()))
    parts: list[Part] = [_WHOLE, _REST, *distinct]
    keys = {(k, part): _key(built, k, part) for k in range(len(inputs)) for part in parts}
    known = timer.library.known(keys.values()) if timer.library else {}
    if not all(keys[k, _WHOLE] in known for k in range(len(inputs))):
        if timer.is_replay:
            raise TimeOver("groups in place")
        points = _run(built, inputs, timer)
        if points is None:
            return None
        made = [replace(sample, key=keys[k, part]) for k, rounds in enumerate(points)
                for part, sample in _samples(built, groups, rounds, timer, k) if sample.seconds]
        timer.remember(made)
        known = {sample.key: sample for sample in made}

    def added(part: Part) -> tuple[float, float]:           # what takes no time has no sample
        found = [known[key] for k in range(len(inputs)) if (key := keys[k, part]) in known]
        return sum(sample.seconds for sample in found), sum(sample.spread for sample in found)

    return InPlace(added(_WHOLE)[0], added(_REST)[0], {part: added(part) for part in distinct})


def _groups(built: Built) -> dict[str, tuple[str, Way]]:
    """By the first value that a group makes, its text and way: as its calls name it."""
    return {one.group.outputs[0]: (group_text(one.group), way_of(one.group, one.variant)) for one in built.plan.groups
            if one.variant.kernel not in ("view", "region")}


def _key(built: Built, point: int, part: Part) -> str:
    name = part if isinstance(part, str) else repr(part)
    return hashlib.sha256("\0".join([built.key, _STRUCTURE, str(point), name]).encode()).hexdigest()[:32]


def _run(built: Built, inputs: Inputs, timer: Timer) -> list[list[Round]] | None:
    commands = list(walk_commands(built.target.program.commands))
    holders = [i for i, command in enumerate(commands) if isinstance(command, If | Loop)]
    with tempfile.TemporaryDirectory(prefix="meta-infer-place-") as name:
        folder = Path(name)
        write_package(folder / "plan.bin", [built.target])
        if timer.board is not None:
            board = timer.board
            return board.again(lambda: placed_on_board(
                board, folder / "plan.bin", inputs, holders, len(commands), threads=timer.threads, rounds=_ROUNDS,
                seconds=_SECONDS))
        found: list[list[Round]] | None = ask("meta_infer.search.whole.in_place_child", folder, inputs, _SECONDS,
                                              threads=timer.threads, rounds=_ROUNDS, holders=holders)
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
