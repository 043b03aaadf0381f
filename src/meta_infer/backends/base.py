"""What a backend is: the one interface between the compiler and a target.

A backend is a value with functions, listed in registry.py (or given by a package outside the tree, built the same
way). docs/add-a-backend.md walks through making one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from meta_infer.hardware.device import Board
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Layout, Variant
from meta_infer.ir.program import Program
from meta_infer.kernels.kernel import Lowering


@dataclass(frozen=True)
class Yes:
    """The backend computes the group."""


@dataclass(frozen=True)
class No:
    """The backend does not compute the group; `reason` is for the user."""

    reason: str


MetricKind = Literal["measured", "simulated", "compiler_estimate", "model"]


@dataclass(frozen=True)
class Metric:
    """A figure and how it came about. Figures of different kinds are never compared without saying so.

    `spread` is the half-width of the interval the value is believed to lie in, in the same unit; 0 when unknown.
    """

    value: float
    unit: str
    kind: MetricKind
    spread: float = 0.0

    def __str__(self) -> str:
        about = f" ± {self.spread:.3g}" if self.spread else ""
        return f"{self.value:.4g}{about} {self.unit} ({self.kind.replace('_', ' ')})"


@dataclass(frozen=True)
class Artifact:
    """Code for one target. `compiler_calls` counts the processes it took to make: 0 when all came from the cache.

    `path` is where the cache holds `library`, `sources` are the generated units by file name. The kernel table lists
    the program's kernels in their order.
    """

    isa: str
    library: bytes
    path: Path
    sources: Mapping[str, str]
    compiler: str
    compiler_calls: int


@dataclass(frozen=True)
class Execution:
    """What came of running a package on some batches: outputs of each batch, and seconds of every timed run."""

    outputs: tuple[dict[str, np.ndarray], ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class Failure:
    """The child process ended without results: killed by a signal, past its time limit, or by an error."""

    reason: str


class Execute(Protocol):
    """`execute` of a backend, described there."""

    def __call__(self, package: Path, batches: Sequence[Mapping[str, np.ndarray]], threads: int = 1, runs: int = 1,
                 time_limit: float = 60.0, target: str | None = None,
                 board: Board | None = None) -> Execution | Failure: ...


@dataclass(frozen=True)
class Backend:
    """A target.

    supports  (group, profile) -> Yes, or No with the reason.
    variants  (group, profile) -> feasible ways to compute the group, best guess first.
    lower     (group, variant, layouts of its inputs and outputs, profile) -> loop functions, packed weights, memory.
    emit      (program, profile) -> sources in the target's language.
    compile   (sources, profile) -> Artifact. Raises ToolchainError.
    execute   (package file, batches of inputs, threads, timed runs per batch, time limit in s, target or None for
              the best one, connected board or None for this machine) -> Execution | Failure. Runs in a child process,
              so that code which crashes costs one sample and not the build; a target that this machine lacks runs
              where it can: emulated, simulated. Raises ToolchainError when what that needs is not installed,
              DeviceError when the board fails.
    estimate  (group, variant, profile) -> time of the group, without running it; None when the profile lacks figures.
    """

    name: str
    supports: Callable[[Group, Profile], Yes | No]
    variants: Callable[[Group, Profile], Iterable[Variant]]
    lower: Callable[[Group, Variant, Mapping[str, Layout], Profile], Lowering]
    emit: Callable[[Program, Profile], Sequence[str]]
    compile: Callable[[Sequence[str], Profile], Artifact]
    execute: Execute
    estimate: Callable[[Group, Variant, Profile], Metric | None]
