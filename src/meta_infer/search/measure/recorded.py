"""Measuring with memory: what the library knows is not measured again, and what is measured goes into it at once.

    META_INFER_MEASURE=replay       measures nothing, every time comes from the experience library
    META_INFER_MEASURE=replay:FILE  the same with the library FILE

Benchmarks call `measure` itself, and always measure.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace

from meta_infer.hardware.device import Board
from meta_infer.library.samples import Sample
from meta_infer.library.store import Library
from meta_infer.search.measure.candidate import Candidate
from meta_infer.search.measure.measure import PATIENCE, measure, measured_cpu
from meta_infer.search.measure.measure_protocol import VERSION, median_and_spread
from meta_infer.search.measure.measurements import Measurement, key_of
from meta_infer.support.errors import InputError, LibraryUnwritableError
from meta_infer.support.switches import read_switches

FROM_OUTSIDE = frozenset(f"killed by {number.name}" for number in (
    signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM))
"""Failures that say nothing of the candidate: somebody, or a lack of memory, ended the process."""


def measure_recorded(candidates: Sequence[Candidate], samples_of: Callable[[Candidate], Sample],
                     library: Library | None, *, rounds: int = 15, seconds: float = 5.0, threads: int = 1,
                     patience: float = PATIENCE, fresh: bool = False,
                     warn: Callable[[str], None] | None = None, board: Board | None = None) -> tuple[Measurement, ...]:
    """The times of candidates in their order: known ones from the library, the rest measured in one call and added.

    samples_of  what is known of a candidate before it is measured (kernel, knobs, group, ...); the key and all that
                measuring gives is filled in here, and so are `isa`, `dims` and `compiler` where they are empty
    library     None, or one that is not writable: what is measured is not kept
    fresh       measures all of them, and puts their times in the place of known ones
    warn        told when the library cannot be written any more, once per call; without it, that is raised

    Candidates with equal keys are measured once. With META_INFER_MEASURE=replay nothing is measured, and the first
    candidate that is not in the library raises InputError. Else as `measure`, which has the other arguments.
    """
    cpu = measured_cpu(board)
    keys = [key_of(candidate, threads, cpu) for candidate in candidates]
    if read_switches().measure == "replay":
        found = _replayed(library, keys, candidates, threads, cpu)
    else:
        known = library.known(keys) if library and not fresh else {}
        found = {key: measurement_of(s, "") for key, s in known.items() if s.status not in FROM_OUTSIDE}
        missing: dict[str, Candidate] = {}
        for key, candidate in zip(keys, candidates, strict=True):
            if key not in found:
                missing.setdefault(key, candidate)
        measured = dict(zip(missing, measure(list(missing.values()), rounds=rounds, seconds=seconds, threads=threads,
                                             patience=patience, board=board), strict=True))
        if library and library.writable and missing:
            _keep(library, [sample_of(samples_of(c), c, measured[key], key, threads, cpu)
                            for key, c in missing.items()], warn)
        found |= measured
    return tuple(replace(found[key], name=c.name) for key, c in zip(keys, candidates, strict=True))


def sample_of(described: Sample, candidate: Candidate | None, found: Measurement, key: str, threads: int,
              cpu: str) -> Sample:
    """What the library keeps of a measured candidate; `described` says what `candidate`, where given, does not."""
    if candidate is not None:
        dims = described.dims or tuple(dim for launch in candidate.launches for dim in launch.dims)
        artifact = candidate.artifact
        described = replace(described, dims=dims, isa=described.isa or artifact.isa,
                            compiler=described.compiler or artifact.compiler)
    peak = median_and_spread([peak for _, peak in found.turns])[0] if found.turns else 0.0
    return replace(described, key=key, seconds=found.seconds, spread=found.spread, share_of_peak=found.share_of_peak,
                   peak=peak, rounds=found.rounds, status=found.status, turns=found.turns, threads=threads, cpu=cpu,
                   protocol=VERSION, made="")


def measurement_of(sample: Sample, name: str) -> Measurement:
    return Measurement(name, sample.seconds, sample.spread, sample.share_of_peak, sample.rounds, sample.status,
                       sample.turns)


def _keep(library: Library, samples: Iterable[Sample], warn: Callable[[str], None] | None) -> None:
    try:
        library.add(samples)
    except LibraryUnwritableError as error:
        if warn is None:
            raise
        warn(f"{error}\n  what was measured just now will not be remembered")


def _replayed(library: Library | None, keys: Sequence[str], candidates: Sequence[Candidate], threads: int,
              cpu: str) -> Mapping[str, Measurement]:
    with nullcontext(library) if library else closing(Library.open_to_read(read_switches().library)) as recording:
        known = recording.known(keys)
        path = recording.path
    for key, candidate in zip(keys, candidates, strict=True):
        if key not in known:
            raise InputError(
                f"has no measurement of {candidate.name!r} with {threads} thread{'s' if threads > 1 else ''} on "
                f"{cpu} (key {key})", what=f"library {path}",
                hint="its code, compiler, sizes, CPU or measuring protocol changed since; run once without "
                     "META_INFER_MEASURE=replay")
    return {key: measurement_of(sample, "") for key, sample in known.items()}
