"""Whole models beside ONNX Runtime, OpenVINO, MNN and ncnn: latency, loading, first run, memory, file size.

    python benchmarks/peers.py resnet18 mobilenetv2 --threads 1 2
    python benchmarks/peers.py --threads 1 2 --markdown --plot peers.svg     # all real models, as in docs/benchmarks.md
    python benchmarks/peers.py --search-mode balanced                        # our packages made by a search
    python benchmarks/peers.py --prepare                                     # install, build and convert; time nothing

The peers are installed into a virtual environment of their own (--env) and converted once per model and size: by
OpenVINO's own reader, MNN's and ncnn's (pnnx) converters. Every engine runs in a process of its own, all on the same
inputs, in float32 with reduced precision switched off, with the same number of threads. They take turns in rounds,
each of which begins with a probe of the machine's peak; a turn begins with an untimed run. `ms` is the median over the
rounds, `ours` the median over the rounds of meta-infer's time over the engine's (below 1: meta-infer is quicker).
`MiB` is what the process holds after its runs beyond numpy and the inputs; `load` excludes the import of the library.
Outputs are compared with ONNX Runtime's: an engine that differs by more than 1% of the largest value is marked.
With --search-mode each number of threads has a package of its own, searched at the sizes that are timed; what the
experience library knows is not timed again. Results are kept line by line (--results); a later call goes on from there,
--again measures anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from benchmarks.latency import REAL, environment, parse_dims
from benchmarks.networks import Network, networks
from benchmarks.peer_setup import PACKAGES, Converted, Environment, Model, PeerFailed, convert, prepare
from benchmarks.peer_turns import OURS, Result, compare, results_of
from benchmarks.peers_plot import plot
from benchmarks.result_lines import add_result, read_results
from tests.real_models import ModelMissing

from meta_infer import api
from meta_infer.hardware.load import load_profile
from meta_infer.runtime.session import load
from meta_infer.search.budget import BUDGETS
from meta_infer.search.measure.live_probes import LiveProbes
from meta_infer.support.errors import MetaInferError
from meta_infer.support.switches import read_switches
from meta_infer.verify.samples import random_inputs

ENGINES = (OURS, *PACKAGES)
HEAD = (f"{'engine':12} {'ms':>9} {'least':>9} {'ours':>6} {'load ms':>9} {'first ms':>9} {'MiB':>6} {'file':>6} "
        f"{'differs':>8}")


def result_line(result: Result) -> str:
    """A row of the table of one model, at most 100 columns."""
    if not result.is_timed:
        return f"{result.engine:12} {result.status}"[:100]
    mark = "" if result.status == "ok" else f"  {result.status}"
    ours = f"{result.ours:6.2f}" if result.ours else ""
    return (f"{result.engine:12} {result.seconds * 1e3:9.3f} {result.least * 1e3:9.3f} {ours:>6} "
            f"{result.load * 1e3:9.1f} {result.first * 1e3:9.2f} {result.memory / 2**20:6.0f} "
            f"{result.file / 2**20:6.1f} {result.difference:8.1e}{mark}")[:100]


def print_model(row: Mapping[str, Any]) -> None:
    peaks = row["peaks"] or [0.0]
    print(f"\n{row['model']}, {row['threads']} thread{'s' if row['threads'] > 1 else ''}; {len(row['peaks'])} rounds, "
          f"peak {min(peaks) / 1e9:.0f}..{max(peaks) / 1e9:.0f} GFLOP/s\n{HEAD}")
    print("\n".join(map(result_line, results_of(row).values())), flush=True)


def summary(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """A line per model and number of threads: milliseconds of every engine, and ours over the quickest right peer."""
    yield ("model", "threads", *ENGINES, "ours / best")
    for row in rows:
        found = results_of(row)
        right = [r for name, r in found.items() if name != OURS and r.is_timed and r.status == "ok" and r.ours]
        cells = []
        for name in ENGINES:
            r = found.get(name)
            timed = f"{r.seconds * 1e3:.2f}{'' if r.status == 'ok' else ' (wrong)'}" if r and r.is_timed else "-"
            cells.append(timed)
        best = max(right, key=lambda r: r.ours, default=None)
        yield (row["model"], str(row["threads"]), *cells, f"{best.ours:.2f}" if best else "-")


def print_summary(rows: Sequence[Mapping[str, Any]], markdown: bool) -> None:
    lines = list(summary(rows))
    if markdown:
        lines.insert(1, ("---", *["---:"] * (len(lines[0]) - 1)))
        print("\n".join("| " + " | ".join(line) + " |" for line in lines))
        return
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  ".join(t.rjust(w) if i else t.ljust(w) for i, (t, w) in enumerate(zip(line, widths, strict=True))))


def kept(file: Path, mode: str = "none") -> dict[tuple[str, int], dict[str, Any]]:
    """Lines of earlier calls with this search mode by model and threads, the last one of each; a line that was cut
    short is left out."""
    def read(row: dict[str, Any]) -> tuple[tuple[str, int, str], dict[str, Any]]:
        results_of(row)
        return (row["model"], row["threads"], row.get("search_mode", "none")), row

    return {(model, threads): row for (model, threads, of), row in read_results(file, read).items() if of == mode}


def model_of(network: Network, package: Path) -> Model:
    """The inputs as a file beside the package, which names the outputs."""
    arrays = random_inputs(network.imported, network.dims, seed=0)
    file = package.with_name("inputs.npz")
    np.savez(file, **arrays)                              # type: ignore[arg-type]
    with load(package, threads=1) as session:
        outputs = tuple(t.name for t in session.get_outputs())
    return Model(network.label, network.file, arrays, file, outputs)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Campaign:
    """What measuring a model needs besides the model; `converted` is the folder of converted models."""

    options: argparse.Namespace
    environment: Environment
    converted: Path
    probes: Mapping[int, LiveProbes]

    def rows(self, network: Network, threads: Sequence[int]) -> Iterator[dict[str, Any]]:
        """A line for each number of threads, kept in the file of results before it is given; none with --prepare."""
        with tempfile.TemporaryDirectory(prefix="meta-infer-peers-") as folder:
            package = Path(folder) / "model.bin"
            self._build(network, package, threads[0])
            model = model_of(network, package)
            if self.options.prepare:
                self._convert_all(model)
                return

            def made(name: str) -> Converted:
                if name == OURS:
                    return Converted(package, package.stat().st_size, {})
                return convert(self.environment, name, model, self.converted)

            for count in threads:
                if self.options.search_mode != "none" and count != threads[0]:
                    self._build(network, package, count)
                row = compare(model, made, self.options.engines, self.environment.python, count, self.probes[count],
                              self.options.rounds, self.options.seconds) | environment()
                row["search_mode"] = self.options.search_mode
                add_result(self.options.results, row)
                yield row

    def _build(self, network: Network, package: Path, threads: int) -> None:
        say(f"{network.label}: building")
        mode = self.options.search_mode
        searched = {} if mode == "none" else {"search_mode": mode, "threads": threads, "tune_at": network.tune_at}
        api.build(network.file, output=package, shape=network.shapes, verify=False, **searched)

    def _convert_all(self, model: Model) -> None:
        for peer in (name for name in self.options.engines if name != OURS):
            try:
                convert(self.environment, peer, model, self.converted)
                say(f"{model.name}: {peer} has it")
            except PeerFailed as error:
                say(f"{model.name}: {peer} {error}")


def start(options: argparse.Namespace, converted: Path) -> Campaign:
    """Peers installed, probes compiled."""
    environment_of_peers = prepare(options.env, [name for name in options.engines if name != OURS], say)
    profile = load_profile("native")
    return Campaign(options, environment_of_peers, converted,
                    {count: LiveProbes(profile, count) for count in options.threads})


def run(options: argparse.Namespace) -> tuple[list[dict[str, Any]], bool]:
    """Rows of all models and numbers of threads, and whether all models could be found and built."""
    cache = read_switches().cache / "benchmarks"
    converted = options.env.parent / f"{options.env.name}-models"
    for folder in (cache, converted, options.results.parent):
        folder.mkdir(parents=True, exist_ok=True)
    have = {} if options.again or options.prepare else kept(options.results, options.search_mode)
    campaign: Campaign | None = None
    rows: list[dict[str, Any]] = []
    complete, begin, models = True, time.monotonic(), 0
    for i, name in enumerate(options.models):
        try:
            for network in networks(name, cache, parse_dims(options.dim), options.shape):
                known = [have[network.label, count] for count in options.threads if (network.label, count) in have]
                rows += known
                if len(known) == len(options.threads):
                    say(f"{network.label}: known from {options.results}")
                    continue
                missing = [count for count in options.threads if (network.label, count) not in have]
                campaign = campaign or start(options, converted)
                for row in campaign.rows(network, missing):
                    rows.append(row)
                    if not (options.json or options.markdown):
                        print_model(row)
                models += 1
                left = (time.monotonic() - begin) / models * (len(options.models) - i - 1)
                say(f"{network.label}: done, about {left / 60:.0f} min left")
        except (MetaInferError, ModelMissing) as error:
            say(f"{name}: {error}")
            complete = False
    return rows, complete


def main() -> int:
    cache = read_switches().cache / "benchmarks"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[*REAL], help="ONNX files, or names; all real models if none")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--search-mode", default="none", choices=("none", *BUDGETS), help="how our packages are made")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=15.0, help="for all engines on one model, together")
    parser.add_argument("--env", type=Path, default=cache / "peers", help="folder of the peers' environment")
    parser.add_argument("--results", type=Path, default=cache / "peers.jsonl", help="file of lines, read and added to")
    parser.add_argument("--again", action="store_true", help="measure what the results have already, too")
    parser.add_argument("--prepare", action="store_true", help="install, build and convert, and time nothing")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE[,SIZE]", help="sizes of a dynamic dim")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=DIMS", help="as of meta-infer build")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true", help="the summary as in docs/benchmarks.md")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="bars of all models")
    options = parser.parse_args()
    rows, complete = run(options)
    if options.json:
        print(json.dumps(rows, indent=2))
    elif rows:
        print()
        print_summary(rows, options.markdown)
    if options.plot and rows:
        options.plot.write_text(plot([(f"{row['model']}, {row['threads']} t", {
            name: r.seconds for name, r in results_of(row).items() if r.is_timed and r.status == "ok"})
            for row in rows], ENGINES))
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
