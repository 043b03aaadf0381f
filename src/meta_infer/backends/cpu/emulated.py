"""Runs a package's target on a processor that this machine does not have: the C driver under qemu's user mode.

What runs is the package's own code, command table and weights, mapped from its file; no Python is involved, so the
same driver and request serve a board. Times are those of the emulator and say nothing about the processor.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from meta_infer.backends.base import Execution, Failure
from meta_infer.backends.cpu.child import run_child
from meta_infer.backends.cpu.driver_request import read_answer, request_of
from meta_infer.backends.cpu.toolchain import compile_program
from meta_infer.runtime.cpu import target_named
from meta_infer.runtime.reader import Package
from meta_infer.runtime.sources import DRIVER_SOURCES
from meta_infer.support.errors import ToolchainError

EMULATORS: Mapping[str, tuple[str, ...]] = {
    # Processors that have their level and nothing above it: code that uses more ends with an illegal instruction.
    "x86-64-v2": ("qemu-x86_64-static", "-cpu", "Nehalem"),
    "x86-64-v3": ("qemu-x86_64-static", "-cpu", "Haswell"),
    "aarch64": ("qemu-aarch64-static", "-cpu", "cortex-a53"),
    "aarch64-dot": ("qemu-aarch64-static", "-cpu", "cortex-a76"),
    "aarch64-i8mm": ("qemu-aarch64-static", "-cpu", "max"),
    "riscv64": ("qemu-riscv64-static", "-cpu", "rv64"),
}
HINT = "apt-get install qemu-user-static"


def emulator(isa: str) -> tuple[str, ...] | None:
    """The command that runs programs for `isa`, or None where it is not installed."""
    command = EMULATORS.get(isa)
    return command if command is not None and shutil.which(command[0]) else None


def execute_emulated(package: Path, batches: Sequence[Mapping[str, np.ndarray]], threads: int, runs: int,
                     time_limit: float, isa: str) -> Execution | Failure:
    """As `execute_package`, for the target `isa` of a package, under an emulator.

    Raises ToolchainError when there is none, InputError for inputs that the model does not take.
    """
    opened = Package(package)
    target = target_named(opened.targets, isa, f"package {str(package)!r}")
    command = emulator(isa)
    if command is None:
        raise ToolchainError(f"code for {isa} cannot run on this machine, and no emulator of it is installed",
                             what=EMULATORS.get(isa, ("qemu",))[0], hint=HINT if isa in EMULATORS else "")
    driver = compile_program(DRIVER_SOURCES, isa)
    with tempfile.TemporaryDirectory(prefix="meta-infer-run-") as name:
        asked, answer = Path(name) / "request", Path(name) / "answer"
        asked.write_bytes(request_of(opened, target, batches, threads, runs))
        failure = run_child([*command, str(driver), str(package.resolve()), str(asked), str(answer)], time_limit)
        return failure or read_answer(opened, answer.read_bytes(), len(batches), runs)
