"""Which choice won for a group, where, and against what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from meta_infer.library.fields import COUNT, FROM_ONE, KNOBS, LAYOUTS, NAME, SECONDS, TEXT, TIME, Kind
from meta_infer.library.samples import choice_text


@dataclass(frozen=True)
class Decision:
    """What a build took for a group, one row per (group, capabilities, threads): the last decision counts.

    structure      hash of the group's text without sizes: what carries over to other sizes, models and chips
    capabilities   what of the chip decides: 'x86-64-v3, 8 lanes, L1 32 KiB, L2 512 KiB, 2 cores'
    group          the work as a text without names, with sizes
    layouts        formats that are not plain: 'in0', 'out0' -> 'b8@1'
    seconds        of one run, as measured when it was decided
    rivals         how many others were measured and beaten
    best_rival     the nearest of them, 'kernel/variant knob=value', which took `best_rival_seconds`
    model          name of the model that was built
    key            of the winner's sample
    made           when, ISO 8601 in UTC; empty: when it is added
    """

    structure: str
    capabilities: str
    group: str
    kernel: str
    variant: str
    knobs: Mapping[str, int | str] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)
    seconds: float = math.inf
    rivals: int = 0
    best_rival: str = ""
    best_rival_seconds: float = math.inf
    model: str = ""
    threads: int = 1
    cpu: str = ""
    key: str = ""
    made: str = ""

    @property
    def label(self) -> str:
        """'conv_direct/tiled tile=4'"""
        return choice_text(self.kernel, self.variant, self.knobs)

    @property
    def place(self) -> tuple[str, str, int]:
        """What there is one decision for."""
        return self.group, self.capabilities, self.threads


DECISION_FIELDS: Mapping[str, Kind] = {
    "group": NAME, "structure": TEXT, "capabilities": TEXT, "threads": FROM_ONE, "kernel": NAME, "variant": NAME,
    "knobs": KNOBS, "layouts": LAYOUTS, "seconds": SECONDS, "rivals": COUNT, "best_rival": TEXT,
    "best_rival_seconds": SECONDS, "model": TEXT, "cpu": TEXT, "key": TEXT, "made": TIME,
}
"""In the order of exported texts."""
