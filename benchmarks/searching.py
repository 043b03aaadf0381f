"""Searches as benchmarks make them: on models by name, with a library of their own."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.latency import environment
from benchmarks.networks import Network, default_plan_of, networks
from tests.real_models import ModelMissing

from meta_infer.backends.registry import backend_for
from meta_infer.hardware.profile import Profile
from meta_infer.report.search_report import search_rows
from meta_infer.search.remembered import PlanFound
from meta_infer.search.search_plan import SearchRequest, search_plan
from meta_infer.search.whole.built import build_plan
from meta_infer.search.whole.whole import time_plans
from meta_infer.support.switches import read_switches
from meta_infer.support.trace import Trace
from meta_infer.verify.samples import random_inputs


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
    begun = time.perf_counter()
    found = search_plan(rule.graph, rule, profile, backend, backend.variants, frozenset(),
                        SearchRequest(mode, seconds, network.tune_at, threads), Trace(on_step=tell), search_rows)
    return found, time.perf_counter() - begun


def median_ratio(network: Network, one: PlanFound, other: PlanFound, profile: Profile, rounds: int,
                 seconds: float) -> float:
    """Median over the rounds of the first plan's time over the second's, as whole packages in turns on one thread."""
    backend = backend_for(profile)
    built = [build_plan(found.plan, backend, profile, 1) for found in (one, other)]
    first, second = time_plans(built, [random_inputs(one.plan.graph, network.dims, 0)], rounds=rounds, seconds=seconds)
    return statistics.median(a / b for a, b in zip(first, second, strict=True))


def ended(*found: PlanFound) -> str:
    """What cut the searches short, if anything did."""
    return "; ".join(filter(None, (one.rows["ended"] for one in found)))


def add_options(parser: argparse.ArgumentParser, rounds: int, seconds: float) -> None:
    """Those of a benchmark that sets two searches beside each other, with its defaults."""
    parser.add_argument("--search-seconds", type=float, help="for timing kernels; default: the mode's")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=seconds, help="for the whole plans of one model")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", action="store_true")


def print_rows(rows: Sequence[Any], table: Callable[[Sequence[Any]], str], options: argparse.Namespace) -> None:
    """As JSON, as a table, or one by one."""
    if options.json:
        print(json.dumps({"environment": environment(), "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        print(table(rows) if options.markdown else "\n".join(map(str, rows)))
