"""What a library of another instruction set saves a search, and whether its plan is as good.

    python benchmarks/transfer.py resnet18 mobilenetv2 --mode fast
    python benchmarks/transfer.py --from x86-64-v2 --markdown

Each model is searched on this machine with an empty library, and with one that holds what a search of the same mode has
timed in code for another instruction set. Both plans then run in turns as whole packages.

    timed       kernels that the search with the empty library measured, and the one that began with experience
    seconds     that they took
    quality     median over the rounds of the first plan's time over the second's: above 1 where experience gave the
                quicker one
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.latency import environment
from benchmarks.networks import Network, networks
from tests.real_models import ModelMissing

from meta_infer.backends.registry import backend_for
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.hardware.targets import restrict
from meta_infer.kernels.computed_by import kernels_take
from meta_infer.passes.alternatives import propose_alternatives
from meta_infer.passes.covers import propose_covers
from meta_infer.passes.legalize import legalize
from meta_infer.passes.pipeline import canonicalize
from meta_infer.report.search_report import THIS_RUN, search_rows
from meta_infer.search.budget import BUDGETS
from meta_infer.search.default_plan import default_plan
from meta_infer.search.remembered import PlanFound
from meta_infer.search.search_plan import SearchRequest, search_plan
from meta_infer.search.whole.built import build_plan
from meta_infer.search.whole.whole import time_plans
from meta_infer.support.switches import read_switches
from meta_infer.support.trace import Trace
from meta_infer.verify.samples import random_inputs


@dataclass(frozen=True)
class Row:
    """One model, with an empty library and with experience of another instruction set."""

    model: str
    timed: int
    timed_with: int
    seconds: float
    seconds_with: float
    quality: float
    ended: str

    @property
    def fewer(self) -> float:
        return self.timed / max(1, self.timed_with)


def searched(network: Network, profile: Profile, mode: str, seconds: float | None, library: Path,
             tell: Callable[[str], None]) -> tuple[PlanFound, float]:
    os.environ["META_INFER_LIBRARY"] = str(library)
    graph = legalize(canonicalize(network.imported, frozenset()), profile, takes=kernels_take((profile,)))
    backend, none = backend_for(profile), frozenset[str]()
    rule = default_plan(graph, profile, lambda g: propose_covers(g, none, graph), backend.variants,
                        lambda g, groups: propose_alternatives(g, groups, none, graph))
    tune_at = (",".join(f"{name}={size}" for name, size in network.dims.items()),) if network.dims else ()
    begun = time.perf_counter()
    found = search_plan(graph, rule, profile, backend, backend.variants, none, SearchRequest(mode, seconds, tune_at, 1),
                        Trace(on_step=tell), search_rows)
    return found, time.perf_counter() - begun


def measure(network: Network, profile: Profile, other: Profile, mode: str, most: float | None, rounds: int,
            seconds: float, tell: Callable[[str], None]) -> Row:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone, took = searched(network, profile, mode, most, folder / "empty.sqlite", tell)
        searched(network, other, mode, most, folder / "other.sqlite", lambda text: tell(f"{other.isa}: {text}"))
        helped, took_with = searched(network, profile, mode, most, folder / "other.sqlite", tell)
    backend = backend_for(profile)
    built = [build_plan(one.plan, backend, profile, 1) for one in (alone, helped)]
    graph = alone.plan.graph
    first, second = time_plans(built, [random_inputs(graph, network.dims, 0)], rounds=rounds, seconds=seconds)
    quality = statistics.median(one / two for one, two in zip(first, second, strict=True))
    return Row(network.label, alone.rows[THIS_RUN]["timed"], helped.rows[THIS_RUN]["timed"], took, took_with, quality,
               "; ".join(filter(None, (alone.rows["ended"], helped.rows["ended"]))))


def table(rows: Sequence[Row]) -> str:
    lines = [("model", "timed", "with experience", "fewer", "seconds", "with experience", "quality"),
             ("---", *("---:",) * 6)]
    lines += [(r.model, str(r.timed), str(r.timed_with), f"{r.fewer:.1f}x", f"{r.seconds:.0f}",
               f"{r.seconds_with:.0f}", f"{r.quality:.2f}") for r in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[], help="names or files; default: resnet18 and mobilenetv2")
    parser.add_argument("--from", dest="other", default="x86-64-v2", help="an instruction set that this machine runs")
    parser.add_argument("--mode", choices=BUDGETS, default="fast")
    parser.add_argument("--search-seconds", type=float, help="for timing kernels; default: the mode's")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=6.0, help="for the whole plans of one model")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    profile, rows = load_profile("native"), list[Row]()
    other = restrict(profile, options.other)
    if not other.runs_on(profile) or other.isa == profile.isa:
        parser.error(f"--from {options.other}: name another instruction set that this machine ({profile.isa}) runs")
    for name in options.models or ("resnet18", "mobilenetv2"):
        try:
            for network in networks(name, read_switches().cache / "models"):
                rows.append(measure(network, profile, other, options.mode, options.search_seconds, options.rounds,
                                    options.seconds, lambda text, name=name: print(f"{name}: {text}", file=sys.stderr,
                                                                                   flush=True)))
                print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
        except ModelMissing as missing:
            print(f"NOT MEASURED: {missing}", file=sys.stderr)
    if options.json:
        print(json.dumps({"environment": environment(), "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        print(table(rows) if options.markdown else "\n".join(map(str, rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
