"""How good the search is: its plans against the plan by rule and against fixed policies, and what it took to find them.

    python benchmarks/search.py resnet18 mobilenetv2 --mode fast
    python benchmarks/search.py --mode balanced --markdown       # all real models: the table of docs/benchmarks.md
    python benchmarks/search.py --mode balanced --results FILE   # ended and called again, it goes on from there
    python benchmarks/search.py resnet18 --results FILE --library FILE --again     # only its whole plans, once more
    python benchmarks/search.py digits --library FILE --json
    python benchmarks/search.py --solve-only --markdown          # how long the first plan takes, by guesses alone

Each model is searched twice: with a library of its own that is empty, or the one of --library, and again with what the
first search has left in it (`warm`). Then the plans run in turns as whole packages: the searched one, the one by rule,
and one per fixed policy: a single layout and a single algorithm wherever these can be, and plain kernels elsewhere. The
best policy and the first two plans run once more, for longer: the least of many owes some of its lead to luck, and only
the second times count. Ratios are medians over the rounds of time by time, above 1 where the search is quicker.

    combinations   kernels with all values of their knobs over the distinct groups
    timed          of these, kernels that the first search timed
    error          median error of guesses, corrected as the search does it
    sum/whole      sum of the kernels' times over that of the whole network

Below the table stand geometric means over all models, and over those that do most of their work in convolutions.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.latency import REAL, environment
from benchmarks.networks import Network, default_plan_of
from benchmarks.result_lines import add_result, read_results
from benchmarks.searching import networks_or_told, searched, teller
from benchmarks.solve_only import solve_only, solve_table

from meta_infer.backends.registry import backend_for
from meta_infer.cost.algorithms import size_of
from meta_infer.cost.features import group_flops
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Plan, Variant
from meta_infer.kernels.computed_by import kernels_take
from meta_infer.passes.covers import propose_covers
from meta_infer.passes.legalize import legalize
from meta_infer.passes.pipeline import canonicalize
from meta_infer.report.search_report import THIS_RUN
from meta_infer.search.budget import BUDGETS
from meta_infer.search.default_plan import RISK_LIMIT, Variants, default_plan
from meta_infer.search.space.ways import choices_of
from meta_infer.search.whole.built import build_plan
from meta_infer.search.whole.whole import time_plans
from meta_infer.support.errors import MetaInferError
from meta_infer.verify.samples import random_inputs

POLICIES: Mapping[str, tuple[bool, str]] = {
    "blocked direct": (True, "conv_direct"), "blocked winograd": (True, "conv_winograd"),
    "blocked padded": (True, "conv_padded"), "plain im2col": (False, "conv_im2col"),
    "plain indirect": (False, "conv_indirect"), "plain lanes": (False, "conv_lanes"),
}
"""Name -> (whether layouts are blocked, the kernel of convolutions wherever it can be)."""
_MORE = 3
"""Times the rounds of the first comparison that the second has."""


@dataclass(frozen=True)
class Row:
    """One model. `rule` and `fixed` are times of the plan by rule and the best fixed policy over the searched one,
    `in_convolutions` is the share of its operations."""

    model: str
    mode: str
    threads: int
    combinations: int
    kept: int
    timed: int
    cold_seconds: float
    warm_seconds: float
    error: float
    gap: float
    sum_over_whole: float
    milliseconds: float
    rule: float
    fixed: float
    policy: str
    ended: str
    in_convolutions: float


def policy_variants(variants: Variants, is_blocked: bool, kernel: str) -> Variants:
    """Variants of a policy: its layout where a group has one in it, its kernel where that computes the group."""
    def kept(group: Group, profile: Profile) -> Iterator[Variant]:
        offered = [v for v in variants(group, profile) if v.risk <= RISK_LIMIT]
        for rule in (lambda v: v.kernel == kernel, lambda v: _is_blocked(v) == is_blocked, lambda v: True):
            found = [v for v in offered if rule(v)]
            if found:
                yield from found
                return

    return kept


def _is_blocked(variant: Variant) -> bool:
    return any(layout.block for layout in (*variant.inputs.values(), *variant.outputs.values()))


@dataclass(frozen=True)
class Compared:
    """Seconds of the searched plan; times of the plan by rule and the best policy over its."""

    seconds: float
    rule: float
    fixed: float
    policy: str


def measure(network: Network, mode: str, threads: int, profile: Profile, library: Path, rounds: int, seconds: float,
            tell: Callable[[str], None]) -> Row:
    cold, cold_seconds = searched(network, profile, mode, threads, library, tell)
    _, warm_seconds = searched(network, profile, mode, threads, library, tell)
    rule, told = default_plan_of(network, profile), cold.rows
    found = compare(network, cold.plan, rule, threads, profile, rounds, seconds, tell)
    return Row(network.label, mode, threads, told["combinations"], told["kept"], told[THIS_RUN]["timed"], cold_seconds,
               warm_seconds, told["guess_error"], told["gap"], told["sum_of_parts_s"] / found.seconds,
               1e3 * found.seconds, found.rule, found.fixed, found.policy, told["ended"],
               _in_convolutions(rule, network))


def compare_again(row: Row, network: Network, profile: Profile, library: Path, rounds: int, seconds: float,
                  tell: Callable[[str], None]) -> Row:
    """The row with new times of the whole plans, the searched one as the library has it."""
    known, _ = searched(network, profile, row.mode, row.threads, library, tell)
    rule = default_plan_of(network, profile)
    found = compare(network, known.plan, rule, row.threads, profile, rounds, seconds, tell)
    return replace(row, sum_over_whole=known.rows["sum_of_parts_s"] / found.seconds, milliseconds=1e3 * found.seconds,
                   rule=found.rule, fixed=found.fixed, policy=found.policy)


def compare(network: Network, plan: Plan, rule: Plan, threads: int, profile: Profile, rounds: int, seconds: float,
            tell: Callable[[str], None]) -> Compared:
    graph = legalize(canonicalize(network.imported, frozenset()), profile, takes=kernels_take((profile,)))
    backend = backend_for(profile)
    plans: dict[str, Plan] = {"searched": plan, "rule": rule}
    for name, (is_blocked, kernel) in POLICIES.items():
        try:
            plans[name] = default_plan(graph, profile, propose_covers,
                                       policy_variants(backend.variants, is_blocked, kernel))
        except MetaInferError as error:
            tell(f"no plan of policy {name}: {error}")
    tell("whole plans")
    same = {choices_of(one): name for name, one in reversed(plans.items())}      # by what it takes: its first name
    built = {name: build_plan(plans[name], backend, profile, threads) for name in same.values()}
    inputs = [random_inputs(graph, network.dims, 0)]

    def over_searched(names: Sequence[str], rounds: int) -> tuple[float, dict[str, float]]:
        found = time_plans([built[name] for name in names], inputs, rounds=rounds, seconds=seconds)
        turns = {name: own for name, own in zip(names, found, strict=True) if own}
        return median(turns["searched"]), {name: median(other / own for other, own in
                                                        zip(turns[name], turns["searched"], strict=True))
                                           for name in turns}

    _, ratios = over_searched(list(built), rounds)
    names = {name: same[choices_of(one)] for name, one in plans.items()}
    policy = min((name for name in POLICIES if names.get(name) in ratios), key=lambda name: ratios[names[name]])
    whole, ratios = over_searched(list(dict.fromkeys(["searched", names["rule"], names[policy]])), _MORE * rounds)
    return Compared(whole, ratios[names["rule"]], ratios[names[policy]], policy)


def _in_convolutions(plan: Plan, network: Network) -> float:
    flops = [(one.group.anchor.op, size_of(group_flops(one.group), network.dims)) for one in plan.groups]
    return sum(count for op, count in flops if op == "Conv") / max(1, sum(count for _, count in flops))


def table(rows: Sequence[Row]) -> str:
    names = ("model", "combinations", "kept", "timed", "cold s", "warm s", "error", "sum/whole", "ms", "over rule",
             "over fixed", "best fixed policy")
    lines = [names, ("---", *("---:",) * 10, "---")]
    lines += [(r.model, f"{r.combinations:,}", str(r.kept), str(r.timed), f"{r.cold_seconds:.0f}",
               f"{r.warm_seconds:.0f}", f"{r.error:.0%}", f"{r.sum_over_whole:.2f}", f"{r.milliseconds:.3g}",
               f"{r.rule:.2f}", f"{r.fixed:.2f}", r.policy) for r in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def means(rows: Sequence[Row]) -> str:
    lines = []
    for name, own in (("all models", rows), ("convolutional ones", [r for r in rows if r.in_convolutions > 0.5])):
        if own:
            lines.append(f"geometric mean of {len(own)} ({name}): over rule {geometric_mean(r.rule for r in own):.3f}, "
                         f"over the best fixed policy {geometric_mean(r.fixed for r in own):.3f}")
    return "\n".join(lines)


def known_rows(results: Path | None) -> dict[tuple[str, str, int], Row]:
    """Rows that an earlier call has left, by model, mode and threads; the last of each counts."""
    def read(line: dict[str, Any]) -> tuple[tuple[str, str, int], Row]:
        row = Row(**line)
        return (row.model, row.mode, row.threads), row

    return {} if results is None else read_results(results, read)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[], help="names or files; default: all real models")
    parser.add_argument("--mode", choices=BUDGETS, default="fast")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=8.0, help="for the whole plans of one model, twice")
    parser.add_argument("--library", type=Path, help="search with this library; default: an empty one for each model")
    parser.add_argument("--results", type=Path, help="a file of lines: models in it are not measured, others are added")
    parser.add_argument("--again", action="store_true", help="time the whole plans of models in the results once more")
    parser.add_argument("--solve-only", action="store_true", help="nothing is timed; see solve_only.py")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    profile, rows = load_profile("native"), list[Row]()
    if options.solve_only:
        return _solve_only(options.models or REAL, options.mode, profile, options.json)
    known = known_rows(options.results)
    for name in options.models or REAL:
        with tempfile.TemporaryDirectory() as folder:
            library = options.library or Path(folder) / "library.sqlite"
            for network in networks_or_told(name):
                row = known.get((network.label, options.mode, options.threads))
                if row is None:
                    made = measure(network, options.mode, options.threads, profile, library, options.rounds,
                                   options.seconds, teller(name))
                elif options.again:
                    made = compare_again(row, network, profile, library, options.rounds, options.seconds, teller(name))
                else:
                    made = row
                if options.results and made is not row:
                    add_result(options.results, asdict(made))
                rows.append(made)
                print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps({"environment": environment(), "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        print(table(rows) if options.markdown else "\n".join(map(str, rows)))
        print(f"\n{means(rows)}")
    return 0


def _solve_only(names: Sequence[str], mode: str, profile: Profile, as_json: bool) -> int:
    rows = []
    for name in names:
        for network in networks_or_told(name):
            rows.append(solve_only(network, mode, profile))
            print(solve_table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    print(json.dumps({"environment": environment(), "rows": [asdict(row) for row in rows]}, indent=1) if as_json
          else solve_table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
