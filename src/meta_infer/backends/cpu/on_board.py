"""Runs a package on a connected board, by the C driver: the board has no Python.

The package is sent once; every run sends its inputs and takes the outputs back.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np

from meta_infer.backends.base import Execution, Failure
from meta_infer.backends.cpu.driver_request import read_answer, request_of
from meta_infer.backends.cpu.toolchain import compile_program
from meta_infer.hardware.device import Board
from meta_infer.hardware.isa import isa_named
from meta_infer.runtime.cpu import best_target, target_named
from meta_infer.runtime.reader import Package
from meta_infer.runtime.session import Session, load
from meta_infer.runtime.sources import DRIVER_SOURCES
from meta_infer.support.errors import DeviceError

PROGRAMS_FOR = frozenset({"x86_64", "aarch64", "riscv64"})
"""Architectures that the C programs know the system calls of: runtime/c/mi_driver_system.c."""
_RUN_LIMIT = 600.0
"""Seconds for one run, which on a small board may take long."""
_MOST_RUNS = 100_000
_SLACK = 30.0
"""Seconds beyond a time limit for the connection."""


def opened(path: Path, board: Board | None, threads: int | None = None,
           isa: str | None = None) -> AbstractContextManager[Session | BoardPackage]:
    """A package ready to run: on this machine, or on a board. Raises as `load` and `board_package` do."""
    return load(path, threads=threads, target=isa) if board is None else board_package(path, board, threads, isa)


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

    def run(self, output_names: None, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """All outputs in their order, as a Session's `run` gives them. Raises DeviceError when the package fails."""
        done = self.execute([feeds], 0, _RUN_LIMIT)
        if isinstance(done, Failure):
            raise self._failed(done)
        return [done.outputs[0][output.name] for output in self.package.outputs]

    def timed_runs(self, feeds: Mapping[str, np.ndarray], warmup: int, iterations: int | None,
                   duration: float) -> list[float]:
        """Seconds of each run after `warmup` others: `iterations` of them, or about as many as fit `duration`."""
        if iterations is None:
            first = self._times(feeds, 2)
            iterations = max(1, min(_MOST_RUNS, int(duration / max(min(first), 1e-6))))
        return self._times(feeds, warmup + iterations)[warmup:]

    def _times(self, feeds: Mapping[str, np.ndarray], runs: int) -> list[float]:
        done = self.execute([feeds], runs, _RUN_LIMIT)
        if isinstance(done, Failure):
            raise self._failed(done)
        return list(done.seconds)

    def _failed(self, failure: Failure) -> DeviceError:
        return DeviceError(f"the package failed there: {failure.reason}", what=f"device {self._board.address.text}",
                           hint="see whether it has memory enough; build for an older instruction set with --isa")

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
