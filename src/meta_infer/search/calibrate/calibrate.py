"""Calibration: times what the cost model is fitted to, on this machine or a board, and fits it.

    rates      of arithmetic, and of every level of memory, with one core and with all
    launches   of kernels that do nothing else, with one thread and with all
    sweep      the number of channels that widths should be a multiple of (calibrate_sweep.py)
    cases      kernels over sizes and shapes (calibrate_cases.py, calibrate_jobs.py), by which the model is fitted

Every batch goes into the experience library as it is timed, so that a calibration that was killed goes on from there,
and one that the time ended is gone on with by the next.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from meta_infer.backends.cpu.toolchain import find_compiler
from meta_infer.cost.fit import fit
from meta_infer.hardware.device import Board
from meta_infer.hardware.profile import Profile
from meta_infer.library.samples import Sample
from meta_infer.library.store import Library
from meta_infer.search.calibrate.calibrate_cases import calibration_cases
from meta_infer.search.calibrate.calibrate_jobs import Choice, cheapest, choices, launch_job, lowered
from meta_infer.search.calibrate.calibrate_sweep import find_step, sweep_cases
from meta_infer.search.calibrate.calibration import Calibration, Job, Timed, noise_of, peak_of, rates_of
from meta_infer.search.measure.candidate import Uncompiled, compile_candidates, launches_of, source_of
from meta_infer.search.measure.launch_probe import CHUNKS
from meta_infer.search.measure.measure import measured_cpu
from meta_infer.search.measure.measurements import Measurement, key_of_parts
from meta_infer.search.measure.memory_probe import MemoryProbe, memory_probes
from meta_infer.search.measure.recorded import FROM_OUTSIDE, measure_recorded, measurement_of
from meta_infer.support.dtypes import FLOAT32

SECONDS = 140.0
"""Enough for all of it on two cores, and less than three minutes with the last batch and the fit."""
_BATCH = 16
"""Kernels compiled and timed together: what an interruption may cost."""
_ROUNDS, _SWEEP_ROUNDS = 7, 15
_SECONDS_EACH = 0.3


@dataclass(frozen=True)
class Planned:
    """All that a calibration of a machine times, the sweep by width."""

    probes: tuple[MemoryProbe, ...]
    launches: tuple[Job, ...]
    sweep: Mapping[int, Choice]
    cases: tuple[Choice, ...]
    threads: int

    @classmethod
    def of(cls, profile: Profile) -> Planned:
        lanes = profile.lanes(FLOAT32)
        sweep = {width: Choice(case, cheapest(case.group, profile)) for width, case in sweep_cases(lanes).items()}
        launches = tuple(launch_job(chunks, profile) for chunks in CHUNKS)
        return cls(memory_probes(profile), launches, sweep, tuple(choices(calibration_cases(lanes), profile)),
                   profile.cores)

    @property
    def total(self) -> int:
        times = 2 if self.threads > 1 else 1
        return times * (len(self.probes) + len(self.launches)) + len(self.sweep) + len(self.cases)


Measure = Callable[..., Sequence[Measurement]]
"""As `measure_recorded`."""


@dataclass
class Calibrator:
    """Times what is planned for a machine, whose probed `profile` it is; `on_done` hears of every kernel.

    That machine is this one, unless there is a `board`. After `seconds` no batch is begun but the first. With `fresh`
    all is measured, whatever the library knows.
    """

    profile: Profile
    library: Library | None
    seconds: float = SECONDS
    fresh: bool = False
    on_done: Callable[[str], None] = lambda name: None
    warn: Callable[[str], None] = lambda text: None
    measure: Measure = measure_recorded
    board: Board | None = None
    timed: int = 0
    recalled: int = 0
    _until: float = field(default=math.inf)

    def calibrate(self, planned: Planned, today: date) -> Calibration:
        """All of it, or as much as the seconds allow. Raises ToolchainError."""
        self._until = math.inf
        begun = time.monotonic()
        alone = self._time(_probes(planned.probes), 1)
        self._until = begun + self.seconds
        launched = {1: self._time(planned.launches, 1)}
        together = alone
        if planned.threads > 1:
            together = self._time(_probes(planned.probes), planned.threads)
            launched[planned.threads] = self._time(planned.launches, planned.threads)
        swept = self._choices(tuple(planned.sweep.values()), _SWEEP_ROUNDS)
        samples = [*launched[1], *swept]
        for start in range(0, len(planned.cases), _BATCH):
            samples += self._choices(planned.cases[start:start + _BATCH])
        rates = rates_of(planned.probes, alone, 1)
        widths = {width: one.found.seconds for width, one in zip(planned.sweep, swept, strict=False) if one.found.ok}
        known = replace(self.profile, bandwidth=rates.get("memory"))
        return Calibration(
            fitted=fit([made for one in samples if (made := one.cost_sample)], known, today),
            peak=peak_of([*alone, *samples]), rates=rates,
            all_rates=rates_of(planned.probes, together, planned.threads) if together else {},
            step=find_step(widths) if swept else None,
            launches={threads: _shared(found, threads) for threads, found in launched.items() if found},
            noise=noise_of(samples or alone), timed=self.timed, recalled=self.recalled,
            failed=sum(not one.found.ok for one in (*alone, *samples)), total=planned.total)

    def _choices(self, wanted: Sequence[Choice], rounds: int = _ROUNDS) -> list[Timed]:
        """Their times; of none of them when the time is over."""
        if time.monotonic() > self._until:
            return []
        return self._time([lowered(one, self.profile) for one in wanted], 1, rounds)

    def _time(self, jobs: Sequence[Job], threads: int, rounds: int = _ROUNDS) -> list[Timed]:
        """The times of jobs: those that the library lacks are compiled together, measured, and kept."""
        if time.monotonic() > self._until:
            return []
        isa, compiler, cpu = str(self.profile.isa), find_compiler().version, measured_cpu(self.board)
        keys = [_key(job.uncompiled, isa, compiler, threads, cpu) for job in jobs]
        known: dict[str, Sample] = self.library.known(keys) if self.library and not self.fresh else {}
        known = {key: sample for key, sample in known.items() if sample.status not in FROM_OUTSIDE}
        missing = [job for key, job in zip(keys, jobs, strict=True) if key not in known]
        made = compile_candidates([job.uncompiled for job in missing], isa) if missing else ()
        described = {id(candidate): job.described for candidate, job in zip(made, missing, strict=True)}
        found = iter(self.measure(made, lambda one: described[id(one)], self.library, rounds=rounds,
                                  seconds=_SECONDS_EACH * len(made), threads=threads, fresh=self.fresh,
                                  warn=self.warn, board=self.board))
        timed = []
        for key, job in zip(keys, jobs, strict=True):
            measured = measurement_of(known[key], job.uncompiled.name) if key in known else next(found)
            timed.append(Timed(job, measured))
            self.on_done(job.uncompiled.name)
        self.timed += len(missing)
        self.recalled += len(jobs) - len(missing)
        return timed


def _shared(found: Sequence[Timed], threads: int) -> float:
    """Seconds of the least launch that has a chunk for each thread."""
    return min((one.found.seconds for chunks, one in zip(CHUNKS, found, strict=True) if chunks >= threads),
               default=math.inf)


def _probes(probes: Sequence[MemoryProbe]) -> list[Job]:
    return [Job(one.candidate, Sample("memory_probe", one.way, op="Probe", group=f"{one.way} {one.level.name}"))
            for one in probes]


def _key(one: Uncompiled, isa: str, compiler: str, threads: int, cpu: str) -> str:
    """The key that the kernel will have once it is compiled."""
    launches = launches_of(one, [f"kernel_{i}" for i in range(len(one.calls))])
    return key_of_parts(source_of(one, isa), launches, one.buffers, isa, compiler, threads, cpu)
