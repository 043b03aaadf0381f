"""Whole plans against each other: built into packages, run in turns in one child process.

What groups take alone does not add up to what the network takes: caches are as the group before left them, neighbouring
calls run without a barrier between them. So the last word is a run of the whole.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from meta_infer.backends.base import Backend, Failure
from meta_infer.backends.cpu.child import run_child
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Plan
from meta_infer.lower.lower_graph import lower_graph
from meta_infer.memory.planner import plan_memory
from meta_infer.package.writer import CompiledTarget, write_package
from meta_infer.search.measure_protocol import median_and_spread

_PATIENCE = 60.0


@dataclass(frozen=True)
class Whole:
    """Seconds of one run of a whole plan, in every round of all plans; none when it failed. `parts` are the median
    seconds of each command of its program, by index, in the same runs of another turn."""

    rounds: tuple[float, ...]
    parts: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        return median_and_spread(self.rounds)[0] if self.rounds else math.inf


def time_plans(plans: Sequence[Plan], backend: Backend, profile: Profile, inputs: Mapping[str, np.ndarray], *,
               threads: int, rounds: int, seconds: float) -> list[Whole]:
    """Times of plans that run in turns on the same inputs, about `seconds` in all. Raises ToolchainError."""
    with tempfile.TemporaryDirectory(prefix="meta-infer-plans-") as name:
        folder = Path(name)
        np.savez(folder / "inputs.npz", **{f"i{i}": array for i, array in enumerate(inputs.values())})   # type: ignore[arg-type]
        for i, plan in enumerate(plans):
            _package(plan, backend, profile, folder / f"{i}.bin")
        request = {"packages": [f"{i}.bin" for i in range(len(plans))], "inputs": list(inputs), "threads": threads,
                   "rounds": rounds, "seconds": seconds}
        (folder / "request.json").write_text(json.dumps(request))
        failed = run_child([sys.executable, "-m", "meta_infer.search.whole_child", str(folder)],
                           _PATIENCE + 2 * seconds)
        if isinstance(failed, Failure):
            if len(plans) == 1:
                return [Whole(())]
            return [time_plans([plan], backend, profile, inputs, threads=threads, rounds=rounds,
                               seconds=seconds / len(plans))[0] for plan in plans]
        return [Whole(tuple(found)) for found in json.loads((folder / "answer.json").read_text())]


def _package(plan: Plan, backend: Backend, profile: Profile, file: Path) -> None:
    program = lower_graph(plan, profile, backend.lower, plan.graph.inputs, plan.graph.outputs)
    artifact = backend.compile(backend.emit(program, profile), profile)
    write_package(file, [CompiledTarget(program, plan_memory(program), artifact)])
