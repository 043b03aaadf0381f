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
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.networks import Network
from benchmarks.searching import add_options, ended, median_ratio, networks_or_told, print_rows, searched, teller

from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.report.search_report import THIS_RUN
from meta_infer.search.budget import BUDGETS
from meta_infer.search.space.ways import choices_of


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
    is_same = choices_of(one.plan) == choices_of(other.plan)
    ratio = 1.0 if is_same else median_ratio(network, one, other, profile, rounds, seconds)
    return Row(network.label, modes, (one.rows[THIS_RUN]["timed"], other.rows[THIS_RUN]["timed"]), (took, took_more),
               ratio, ended(one, other))


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
    add_options(parser, rounds=41, seconds=15.0)
    options = parser.parse_args()
    profile, rows, modes = load_profile("native"), list[Row](), (options.modes[0], options.modes[1])
    for name in options.models or ("squeezenet1_1",):
        for network in networks_or_told(name):
            rows.append(measure(network, profile, modes, options.search_seconds, options.rounds, options.seconds,
                                teller(name)))
            print(table(rows[-1:], modes).splitlines()[-1], file=sys.stderr, flush=True)
    print_rows(rows, partial(table, modes=modes), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
