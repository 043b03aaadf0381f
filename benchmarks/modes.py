"""What more effort brings: the plans of two modes of the search, as whole packages in turns.

    python benchmarks/modes.py squeezenet1_1                     # balanced beside thorough
    python benchmarks/modes.py resnet18 --modes fast balanced --markdown

Each model is searched on this machine with an empty library in the first mode, and then in the second, which takes over
what the first has timed.

    timed       kernels that each of the searches measured
    seconds     that each took
    ratio       median over the rounds of the first plan's time over the second's: above 1 where the second is quicker
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.latency import environment
from benchmarks.networks import Network
from benchmarks.searching import networks_or_told, searched, teller

from meta_infer.backends.registry import backend_for
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.report.search_report import THIS_RUN
from meta_infer.search.budget import BUDGETS
from meta_infer.search.space.ways import choices_of
from meta_infer.search.whole.built import build_plan
from meta_infer.search.whole.whole import time_plans
from meta_infer.verify.samples import random_inputs


@dataclass(frozen=True)
class Row:
    """One model in two modes; `ratio` is 1 where both come to the same plan."""

    model: str
    modes: tuple[str, str]
    timed: tuple[int, int]
    seconds: tuple[float, float]
    ratio: float
    ended: str


def measure(network: Network, profile: Profile, modes: tuple[str, str], most: float | None, rounds: int, seconds: float,
            tell: Callable[[str], None]) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library.sqlite"
        (one, took), (other, took_more) = (searched(network, profile, mode, 1, library, tell, most) for mode in modes)
    ratio = 1.0
    if choices_of(one.plan) != choices_of(other.plan):
        built = [build_plan(found.plan, backend_for(profile), profile, 1) for found in (one, other)]
        first, second = time_plans(built, [random_inputs(one.plan.graph, network.dims, 0)], rounds=rounds,
                                   seconds=seconds)
        ratio = statistics.median(a / b for a, b in zip(first, second, strict=True))
    return Row(network.label, modes, (one.rows[THIS_RUN]["timed"], other.rows[THIS_RUN]["timed"]), (took, took_more),
               ratio, "; ".join(filter(None, (one.rows["ended"], other.rows["ended"]))))


def table(rows: Sequence[Row], modes: Sequence[str]) -> str:
    lines = [("model", *(f"{mode}: {what}" for mode in modes for what in ("timed", "seconds")), "ratio"),
             ("---", *("---:",) * 5)]
    lines += [(r.model, *(cell for timed, seconds in zip(r.timed, r.seconds, strict=True)
                          for cell in (str(timed), f"{seconds:.0f}")), f"{r.ratio:.2f}") for r in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[], help="names or files; default: squeezenet1_1")
    parser.add_argument("--modes", nargs=2, choices=BUDGETS, default=("balanced", "thorough"))
    parser.add_argument("--search-seconds", type=float, help="for timing kernels; default: the mode's")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--seconds", type=float, default=15.0, help="for the whole plans of one model")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    profile, rows, modes = load_profile("native"), list[Row](), (options.modes[0], options.modes[1])
    for name in options.models or ("squeezenet1_1",):
        for network in networks_or_told(name):
            rows.append(measure(network, profile, modes, options.search_seconds, options.rounds, options.seconds,
                                teller(name)))
            print(table(rows[-1:], modes).splitlines()[-1], file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps({"environment": environment(), "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        print(table(rows, modes) if options.markdown else "\n".join(map(str, rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
