"""How good the cost model is: whole networks predicted and timed, and groups that it has not seen.

    python benchmarks/predict.py                                 # all real models: predicted, measured, error
    python benchmarks/predict.py resnet18 mobilenetv2 --json
    python benchmarks/predict.py --cross-validate                # of the samples of the experience library, by class
    python benchmarks/predict.py --cross-validate --library FILE --markdown

Networks run by the plan of a build without options, on one thread. A prediction is of the clock at which the profile
was calibrated: measured times are taken as at the peak `--peak` (operations per second; default: the median over all
networks), by the probe beside each round, which a busy machine shifts less than times. `plain` is the prediction of
the profile and its caches alone; `predicted` has the factor, drawn from the other networks of this run alone, between
kernels by themselves and within networks.

With --cross-validate nothing is timed. Samples of this CPU and instruction set are cut into five parts by group; each
part is predicted by the profile, corrected by the other four. `top five` is the best measured time of the five that
are predicted best over the best of all, of groups with 20 samples or more.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from benchmarks.latency import REAL, environment
from benchmarks.networks import Network, default_plan_of, networks
from scipy.stats import spearmanr
from tests.real_models import ModelMissing

from meta_infer import api
from meta_infer.backends.registry import backend_for
from meta_infer.cost.features import counted_as_now
from meta_infer.cost.fit import CostSample
from meta_infer.cost.model import CostModel
from meta_infer.cost.refit import context_factors, refit
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import names_of
from meta_infer.library.store import Library
from meta_infer.lower.lower_graph import lower_graph
from meta_infer.runtime.session import load
from meta_infer.search.calibrate.learned_model import cost_samples
from meta_infer.search.measure.live_probes import LiveProbes
from meta_infer.search.measure.measure import measured_cpu
from meta_infer.search.predict import DISPATCH, RUN, GroupPrediction, predict_groups
from meta_infer.search.whole.in_place import time_in_place
from meta_infer.support.errors import MetaInferError
from meta_infer.support.switches import read_switches
from meta_infer.verify.samples import random_inputs

NEAR = 0.1
"""Error up to which a network counts as predicted."""
_PARTS, _FEWEST, _MANY, _TOP, _REGRET = 5, 20, 20, 5, 0.03


@dataclass(frozen=True)
class Timed:
    """A network, timed in place: seconds of its runs and of each group, with the probe's peak beside them."""

    model: str
    groups: tuple[GroupPrediction, ...]
    rounds: tuple[tuple[float, float, tuple[float, ...]], ...]           # peak, seconds, seconds of each group

    @property
    def peak(self) -> float:
        return float(np.median([peak for peak, _, _ in self.rounds]))

    def seconds(self, peak: float) -> float:
        """Of a run at this peak."""
        return float(np.median([seconds * here / peak for here, seconds, _ in self.rounds]))

    def samples(self, peak: float) -> list[CostSample]:
        times = np.median([[one * here / peak for one in own] for here, _, own in self.rounds], 0)
        return [CostSample(group.kernel, group.precision, f"{self.model} {i}", group.features, float(time))
                for i, (group, time) in enumerate(zip(self.groups, times, strict=True))]


@dataclass(frozen=True)
class Row:
    """A network, in seconds of a run."""

    model: str
    plain: float
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class ClassRow:
    """A class of kernels over groups that were not fitted to."""

    kernel: str
    samples: int
    groups: int
    error: float
    rank: float


