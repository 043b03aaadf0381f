"""How far each network is from its floor: the least time that any kernels could take on this machine just now.

    python benchmarks/roofline.py resnet50                       # the groups furthest from their floor first
    python benchmarks/roofline.py --threads 1 2 --summary        # all real models, a line each
    python benchmarks/roofline.py --markdown                     # the table of docs/benchmarks.md
    python benchmarks/roofline.py resnet18 --json

A network's floor is the sum over its groups of the least time over algorithms (direct, Winograd, GEMM) of operations
over peak and bytes over bandwidth (cost/floor.py); layout conversions and all else between groups have none. Each
round takes the machine's peak and the rate of every level of memory by probes, then times the network as a whole and
each of its commands (search/whole/in_place.py). Figures are medians over the rounds, ratios are of one round each.
`gap` is the group's share of all the time above the floor. `plain` is the floor without Winograd.

`meta-infer profile` prints the same of a package that was built before; here equal groups stand together, and the plan
is the one that a build without options makes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from benchmarks.latency import REAL, environment, parse_dims
from benchmarks.networks import Network, default_plan_of, networks, short_label, signature
from tests.real_models import ModelMissing

from meta_infer import api
from meta_infer.backends.registry import backend_for
from meta_infer.cost.floor import bounds, traffic
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import names_of
from meta_infer.ir.group import Group, Layout, Plan, Variant
from meta_infer.ir.program import Call, walk_commands
from meta_infer.kernels.kernel import Lowering
from meta_infer.lower.lower_graph import lower_graph
from meta_infer.runtime.session import load
from meta_infer.search.measure.live_probes import LiveProbes
from meta_infer.search.whole.in_place import Round, time_in_place
from meta_infer.support.errors import MetaInferError
from meta_infer.support.switches import read_switches
from meta_infer.verify.samples import random_inputs


@dataclass(frozen=True)
class Part:
    """Commands that do one thing, in one or several equal places; `group` is None for what has no floor."""

    label: str
    kernel: str
    group: Group | None
    commands: tuple[int, ...]
    count: int = 1


@dataclass(frozen=True)
class PartRow:
    """A part, measured: seconds of all its places together, medians over the rounds."""

    label: str
    kernel: str
    count: int
    seconds: float
    floor_seconds: float
    ratio: float
    gap: float                        # share of the time above the network's floor
    algorithm: str
    bound: str


@dataclass(frozen=True)
class NetworkRow:
    """A network, measured. `ratio` is time over floor, `plain_ratio` over the floor without Winograd."""

    model: str
    threads: int
    seconds: float
    floor_seconds: float
    plain_seconds: float
    ratio: float
    plain_ratio: float
    spread: tuple[float, float]
    peak: float
    levels: Mapping[str, float]
    rounds: int
    parts: tuple[PartRow, ...] = field(default=())


def parts_of(plan: Plan, network: Network, profile: Profile) -> list[Part]:
    """What the commands of the network's package do, equal groups together."""
    backend, order = backend_for(profile), []

    def lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], chip: Profile) -> Lowering:
        found = backend.lower(group, variant, layouts, chip)
        order.append((group, variant, len(found.calls)))
        return found

    program = lower_graph(plan, profile, lower, names_of(network.imported, network.imported.inputs),
                          names_of(network.imported, network.imported.outputs))
    calls: Iterator[tuple[Group, Variant]] = ((group, variant) for group, variant, count in order for _ in range(count))
    found: dict[object, list[tuple[Group | None, str, int]]] = {}
    for i, command in enumerate(walk_commands(program.commands)):
        if isinstance(command, Call) and not command.label.startswith("Reorder "):
            group, variant = next(calls)
            found.setdefault((signature(group), variant.kernel, variant.name), []).append((group, variant.kernel, i))
        else:
            label = command.label.lower() if isinstance(command, Call) else type(command).__name__.lower()
            found.setdefault(label, []).append((None, label, i))
    parts = []
    for places in found.values():
        group, kernel, _ = places[0]
        label = kernel if group is None else short_label(group, network.dims)
        if group is not None and group.anchor.op != "Conv":
            label = f"{group.anchor.op} {label}"
        count = len({id(other) for other, _, _ in places}) if group is not None else len(places)
        parts.append(Part(label, "" if group is None else kernel, group, tuple(i for _, _, i in places), count))
    return parts


