"""Runs a package on a connected board, by the C driver: the board has no Python.

The package is sent once; every run sends its inputs and takes the outputs back.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from meta_infer.backends.base import Execution, Failure
from meta_infer.backends.cpu.driver_request import read_answer, request_of
from meta_infer.backends.cpu.toolchain import compile_program
from meta_infer.hardware.device import Board
from meta_infer.hardware.isa import isa_named
from meta_infer.runtime.cpu import best_target, target_named
from meta_infer.runtime.reader import Package
from meta_infer.runtime.sources import DRIVER_SOURCES
from meta_infer.support.errors import DeviceError

PROGRAMS_FOR = frozenset({"x86_64", "aarch64", "riscv64"})
"""Architectures that the C programs know the system calls of: runtime/c/mi_driver_system.c."""
_SLACK = 30.0
"""Seconds beyond a time limit for the connection."""


@contextmanager
def board_package(path: Path, board: Board, threads: int | None = None,
                  isa: str | None = None) -> Iterator[BoardPackage]:
    """A package file on a board; `isa` is the target to take, by default the best one of that board.

    `threads` is by default what the package says, else one per core. Raises DeviceError, PackageError, UsageError.
    """
    package, what, chip = Package(path), f"package {str(path)!r}", board.profile
    require_programs(board)
    target = (best_target(package.targets, what, isa_named(str(chip.isa)).architecture, chip.features)
              if isa is None else target_named(package.targets, isa, what))
    with board.job({"package.bin": path}) as folder:
        made = BoardPackage(package, board, folder, threads or package.threads or chip.max_workers, target.isa)
        yield made


def require_programs(board: Board) -> None:
    """Raises DeviceError for a board whose processor the C programs do not know."""
    isa = board.profile.isa
    if isa is None or isa_named(isa).architecture not in PROGRAMS_FOR:
        raise DeviceError(f"has a processor that nothing can be measured on: {isa or 'unknown'}",
                          what=f"device {board.address.text}",
                          hint=f"boards are of {', '.join(sorted(PROGRAMS_FOR))}")


class BoardPackage:
    """A package that lies on a board, ready to run."""

    def __init__(self, package: Package, board: Board, folder: str, threads: int, isa: str) -> None:
        self.package, self.threads, self.isa = package, threads, isa
        self._board, self._folder = board, folder
        self._driver = board.keep(compile_program(DRIVER_SOURCES, isa))

    def run(self, feeds: Mapping[str, np.ndarray], time_limit: float = 600.0) -> list[np.ndarray]:
        """Outputs in their order. Raises DeviceError when the package fails there."""
        done = self.execute([feeds], 0, time_limit)
        if isinstance(done, Failure):
            raise DeviceError(f"the package failed there: {done.reason}", what=f"device {self._board.address.text}",
                              hint="see whether it has memory enough; build for an older instruction set with --isa")
        return [done.outputs[0][output.name] for output in self.package.outputs]

    def execute(self, batches: Sequence[Mapping[str, np.ndarray]], runs: int, time_limit: float) -> Execution | Failure:
        """As a backend's `execute`. Raises DeviceError when the connection fails, InputError."""
        target = target_named(self.package.targets, self.isa, f"package {str(self.package.path)!r}")
        asked = request_of(self.package, target, batches, self.threads, runs, max(1, round(time_limit)))
        with self._board.job({"request": asked}) as folder:
            command = [self._driver, f"{self._folder}/package.bin", "request", "answer"]
            with self._board.run(folder, command) as running:
                try:
                    for _ in running.lines(time_limit + _SLACK):
                        pass
                except TimeoutError:
                    return Failure(f"still running after {time_limit:g} s")
                ended = running.end()
            if ended.signal:
                return Failure(f"still running after {time_limit:g} s" if ended.signal == "SIGALRM"
                               else f"killed by {ended.signal}")
            if ended.code:
                return Failure(ended.error or f"exit code {ended.code}")
            data = self._board.output(f"cat {shlex.quote(folder + '/answer')}", patience=600.0)
            return read_answer(self.package, data, len(batches), runs)


def execute_on_board(package: Path, batches: Sequence[Mapping[str, np.ndarray]], threads: int, runs: int,
                     time_limit: float, isa: str | None, board: Board) -> Execution | Failure:
    """As `execute_package`, on a connected board. Raises DeviceError."""
    with board_package(package, board, threads, isa) as there:
        return there.execute(batches, runs, time_limit)
