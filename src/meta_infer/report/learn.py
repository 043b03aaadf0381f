"""Times in place as samples of the experience library, and how far the cost model is from them.

Such a sample says `place: network`: other kernels ran before it, as they do in use, so that its time is compared with
no time of another choice that was measured by itself. Its features are what the cost model reads off its loops, so
that a fit can have it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean, median
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from meta_infer.cost.features import Features
from meta_infer.cost.model import CostModel, precision_of
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group
from meta_infer.ir.shapes import symbols_of
from meta_infer.library.samples import IN_NETWORK, Sample
from meta_infer.report.plain_table import plain_table
from meta_infer.report.profile import PartTime
from meta_infer.report.units import seconds_text
from meta_infer.search.lower_again import features_again
from meta_infer.search.measure.described import described
from meta_infer.search.measure.measure_protocol import VERSION, median_and_spread
from meta_infer.search.space.ways import Way


@dataclass(frozen=True)
class Origin:
    """Where times come from: the package's model, code and compiler, the CPU and the number of threads."""

    model: str
    isa: str
    compiler: str
    cpu: str
    threads: int


def samples_of(timed: Iterable[PartTime], sizes: Mapping[str, int], origin: Origin, host: Profile) -> list[Sample]:
    """One sample for each distinct choice of the parts that a run computes once; equal groups are averaged.

    `host` is this machine's profile: only code that was made for it is lowered again, to have features.
    """
    found: dict[str, list[PartTime]] = {}
    made: dict[str, Sample] = {}
    for one in timed:
        if one.part.group is None or one.part.repeats or not one.seconds or "in" not in one.part.row:
            continue
        sample = _described(one.part.group, one.part.row, sizes, origin)
        found.setdefault(sample.key, []).append(one)
        if sample.key not in made:
            again = features_again(one.part.group, _way(one.part.row), sizes, host) if origin.isa == host.isa else None
            made[sample.key] = replace(sample, features=again.recorded() if again else {})
    return [_measured(made[key], places) for key, places in found.items()]


def _way(row: Mapping[str, Any]) -> Way:
    return Way(row["kernel"], row["variant"], tuple(row["in"]), tuple(row["out"]), tuple(sorted(row["knobs"].items())))


def _described(group: Group, row: Mapping[str, Any], sizes: Mapping[str, int], origin: Origin) -> Sample:
    used = {s.name for value in group.values.values() for dim in value.shape for s in symbols_of(dim)}
    sample = replace(described(group, _way(row)), isa=origin.isa, cpu=origin.cpu, threads=origin.threads,
                     sizes={n: sizes[n] for n in sorted(used & set(sizes))}, place=IN_NETWORK, protocol=VERSION,
                     compiler=origin.compiler)
    parts = {name: value for name, value in asdict(sample).items() if name not in ("features", "turns", "seconds")}
    text = json.dumps([origin.model, parts], sort_keys=True)
    return replace(sample, key=hashlib.sha256(text.encode()).hexdigest()[:32])


def _measured(sample: Sample, places: Sequence[PartTime]) -> Sample:
    """With the times of all places where the network does the same, averaged round by round."""
    turns = tuple((fmean(turn[0] for turn in same), same[0][1])
                  for same in zip(*(one.turns for one in places), strict=True))
    seconds, spread = median_and_spread([turn[0] for turn in turns])
    peak = median(turn[1] for turn in turns)
    flops = places[0].flops or 0.0
    return replace(sample, seconds=seconds, spread=spread, turns=turns, rounds=len(turns), peak=peak,
                   share_of_peak=flops / seconds / peak if peak else 0.0)


@dataclass(frozen=True)
class ClassError:
    """A class of kernels: `measured` and `predicted` seconds of its `groups` together, the median error of one, and
    that of the fit."""

    kernel: str
    groups: int
    measured: float
    predicted: float
    error: float
    fitted_error: float


def class_errors(samples: Iterable[Sample], profile: Profile) -> list[ClassError]:
    """What the profile's fitted coefficients say of samples of one thread, most time first; none where it has none."""
    model = CostModel.of(profile)
    by_class: dict[str, list[Sample]] = {}
    for sample in samples if model.fitted else ():
        if sample.threads == 1 and sample.features:
            by_class.setdefault(sample.kernel, []).append(sample)
    found = []
    for kernel, members in by_class.items():
        told = [model.seconds(kernel, precision_of(s.precision), Features.read(s.features)) for s in members]
        errors = [abs(t.seconds / s.seconds - 1) for t, s in zip(told, members, strict=True)]
        fitted = model.coefficients(kernel, precision_of(members[0].precision)).error
        found.append(ClassError(kernel, len(members), sum(s.seconds for s in members), sum(t.seconds for t in told),
                                median(errors), fitted))
    return sorted(found, key=lambda one: -one.measured)


def learned_parts(samples: Sequence[Sample], errors: Sequence[ClassError], where: str,
                  profile: Profile) -> list[RenderableType]:
    """What `--learn` prints: how many samples went where, and the table, or why there is none."""
    known = sum(bool(sample.features) for sample in samples)
    count = f"{len(samples)} sample{'' if len(samples) == 1 else 's'}"
    told = Text(f"learned: {count}, {known} of them with features, in {where}")
    lines: list[RenderableType] = ["", told]
    if errors:
        return [*lines, Text(f"the cost model of profile {profile.name} beside them:"), errors_table(errors)]
    if not profile.chip.cost:
        why = f"profile {profile.name} has no fitted cost model (`meta-infer hardware calibrate` fits one)"
    elif any(sample.threads > 1 for sample in samples):
        why = "the cost model is of one thread: --threads 1"
    else:
        why = "none has features"
    return [*lines, Text(f"nothing is compared with a prediction: {why}")]


def errors_table(rows: Sequence[ClassError]) -> Table:
    """Predicted beside measured, a line for each class."""
    figures = ("groups", "measured", "predicted", "ratio", "median error", "error of the fit")
    table = plain_table("kernel", *figures, right=figures)
    for one in rows:
        table.add_row(Text(one.kernel), str(one.groups), seconds_text(one.measured), seconds_text(one.predicted),
                      f"{one.predicted / one.measured:.2f}", f"{one.error:.0%}", f"{one.fitted_error:.0%}")
    return table