def evaluate(network: Network, parts: Sequence[Part], found: Sequence[Round], threads: int) -> NetworkRow:
    """Times beside floors. Weights lie where all of the network's fit: it runs again and again."""
    weights = sum(traffic(part.group, network.dims).weights * part.count for part in parts if part.group is not None)
    machine = [one.rates for one in found if one.rates is not None]
    least, plain, best = [], [], []                         # [part][round]
    for part in parts:
        ways = [bounds(part.group, network.dims, rates, weights) if part.group is not None else ()
                for rates in machine]
        fastest = [min(way, key=lambda one: one.seconds) if way else None for way in ways]
        best.append(fastest)
        least.append([one.seconds * part.count if one else 0.0 for one in fastest])
        plain.append([way[0].seconds * part.count if way else 0.0 for way in ways])
    took = np.array([[sum(one.commands[i] for i in part.commands) for one in found] for part in parts])
    floors, plains, whole = np.array(least), np.array(plain), np.array([one.seconds for one in found])
    outside = whole - took.sum(0)
    gaps = np.append(took - floors, [outside], 0)
    shares = np.median(gaps / np.maximum(whole - floors.sum(0), 1e-12), 1)
    rows = []
    for i, part in enumerate(parts):
        middle = best[i][len(machine) // 2]
        floor_seconds = float(np.median(floors[i]))
        ratio = float(np.median(took[i] / floors[i])) if floor_seconds else 0.0
        rows.append(PartRow(part.label, part.kernel, part.count, float(np.median(took[i])), floor_seconds, ratio,
                            float(shares[i]), middle.algorithm if middle else "", middle.bound if middle else ""))
    rows.append(PartRow("between commands", "", 1, float(np.median(outside)), 0.0, 0.0, float(shares[-1]), "", ""))
    ratios = whole / floors.sum(0)
    levels = {level.name: float(np.median([rates.levels[i].rate for rates in machine]))
              for i, level in enumerate(machine[0].levels)}
    return NetworkRow(
        network.label, threads, float(np.median(whole)), float(np.median(floors.sum(0))),
        float(np.median(plains.sum(0))), float(np.median(ratios)), float(np.median(whole / plains.sum(0))),
        (float(np.percentile(ratios, 25)), float(np.percentile(ratios, 75))),
        float(np.median([rates.peak for rates in machine])), levels, len(whole),
        tuple(sorted(rows, key=lambda row: row.gap, reverse=True)))


def run(network: Network, threads: Sequence[int], options: argparse.Namespace, folder: Path,
        probes: Mapping[int, LiveProbes], profile: Profile) -> Iterator[NetworkRow]:
    """A row for each number of threads; the package goes into `folder`."""
    package = folder / "model.bin"
    api.build(network.file, output=package, shape=network.shapes, verify=False)
    parts = parts_of(default_plan_of(network, profile), network, profile)
    if options.prepare:
        return
    inputs = random_inputs(network.imported, network.dims, seed=0)
    for count in threads:
        with load(package, threads=count) as session:
            found = list(time_in_place(session, inputs, probes[count], options.rounds, options.seconds))
            known = sum(len(part.commands) for part in parts)
            assert len(found[0].commands) == known, f"the package has other commands than its plan: {known}"
        yield evaluate(network, parts, found, count)


def rates_text(row: NetworkRow) -> str:
    levels = ", ".join(f"{name} {rate / 1e9:.0f}" for name, rate in row.levels.items())
    return f"peak {row.peak / 1e9:.0f} GFLOP/s; GB/s: {levels}"


PART_HEAD = f"{'gap':>5} {'us':>9} {'floor':>8} {'ratio':>6}  {'bound by':16} {'kernel':16} group"


def part_line(row: PartRow) -> str:
    """At most 100 columns."""
    bound = f"{row.algorithm.removeprefix('winograd ')} {row.bound}".strip()
    ratio = f"{row.ratio:6.2f}" if row.floor_seconds else ""
    label = f"{row.count} x {row.label}" if row.count > 1 else row.label
    return (f"{row.gap:5.1%} {row.seconds * 1e6:9.1f} {row.floor_seconds * 1e6:8.1f} {ratio:>6}  {bound:16} "
            f"{row.kernel:16.16} {label}")[:100]


def print_parts(row: NetworkRow, top: int) -> None:
    print(f"\n{row.model}, {row.threads} thread{'s' if row.threads > 1 else ''}: {row.seconds * 1e3:.3f} ms, "
          f"floor {row.floor_seconds * 1e3:.3f} ms, ratio {row.ratio:.2f}; without Winograd "
          f"{row.plain_seconds * 1e3:.3f} ms, {row.plain_ratio:.2f}\n{rates_text(row)}\n{PART_HEAD}")
    shown = row.parts[:top] if top else row.parts
    print("\n".join(part_line(part) for part in shown), flush=True)
    if len(shown) < len(row.parts):
        rest = row.parts[len(shown):]
        print(f"{sum(part.gap for part in rest):5.1%} {sum(part.seconds for part in rest) * 1e6:9.1f} "
              f"{sum(part.floor_seconds for part in rest) * 1e6:8.1f}         {len(rest)} others")


HEAD = ("model", "threads", "ms", "floor ms", "ratio", "middle half", "plain ratio", "GFLOP/s", "furthest")


def cells(row: NetworkRow) -> tuple[str, ...]:
    worst = row.parts[0]
    return (row.model, str(row.threads), f"{row.seconds * 1e3:.3f}", f"{row.floor_seconds * 1e3:.3f}",
            f"{row.ratio:.2f}", f"{row.spread[0]:.2f}..{row.spread[1]:.2f}", f"{row.plain_ratio:.2f}",
            f"{row.peak / 1e9:.0f}", f"{worst.gap:.0%} {worst.label}")


# Characters of a model's name and sizes in the summary: exporters make long names of dimensions.
_LONGEST = 28


def print_table(rows: Sequence[NetworkRow], markdown: bool) -> None:
    lines = [HEAD, *map(cells, rows)]
    if markdown:
        lines.insert(1, ("---", *["---:"] * (len(HEAD) - 2), "---"))
        print("\n".join("| " + " | ".join(line) + " |" for line in lines))
        return
    lines = [(line[0][:_LONGEST], *line[1:]) for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    for line in lines:
        print("  ".join(text.ljust(w) if i in (0, len(HEAD) - 1) else text.rjust(w)
                        for i, (text, w) in enumerate(zip(line, widths, strict=True)))[:100].rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[*REAL, "digits"], help="ONNX files, or names; all if none")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=6.0, help="for one line of the summary, building not counted")
    parser.add_argument("--top", type=int, default=12, help="groups to print for a network; 0: all")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE[,SIZE]", help="sizes of a dynamic dim")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=DIMS", help="as of meta-infer build")
    parser.add_argument("--summary", action="store_true", help="a line for each network, no groups")
    parser.add_argument("--prepare", action="store_true", help="build the packages, and measure nothing")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true", help="the summary as in docs/benchmarks.md")
    options = parser.parse_args()
    cache = read_switches().cache / "benchmarks"
    cache.mkdir(parents=True, exist_ok=True)
    profile, given = load_profile("native"), parse_dims(options.dim)
    probes = {count: LiveProbes(profile, count) for count in options.threads}
    rows: list[NetworkRow] = []
    complete, quiet = True, options.json or options.markdown or options.summary
    for name in options.models:
        try:
            for network in networks(name, cache, given, options.shape):
                print(f"{network.label}: building", file=sys.stderr)
                with tempfile.TemporaryDirectory(prefix="meta-infer-roofline-") as folder:
                    for row in run(network, options.threads, options, Path(folder), probes, profile):
                        rows.append(row)
                        print(f"{network.label}: {row.threads} threads, {row.ratio:.2f} x its floor", file=sys.stderr)
                        if not quiet:
                            print_parts(row, options.top)
        except (MetaInferError, ModelMissing) as error:
            print(f"{name}: {error}", file=sys.stderr)
            complete = False
    if options.json:
        print(json.dumps({**environment(), "rows": [asdict(row) for row in rows]}, indent=2))
    elif options.markdown or rows and (options.summary or len(rows) > 1):
        print()
        print_table(rows, options.markdown)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
