"""Timing ways of groups for the search: what the library knows is taken from there, the rest compiled together, timed
against the quickest way known, and remembered at once.

Times of one site that were taken minutes apart do not compare on a busy machine. So every batch holds the site's
quickest way again, and the others count as ratios to it, round by round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from meta_infer.backends.base import Backend
from meta_infer.backends.cpu.toolchain import find_compiler
from meta_infer.cost.algorithms import size_of
from meta_infer.cost.features import Features, group_flops
from meta_infer.cost.fit import CostSample
from meta_infer.cost.model import CostModel, precision_of
from meta_infer.hardware.device import Board
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Shape, Value
from meta_infer.ir.group import Layout, Plan, Variant, layouts_of
from meta_infer.kernels.registry import rival_digest
from meta_infer.library.samples import Sample
from meta_infer.library.store import Library
from meta_infer.search.measure.candidate import (
    Candidate,
    Uncompiled,
    compile_candidates,
    launches_of,
    lowered_conversion,
    lowered_group,
    source_of,
)
from meta_infer.search.measure.candidate_features import candidate_features
from meta_infer.search.measure.described import described
from meta_infer.search.measure.measure import measure_groups, measured_cpu
from meta_infer.search.measure.measure_protocol import median_and_spread
from meta_infer.search.measure.measurements import OK, Measurement, key_of_parts
from meta_infer.search.measure.recorded import FROM_OUTSIDE, sample_of
from meta_infer.search.space.sites import Known, Site
from meta_infer.search.space.ways import Way, choices_of, way_of
from meta_infer.search.whole.built import Built, build_plan
from meta_infer.support.dtypes import DType
from meta_infer.support.errors import CompilerFaultError, LibraryUnwritableError


class TimeOver(Exception):
    """Nothing more can be timed: a replay has come to what was not recorded."""


@dataclass(frozen=True)
class Converted:
    """A conversion of a tensor from one layout to another."""

    dtype: DType
    shape: Shape
    source: Layout
    target: Layout

    def __str__(self) -> str:
        return f"Reorder({self.dtype}[{', '.join(map(str, self.shape))}]) {self.source} -> {self.target}"


Points = Sequence[Mapping[str, int]]
"""Sizes of the symbols at which models with dynamic dims are timed; one empty mapping for all others."""


@dataclass(eq=False)
class _Job:
    """What is timed: one way, or one conversion, lowered at every point.

    Most are only counted by the cost model; the C that keys are made of is printed for those that are timed.
    """

    name: str
    points: tuple[Uncompiled, ...]
    sample: Sample
    profile: Profile
    threads: int
    cpu: str

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Those of the samples, one for every point."""
        isa, keys = str(self.profile.isa), []
        for one in self.points:
            launches = launches_of(one, [f"kernel_{i}" for i in range(len(one.calls))])
            keys.append(key_of_parts(source_of(one, isa), launches, one.buffers, isa, self.sample.compiler,
                                     self.threads, self.cpu))
        return tuple(keys)

    @cached_property
    def features(self) -> tuple[Features, ...]:
        """What the cost model reads off the loops, at every point."""
        return tuple(candidate_features(one, self.profile) for one in self.points)


_Batch = tuple[Site, tuple[Way, Known] | None, list[tuple[Way, _Job]]]
"""A site, its quickest way so far, and what is to be timed beside it."""
_NO_CODE = "the compiler failed"


