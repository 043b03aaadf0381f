"""Runs a package's target on a processor that this machine does not have: the C driver under qemu's user mode.

What runs is the package's own code, command table and weights, mapped from its file; no Python is involved, so the
same driver and request serve a board. Times are those of the emulator and say nothing about the processor.
"""

from __future__ import annotations

import math
import shutil
import struct
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from meta_infer.backends.base import Execution, Failure
from meta_infer.backends.cpu.child import run_child
from meta_infer.backends.cpu.toolchain import compile_program
from meta_infer.runtime.cpu import target_named
from meta_infer.runtime.feeds import as_input, check_names
from meta_infer.runtime.reader import Package, Target
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
_MAGIC = int.from_bytes(b"MI-REQ1", "little")
_REQUEST = struct.Struct("<16q")
_RECORD = struct.Struct("<24q")                       # rank, bytes, 16 dims, unused
_PADDING = 64


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
        asked.write_bytes(_request(opened, target, batches, threads, runs))
        failure = run_child([*command, str(driver), str(package.resolve()), str(asked), str(answer)], time_limit)
        return failure or _read_answer(opened, answer.read_bytes(), len(batches), runs)


def _request(package: Package, target: Target, batches: Sequence[Mapping[str, np.ndarray]], threads: int,
             runs: int) -> bytes:
    """What runtime/c/mi_driver.c reads: numbers, then every input as a record and its padded data."""
    places = [number for name in (target.code, target.plan, target.weights) for number in package.place(name)]
    parts = [_REQUEST.pack(_MAGIC, threads, runs, len(batches), len(package.inputs), len(package.outputs), *places,
                           *[0] * 4)]
    for batch in batches:
        check_names(batch, package.inputs)
        for tensor in package.inputs:
            array = as_input(batch[tensor.name], tensor, package.symbols)
            shape = (*array.shape, *[0] * (16 - array.ndim))
            parts += [_RECORD.pack(array.ndim, array.nbytes, *shape, *[0] * 6), array.tobytes(),
                      bytes(-array.nbytes % _PADDING)]
    return b"".join(parts)


def _read_answer(package: Package, data: bytes, batches: int, runs: int) -> Execution:
    outputs, seconds, at = [], [], 0
    for _ in range(batches):
        seconds += [nanoseconds / 1e9 for nanoseconds in struct.unpack_from(f"<{runs}q", data, at)]
        at += 8 * runs
        found = {}
        for tensor in package.outputs:
            rank, size, *rest = _RECORD.unpack_from(data, at)
            at += _RECORD.size
            shape = rest[:rank]
            found[tensor.name] = np.frombuffer(data, tensor.numpy, math.prod(shape), at).reshape(shape).copy()
            at += size
        outputs.append(found)
    return Execution(tuple(outputs), tuple(seconds))