def timed(network: Network, profile: Profile, cost: CostModel, probes: LiveProbes, rounds: int,
          seconds: float) -> Timed:
    """The network's groups, predicted by themselves, and times of each in place."""
    plan = default_plan_of(network, profile)
    names = (names_of(network.imported, wanted) for wanted in (network.imported.inputs, network.imported.outputs))
    program = lower_graph(plan, profile, backend_for(profile).lower, *names)
    groups = predict_groups(plan, program, profile, cost, network.dims)
    with tempfile.TemporaryDirectory(prefix="meta-infer-predict-") as folder:
        package = Path(folder) / "model.bin"
        api.build(network.file, output=package, shape=network.shapes, verify=False)
        inputs = random_inputs(network.imported, network.dims, seed=0)
        with load(package, threads=1) as session:
            found = list(time_in_place(session, inputs, probes, rounds, seconds))
    return Timed(network.label, tuple(groups), tuple(
        (one.rates.peak if one.rates else 1.0, one.seconds,
         tuple(float(sum(one.commands[i] for i in group.commands)) for group in groups)) for one in found))


def rows_of(found: Sequence[Timed], cost: CostModel, peak: float) -> list[Row]:
    """Each network by the cost model and what the others say of times within networks."""
    samples = [one.samples(peak) for one in found]
    rows = []
    for i, one in enumerate(found):
        others = [sample for j, own in enumerate(samples) if j != i for sample in own]
        beyond = RUN + DISPATCH * sum(len(group.commands) for group in one.groups)
        totals = []
        for model in (cost, replace(cost, context=context_factors(cost, others))):
            totals.append(beyond + sum(model.seconds(group.kernel, group.precision, group.features, True).seconds
                                       for group in one.groups))
        rows.append(Row(one.model, *totals, one.seconds(peak)))
    return rows


def cross_validated(samples: Sequence[CostSample], before: CostModel) -> np.ndarray:
    """Predicted seconds of each by the model that the other parts correct."""
    parts = np.array([int.from_bytes(hashlib.sha256(s.group.encode()).digest()[4:8], "big") % _PARTS for s in samples])
    found = np.zeros(len(samples))
    for part in range(_PARTS):
        model = refit(before, [s for s, own in zip(samples, parts, strict=True) if own != part])
        for i in np.flatnonzero(parts == part):
            found[i] = model.seconds(samples[i].kernel, samples[i].precision, samples[i].features).seconds
    return found


def class_rows(samples: Sequence[CostSample], predicted: np.ndarray) -> list[ClassRow]:
    kernels, measured = np.array([s.kernel for s in samples]), np.array([s.seconds for s in samples])
    rows = []
    for kernel in sorted({*kernels}):
        own = np.flatnonzero(kernels == kernel)
        if len(own) >= _FEWEST:
            rank = spearmanr(predicted[own], measured[own])[0]
            error = float(np.median(np.abs(predicted[own] / measured[own] - 1)))
            rows.append(ClassRow(kernel, len(own), len({samples[i].group for i in own}), error, float(rank)))
    return rows


def regrets(samples: Sequence[CostSample], predicted: np.ndarray) -> list[float]:
    """Of every group with many samples: what the five that are predicted best miss of the best."""
    groups: dict[str, list[int]] = {}
    for i, sample in enumerate(samples):
        groups.setdefault(sample.group, []).append(i)
    found = []
    for own in groups.values():
        if len(own) >= _MANY:
            seconds = [samples[i].seconds for i in sorted(own, key=lambda i: predicted[i])]
            found.append(min(seconds[:_TOP]) / min(seconds) - 1)
    return found


def lines_of(head: Sequence[str], rows: Sequence[Sequence[str]], markdown: bool) -> list[str]:
    if markdown:
        lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
        return ["| " + " | ".join(line) + " |" for line in lines]
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]
    return ["  ".join([line[0].ljust(widths[0]), *(line[i].rjust(widths[i]) for i in range(1, len(line)))])
            for line in (head, *rows)]