@dataclass
class Timer:
    """Times ways on this machine, or on a `board`, with `threads` threads, at every one of `points`, whose seconds are
    added up.

    `on_time(count)` is called after every batch with the number of ways that are known since. `timed` counts what was
    measured, `recalled` what the library knew. In a `replay` nothing is measured: TimeOver tells that something would
    have to be.
    """

    backend: Backend
    profile: Profile
    points: Points = ({},)
    threads: int = 1
    rounds: int = 7
    seconds: float = 1.0
    library: Library | None = None
    is_replay: bool = False
    board: Board | None = None
    on_time: Callable[[int], None] = lambda count: None
    warn: Callable[[str], None] = lambda text: None
    timed: int = 0
    recalled: int = 0
    cpu: str = ""
    compiler: str = field(default_factory=lambda: find_compiler().version)
    _built: dict[tuple[tuple[str, Way], ...], Built] = field(default_factory=dict, init=False)
    _jobs: dict[tuple[str, Way], _Job] = field(default_factory=dict, init=False)
    _seen: dict[tuple[str, ...], Known] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.cpu = self.cpu or measured_cpu(self.board)

    @property
    def known(self) -> int:
        """Ways and conversions that were timed or recalled: in a replay as many as in what it repeats."""
        return len(self._seen)

    def build(self, plan: Plan) -> Built:
        """The code of a plan, made once. Raises ToolchainError."""
        choices = choices_of(plan)
        if choices not in self._built:
            self._built[choices] = build_plan(plan, self.backend, self.profile, self.threads, self.cpu)
        return self._built[choices]

    def time(self, wanted: Sequence[tuple[Site, Sequence[Variant]]], rounds: int | None = None) -> None:
        """Times variants of several sites: compiled together, each site's against each other and its quickest way.

        Raises TimeOver.
        """
        jobs: list[_Batch] = []
        pending: set[tuple[str, ...]] = set()
        twins: list[tuple[Known, _Job]] = []              # the same code on the same sizes, under another name
        for site, variants in wanted:
            missing = []
            for variant in variants:
                way = way_of(site.group, variant)
                entry = site.ways[way]
                if entry.measured is not None or self._recall(entry, job := self._job(site, variant)):
                    continue
                if job.keys in pending:
                    twins.append((entry, job))
                else:
                    pending.add(job.keys)
                    missing.append((way, job))
            if missing:
                jobs.append((site, site.best(measured=True), missing))
        if jobs and self.is_replay:
            raise TimeOver(jobs[0][2][0][1].name)
        try:
            groups = self._beside_bases(jobs)
        except CompilerFaultError:
            jobs = self._able(jobs)
            groups = self._beside_bases(jobs)
        waiting = iter(jobs)
        self._measure(groups, rounds or self.rounds, lambda found: self._settle(*next(waiting), found))
        for entry, job in twins:
            self._recall(entry, job)

    def time_conversions(self, wanted: Sequence[Converted]) -> dict[Converted, float]:
        """Seconds of each, infinite for one that failed. Raises TimeOver."""
        found: dict[Converted, float] = {}
        jobs = {one: self._conversion(one) for one in wanted}
        entries = {one: Known(Variant("reorder", "reorder", {}, {}), 0.0) for one in wanted}
        for one, job in jobs.items():
            if self._recall(entry := entries[one], job) and entry.measured is not None:
                found[one] = entry.measured
        missing = {one: job for one, job in jobs.items() if one not in found}
        if missing and self.is_replay:
            raise TimeOver(next(iter(missing.values())).name)
        measured: list[list[Measurement]] = []
        self._measure([self._compile(list(missing.values()))], self.rounds, measured.extend)
        for (one, job), points in zip(missing.items(), measured, strict=True):
            found[one] = sum(sample.seconds for sample in self._remembered(job, points, 1.0))
            entries[one].measured, self._seen[job.keys] = found[one], entries[one]
        self.timed += len(missing)
        self.on_time(len(wanted))
        return found

    def _settle(self, site: Site, base: tuple[Way, Known] | None, missing: Sequence[tuple[Way, _Job]],
                found: Sequence[Sequence[Measurement]]) -> None:
        """Enters what was measured, as ratios to the base where there is one."""
        against = None if base is None else _together(found[0])
        for (way, job), points in zip(missing, found[0 if base is None else 1:], strict=True):
            entry, turns = site.ways[way], _together(points)
            plain, _ = median_and_spread(turns) if turns else (math.inf, 0.0)
            seconds, _ = _seconds(turns, against, None if base is None else base[1].measured)
            # What a later build reads is what this one goes on with, to the last bit.
            self._enter(entry, job, self._remembered(job, points, seconds / plain if turns else 1.0))
        self.timed += len(missing)
        self.on_time(len(missing))

    def _enter(self, entry: Known, job: _Job, samples: Sequence[Sample]) -> None:
        entry.measured, entry.spread = sum(s.seconds for s in samples), sum(s.spread for s in samples)
        entry.key = job.keys[0]
        self._seen[job.keys] = entry

    def _recall(self, entry: Known, job: _Job) -> bool:
        """Enters what is known of a job, from before or in the library; whether that is all its points."""
        if job.keys in self._seen:
            same = self._seen[job.keys]
            entry.measured, entry.spread, entry.key = same.measured, same.spread, same.key
            return True
        known = self.library.known(job.keys) if self.library else {}
        found = [known[key] for key in job.keys if key in known and known[key].status not in FROM_OUTSIDE]
        if len(found) < len(job.keys):
            return False
        entry.measured = sum(sample.seconds for sample in found)
        entry.spread, entry.key = sum(sample.spread for sample in found), job.keys[0]
        self._seen[job.keys] = entry
        self.recalled += 1
        self.on_time(1)
        return True

    def _remembered(self, job: _Job, points: Sequence[Measurement], scale: float) -> list[Sample]:
        """The samples of a job, times taken times `scale`, added to the library."""
        samples, unseen = [], rival_digest(job.sample.kernel)      # the cost model sees nothing in a user's text
        for key, lowered, features, one in zip(job.keys, job.points, job.features, points, strict=True):
            scaled = replace(one, seconds=one.seconds * scale, spread=one.spread * scale)
            dims = tuple(dim for launch in launches_of(lowered, [""] * len(lowered.calls)) for dim in launch.dims)
            known = replace(job.sample, isa=str(self.profile.isa), dims=dims,
                            sizes=dict(lowered.sizes), features={} if unseen else features.recorded())
            samples.append(sample_of(known, None, scaled, key, self.threads, self.cpu))
        self.remember(samples)
        return samples

    def remember(self, samples: Sequence[Sample]) -> None:
        """Adds to the library, where there is one that can be written."""
        if not self.library or not self.library.writable:
            return
        try:
            self.library.add(samples)
        except LibraryUnwritableError as error:
            self.warn(f"{error}\n  what was measured just now will not be remembered")

    def _measure(self, groups: Sequence[Sequence[Sequence[Candidate]]], rounds: int,
                 on_group: Callable[[list[list[Measurement]]], None]) -> None:
        """Groups follow each other in one process; `on_group` gets for every job of one the measurements at its
        points, as soon as they are known."""
        sizes = iter(groups)

        def tell(measured: Sequence[Measurement]) -> None:
            found = iter(measured)
            on_group([[next(found) for _ in points] for points in next(sizes)])

        measure_groups([[one for points in group for one in points] for group in groups], tell, rounds=rounds,
                       seconds=self.seconds, threads=self.threads, board=self.board)

    def _beside_bases(self, jobs: Sequence[_Batch]) -> list[list[list[Candidate]]]:
        """Of every site the candidates that are timed together: its quickest way's first, where one is known."""
        batches = [[*([] if base is None else [self._job(site, base[1].variant)]), *(job for _, job in missing)]
                   for site, base, missing in jobs]
        compiled = iter(self._compile([job for batch in batches for job in batch]))
        return [[next(compiled) for _ in batch] for batch in batches]

    def _able(self, jobs: Sequence[_Batch]) -> list[_Batch]:
        """Without the ways on which the compiler itself fails: one such costs a kernel, not the search."""
        able = []
        for site, base, missing in jobs:
            kept = []
            for way, job in missing:
                if self._compiles(job):
                    kept.append((way, job))
                else:
                    failed = [Measurement(one.name, math.inf, 0.0, 0.0, 0, _NO_CODE) for one in job.points]
                    self._enter(site.ways[way], job, self._remembered(job, failed, 1.0))
            if kept:
                able.append((site, base, kept))
        return able

    def _compiles(self, job: _Job) -> bool:
        try:
            self._compile([job])
        except CompilerFaultError:
            return False
        return True

    def _compile(self, jobs: Sequence[_Job]) -> list[list[Candidate]]:
        """The candidates of each job, one for every point."""
        flat = [one for job in jobs for one in job.points]
        compiled = iter(compile_candidates(flat, str(self.profile.isa)) if flat else ())
        return [[next(compiled) for _ in job.points] for job in jobs]

    def predicted(self, model: CostModel, site: Site, way: Way) -> float:
        """Seconds of a way by the cost model, from what its lowered kernels do."""
        job = self._job(site, site.ways[way].variant)
        precision = precision_of(site.group.values[site.group.outputs[0]].dtype.name)
        return sum(model.seconds(way.kernel, precision, one).seconds for one in job.features)

    def sample(self, site: Site, way: Way) -> CostSample | None:
        """A timed way as the cost model is fitted to it, all points together; None without a time."""
        known = site.ways[way]
        if known.measured is None or not 0 < known.measured < math.inf:
            return None
        first, *others = self._job(site, known.variant).features
        precision = precision_of(site.group.values[site.group.outputs[0]].dtype.name)
        return CostSample(way.kernel, precision, site.text, sum(others, first), known.measured)

    def _job(self, site: Site, variant: Variant) -> _Job:
        key = site.text, way_of(site.group, variant)
        if key not in self._jobs:
            self._jobs[key] = self._lowered(site, variant)
        return self._jobs[key]

    def _lowered(self, site: Site, variant: Variant) -> _Job:
        group = site.group
        layouts = layouts_of(group, variant)
        lowering = self.backend.lower(group, variant, layouts, self.profile)
        way = way_of(group, variant)
        name = f"{group.label} by {way}"
        flops = group_flops(group)
        points = tuple(lowered_group(name, group, lowering, layouts, sizes, size_of(flops, sizes))
                       for sizes in self.points)
        return self._described(name, points, described(group, way))

    def _conversion(self, one: Converted) -> _Job:
        value = Value("value", one.dtype, one.shape)
        points = lowered_conversion(value, one.source, one.target, self.points, self.profile)
        name = points[0].name
        return self._described(name, points, Sample("reorder", "reorder", op="Reorder", group=name))

    def _described(self, name: str, points: tuple[Uncompiled, ...], sample: Sample) -> _Job:
        return _Job(name, points, replace(sample, compiler=self.compiler), self.profile, self.threads, self.cpu)


def _together(points: Sequence[Measurement]) -> list[float]:
    """Seconds of all points in each round; nothing when one failed."""
    if not all(m.status == OK for m in points):
        return []
    return [sum(turn[0] for turn in turns) for turns in zip(*(m.turns for m in points), strict=False)]


def _seconds(turns: Sequence[float], base: Sequence[float] | None, known: float | None) -> tuple[float, float]:
    """(median, spread): of the turns, or of their ratios to those of a base that is known to take `known` seconds."""
    if not turns:
        return math.inf, 0.0
    if not base or known is None:
        return median_and_spread(turns)
    median, spread = median_and_spread([mine / other for mine, other in zip(turns, base, strict=False)])
    return median * known, spread * known
