"""What measuring a candidate gives, and the key under which it is remembered.

A key is the hash of all that decides a time: generated source, compiler and flags, launches with their dims and
buffers, threads, the CPU's model and the version of the measuring protocol. So an edited kernel never meets a stale
time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from meta_infer.backends.base import Metric
from meta_infer.backends.cpu.targets import COMPILE_FLAGS, TARGETS
from meta_infer.search.measure.candidate import Candidate, Launch, MeasuredBuffer
from meta_infer.search.measure.measure_protocol import VERSION

OK = "ok"


@dataclass(frozen=True)
class Measurement:
    """One candidate's time.

    seconds        of one run: the median of all rounds; infinite when it failed
    spread         half the width of the interval that holds the middle half of the rounds, seconds
    share_of_peak  floating-point operations per second, as a share of what the probe reached just before, the median
                   of all turns; 0 when the candidate states no flops
    rounds         turns it had
    status         'ok', or how it failed: 'killed by SIGILL', 'no sign of life for 20 s'
    turns          seconds of one run in each round, and floating-point operations per second of the probe just before
    """

    name: str
    seconds: float
    spread: float
    share_of_peak: float
    rounds: int
    status: str = OK
    turns: tuple[tuple[float, float], ...] = ()

    @property
    def ok(self) -> bool:
        return self.status == OK

    @property
    def metric(self) -> Metric:
        """For reports and comparisons."""
        return Metric(self.seconds, "s", "measured", self.spread)


def key_of(candidate: Candidate, threads: int, cpu: str) -> str:
    """The key under which a candidate's time is recorded."""
    artifact = candidate.artifact
    return key_of_parts(candidate.source, candidate.launches, candidate.buffers, artifact.isa, artifact.compiler,
                        threads, cpu)


def key_of_parts(source: str, launches: Sequence[Launch], buffers: Mapping[str, MeasuredBuffer], isa: str,
                 compiler: str, threads: int, cpu: str) -> str:
    """As `key_of`, of what is known before anything is compiled. Names are no part of it, but which are the same."""
    order = list(dict.fromkeys(arg for launch in launches for arg in launch.args))
    number = {name: i for i, name in enumerate(order)}
    parts = {
        "source": source, "compiler": compiler,
        "flags": [isa, *asdict(TARGETS[isa]).values(), *COMPILE_FLAGS],
        "launches": [[[number[arg] for arg in launch.args], launch.dims] for launch in launches],
        "buffers": [asdict(buffers[name]) for name in order],
        "threads": threads, "cpu": cpu, "protocol": VERSION,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
