"""The process in which packages run in turns with a clock around every command:
`python -m meta_infer.search.whole.in_place_child FOLDER`.

FOLDER holds the packages and a request (child_files.py); the answer has for every package and every point the rounds,
each with the seconds of the whole and of every command.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from meta_infer.runtime.session import load
from meta_infer.search.whole.child_files import read_points, read_request, write_answer
from meta_infer.search.whole.in_place import time_in_place

_LOADS = 2
"""Where a session's memory lies makes its groups quicker or slower as long as it lives."""


def main(folder: Path) -> None:
    request = read_request(folder)
    points = list(read_points(folder, request))
    packages, holders = [folder / name for name in request["packages"]], request["holders"]
    rounds, seconds = -(-request["rounds"] // _LOADS), request["seconds"] / len(packages) / len(points) / _LOADS
    answer: list[list[list[tuple[float, list[float]]]]] = [[[] for _ in points] for _ in packages]
    for _ in range(_LOADS):
        with ExitStack() as stack:
            sessions = [stack.enter_context(load(path, threads=request["threads"])) for path in packages]
            for k, inputs in enumerate(points):
                turns = [time_in_place(session, inputs, None, rounds, seconds, held, len(packages))
                         for session, held in zip(sessions, holders, strict=True)]
                for together in zip(*turns, strict=False):
                    for own, one in zip(answer, together, strict=True):
                        own[k].append((one.seconds, one.commands.tolist()))
    write_answer(folder, answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
