"""Engines on one model, each in a process of its own, in turns: the measuring part of benchmarks/peers.py."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from benchmarks.peer_setup import Converted, Model, PeerFailed

import meta_infer
from meta_infer.search.measure.interleave import in_turns
from meta_infer.verify.metrics import distance

OURS, REFERENCE = "meta-infer", "onnxruntime"
WORKER = Path(__file__).resolve().parent / "peer_worker.py"
SOURCE = Path(meta_infer.__file__).resolve().parent.parent
WRONG = 1e-2
"""Difference from the reference, relative to its largest value, above which a result counts as wrong."""
SETTLE = 0.03
"""Seconds between turns in which threads of the engine before may stop spinning."""
_PATIENCE = 300.0


class Process:
    """One engine with one model, in a process that answers requests; see peer_worker.py."""

    def __init__(self, command: Sequence[str], threads: int) -> None:
        self._errors = tempfile.TemporaryFile("w+")
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": str(threads)})

    def ask(self, request: Mapping[str, Any], patience: float = _PATIENCE) -> dict[str, Any]:
        """The answer. Raises PeerFailed when there is none in time, or it is an error."""
        assert self._child.stdin is not None and self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(self._child.stdout, selectors.EVENT_READ)
                if not selector.select(patience):
                    raise PeerFailed(f"no answer within {patience:.0f} s")
            line = self._child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise PeerFailed(self._end())
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise PeerFailed(reply["error"])
        return reply

    def _end(self) -> str:
        code = self._child.wait(timeout=10)
        self._errors.seek(0)
        said = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}: {said[-1]}" if said else how

    def close(self) -> None:
        """End the process, whatever it does."""
        self._child.kill()
        self._child.communicate()
        self._errors.close()


class Probe(Protocol):
    """What says how fast the machine is: LiveProbes."""

    def peak(self) -> float:
        """Float32 operations per second."""
        ...


@dataclass
class Result:
    """One engine on one model with one number of threads; seconds and bytes."""

    engine: str
    status: str = "ok"
    version: str = ""
    seconds: float = 0.0
    least: float = 0.0
    ours: float = 0.0                                     # meta-infer's time over this one's
    load: float = 0.0
    first: float = 0.0
    memory: int = 0
    file: int = 0
    difference: float = 0.0
    rounds: list[float] = field(default_factory=list)

    @property
    def is_timed(self) -> bool:
        return bool(self.rounds)


def difference(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The largest difference of all outputs relative to the reference's; infinite where they do not fit together.

    Engines that have no batch axis return the same elements in another shape.
    """
    if len(found) != len(wanted) or any(a.size != b.size for a, b in zip(found, wanted, strict=True)):
        return float("inf")
    worst = 0.0
    for a, b in zip(found, wanted, strict=True):
        if a.size:
            relative = distance(a.reshape(-1).astype(b.dtype), b.reshape(-1)).relative
            worst = max(worst, relative if np.isfinite(relative) else float("inf"))
    return worst


def start(result: Result, made: Converted, model: Model, python: Path, threads: int, folder: Path) -> Process:
    """A process with the model loaded; `result` gets what loading took, and the outputs go to a file of its name."""
    process = Process([str(python), str(WORKER)], threads)
    try:
        told = process.ask({"do": "load", "engine": result.engine, "file": str(made.file), "inputs": str(model.inputs),
                            "outputs": model.outputs, "threads": threads, **made.request})
        result.load, result.first, result.version = told["load"], told["first"], told["version"]
        result.memory, result.file = -told["base"], made.bytes
        process.ask({"do": "save", "file": str(folder / f"{result.engine}.npz")})
    except PeerFailed:
        process.close()
        raise
    return process


def take_turns(processes: Mapping[str, Process], results: Mapping[str, Result], probes: Probe, rounds: int,
               seconds: float) -> list[float]:
    """Rounds of turns: fills in the results' times and memory, and returns the peak of every round."""
    alive, peaks, base = dict(processes), [], {name: -result.memory for name, result in results.items()}
    share = seconds / max(1, rounds * len(processes))
    least: dict[str, float] = {}
    for i, name in enumerate(in_turns(list(processes), rounds)):
        if i % len(processes) == 0:
            peaks.append(probes.peak())
        if name not in alive:
            continue
        time.sleep(SETTLE)
        try:
            told = alive[name].ask({"do": "run", "seconds": share})
        except PeerFailed as error:
            results[name].status = str(error)
            results[name].rounds.clear()
            alive.pop(name).close()
            continue
        results[name].rounds.append(float(np.median(told["seconds"])))
        results[name].memory = told["resident"] - base[name]
        least[name] = min(least.get(name, float("inf")), *told["seconds"])
    for name in alive:
        results[name].seconds, results[name].least = float(np.median(results[name].rounds)), least[name]
    if OURS in alive:
        for name in alive:
            pairs = zip(results[OURS].rounds, results[name].rounds, strict=True)
            results[name].ours = float(np.median([a / b for a, b in pairs]))
    return peaks


def compare(model: Model, made: Callable[[str], Converted], engines: Sequence[str], python: Path, threads: int,
            probes: Probe, rounds: int, seconds: float) -> dict[str, Any]:
    """All engines on one model, in processes of `python`: the line that is kept.

    `made(engine)` is the model in that engine's form; where it raises PeerFailed, the engine's row says so.
    """
    results = {name: Result(name) for name in engines}
    processes: dict[str, Process] = {}
    with tempfile.TemporaryDirectory(prefix="meta-infer-peers-") as text:
        folder = Path(text)
        try:
            for name, result in results.items():
                try:
                    processes[name] = start(result, made(name), model, python, threads, folder)
                except PeerFailed as error:
                    result.status = str(error)
            peaks = take_turns(processes, results, probes, rounds, seconds) if processes else []
            _judge(results, folder)
        finally:
            for process in processes.values():
                process.close()
    return {"model": model.name, "threads": threads, "peaks": peaks,
            "results": [vars(result) for result in results.values()]}


def _judge(results: Mapping[str, Result], folder: Path) -> None:
    """Marks what is wrong, by the outputs that were saved."""
    outputs = {}
    for name in results:
        if (file := folder / f"{name}.npz").exists():
            with np.load(file) as found:
                outputs[name] = [found[key] for key in sorted(found.files)]
    for name, arrays in outputs.items():
        if REFERENCE in outputs:
            results[name].difference = difference(arrays, outputs[REFERENCE])
            if results[name].difference > WRONG and results[name].status == "ok":
                results[name].status = "wrong result"


def results_of(row: Mapping[str, Any]) -> dict[str, Result]:
    return {found["engine"]: Result(**found) for found in row["results"]}
