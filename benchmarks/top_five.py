"""Whether what the cost model ranks first is quick: ways of a group are timed again, against each other.

    python benchmarks/top_five.py                               # the groups of all real models that the library has
    python benchmarks/top_five.py resnet18 --library FILE --json

Of every group with 20 ways or more in the experience library two sets are timed, in turns, in one process: the five
ways that the cost model predicts best, which was fitted to other groups alone (as in predict.py --cross-validate), and
the five that were the quickest when the library timed them.

    regret      the least time of the first set over the least of both, less one
    remembered  the same by the library's own times: the quickest of many times that were taken once owes some of its
                lead to luck, which this counts as a fault of the model
    tied        ways of both sets within 3% of the quickest
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from benchmarks.latency import REAL, environment
from benchmarks.networks import Network, default_plan_of
from benchmarks.predict import cross_validated
from benchmarks.searching import networks_or_told

from meta_infer.backends.registry import backend_for
from meta_infer.cost.features import counted_as_now
from meta_infer.cost.model import CostModel
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import PLAIN, Group
from meta_infer.library.samples import Sample
from meta_infer.library.store import Library
from meta_infer.search.calibrate.learned_model import cost_samples
from meta_infer.search.measure.measure import measured_cpu
from meta_infer.search.space.sites import Site, sites_of
from meta_infer.search.space.space import make_space
from meta_infer.search.space.ways import Way, variant_as
from meta_infer.search.timing import Timer
from meta_infer.support.switches import read_switches

_MANY, _TOP, _NEAR = 20, 5, 0.03


@dataclass(frozen=True)
class Remembered:
    """A way of a group as the library has it, and what the model says. Seconds."""

    sample: Sample
    predicted: float


@dataclass(frozen=True)
class Row:
    """One group, timed again."""

    model: str
    group: str
    ways: int
    regret: float
    remembered: float
    tied: int


Key = tuple[str, tuple[tuple[str, int], ...]]
"""Text of a group, sizes of its symbols."""


def remembered(library: Path, profile: Profile) -> dict[Key, list[Remembered]]:
    """Ways of the groups that have many, with the newest time of each."""
    with Library.open_to_read(library) as opened:
        known = sorted((s for s in opened.samples(cpu=measured_cpu(), isa=str(profile.isa), threads=1, ok=True)
                        if not s.place and s.features and counted_as_now(s.features)), key=lambda s: s.made)
    predicted = cross_validated(cost_samples(known), CostModel.of(profile))
    found: dict[Key, dict[object, Remembered]] = {}
    for sample, seconds in zip(known, predicted, strict=True):
        way = sample.kernel, sample.variant, tuple(sorted(sample.knobs.items())), tuple(sorted(sample.layouts.items()))
        found.setdefault((sample.group, tuple(sorted(sample.sizes.items()))), {})[way] = Remembered(sample, seconds)
    return {group: list(ways.values()) for group, ways in found.items() if len(ways) >= _MANY}


def way_of_sample(sample: Sample, group: Group) -> Way:
    def layouts(side: str, count: int) -> tuple[str, ...]:
        return tuple(sample.layouts.get(f"{side}{i}", str(PLAIN)) for i in range(count))

    return Way(sample.kernel, sample.variant, layouts("in", len(group.inputs)), layouts("out", len(group.outputs)),
               tuple(sorted(sample.knobs.items())))


def timed_again(network: Network, site: Site, ways: Sequence[Remembered], profile: Profile, rounds: int) -> Row | None:
    """None where fewer than two of the ways can still be."""
    first = sorted(ways, key=lambda one: one.predicted)[:_TOP]
    quickest = sorted(ways, key=lambda one: one.sample.seconds)[:_TOP]
    site.ways.clear()
    wanted = dict.fromkeys(way_of_sample(one.sample, site.group) for one in (*first, *quickest))
    found = (variant_as(way, site.group, site.variants, profile) for way in wanted)
    variants = [variant for variant in found if variant is not None and site.add(variant, 0.0)]
    predicted = {way_of_sample(one.sample, site.group) for one in first} & site.ways.keys()
    if len(variants) < 2 or not predicted:
        return None
    Timer(backend_for(profile), profile, (network.dims,), 1, rounds=rounds).time([(site, variants)])
    seconds = {way: known.seconds for way, known in site.ways.items()}
    best = min(seconds.values())
    return Row(network.label, site.group.label, len(ways), min(seconds[way] for way in predicted) / best - 1,
               min(one.sample.seconds for one in first) / quickest[0].sample.seconds - 1,
               sum(one <= (1 + _NEAR) * best for one in seconds.values()))


def rows_of(network: Network, known: Mapping[Key, list[Remembered]], profile: Profile, rounds: int,
            done: set[Key]) -> Iterator[Row]:
    """The groups of a network that are not `done` yet."""
    backend, dims = backend_for(profile), network.dims.items()
    space = make_space(default_plan_of(network, profile).graph, profile, backend.variants)
    sites = sites_of(space)
    for key, ways in known.items():
        text, sizes = key
        if text in sites and dims <= dict(sizes).items() and key not in done:
            done.add(key)
            row = timed_again(network, sites[text], ways, profile, rounds)
            if row is not None:
                yield row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[*REAL], help="ONNX files, or names; all real models if none")
    parser.add_argument("--library", type=Path, help="another library than the usual one")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    profile = load_profile("native")
    known = remembered(options.library or read_switches().library, profile)
    print(f"{len(known)} groups have {_MANY} ways or more", file=sys.stderr)
    rows, done = list[Row](), set[Key]()
    for name in options.models:
        for network in networks_or_told(name):
            for row in rows_of(network, known, profile, options.rounds, done):
                rows.append(row)
                print(f"{row.model} {row.group}: {row.ways} ways, regret {row.regret:.1%} (remembered "
                      f"{row.remembered:.1%}), {row.tied} within {_NEAR:.0%}", file=sys.stderr, flush=True)
    if not rows:
        print("no group of these models has as many ways in the library: a build with --search-mode adds some",
              file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({**environment(), "rows": [asdict(row) for row in rows]}, indent=2))
        return 0
    near, luck = (sum(found <= _NEAR for found in found_by)
                  for found_by in ([row.regret for row in rows], [row.remembered for row in rows]))
    print(f"{len(rows)} groups: the five predicted best have one within {_NEAR:.0%} of the best of both sets in "
          f"{near}, {near / len(rows):.0%} (by remembered times {luck}, {luck / len(rows):.0%}); the median regret is "
          f"{np.median([row.regret for row in rows]):.1%}, the 95th percentile "
          f"{np.percentile([row.regret for row in rows], 95):.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