def whole(options: argparse.Namespace, profile: Profile) -> int:
    cache = read_switches().cache / "benchmarks"
    cache.mkdir(parents=True, exist_ok=True)
    probes, cost = LiveProbes(profile, 1), CostModel.of(profile)
    found: list[Timed] = []
    missing = 0
    for name in options.models:
        try:
            for network in networks(name, cache):
                found.append(timed(network, profile, cost, probes, options.rounds, options.seconds))
                print(f"{network.label}: {len(found[-1].rounds)} rounds", file=sys.stderr, flush=True)
        except (MetaInferError, ModelMissing) as error:
            print(f"{name}: {error}", file=sys.stderr)
            missing += 1
    if not found:
        return 1
    peak = options.peak or float(np.median([one.peak for one in found]))
    rows = rows_of(found, cost, peak)
    if options.json:
        print(json.dumps({**environment(), "peak": peak,
                          "rows": [{**asdict(row), "error": row.error} for row in rows]}, indent=2))
        return bool(missing)
    head = ("model", "plain ms", "predicted ms", "measured ms", "error")
    cells = [(row.model[:28], f"{row.plain * 1e3:.3f}", f"{row.predicted * 1e3:.3f}", f"{row.measured * 1e3:.3f}",
              f"{row.error:+.1%}") for row in rows]
    near = sum(abs(row.error) <= NEAR for row in rows)
    print("\n".join(lines_of(head, cells, options.markdown)))
    plain, middle = sum(abs(r.plain / r.measured - 1) <= NEAR for r in rows), np.median([abs(r.error) for r in rows])
    print(f"\n{near} of {len(rows)} within {NEAR:.0%}, median error {middle:.1%}; without the factor {plain}; "
          f"peak {peak / 1e9:.0f} GFLOP/s")
    return bool(missing)


def cross_validate(options: argparse.Namespace, profile: Profile) -> int:
    with Library.open_to_read(options.library or read_switches().library) as library:
        known = library.with_features(measured_cpu(), str(profile.isa), 1)
    samples = cost_samples([one for one in known if not one.place and counted_as_now(one.features)])
    if len(samples) < _FEWEST:
        print(f"{library.path}: {len(samples)} samples of this CPU with features: a build with --search-mode adds some",
              file=sys.stderr)
        return 1
    predicted = cross_validated(samples, CostModel.of(profile))
    rows, missed = class_rows(samples, predicted), regrets(samples, predicted)
    off = [abs(p / s.seconds - 1) for p, s in zip(predicted, samples, strict=True)]
    figures: Mapping[str, float] = {
        "samples": len(samples), "groups": len({s.group for s in samples}), "median_error": float(np.median(off)),
        "classes": len(rows), "classes_good": sum(row.error <= 0.15 and row.rank >= 0.9 for row in rows),
        "groups_of_20": len(missed), "top_five_within_3_percent": sum(one <= _REGRET for one in missed)}
    if options.json:
        print(json.dumps({**environment(), **figures, "rows": [asdict(row) for row in rows]}, indent=2))
        return 0
    cells = [(r.kernel, str(r.samples), str(r.groups), f"{r.error:.1%}", f"{r.rank:.2f}") for r in rows]
    print("\n".join(lines_of(("kernel", "samples", "groups", "median error", "rank"), cells, options.markdown)))
    print(f"\n{figures['samples']} samples of {figures['groups']} groups: median error {figures['median_error']:.1%}; "
          f"{figures['classes_good']} of {figures['classes']} classes have at most 15% and a rank of at least 0.9; the "
          f"top five have one within 3% of the best in {figures['top_five_within_3_percent']} of "
          f"{figures['groups_of_20']} groups with 20 samples or more")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[*REAL], help="ONNX files, or names; all real models if none")
    parser.add_argument("--hardware", default="native", help="the profile whose cost model predicts")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=6.0, help="for one network, building not counted")
    parser.add_argument("--peak", type=float, help="operations per second that times are taken at")
    parser.add_argument("--cross-validate", action="store_true", help="groups of the experience library; times nothing")
    parser.add_argument("--library", type=Path, help="with --cross-validate: another library than the usual one")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true", help="tables as in docs/benchmarks.md")
    options = parser.parse_args()
    profile = load_profile(options.hardware)
    return cross_validate(options, profile) if options.cross_validate else whole(options, profile)


if __name__ == "__main__":
    sys.exit(main())
