"""Searches as benchmarks make them: on models by name, with a library of their own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.networks import Network, default_plan_of, networks
from tests.real_models import ModelMissing

from meta_infer.backends.registry import backend_for
from meta_infer.hardware.profile import Profile
from meta_infer.report.search_report import search_rows
from meta_infer.search.remembered import PlanFound
from meta_infer.search.search_plan import SearchRequest, search_plan
from meta_infer.support.switches import read_switches
from meta_infer.support.trace import Trace


def networks_or_told(name: str) -> Iterator[Network]:
    """The networks of a name; a model that is missing is told on standard error."""
    try:
        yield from networks(name, read_switches().cache / "models")
    except ModelMissing as missing:
        print(f"NOT MEASURED: {missing}", file=sys.stderr)


def teller(name: str) -> Callable[[str], None]:
    """Prints how far a model has come."""
    return lambda text: print(f"{name}: {text}", file=sys.stderr, flush=True)


def searched(network: Network, profile: Profile, mode: str, threads: int, library: Path, tell: Callable[[str], None],
             seconds: float | None = None) -> tuple[PlanFound, float]:
    """(what a search at the network's sizes found, the seconds that it took)."""
    os.environ["META_INFER_LIBRARY"] = str(library)
    rule, backend = default_plan_of(network, profile), backend_for(profile)
    tune_at = (",".join(f"{name}={size}" for name, size in network.dims.items()),) if network.dims else ()
    begun = time.perf_counter()
    found = search_plan(rule.graph, rule, profile, backend, backend.variants, frozenset(),
                        SearchRequest(mode, seconds, tune_at, threads), Trace(on_step=tell), search_rows)
    return found, time.perf_counter() - begun
