"""Measurements on record: JSON lines that let a build run again without measuring anything.

    META_INFER_MEASURE=record       measures, and appends every result to the file
    META_INFER_MEASURE=replay       measures nothing, every result comes from the file
    META_INFER_MEASURE=replay:FILE  the same with a file of one's own (default: measurements.jsonl in META_INFER_CACHE)

A key is the hash of all that decides a time: generated source, compiler and flags, launches with their dims and
buffers, threads, the CPU's model and the version of the measuring protocol. So an edited kernel never meets a stale
time. The last line of a key counts.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from meta_infer.backends.base import Metric
from meta_infer.backends.cpu.targets import COMPILE_FLAGS, TARGETS
from meta_infer.search.candidate import Candidate
from meta_infer.search.measure_protocol import VERSION
from meta_infer.support.errors import InputError

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
    """The key under which a candidate's time is recorded; its name is not part of it."""
    artifact = candidate.artifact
    parts = {
        "source": candidate.source, "compiler": artifact.compiler,
        "flags": [artifact.isa, *asdict(TARGETS[artifact.isa]).values(), *COMPILE_FLAGS],
        "launches": [[launch.args, launch.dims] for launch in candidate.launches],
        "buffers": {name: asdict(buffer) for name, buffer in sorted(candidate.buffers.items())},
        "threads": threads, "cpu": cpu, "protocol": VERSION,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def append(file: Path, found: Mapping[str, Measurement], threads: int, cpu: str) -> None:
    """Add results by key. Lines go out in one write, so that several builds may share a file."""
    lines = []
    for key, m in found.items():
        row = {"key": key, **asdict(m), "threads": threads, "cpu": cpu, "protocol": VERSION}
        lines.append(json.dumps({**row, "seconds": m.seconds if m.ok else None}) + "\n")
    file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, "".join(lines).encode())
    finally:
        os.close(handle)


def replay(file: Path, keys: Sequence[str], candidates: Sequence[Candidate], threads: int,
           cpu: str) -> tuple[Measurement, ...]:
    """The recorded results of these candidates. Raises InputError naming the first that is not on record."""
    known = _read(file)
    for key, candidate in zip(keys, candidates, strict=True):
        if key not in known:
            raise InputError(
                f"has no measurement of {candidate.name!r} with {threads} thread{'s' if threads > 1 else ''} on "
                f"{cpu} (key {key})", what=f"recording {file}",
                hint="its code, compiler, sizes, CPU or measuring protocol changed since; run once with "
                     "META_INFER_MEASURE=record")
    return tuple(_measurement(known[key], candidate.name) for key, candidate in zip(keys, candidates, strict=True))


def _measurement(row: Mapping[str, object], name: str) -> Measurement:
    values = {field: row[field] for field in ("spread", "share_of_peak", "rounds", "status")}
    turns = tuple((float(seconds), float(peak)) for seconds, peak in row.get("turns", ()))       # type: ignore[attr-defined]
    return Measurement(name, math.inf if row["seconds"] is None else row["seconds"], **values,   # type: ignore[arg-type]
                       turns=turns)


def _read(file: Path) -> dict[str, dict[str, object]]:
    try:
        text = file.read_text()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", what=f"recording {file}",
                         hint="run once with META_INFER_MEASURE=record, or name the file: replay:FILE") from error
    rows = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line)
            rows[row["key"]] = row
            _measurement(row, "")
        except (ValueError, KeyError, TypeError) as error:
            raise InputError("is not a measurement", what=f"recording {file}, line {number}",
                             hint="delete the line; what it held must be recorded again") from error
    return rows
