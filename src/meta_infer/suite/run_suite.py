"""The operator suite in worker processes.

Every case becomes a package of its own. A case that crashes or hangs is a failed case, not the end of the run. Each
outcome is written down as it comes, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from pathlib import Path

from meta_infer.suite.cases import Case
from meta_infer.suite.run_case import Outcome, run_case
from meta_infer.support.errors import UsageError

_TIMEOUT = 120.0                                        # seconds until a case counts as hanging


def run_suite(cases: Sequence[Case], workers: int, results: Path | None = None,
              done: Callable[[Outcome], None] = lambda outcome: None) -> list[Outcome]:
    """Outcomes of all cases, in their order. With `results`, those it holds already are not run again."""
    known = {outcome.name: outcome for outcome in read_outcomes(results)} if results else {}
    left = [case for case in cases if case.name not in known]
    with tempfile.TemporaryDirectory(prefix="meta-infer-suite-") as folder:
        for outcome in _outcomes(left, workers, Path(folder)):
            known[outcome.name] = outcome
            if results is not None:
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(outcome)) + "\n")
            done(outcome)
    return [known[case.name] for case in cases]


def read_outcomes(path: Path) -> list[Outcome]:
    """Outcomes written by an earlier run. Raises UsageError for a file that holds something else."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(Outcome(**json.loads(line)))
        except (ValueError, TypeError):
            if number < len(lines):                      # the last line may have been cut when the run was killed
                raise UsageError(f"line {number} is no outcome of the suite", what=f"results file {path}",
                                 hint="give another file, or delete it") from None
    return found


class _Worker:
    """A child process and the case it has in hand. The child was forked, so it has all cases already."""

    def __init__(self, cases: Sequence[Case], folder: Path) -> None:
        self.connection, theirs = multiprocessing.Pipe()
        self.index, self.since = -1, 0.0
        self.process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(cases, folder, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, index: int) -> None:
        self.index, self.since = index, time.monotonic()
        self.connection.send(index)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _serve(cases: Sequence[Case], folder: Path, parent: Connection) -> None:
    """A child: runs the cases whose numbers it is sent, until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)         # Ctrl-C is the parent's to answer
    sys.stdout = open(os.devnull, "w")
    while True:
        try:
            index = parent.recv()
        except EOFError:
            return
        parent.send(run_case(cases[index], folder))


def _outcomes(cases: Sequence[Case], workers: int, folder: Path) -> Iterator[Outcome]:
    """Outcomes as they come."""
    waiting = list(reversed(range(len(cases))))
    busy: list[_Worker] = []
    try:
        for _ in range(min(workers, len(cases))):
            busy.append(_start(cases, folder, waiting))
        while busy:
            ready = wait([worker.connection for worker in busy], timeout=1.0)
            for worker in list(busy):
                case = cases[worker.index]
                if worker.connection in ready:
                    try:
                        yield worker.connection.recv()
                    except EOFError:
                        worker.process.join()
                        code = worker.process.exitcode or 0
                        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
                        yield Outcome(case.name, case.op, case.kind, "failed", f"crashed: {ended}",
                                      round(time.monotonic() - worker.since, 3))
                        busy.remove(worker)
                        worker.stop()
                        if waiting:
                            busy.append(_start(cases, folder, waiting))
                        continue
                elif time.monotonic() - worker.since > _TIMEOUT:
                    yield Outcome(case.name, case.op, case.kind, "failed", f"no result after {_TIMEOUT:.0f} s", _TIMEOUT)
                    busy.remove(worker)
                    worker.stop()
                    if waiting:
                        busy.append(_start(cases, folder, waiting))
                    continue
                else:
                    continue
                if waiting:
                    worker.give(waiting.pop())
                else:
                    busy.remove(worker)
                    worker.stop()
    finally:
        for worker in busy:
            worker.stop()


def _start(cases: Sequence[Case], folder: Path, waiting: list[int]) -> _Worker:
    worker = _Worker(cases, folder)
    worker.give(waiting.pop())
    return worker
