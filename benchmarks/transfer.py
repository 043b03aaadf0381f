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
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.networks import Network
from benchmarks.searching import add_options, ended, median_ratio, networks_or_told, print_rows, searched, teller

from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.hardware.targets import restrict
from meta_infer.report.search_report import THIS_RUN
from meta_infer.search.budget import BUDGETS


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


def measure(network: Network, profile: Profile, other: Profile, mode: str, most: float | None, rounds: int,
            seconds: float, tell: Callable[[str], None]) -> Row:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone, took = searched(network, profile, mode, 1, folder / "empty.sqlite", tell, most)
        searched(network, other, mode, 1, folder / "other.sqlite", lambda text: tell(f"{other.isa}: {text}"), most)
        helped, took_with = searched(network, profile, mode, 1, folder / "other.sqlite", tell, most)
    quality = median_ratio(network, alone, helped, profile, rounds, seconds)
    return Row(network.label, alone.rows[THIS_RUN]["timed"], helped.rows[THIS_RUN]["timed"], took, took_with, quality,
               ended(alone, helped))


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
    add_options(parser, rounds=15, seconds=6.0)
    options = parser.parse_args()
    profile, rows = load_profile("native"), list[Row]()
    other = restrict(profile, options.other)
    if not other.runs_on(profile) or other.isa == profile.isa:
        parser.error(f"--from {options.other}: name another instruction set that this machine ({profile.isa}) runs")
    for name in options.models or ("resnet18", "mobilenetv2"):
        for network in networks_or_told(name):
            rows.append(measure(network, profile, other, options.mode, options.search_seconds, options.rounds,
                                options.seconds, teller(name)))
            print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    print_rows(rows, table, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
