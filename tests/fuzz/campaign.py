"""Running a fuzzer: each mutant is tried in a child process with a time and a memory limit.

A mutant passes when it is accepted or refused by a MetaInferError with one clear message. An exception of any other
class, an InternalError, a signal, a hang and a MemoryError are faults; each is saved with its seed.
"""

from __future__ import annotations

import faulthandler
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meta_infer.support.errors import InternalError, MetaInferError

SECONDS = 10.0
MEMORY = 4 << 30
BATCH = 200
"""Mutants per child: few enough that a leak of one child does not look like a fault of the last mutant."""
LONGEST_MESSAGE = 4000


@dataclass(frozen=True)
class Target:
    """One kind of file. `prepare(folder)` makes what all mutants start from, once; `mutate(state, rng, folder)`
    writes one mutant and returns its path; `attempt(state, path)` uses it as a user would."""

    name: str
    prepare: Callable[[Path], Any]
    mutate: Callable[[Any, random.Random, Path], Path]
    attempt: Callable[[Any, Path], None]


@dataclass(frozen=True)
class Fault:
    seed: int
    kind: str                  # 'traceback', 'internal', 'message', 'memory', 'hang', 'SIGSEGV', ...
    detail: str
    saved: Path


@dataclass
class Tally:
    """What became of the mutants: counts by the class of the error, 'accepted' for those that were taken."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    slowest: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.outcomes.values()) + len(self.faults)


def judge(action: Callable[[], None]) -> tuple[str, str]:
    """('ok', class of the error or 'accepted'), or the kind of fault and its traceback."""
    try:
        action()
        return "ok", "accepted"
    except InternalError:
        return "internal", traceback.format_exc()
    except MetaInferError as error:
        text = str(error)
        if not error.problem.strip() or len(text) > LONGEST_MESSAGE:
            return "message", f"{type(error).__name__} with a message of {len(text)} characters: {text[:300]!r}"
        return "ok", type(error).__name__
    except MemoryError:
        return "memory", traceback.format_exc()
    except BaseException:  # noqa: BLE001 - this is what a fuzzer looks for
        return "traceback", traceback.format_exc()


def one(target: Target, state: Any, seed: int, folder: Path) -> tuple[str, str]:
    """Make and try the mutant of one seed."""
    path = target.mutate(state, random.Random(f"{target.name} {seed}"), folder)
    return judge(lambda: target.attempt(state, path))


def _child(target: Target, state: Any, seeds: Iterable[int], folder: Path, pipe: int) -> None:
    """Try all seeds, writing 'seed kind detail' lines; never returns."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    quiet = os.open(os.devnull, os.O_WRONLY)
    trace = os.open(folder / "crash.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(quiet, 1)
    os.dup2(trace, 2)
    # As the command line sets its streams up.
    sys.stdout = open(os.devnull, "w", errors="backslashreplace")
    sys.stderr = open(os.devnull, "w", errors="backslashreplace")
    faulthandler.enable(trace)
    for seed in seeds:
        kind, detail = one(target, state, seed, folder)
        os.write(pipe, f"{seed}\t{kind}\t{detail.encode().hex()}\n".encode())
    os._exit(0)


def _lines(pipe: int, seconds: float) -> Iterable[str]:
    """Lines from the pipe; raises TimeoutError when none comes for `seconds`."""
    kept = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], seconds)
        if not ready:
            raise TimeoutError
        read = os.read(pipe, 1 << 16)
        if not read:
            return
        *whole, kept = (kept + read).split(b"\n")
        yield from (line.decode() for line in whole)


def _save(target: Target, state: Any, seed: int, kind: str, detail: str, failures: Path) -> Fault:
    """Keep the mutant (made again from its seed) and what happened."""
    folder = failures / f"{target.name}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    path = target.mutate(state, random.Random(f"{target.name} {seed}"), folder)
    (folder / "fault.txt").write_text(f"{target.name} seed {seed}: {kind}\n{detail}\n", errors="backslashreplace")
    return Fault(seed, kind, detail, path)


def _batch(target: Target, state: Any, seeds: list[int], folder: Path, failures: Path, tally: Tally) -> int:
    """Try `seeds` in one child until it ends; returns how many were settled."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _child(target, state, seeds, folder, writer)
        finally:
            os._exit(99)
    os.close(writer)
    settled, hung, since = 0, False, time.monotonic()
    try:
        for line in _lines(reader, SECONDS):
            seed, kind, detail = line.split("\t")
            text = bytes.fromhex(detail).decode()
            if kind == "ok":
                tally.outcomes[text] += 1
            else:
                tally.faults.append(_save(target, state, int(seed), kind, text, failures))
            settled += 1
            now = time.monotonic()
            tally.slowest, since = max(tally.slowest, now - since), now
    except TimeoutError:
        hung = True
        os.kill(child, signal.SIGKILL)
    finally:
        os.close(reader)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if settled < len(seeds) and hung and len(seeds) > 1:
        # On a busy machine a pause of all processes looks the same: a hang is one that happens again, alone.
        return settled + _batch(target, state, [seeds[settled]], folder, failures, tally)
    if settled < len(seeds):
        kind = "hang" if hung else signal.Signals(-status).name if status < 0 else f"exit {status}"
        detail = (folder / "crash.txt").read_text(errors="replace")[-4000:]
        tally.faults.append(_save(target, state, seeds[settled], kind, detail, failures))
        settled += 1
    return settled


def run(target: Target, first: int, count: int, failures: Path,
        progress: Callable[[Tally], None] = lambda tally: None) -> Tally:
    """Try the mutants of seeds first .. first + count - 1. Faults are kept below `failures`."""
    tally = Tally()
    work = Path(tempfile.mkdtemp(prefix=f"fuzz-{target.name}-"))
    try:
        (work / "state").mkdir()
        state = target.prepare(work / "state")
        at = first
        while at < first + count:
            seeds = list(range(at, min(at + BATCH, first + count)))
            at += _batch(target, state, seeds, work, failures, tally)
            progress(tally)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return tally
