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
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path

from meta_infer.suite.cases import Case
from meta_infer.suite.run_case import Compute, Outcome, compiled, run_case
from meta_infer.support.errors import UsageError

Run = Callable[[Case], Outcome]
_TIMEOUT = 120.0                                        # seconds until a case counts as hanging


def run_suite(cases: Sequence[Case], workers: int, results: Path | None = None,
              done: Callable[[Outcome], None] = lambda outcome: None, compute: Compute = compiled) -> list[Outcome]:
    """Outcomes of all cases, in their order. With `results`, those it holds already are not run again.

    `compute` runs a model: the compiler and its package, or another runtime that is counted by the same rules.
    """
    known = {outcome.name: outcome for outcome in read_outcomes(results)} if results else {}
    left = [case for case in cases if case.name not in known]
    with tempfile.TemporaryDirectory(prefix="meta-infer-suite-") as folder:
        for outcome in _outcomes(left, workers, partial(run_case, folder=Path(folder), compute=compute)):
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

    def __init__(self, cases: Sequence[Case], run: Run) -> None:
        self.connection, theirs = multiprocessing.Pipe()
        self.index, self.since, self.alive = -1, 0.0, True
        self.process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(cases, run, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, index: int) -> None:
        self.index, self.since = index, time.monotonic()
        self.connection.send(index)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _serve(cases: Sequence[Case], run: Run, parent: Connection) -> None:
    """A child: runs the cases whose numbers it is sent, until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)         # Ctrl-C is the parent's to answer
    sys.stdout = open(os.devnull, "w")
    while True:
        try:
            index = parent.recv()
        except EOFError:
            return
        parent.send(run(cases[index]))


def _outcomes(cases: Sequence[Case], workers: int, run: Run) -> Iterator[Outcome]:
    """Outcomes as they come."""
    waiting = list(reversed(range(len(cases))))
    busy: list[_Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                busy.append(_Worker(cases, run))
                busy[-1].give(waiting.pop())
            ready = wait([worker.connection for worker in busy], timeout=1.0)
            for worker in list(busy):
                outcome = _ended(worker, cases[worker.index], worker.connection in ready)
                if outcome is None:
                    continue
                yield outcome
                if worker.alive and waiting:
                    worker.give(waiting.pop())
                else:
                    busy.remove(worker)
                    worker.stop()
    finally:
        for worker in busy:
            worker.stop()


def _ended(worker: _Worker, case: Case, ready: bool) -> Outcome | None:
    """The outcome of the case a worker has in hand; None while it goes on. A worker that is lost is not alive after."""
    seconds = time.monotonic() - worker.since
    if ready:
        try:
            outcome: Outcome = worker.connection.recv()
            return outcome
        except EOFError:
            worker.process.join()
            code = worker.process.exitcode or 0
            reason = f"crashed: {f'signal {-code}' if code < 0 else f'exit code {code}'}"
    elif seconds > _TIMEOUT:
        reason = f"no result after {_TIMEOUT:.0f} s"
    else:
        return None
    worker.alive = False
    return Outcome(case.name, case.op, case.kind, "failed", reason, round(seconds, 3))
