"""What a search's plan came to, beside what was aimed at."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Bottleneck:
    """Distinct groups of one kind that take most: ops, the first one's ONNX node, how many, seconds of all of them,
    their share of the plan's kernels, and the least that they can take on this machine."""

    ops: str
    node: str
    count: int
    seconds: float
    share: float
    floor: float


@dataclass(frozen=True)
class Reach:
    """Why a target is not reached: the least seconds that any plan can take by the roofline of this machine, the share
    of it that arithmetic bounds (memory the rest), and the groups that take most. Where the rates of the machine are
    not known, `seconds` is None."""

    seconds: float | None
    by_peak: float = 0.0
    groups: tuple[Bottleneck, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The plan that won. Seconds and joules are those of one run, means over the sizes at which it was timed.

    seconds   measured as a whole; None where it was not run
    bytes     weights, arena and what is prepared at load
    joules    None where the profile states no power
    baseline  seconds of the un-optimised baseline; None where there was no time for it
    target    seconds: the user's where `is_given`, else a share of the baseline
    spent_on  what was minimised once the target was met, and of the quickest plan what it took; empty where nothing was
    """

    objective: str
    name: str
    seconds: float | None
    bytes: int
    joules: float | None = None
    baseline: float | None = None
    target: float | None = None
    is_given: bool = False
    spent_on: str = ""
    quickest: float | None = None
    quickest_bytes: int | None = None
    reach: Reach | None = field(default=None)

    @property
    def met(self) -> bool | None:
        """None where it was not measured, or there is no target."""
        return None if self.seconds is None or self.target is None else self.seconds <= self.target
