"""A plan as a program with its code, and as a package, before it is timed as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from meta_infer.backends.base import Backend
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Plan
from meta_infer.ir.program import PREPARED, MemoryPlan, Program
from meta_infer.ir.program_text import print_program
from meta_infer.lower.lower_graph import lower_graph
from meta_infer.memory.planner import plan_memory
from meta_infer.package.writer import CompiledTarget, write_package
from meta_infer.search.measure.measure import measured_cpu
from meta_infer.search.measure.measure_protocol import VERSION


@dataclass(frozen=True)
class Built:
    """A plan as a program with its code, whose hash is `code`, to be run with `threads` threads on `cpu`."""

    plan: Plan
    target: CompiledTarget
    code: str
    threads: int
    cpu: str

    @property
    def key(self) -> str:
        """Of all that decides the time of a run."""
        parts = [self.code, str(self.threads), self.cpu, str(VERSION)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    @property
    def bytes(self) -> int:
        """Weights, the arena, and what sessions prepare."""
        return memory_bytes(self.target.program, self.target.memory)


def memory_bytes(program: Program, memory: MemoryPlan) -> int:
    """What a package takes where it runs: weights, the arena, and what sessions prepare from weights at load."""
    weights = sum(array.nbytes for array in program.constants.values())
    return weights + memory.sizes.get("ram", 0) + memory.sizes.get(PREPARED, 0)


def build_plan(plan: Plan, backend: Backend, profile: Profile, threads: int, cpu: str = "") -> Built:
    """Lowers and compiles, to be timed on `cpu`, by default this machine's. Raises ToolchainError."""
    program = lower_graph(plan, profile, backend.lower, plan.graph.inputs, plan.graph.outputs)
    memory = plan_memory(program)
    sources = backend.emit(program, profile)
    artifact = backend.compile(sources, profile)
    code = hashlib.sha256("\0".join([*sources, print_program(program, memory), artifact.compiler]).encode()).hexdigest()
    return Built(plan, CompiledTarget(program, memory, artifact), code, threads, cpu or measured_cpu())


def write_packages(folder: Path, built: Sequence[Built]) -> list[Path]:
    """A package of each in a folder."""
    files = [folder / f"{i}.bin" for i in range(len(built))]
    for file, one in zip(files, built, strict=True):
        write_package(file, [one.target])
    return files
