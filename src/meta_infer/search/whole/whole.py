"""Whole plans against each other: built into packages, run in turns in one child process.

What groups take alone does not add up to what the network takes: caches are as the group before left them, neighbouring
calls run without a barrier between them. So the last word is a run of the whole.

What else a machine does adds to a run and takes nothing away: where rounds differ by 5 to 10%, the low end of many
rounds tells plans apart that differ by 2%, which the median of their ratios does not.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from meta_infer.hardware.device import Board
from meta_infer.library.samples import Sample
from meta_infer.search.measure.measure_protocol import VERSION, median_and_spread
from meta_infer.search.measure.measurements import OK
from meta_infer.search.timing import TimeOver, Timer
from meta_infer.search.whole.built import Built, write_packages
from meta_infer.search.whole.child_files import ask
from meta_infer.search.whole.whole_board import turns_on_board

_STRUCTURE = "whole plan"
_COUNTED = "low end"
"""How rounds are counted, part of what a comparison is known by."""
_LOW, _LOW_OF_PART, _PARTS = 0.1, 0.25, 5
"""Share of the rounds that are quicker than what counts, of all rounds and of each of some parts of them."""

Inputs = Sequence[Mapping[str, np.ndarray]]
"""Inputs of the model by name, one mapping for every point at which it is timed."""


def time_plans(built: Sequence[Built], inputs: Inputs, *, rounds: int, seconds: float,
               board: Board | None = None) -> list[tuple[float, ...]]:
    """Seconds of a run of each in every round, all points added up; nothing of one that failed.

    They run in turns, about `seconds` in all, in a child process or on a board.
    """
    if not built:
        return []
    threads = [one.threads for one in built]
    with tempfile.TemporaryDirectory(prefix="meta-infer-plans-") as name:
        folder = Path(name)
        files = write_packages(folder, built)
        if board is not None:
            return board.again(lambda: turns_on_board(board, files, inputs, threads=threads, rounds=rounds,
                                                      seconds=seconds))
        answer = ask("meta_infer.search.whole.whole_child", folder, inputs, seconds,
                     packages=[file.name for file in files], threads=threads, rounds=rounds)
        if answer is not None:
            return [tuple(found) for found in answer]
    if len(built) == 1:
        return [()]
    return [time_plans([one], inputs, rounds=rounds, seconds=seconds / len(built))[0] for one in built]


class Took(NamedTuple):
    """Seconds of a run, infinite where it failed, and how far parts of the rounds differ."""

    seconds: float
    spread: float = 0.0


def compare_built(built: Sequence[Built], timer: Timer, inputs: Inputs, *, rounds: int, seconds: float,
                  base: float | None = None) -> list[Took]:
    """Seconds of a run of each, infinite of one that failed: from the library where it knows this very comparison, else
    measured and remembered. They count by their ratio to the last one, at the low end of the rounds.

    With `base`, the seconds of the last one as they are known, these stay, and the others are times that. Raises
    TimeOver in a replay that does not know all.
    """
    asked = built if base is None else built[:-1]
    keys = _keys(built, len(asked), base)
    known = timer.library.known(keys) if timer.library else {}
    if all(key in known for key in keys):
        return [*(_took(known[key]) for key in keys), *([] if base is None else [Took(base)])]
    if timer.is_replay:
        raise TimeOver("whole plans")
    found = time_plans(built, inputs, rounds=rounds, seconds=seconds, board=timer.board)
    samples = [_sample(one, key, _beside(turns, found[-1], base), len(turns), timer)
               for one, key, turns in zip(asked, keys, found, strict=False)]
    timer.remember(samples)
    return [*map(_took, samples), *([] if base is None else [Took(base)])]


def _keys(built: Sequence[Built], count: int, base: float | None) -> list[str]:
    """Those of the samples of the first `count` plans in this comparison: what one took beside other plans, in another
    minute, is another sample."""
    together = "\0".join([*(one.key for one in built), repr(base), _COUNTED])
    return [hashlib.sha256(f"{i}\0{together}".encode()).hexdigest()[:32] for i in range(count)]


def _took(sample: Sample) -> Took:
    return Took(sample.seconds, sample.spread)


def _beside(turns: Sequence[float], base: Sequence[float], level: float | None = None) -> Took:
    """What rounds came to beside those of a base, if it takes `level` seconds, its median without.

    The spread is half the width of the interval that holds half of what parts of the rounds say.
    """
    if not turns or not base:
        return Took(*median_and_spread(turns)) if turns else Took(math.inf)
    level = level or median_and_spread(base)[0]
    parts = zip(*(np.array_split(one, min(_PARTS, len(turns))) for one in (turns, base)), strict=True)
    _, spread = median_and_spread([_ratio(mine, other, _LOW_OF_PART) for mine, other in parts])
    return Took(level * _ratio(turns, base, _LOW), level * spread)


def _ratio(mine: Sequence[float], other: Sequence[float], share: float) -> float:
    return float(np.quantile(mine, share) / np.quantile(other, share))


def _sample(built: Built, key: str, took: Took, rounds: int, timer: Timer) -> Sample:
    graph = built.plan.graph
    return Sample("plan", "whole", key=key, op="Graph", group=f"graph {graph.name} of {len(graph.nodes)} nodes",
                  structure=_STRUCTURE, isa=str(timer.profile.isa), cpu=timer.cpu, threads=built.threads,
                  seconds=took.seconds, spread=took.spread, rounds=rounds, status=OK if rounds else "failed",
                  protocol=VERSION, compiler=built.target.artifact.compiler)
