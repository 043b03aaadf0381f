"""One kernel's measured time with all that is known of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from meta_infer.library.fields import (
    AMOUNT,
    COUNT,
    DIMS,
    FEATURES,
    FROM_ONE,
    KNOBS,
    LAYOUTS,
    NAME,
    SECONDS,
    SIZES,
    TEXT,
    TIME,
    TURNS,
    Kind,
)

OK = "ok"
IN_NETWORK = "network"


@dataclass(frozen=True)
class Sample:
    """What is measured is in the second half: see Measurement in search/measure/measurements.py.

    kernel, variant   what computed it, with which `knobs`
    key               hash of all that decides its time (search/measure/measurements.py: key_of): one row per key
    op                the anchor of the group
    group, structure  the work as a text without names, and the hash of that text without sizes (ir/group_text.py)
    layouts           formats that are not plain: 'in0', 'out0' -> 'b8@1'
    sizes             of the group's dimensions that are not fixed: 'batch' -> 8
    place             where it was timed: '' by itself, 'network' within runs of a package, whose other kernels leave
                      caches as they are then; such a time compares with no other choice's
    dims              what its launches were called with
    features          what the cost model says of it, by name
    seconds, spread   of one run; infinite when it failed
    share_of_peak     1 is as many operations per second as the probe reached; 0 where it has no operations
    peak              operations per second of the probe meanwhile
    turns             (seconds, the probe's operations per second) of every round
    protocol          version of the way of measuring
    made              when, ISO 8601 in UTC; empty: when it is added
    """

    kernel: str
    variant: str
    key: str = ""
    op: str = ""
    group: str = ""
    structure: str = ""
    knobs: Mapping[str, int | str] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)
    precision: str = "float32"
    isa: str = ""
    cpu: str = ""
    threads: int = 1
    sizes: Mapping[str, int] = field(default_factory=dict)
    place: str = ""
    dims: tuple[int, ...] = ()
    features: Mapping[str, float] = field(default_factory=dict)
    seconds: float = math.inf
    spread: float = 0.0
    share_of_peak: float = 0.0
    peak: float = 0.0
    rounds: int = 0
    status: str = OK
    turns: tuple[tuple[float, float], ...] = ()
    protocol: int = 0
    compiler: str = ""
    made: str = ""

    @property
    def ok(self) -> bool:
        return self.status == OK and self.seconds < math.inf

    @property
    def label(self) -> str:
        """'conv_direct/tiled tile=4'"""
        return choice_text(self.kernel, self.variant, self.knobs)

    @property
    def context(self) -> tuple[str, str, str, int, str]:
        """Times of one context compare: group, CPU, instruction set, threads, sizes with the place."""
        sizes = [f"{name} {size}" for name, size in sorted(self.sizes.items())]
        within = [f"in {self.place}"] if self.place else []
        return self.group, self.cpu, self.isa, self.threads, ", ".join([*sizes, *within])


SAMPLE_FIELDS: Mapping[str, Kind] = {
    "key": NAME, "kernel": NAME, "variant": NAME, "op": TEXT, "group": TEXT, "structure": TEXT, "knobs": KNOBS,
    "layouts": LAYOUTS, "precision": TEXT, "isa": TEXT, "cpu": TEXT, "threads": FROM_ONE, "sizes": SIZES,
    "place": TEXT, "dims": DIMS, "features": FEATURES, "seconds": SECONDS, "spread": AMOUNT, "share_of_peak": AMOUNT,
    "peak": AMOUNT, "rounds": COUNT, "status": NAME, "turns": TURNS, "protocol": COUNT, "compiler": TEXT, "made": TIME,
}
"""In the order of exported texts."""

FINEST_SPREAD = 0.001
"""Share of the median below which a spread says no more about how exact it is."""


def choice_text(kernel: str, variant: str, knobs: Mapping[str, int | str]) -> str:
    return " ".join([f"{kernel}/{variant}", *(f"{name}={value}" for name, value in knobs.items())])


def error_of(sample: Sample) -> float:
    """Relative error of its median, about: spread over the root of the number of rounds; infinite where unknown."""
    if not sample.ok or sample.rounds < 2:
        return math.inf
    return max(sample.spread / sample.seconds, FINEST_SPREAD) / math.sqrt(sample.rounds)


def is_better(new: Sample, old: Sample) -> bool:
    """Whether `new` takes the place of `old`, of the same key: one that ran, the more exact one, the newer one."""
    if new.ok != old.ok:
        return new.ok
    mine, theirs = error_of(new), error_of(old)
    return mine < theirs if mine != theirs else new.made >= old.made
