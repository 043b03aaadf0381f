"""Finds which rewrite, fusion or kernel makes a package wrong, by leaving out half of the suspects at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

SHOWN = 4


@dataclass(frozen=True)
class Suspect:
    """Something that a build can do without: a pass (fusions included), a kernel, or one variant of a kernel."""

    kind: Literal["pass", "kernel", "variant"]
    name: str

    @property
    def flag(self) -> str:
        """How `build` leaves it out."""
        return f"--{'disable' if self.kind == 'pass' else 'exclude'} {self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Bisection:
    """`guilty` must all be left out for a right package; empty when leaving out suspects does not help. `verdict` is
    one line for the user."""

    guilty: tuple[Suspect, ...]
    verdict: str


Works = Callable[[Sequence[Suspect]], bool]
"""Whether it works without these suspects."""


def names_text(suspects: Sequence[Suspect]) -> str:
    """'pass fuse_pad, kernel gemm and 3 more'."""
    shown = ", ".join(map(str, suspects[:SHOWN])) or "nothing"
    return shown if len(suspects) <= SHOWN else f"{shown} and {len(suspects) - SHOWN} more"


def shortest_prefix(suspects: Sequence[Suspect], works: Works) -> int:
    """A length at which leaving out the first so many suspects works, and one fewer does not; found by halving.

    Leaving out all must work and leaving out none must not; neither is tried here.
    """
    fails, fits = 0, len(suspects)
    while fits - fails > 1:
        middle = (fails + fits) // 2
        if works(suspects[:middle]):
            fits = middle
        else:
            fails = middle
    return fits


def find_guilty(suspects: Sequence[Suspect], works: Works) -> tuple[Suspect, ...]:
    """Suspects that must be left out together for it to work; none of them can be spared.

    Leaving out all must work and leaving out none must not. Takes about log2(n) tries for each one found. What is found
    depends on the order: of several that each would do, the earliest last one is named.
    """
    guilty: list[Suspect] = []
    rest = list(suspects)
    while rest:
        length = shortest_prefix(rest, lambda some: works([*guilty, *some]))
        guilty.append(rest[length - 1])
        rest = rest[:length - 1]
        if works(guilty):
            break
    return tuple(guilty)


def find_removable(suspects: Sequence[Suspect], builds: Works) -> tuple[Suspect, ...]:
    """The suspects that a build can do without, all at once: some rewrites are needed to reach what kernels compute."""
    left = list(suspects)
    while left and not builds(left):
        del left[shortest_prefix(left, lambda some: not builds(some)) - 1]
    return tuple(left)


def maker_of(debug: Any, tensor: str) -> tuple[str, tuple[str, ...]]:
    """(kernel function, ONNX nodes) of the command that makes an ONNX tensor, from a target's debug.json."""
    for buffer in debug["buffers"]:
        if buffer["origin"] == tensor:
            for command in (debug["commands"][position] for position in buffer["writers"]):
                if command["op"] == "Call":
                    return command["kernel"], tuple(command["origins"])
    return "", ()
