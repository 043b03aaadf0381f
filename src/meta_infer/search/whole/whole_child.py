"""The process in which whole packages run in turns: `python -m meta_infer.search.whole.whole_child FOLDER`.

FOLDER holds the packages and a request (child_files.py); the answer is the median seconds of a run of
each package in every round, all points added up.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np

from meta_infer.runtime.session import load
from meta_infer.search.measure.interleave import interleave
from meta_infer.search.whole.child_files import read_points, read_request, write_answer

LOADS, EACH = 3, 8
"""The fewest times that packages are loaded, and the rounds of a load where these make more loads: 41 rounds, five."""


def main(folder: Path) -> None:
    request = read_request(folder)
    points = list(read_points(folder, request))
    packages = [(folder / name, count) for name, count in zip(request["packages"], request["threads"], strict=True)]
    shares = _shares(request["rounds"])
    answer: list[list[float]] = [[] for _ in packages]
    for rounds in shares:
        found = _rounds(packages, points, rounds, request["seconds"] / len(shares))
        for turns, more in zip(answer, found, strict=True):
            turns += more
    write_answer(folder, answer)


def _shares(rounds: int) -> list[int]:
    """Rounds of each load: where a session's memory lies makes a run some per cent quicker or slower as long as it
    lives, so that packages are loaded several times."""
    loads = min(max(LOADS, rounds // EACH), rounds)
    return [rounds // loads + (i < rounds % loads) for i in range(loads)]


def _rounds(packages: Sequence[tuple[Path, int]], points: Sequence[Mapping[str, np.ndarray]], rounds: int,
            seconds: float) -> list[list[float]]:
    """Seconds of a run of each package in every round, all points added up."""
    with ExitStack() as stack:
        sessions = [stack.enter_context(load(path, threads=count)) for path, count in packages]
        totals = [np.zeros(rounds) for _ in sessions]
        for point in points:
            runs = {str(i): partial(session.run, None, point) for i, session in enumerate(sessions)}
            found = interleave(runs, rounds=rounds, seconds=seconds / len(points))
            for i, total in enumerate(totals):
                total += found[str(i)].rounds
    return [total.tolist() for total in totals]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
