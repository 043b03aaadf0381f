"""The one place where kernels are timed; everything that chooses by time stands on it.

Candidates run in a child process with a time limit: an illegal instruction, a crash or a hang costs one sample, not
the build. They take turns in rounds, and a probe of the machine's peak is timed among them, so that a figure can be
quoted as a share of what the machine gave just then. Weights lie elsewhere in every run (over twice the last-level
cache), activations are warm: as in a real network. Rounds go on until the spread is small or the time is over.
How the child does it: measure_child.py; with which numbers: measure_protocol.py; what is remembered: recorded.py.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from meta_infer.backends.base import Artifact
from meta_infer.backends.cpu.child import child_environment
from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.hardware.device import Board
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.kernels.kernel import KernelCall
from meta_infer.runtime.sources import MEASURE_SOURCES
from meta_infer.search.measure.candidate import Candidate, MeasuredBuffer, Uncompiled, compile_candidates
from meta_infer.search.measure.measure_board import run_on_board
from meta_infer.search.measure.measure_protocol import CACHE_UNKNOWN, median_and_spread
from meta_infer.search.measure.measurements import OK, Measurement
from meta_infer.search.measure.peak_probe import peak_probe, probe_elements, probe_flops
from meta_infer.support.errors import DeviceLostError, ToolchainError

PATIENCE = 20.0
"""Seconds without a sign of life after which a candidate counts as hanging."""
_PROBE = -1


def measure(candidates: Sequence[Candidate], *, rounds: int = 15, seconds: float = 5.0, threads: int = 1,
            patience: float = PATIENCE, board: Board | None = None) -> tuple[Measurement, ...]:
    """Time candidates against each other, in their order: at most `rounds` rounds and about `seconds` in all.

    A candidate that fails has a `status` that says how, and costs at most `patience` seconds; it leaves the other
    ones' results alone. With a `board` they run there. Raises ToolchainError when the measuring process itself does
    not work, DeviceError when the board does not.
    """
    found: list[tuple[Measurement, ...]] = []
    measure_groups([candidates], found.append, rounds=rounds, seconds=seconds, threads=threads, patience=patience,
                   board=board)
    return found[0]


def measure_groups(groups: Sequence[Sequence[Candidate]], on_group: Callable[[tuple[Measurement, ...]], None], *,
                   rounds: int = 15, seconds: float = 5.0, threads: int = 1, patience: float = PATIENCE,
                   board: Board | None = None) -> None:
    """As `measure` of each group, one after the other, in one process: only those of one group take turns.

    `on_group` gets what came of each, in their order, as soon as it is known. A connection that breaks is made again
    once, and the group that was running goes on.
    """
    candidates = [one for group in groups for one in group]
    if not candidates:
        for _ in groups:
            on_group(())
        return
    host, broken = board.profile if board else load_profile("native"), False
    # A small board has little memory, and caches that it does not state are small too.
    cache_bytes = host.l3_bytes or CACHE_UNKNOWN
    if board and host.memory_bytes:
        cache_bytes = min(cache_bytes, host.memory_bytes // 16)
    session = _Session(groups, on_group, candidates, host)
    while session.left:
        begun = time.perf_counter()
        keys = [key for group in session.left for key in group]
        request = {
            "driver": str(measure_driver(session.isa).path), "threads": threads,
            "cache_bytes": cache_bytes, "rounds": rounds, "seconds": seconds,
            "spent": session.spent, "groups": session.left,
            "candidates": {key: candidate_spec(session.probe if key == _PROBE else candidates[key])
                           for key in (_PROBE, *keys)},
        }
        try:
            stopped = run_on_board(board, request, patience, session.hear) if board else _run_child(request, session,
                                                                                                    patience)
        except DeviceLostError:
            if board is None or broken:
                raise
            board.connect()
            broken = True
            continue
        if stopped is None:
            session.end()
            break
        key, reason = stopped
        if key == _PROBE:
            raise ToolchainError(f"the measuring process failed: {reason}", what="measuring",
                                 hint=f"check that {board.address.host if board else 'this machine'} runs code for "
                                      f"{session.isa}")
        session.fail(key, reason, time.perf_counter() - begun)


def measured_cpu(board: Board | None = None) -> str:
    """The CPU that `measure` measures on, by its name: a part of every key."""
    host = board.profile if board else load_profile("native")
    return host.chip.description or str(host.isa)


class _Session:
    """What the children have told so far, and what is left to do.

    turns  (seconds, the probe's seconds) by candidate and turn
    left   groups that have not ended, without candidates that failed
    spent  seconds that went into the first of these, before a candidate stopped its child
    """

    def __init__(self, groups: Sequence[Sequence[Candidate]], on_group: Callable[[tuple[Measurement, ...]], None],
                 candidates: Sequence[Candidate], host: Profile) -> None:
        self.isa = host.isa or candidates[0].artifact.isa
        self.turns: dict[int, list[tuple[float, float]]] = {i: [] for i in range(len(candidates))}
        self.spent = 0.0
        self._failed: dict[int, str] = {}
        self._candidates, self._on_group, self._ended = candidates, on_group, 0
        self._groups: list[range] = []
        for group in groups:
            begin = self._groups[-1].stop if self._groups else 0
            self._groups.append(range(begin, begin + len(group)))
        self.probe = peak_candidate(self.isa)
        self._end_empty()

    @property
    def left(self) -> list[list[int]]:
        groups = ([i for i in group if i not in self._failed] for group in self._groups[self._ended:])
        return [group for group in groups if group]

    def hear(self, line: Mapping[str, Any]) -> None:
        """A line of the measuring process."""
        key = line.get("at", _PROBE)
        self._at(key)
        if "seconds" in line:
            self.turns[key].append((line["seconds"], line["probe"]))

    def _at(self, key: int) -> None:
        """A candidate begins: the groups before its own are over."""
        while key != _PROBE and key >= self._groups[self._ended].stop:
            self._tell()

    def fail(self, key: int, reason: str, seconds: float) -> None:
        """A candidate stopped its child, which had run for that long."""
        self._failed[key] = reason
        self.spent += seconds
        self._end_empty()

    def end(self) -> None:
        while self._ended < len(self._groups):
            self._tell()

    def _end_empty(self) -> None:
        while self._ended < len(self._groups) and all(i in self._failed for i in self._groups[self._ended]):
            self._tell()

    def _tell(self) -> None:
        group, self.spent = self._groups[self._ended], 0.0
        self._ended += 1
        self._on_group(tuple(self._result(i) for i in group))

    def _result(self, index: int) -> Measurement:
        candidate, turns = self._candidates[index], self.turns[index]
        if index in self._failed:
            return Measurement(candidate.name, math.inf, 0.0, 0.0, len(turns), self._failed[index])
        median, spread = median_and_spread([seconds for seconds, _ in turns])
        pairs = tuple((seconds, self.probe.flops / probe) for seconds, probe in turns)
        shares = [candidate.flops / seconds / peak for seconds, peak in pairs]
        return Measurement(candidate.name, median, spread, median_and_spread(shares)[0], len(turns), OK, pairs)


def candidate_spec(candidate: Candidate) -> dict[str, Any]:
    return {"library": str(candidate.artifact.path), "launches": [asdict(launch) for launch in candidate.launches],
            "buffers": {name: asdict(buffer) for name, buffer in candidate.buffers.items()}}


def measure_driver(isa: str) -> Artifact:
    """The C part of the measuring process: the timing loop and the thread pool that packages use."""
    return compile_module(emit_module([], (), (), isa), isa, MEASURE_SOURCES)


def peak_candidate(isa: str) -> Candidate:
    reads, writes = probe_elements(isa)
    buffers = {"x": MeasuredBuffer(4 * reads, "float32", "input"), "y": MeasuredBuffer(4 * writes, "float32", "output")}
    call = KernelCall(peak_probe(isa), ("x", "y"), ())
    return compile_candidates([Uncompiled("peak probe", (call,), buffers, flops=probe_flops(isa))], isa)[0]


def _run_child(request: Mapping[str, Any], session: _Session, patience: float) -> tuple[int, str] | None:
    """Follow one child to its end, adding its turns; (candidate, reason) when that was not the planned one."""
    with tempfile.TemporaryDirectory(prefix="meta-infer-measure-") as folder:
        file, errors = Path(folder) / "request.json", Path(folder) / "errors.txt"
        file.write_text(json.dumps(request))
        with errors.open("w") as stderr:
            child = subprocess.Popen([sys.executable, "-m", "meta_infer.search.measure.measure_child", str(file)],
                                     stdout=subprocess.PIPE, stderr=stderr, env=child_environment(),
                                     start_new_session=True)
        at, done = _PROBE, False
        try:
            for line in _lines(child, patience):
                done, at = line.get("done", False), line.get("at", at)
                session.hear(line)
        except TimeoutError:
            return at, f"no sign of life for {patience:g} s"
        finally:
            _end(child)
        if done and child.returncode == 0:
            return None
        if child.returncode < 0:
            return at, f"killed by {signal.Signals(-child.returncode).name}"
        last = errors.read_text(errors="replace").strip().splitlines()
        return at, last[-1] if last else f"exit code {child.returncode}"


def _lines(child: subprocess.Popen[bytes], patience: float) -> Iterator[dict[str, Any]]:
    """What the child says, line by line until it closes its output. Raises TimeoutError when it is silent too long."""
    assert child.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(patience):
                raise TimeoutError
            data = os.read(child.stdout.fileno(), 1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from map(json.loads, lines)


def _end(child: subprocess.Popen[bytes]) -> None:
    """The child's end: awaited where it has closed its output, else enforced, on all it started."""
    assert child.stdout is not None
    child.stdout.close()
    try:
        child.wait(timeout=2)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
