"""The cost model of a machine: its profile's, corrected by what the experience library has of it.

The library keeps with a kernel's time what the cost model reads off its loops. From 150 such samples on (of this CPU,
instruction set and number of threads) the coefficients of the classes they are of are fitted again (cost/refit.py). The
fit stays as it is until there are half as many samples more: the library notes until when it had them, so that a build
ranks kernels as the last one did, and a replay as what it replays.

Samples of before the last 90 days count half for each 90 days, those of another compiler half. Samples that were timed
within networks correct no coefficient: they tell the factors between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from meta_infer.cost.features import Features, counted_as_now
from meta_infer.cost.fit import CostSample
from meta_infer.cost.model import CostModel, precision_of
from meta_infer.cost.refit import context_factors, refit
from meta_infer.cost.residual import FEWEST as ENOUGH_TO_LEARN
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.library.samples import Sample
from meta_infer.library.store import Library
from meta_infer.search.measure.measure import measured_cpu
from meta_infer.support.errors import LibraryError
from meta_infer.support.switches import read_switches

ENOUGH = 150
"""Samples below which a library corrects nothing."""
MOST = 1000
"""The newest samples that are fitted to: reading and fitting them takes about a second."""
_GROWTH = 1.5
_HALF_LIFE = 90 * 86400.0
_OTHER_COMPILER = 0.5


def learned_model(profile: Profile, library: Library | None, cpu: str, threads: int,
                  is_replay: bool = False) -> CostModel:
    """The model for kernels on `threads` threads of this machine, which is `cpu`; that of the profile without a library
    or with too few samples."""
    before = CostModel.of(profile)
    if library is None or profile.isa is None:
        return before
    try:
        key = cpu, str(profile.isa), threads
        count, fitted, until = library.count_features(*key)
        if not is_replay and library.writable and count >= max(ENOUGH, _GROWTH * fitted):
            until = library.fit_until(*key)
        samples = _of_now(library.with_features(*key, before=until, most=MOST)) if until else []
    except LibraryError:
        return before
    return corrected_model(before, samples) if len(samples) >= ENOUGH else before


def machine_model(profile: Profile, threads: int = 1) -> CostModel:
    """The model for this machine by all that its library has now, where `profile` is of code that it runs; nothing is
    written, and a library that cannot be read is left out."""
    before, path = CostModel.of(profile), read_switches().library
    if profile.isa is None or not path.exists() or not profile.runs_on(load_profile("native")):
        return before
    try:
        with Library.open_to_read(path) as library:
            samples = _of_now(library.with_features(measured_cpu(), str(profile.isa), threads, most=MOST))
    except LibraryError:
        return before
    alone = [s for s in samples if not s.place]
    return corrected_model(before, samples if len(alone) >= ENOUGH else [s for s in samples if s.place])


def _of_now(samples: Iterable[Sample]) -> list[Sample]:
    """Those whose loops were counted as they are now."""
    return [sample for sample in samples if counted_as_now(sample.features)]


def corrected_model(before: CostModel, samples: Sequence[Sample]) -> CostModel:
    """The model by samples of one CPU and number of threads, in the order they were made."""
    alone = cost_samples([s for s in samples if not s.place])
    model = refit(before, alone, learns=len(alone) >= ENOUGH_TO_LEARN) if alone else before
    return replace(model, context=context_factors(model, cost_samples([s for s in samples if s.place])))


def cost_samples(samples: Iterable[Sample]) -> list[CostSample]:
    """What is fitted to.

    Within a search the first times of a group are its own and all later ones ratios to these: they are as at the peak
    that the probe reached beside the first.
    """
    known = [s for s in samples if s.features and s.ok]
    if not known:
        return []
    newest = max(known, key=lambda s: s.made)
    last, compiler = _moment(newest.made), newest.compiler
    peaks: dict[tuple[str, str], float] = {}
    for sample in known:
        peaks.setdefault((sample.group, sample.place), sample.peak)
    usual = sorted(peak for peak in peaks.values() if peak)
    middle = usual[len(usual) // 2] if usual else 0.0
    found = []
    for s in known:
        peak = peaks[s.group, s.place]
        age = max(0.0, last - _moment(s.made)) / _HALF_LIFE
        weight = 0.5 ** max(0.0, age - 1) * (1.0 if s.compiler == compiler else _OTHER_COMPILER)
        found.append(CostSample(s.kernel, precision_of(s.precision), s.group, Features.read(s.features),
                                s.seconds * peak / middle if peak and middle else s.seconds, weight=weight))
    return found


def _moment(made: str) -> float:
    try:
        return datetime.fromisoformat(made).timestamp()
    except ValueError:
        return 0.0
