"""Runs a package in a child process, so that an illegal instruction or an endless loop costs one sample only.

The child is this module itself: `python -m meta_infer.backends.cpu.execute FOLDER`, where FOLDER holds the request
(request.json, input_0.npz, input_1.npz, ...) and receives the answer (answer.json, output_0.npz, ...).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from meta_infer.backends.base import Execution, Failure
from meta_infer.backends.cpu.child import run_child
from meta_infer.backends.cpu.emulated import execute_emulated
from meta_infer.backends.cpu.on_board import execute_on_board
from meta_infer.hardware.device import Board
from meta_infer.hardware.isa import NAMES, isa_named
from meta_infer.runtime.cpu import architecture, cpu_features


def execute_package(package: Path, batches: Sequence[Mapping[str, np.ndarray]], threads: int = 1, runs: int = 1,
                    time_limit: float = 60.0, target: str | None = None,
                    board: Board | None = None) -> Execution | Failure:
    """Run a package file on each batch of inputs (by name), `runs` timed times each after the first.

    `time_limit` is seconds for the whole child process, loading included. `target` is the instruction set to take,
    by default the best one; one that this machine lacks runs emulated (emulated.py). Raises ToolchainError when no
    emulator for it is installed. With a `board`, the package runs there; raises DeviceError too.
    """
    if board is not None:
        return execute_on_board(package, batches, threads, runs, time_limit, target, board)
    if target is not None and not _runs_here(target):
        return execute_emulated(package, batches, threads, runs, time_limit, target)
    with tempfile.TemporaryDirectory(prefix="meta-infer-run-") as name:
        folder = Path(name)
        request = {"package": str(package.resolve()), "batches": len(batches), "threads": threads, "runs": runs,
                   "target": target}
        (folder / "request.json").write_text(json.dumps(request))
        for i, batch in enumerate(batches):
            np.savez(folder / f"input_{i}.npz", **dict(batch))          # type: ignore[arg-type]
        failure = run_child([sys.executable, "-m", __spec__.name, str(folder)], time_limit)
        if failure is not None:
            return failure
        answer = json.loads((folder / "answer.json").read_text())
        outputs = []
        for i in range(len(batches)):
            with np.load(folder / f"output_{i}.npz") as arrays:
                outputs.append({answer["outputs"][int(key[1:])]: arrays[key] for key in arrays.files})
        return Execution(tuple(outputs), tuple(answer["seconds"]))


def _runs_here(isa: str) -> bool:
    """Whether this machine has the instruction set; an unknown one is left to the loader and its message."""
    if isa not in NAMES:
        return True
    known = isa_named(isa)
    return known.architecture == architecture() and known.features <= cpu_features()


def _child(folder: Path) -> None:
    from meta_infer.runtime.session import load

    request = json.loads((folder / "request.json").read_text())
    session = load(request["package"], threads=request["threads"], target=request["target"])
    names = [output.name for output in session.get_outputs()]
    seconds = []
    for i in range(request["batches"]):
        with np.load(folder / f"input_{i}.npz") as arrays:
            batch = {name: arrays[name] for name in arrays.files}
        outputs = session.run(None, batch)
        for _ in range(request["runs"]):
            start = time.perf_counter()
            outputs = session.run(None, batch)
            seconds.append(time.perf_counter() - start)
        # Positions, not names, are the keys: a tensor's name may hold what a file name may not.
        np.savez(folder / f"output_{i}.npz", **{f"o{k}": a for k, a in enumerate(outputs)})   # type: ignore[arg-type]
    (folder / "answer.json").write_text(json.dumps({"outputs": names, "seconds": seconds}))


if __name__ == "__main__":
    _child(Path(sys.argv[1]))
