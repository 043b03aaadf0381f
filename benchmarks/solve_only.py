"""How long a search needs before anything is timed: space, coarse stage and solve, by guesses alone.

`benchmarks/search.py --solve-only` prints the table. Seconds are those of the processor, whatever else the
machine does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.networks import Network

from meta_infer.backends.registry import backend_for
from meta_infer.cost.model import CostModel
from meta_infer.hardware.profile import Profile
from meta_infer.kernels.computed_by import kernels_take
from meta_infer.passes.legalize import legalize
from meta_infer.passes.pipeline import canonicalize
from meta_infer.search.budget import BUDGETS
from meta_infer.search.fine import Market
from meta_infer.search.space.coarse import coarse
from meta_infer.search.space.guesses import Guesses, roofline_model
from meta_infer.search.space.sites import Translated, sites_of
from meta_infer.search.space.space import make_space
from meta_infer.search.tune_points import tune_points

_T = TypeVar("_T")


@dataclass(frozen=True)
class Solvable:
    """One model: `choices` are what the solver decides between, `gap` by how much another plan could be better."""

    model: str
    mode: str
    combinations: int
    looked_at: int
    kept: int
    choices: int
    space_seconds: float
    coarse_seconds: float
    solve_seconds: float
    gap: float

    @property
    def seconds(self) -> float:
        return self.space_seconds + self.coarse_seconds + self.solve_seconds


def solve_only(network: Network, mode: str, profile: Profile) -> Solvable:
    """The first solve of a search of this mode, with an empty library."""
    graph = legalize(canonicalize(network.imported, frozenset()), profile, takes=kernels_take((profile,)))
    backend, budget = backend_for(profile), BUDGETS[mode]
    tune_at = (",".join(f"{name}={size}" for name, size in network.dims.items()),) if network.dims else ()
    space, space_seconds = _timed(lambda: make_space(graph, profile, backend.variants))
    sites, guesses = sites_of(space), Guesses(roofline_model(profile), tune_points(graph, tune_at))
    told, coarse_seconds = _timed(
        lambda: coarse(sites.values(), profile, guesses, keep=budget.keep, slack=budget.slack))
    market = Market(space, sites, Translated(sites, profile), guesses, CostModel.of(profile))
    solved, solve_seconds = _timed(market.solve)
    return Solvable(network.label, mode, space.combinations, told.looked_at, told.kept, solved.choices, space_seconds,
                    coarse_seconds, solve_seconds, solved.gap)


def _timed(work: Callable[[], _T]) -> tuple[_T, float]:
    """What it gives, and the processor's seconds it took."""
    begun = time.process_time()
    found = work()
    return found, time.process_time() - begun


def solve_table(rows: Sequence[Solvable]) -> str:
    names = ("model", "combinations", "looked at", "kept", "choices", "space s", "coarse s", "solve s", "sum s", "gap")
    lines = [names, ("---", *("---:",) * 9)]
    lines += [(r.model, f"{r.combinations:,}", f"{r.looked_at:,}", f"{r.kept:,}", f"{r.choices:,}",
               *(f"{s:.1f}" for s in (r.space_seconds, r.coarse_seconds, r.solve_seconds, r.seconds)),
               f"{r.gap:.2%}" if r.gap > 1e-9 else "0, proven") for r in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
