"""Kernels one by one: time, GFLOP/s or GB/s, share of what the machine gave just then, and distance from the floor.

    python benchmarks/kernels.py                                    # all classes, default variants
    python benchmarks/kernels.py --class conv pointwise --case k3   # by class and by the text of the shape
    python benchmarks/kernels.py --only winograd                    # kernels whose name contains this
    python benchmarks/kernels.py --case "256x14x14 -> 256 k3" --tunings       # every feasible tuning, best first
    python benchmarks/kernels.py --model resnet50 --case 14x14      # the groups of a network, epilogues and all
    python benchmarks/kernels.py --prepare ...                      # compile only, so that a timed run compiles nothing

Measured as the search does (search/measure/measure.py): all variants of a case in turns, beside a probe of nothing but
multiply-adds and probes of every level of memory, so that a busy or throttled machine slows all alike; weights have
left the cache, activations are warm. GFLOP/s count the operations of the plain algorithm, whatever the kernel executes
(Winograd's are effective ones). `share` is of the peak probe's rate, or where bytes bound the case, of the rate of the
memory level that bounds it; the median over the rounds, and `best` what a sixth of them reached at least: another guest
on the same core slows what loads much more than a probe that only multiplies. `floor` is the time over the least time
of any algorithm (cost/floor.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from benchmarks.kernel_cases import Case, all_cases
from benchmarks.networks import default_plan_of, networks, short_label, signature

from meta_infer.cost.algorithms import size_of
from meta_infer.cost.features import group_flops
from meta_infer.cost.floor import Floor, MachineRates, bounds, traffic
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Variant, layouts_of
from meta_infer.kernels.kernel import Kernel
from meta_infer.kernels.registry import kernels_for
from meta_infer.kernels.tuning import feasible, tunings
from meta_infer.ops.registry import op_named
from meta_infer.search.measure.candidate import (
    Candidate,
    Uncompiled,
    compile_candidates,
    lowered_conversion,
    lowered_group,
)
from meta_infer.search.measure.measure import measure
from meta_infer.search.measure.measure_protocol import median_and_spread
from meta_infer.search.measure.measurements import Measurement
from meta_infer.search.measure.memory_probe import MemoryProbe, level_rates, memory_probes
from meta_infer.support.dtypes import FLOAT32
from meta_infer.support.switches import read_switches


@dataclass(frozen=True)
class Row:
    """A variant of a case, measured. Rates are per second, `share` is of the bound, 'peak' or a level of memory."""

    kind: str
    case: str
    kernel: str
    knobs: Mapping[str, int | str]
    status: str
    seconds: float = 0.0
    spread: float = 0.0
    flops_rate: float = 0.0
    bytes_rate: float = 0.0
    bound: str = ""
    share: float = 0.0
    best: float = 0.0
    floor_seconds: float = 0.0
    floor_algorithm: str = ""
    peak: float = 0.0


@dataclass(frozen=True)
class Contender:
    """One way to compute a case."""

    kernel: str
    knobs: Mapping[str, int | str]
    uncompiled: Uncompiled


def lowered(case: Case, kernel: Kernel, variant: Variant, profile: Profile) -> Contender:
    group = case.group
    layouts = layouts_of(group, variant)
    own = variant.name.removeprefix(kernel.name.partition("_")[2]).strip("_")      # 'winograd_f2' of conv_winograd
    name = kernel.name if variant.name == kernel.name else f"{kernel.name}:{own}"
    lowering = kernel.lower(group, variant, layouts, profile)
    return Contender(name, variant.knobs, lowered_group(name, group, lowering, layouts, case.sizes))


@dataclass(frozen=True)
class Space:
    """The tunings of a case: how many can be, how many of these are measured, and how many were refused why."""

    case: str
    feasible: int
    measured: int
    refused: Mapping[str, int]

    def __str__(self) -> str:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.refused.items())) or "none"
        return f"{self.measured} of {self.feasible} tunings of {self.case}; refused: {reasons}"


def default_contenders(case: Case, profile: Profile, only: str) -> list[Contender]:
    """Every default variant of every kernel whose name contains `only`."""
    if case.layouts is not None:
        return [_conversion(case, profile)] if only in "reorder" else []
    return [lowered(case, kernel, variant, profile) for kernel in kernels_for(case.group.anchor.op)
            if only in kernel.name for variant in kernel.variants(case.group, profile)]


def tuned_contenders(case: Case, profile: Profile, only: str, most: int) -> tuple[list[Contender], Space]:
    """Every tuning of them, or `most` spread evenly over all."""
    refused: Counter[str] = Counter()
    found: list[tuple[Kernel, Variant]] = []
    for kernel in kernels_for(case.group.anchor.op) if case.layouts is None else ():
        for variant in kernel.variants(case.group, profile) if only in kernel.name else ():
            offered, reasons = feasible(tunings(kernel, case.group, variant, profile))
            found += [(kernel, one) for one in offered]
            refused += reasons
    count = min(most, len(found)) if most else len(found)
    picked = [found[i * len(found) // count] for i in range(count)]
    return ([lowered(case, kernel, variant, profile) for kernel, variant in picked],
            Space(case.label, len(found), count, dict(refused)))


def _conversion(case: Case, profile: Profile) -> Contender:
    assert case.layouts is not None
    (one,) = lowered_conversion(case.group.values[case.group.inputs[0]], *case.layouts, (case.sizes,), profile)
    return Contender("reorder", {}, replace(one, name="reorder"))


@dataclass(frozen=True)
class Bench:
    """What measuring a case needs."""

    profile: Profile
    probes: tuple[MemoryProbe, ...]
    probe_candidates: tuple[Candidate, ...]
    rounds: int
    seconds: float
    threads: int

    def rows(self, case: Case, entrants: Sequence[Contender]) -> list[Row]:
        """All contenders in turns with the probes, in their order."""
        assert self.profile.isa is not None
        made = compile_candidates([entrant.uncompiled for entrant in entrants], self.profile.isa)
        found = measure([*self.probe_candidates, *made], rounds=self.rounds, seconds=self.seconds, threads=self.threads)
        probed, timed = found[:len(self.probes)], found[len(self.probes):]
        rates = level_rates(self.probes, tuple(p.bytes / m.seconds for p, m in zip(self.probes, probed, strict=True)),
                            self.threads)
        peak = median_and_spread([speed for m in probed for _, speed in m.turns])[0]
        ways = bounds(case.group, case.sizes, MachineRates(peak, rates))
        return [self._row(case, entrant, m, ways, probed, peak) for entrant, m in zip(entrants, timed, strict=True)]

    def _row(self, case: Case, entrant: Contender, m: Measurement, ways: Sequence[Floor],
             probed: Sequence[Measurement], peak: float) -> Row:
        if not m.ok:
            return Row(case.kind, case.label, entrant.kernel, entrant.knobs, m.status)
        flops = size_of(group_flops(case.group), case.sizes)
        moved = traffic(case.group, case.sizes)
        bound, least = ways[0].bound, min(ways, key=lambda way: way.seconds)
        if bound == "peak":
            shares = [flops / seconds / speed for seconds, speed in m.turns]
        else:
            at_level = [(p.bytes, p_m) for p, p_m in zip(self.probes, probed, strict=True) if p.level.name == bound]
            speeds = [max(count / p_m.turns[i][0] for count, p_m in at_level)
                      for i in range(min(len(p_m.turns) for _, p_m in at_level))]
            shares = [ways[0].work / seconds / speed for (seconds, _), speed in zip(m.turns, speeds, strict=False)]
        share, best = median_and_spread(shares)[0], float(np.quantile(shares, 5 / 6))
        return Row(case.kind, case.label, entrant.kernel, entrant.knobs, m.status, m.seconds, m.spread,
                   flops / m.seconds, (moved.weights + moved.activations) / m.seconds, bound, share, best,
                   least.seconds, least.algorithm, peak)


def model_cases(name: str, profile: Profile, cache: Path) -> Iterator[Case]:
    """The distinct groups of a network, as a build fuses them."""
    for network in networks(name, cache):
        seen = set()
        for planned in default_plan_of(network, profile).groups:
            group = planned.group
            key = signature(group)
            if planned.variant.kernel in ("view", "region") or op_named(group.anchor.op).is_view or key in seen:
                continue
            seen.add(key)
            yield Case(group.anchor.op, short_label(group, network.dims), group, network.dims)


HEAD = f"{'kernel':24} {'shape':29} {'us':>8} {'+-':>4} {'rate':>8} {'share':>9} {'best':>5} {'floor':>6}"


def line(row: Row) -> str:
    """A row of the table, at most 100 columns but for the knobs."""
    if row.status != "ok":
        return f"{row.kernel:24.24} {row.case:29.29} {row.status}"
    rate = f"{row.flops_rate / 1e9:5.1f} GF" if row.bound == "peak" else f"{row.bytes_rate / 1e9:5.1f} GB"
    share = f"{row.share:4.0%} {'mem' if row.bound == 'memory' else row.bound}"
    return (f"{row.kernel:24.24} {row.case:29.29} {row.seconds * 1e6:8.1f} {row.spread / row.seconds:4.0%} {rate} "
            f"{share:>9} {row.best:5.0%} {row.seconds / row.floor_seconds:6.2f}")


def knob_text(knobs: Mapping[str, int | str]) -> str:
    return " ".join(f"{name}={value}" for name, value in knobs.items())


def selected(options: argparse.Namespace, profile: Profile) -> list[Case]:
    if options.model:
        cache = read_switches().cache / "benchmarks"
        cache.mkdir(parents=True, exist_ok=True)
        cases = [case for name in options.model for case in model_cases(name, profile, cache)]
    else:
        cases = list(all_cases(profile.lanes(FLOAT32)))
    return [case for case in cases if options.case in case.label
            and (not options.kind or any(kind in case.kind for kind in options.kind))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="kernels whose name contains this")
    parser.add_argument("--case", default="", metavar="TEXT", help="cases whose shape contains this")
    parser.add_argument("--class", dest="kind", nargs="+", default=[], metavar="TEXT", help="classes, as in --list")
    parser.add_argument("--model", nargs="+", default=[], help="the groups of these networks instead")
    parser.add_argument("--tunings", action="store_true", help="every feasible tuning of every variant, best first")
    parser.add_argument("--most", type=int, default=300, help="tunings to measure for a case, spread evenly; 0: all")
    parser.add_argument("--top", type=int, default=10, help="tunings to print for a case; 0: all")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1.0, help="time for one case, compiling not counted")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prepare", action="store_true", help="compile, and measure nothing")
    parser.add_argument("--list", action="store_true", help="classes and shapes, nothing else")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    profile = load_profile("native")
    assert profile.isa is not None, "the probe names an instruction set for every CPU that kernels are made for"
    cases = selected(options, profile)
    if options.list:
        print("\n".join(f"{case.kind:12} {case.label}" for case in cases))
        return 0
    probes = memory_probes(profile)
    bench = Bench(profile, probes, compile_candidates([p.candidate for p in probes], profile.isa), options.rounds,
                  options.seconds, options.threads)
    rows: list[Row] = []
    spaces: list[Space] = []
    if not options.json and not options.prepare:
        print(f"{profile.isa}, {options.threads} thread{'s' if options.threads > 1 else ''}\n{HEAD}")
    begin = time.monotonic()
    for i, case in enumerate(cases):
        if options.tunings:
            entrants, space = tuned_contenders(case, profile, options.only, options.most)
            spaces += [space] if entrants else []
        else:
            entrants = default_contenders(case, profile, options.only)
        if not entrants:
            continue
        if options.prepare:
            compile_candidates([entrant.uncompiled for entrant in entrants], profile.isa)
            left = (time.monotonic() - begin) / (i + 1) * (len(cases) - i - 1)
            print(f"{i + 1}/{len(cases)} {case.label}: {len(entrants)} compiled, about {left:.0f} s left",
                  file=sys.stderr)
            continue
        found = bench.rows(case, entrants)
        if options.tunings:
            found.sort(key=lambda row: row.seconds or float("inf"))
        rows += found
        if not options.json:
            print_case(found, spaces[-1] if options.tunings else None, options.top)
    if options.json:
        print(json.dumps({"isa": profile.isa, "threads": options.threads, "rows": [asdict(row) for row in rows],
                          "spaces": [asdict(space) for space in spaces]}, indent=2))
    return 0


def print_case(rows: Sequence[Row], space: Space | None, top: int) -> None:
    """The rows of a case; of a space of tunings the first `top`, with their knobs."""
    for row in rows[:top] if space is not None and top else rows:
        print(f"{line(row)}  {knob_text(row.knobs) if space is not None else ''}".rstrip(), flush=True)
    if space is not None:
        print(f"  {space}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
