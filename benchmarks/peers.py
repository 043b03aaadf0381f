"""Whole models beside ONNX Runtime, OpenVINO, MNN and ncnn: latency, loading, first run, memory, file size.

    python benchmarks/peers.py resnet18 mobilenetv2 --threads 1 2
    python benchmarks/peers.py --threads 1 2 --markdown --plot peers.svg     # all real models, as in docs/benchmarks.md
    python benchmarks/peers.py --prepare                                     # install, build and convert; time nothing

The peers are installed into a virtual environment of their own (--env) and converted once per model and size: by
OpenVINO's own reader, MNN's and ncnn's (pnnx) converters. Every engine runs in a process of its own, all on the same
inputs, in float32 with reduced precision switched off, with the same number of threads. They take turns in rounds,
each of which begins with a probe of the machine's peak; a turn begins with an untimed run. `ms` is the median over the
rounds, `ours` the median over the rounds of meta-infer's time over the engine's (below 1: meta-infer is quicker).
`MiB` is what the process holds after its runs beyond numpy and the inputs; `load` excludes the import of the library.
Outputs are compared with ONNX Runtime's: an engine that differs by more than 1% of the largest value is marked.
Results are kept line by line (--results); a later call goes on from there, --again measures anew.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from benchmarks.latency import REAL, environment, parse_dims
from benchmarks.networks import Network, networks
from benchmarks.peer_setup import PACKAGES, Converted, Environment, Model, PeerFailed, convert, prepare
from benchmarks.peers_plot import plot
from tests.real_models import ModelMissing

from meta_infer import api
from meta_infer.hardware.load import load_profile
from meta_infer.runtime.session import load
from meta_infer.search.interleave import in_turns
from meta_infer.search.live_probes import LiveProbes
from meta_infer.support.errors import MetaInferError
from meta_infer.support.switches import read_switches
from meta_infer.verify.metrics import distance
from meta_infer.verify.samples import random_inputs

OURS, REFERENCE = "meta-infer", "onnxruntime"
ENGINES = (OURS, *PACKAGES)
WORKER = Path(__file__).resolve().parent / "peer_worker.py"
SOURCE = Path(api.__file__).resolve().parent.parent
WRONG = 1e-2
"""Difference from the reference, relative to its largest value, above which a result counts as wrong."""
SETTLE = 0.03
"""Seconds between turns in which threads of the engine before may stop spinning."""
_PATIENCE = 300.0


class Process:
    """One engine with one model, in a process that answers requests; see peer_worker.py."""

    def __init__(self, command: Sequence[str], threads: int) -> None:
        self._errors = tempfile.TemporaryFile("w+")
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": str(threads)})

    def ask(self, request: Mapping[str, Any], patience: float = _PATIENCE) -> dict[str, Any]:
        """The answer. Raises PeerFailed when there is none in time, or it is an error."""
        assert self._child.stdin is not None and self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(self._child.stdout, selectors.EVENT_READ)
                if not selector.select(patience):
                    raise PeerFailed(f"no answer within {patience:.0f} s")
            line = self._child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise PeerFailed(self._end())
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise PeerFailed(reply["error"])
        return reply

    def _end(self) -> str:
        code = self._child.wait(timeout=10)
        self._errors.seek(0)
        said = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}: {said[-1]}" if said else how

    def close(self) -> None:
        """End the process, whatever it does."""
        self._child.kill()
        self._child.communicate()
        self._errors.close()


@dataclass
class Result:
    """One engine on one model with one number of threads; seconds and bytes."""

    engine: str
    status: str = "ok"
    version: str = ""
    seconds: float = 0.0
    least: float = 0.0
    ours: float = 0.0                                     # meta-infer's time over this one's
    load: float = 0.0
    first: float = 0.0
    memory: int = 0
    file: int = 0
    difference: float = 0.0
    rounds: list[float] = field(default_factory=list)

    @property
    def is_timed(self) -> bool:
        return bool(self.rounds)


def difference(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The largest difference of all outputs relative to the reference's; infinite where they do not fit together.

    Engines that have no batch axis return the same elements in another shape.
    """
    if len(found) != len(wanted) or any(a.size != b.size for a, b in zip(found, wanted, strict=True)):
        return float("inf")
    worst = 0.0
    for a, b in zip(found, wanted, strict=True):
        if a.size:
            relative = distance(a.reshape(-1).astype(b.dtype), b.reshape(-1)).relative
            worst = max(worst, relative if np.isfinite(relative) else float("inf"))
    return worst


def start(result: Result, made: Converted, model: Model, python: Path, threads: int, folder: Path) -> Process:
    """A process with the model loaded; `result` gets what loading took, and the outputs go to a file of its name."""
    process = Process([str(python), str(WORKER)], threads)
    try:
        told = process.ask({"do": "load", "engine": result.engine, "file": str(made.file), "inputs": str(model.inputs),
                            "outputs": model.outputs, "threads": threads, **made.request})
        result.load, result.first, result.version = told["load"], told["first"], told["version"]
        result.memory, result.file = -told["base"], made.bytes
        process.ask({"do": "save", "file": str(folder / f"{result.engine}.npz")})
    except PeerFailed:
        process.close()
        raise
    return process


def take_turns(processes: Mapping[str, Process], results: Mapping[str, Result], probes: LiveProbes, rounds: int,
               seconds: float) -> list[float]:
    """Rounds of turns: fills in the results' times and memory, and returns the peak of every round."""
    alive, peaks, base = dict(processes), [], {name: -result.memory for name, result in results.items()}
    share = seconds / max(1, rounds * len(processes))
    least: dict[str, float] = {}
    for i, name in enumerate(in_turns(list(processes), rounds)):
        if i % len(processes) == 0:
            peaks.append(probes.peak())
        if name not in alive:
            continue
        time.sleep(SETTLE)
        try:
            told = alive[name].ask({"do": "run", "seconds": share})
        except PeerFailed as error:
            results[name].status = str(error)
            results[name].rounds.clear()
            alive.pop(name).close()
            continue
        results[name].rounds.append(float(np.median(told["seconds"])))
        results[name].memory = told["resident"] - base[name]
        least[name] = min(least.get(name, float("inf")), *told["seconds"])
    for name in alive:
        results[name].seconds, results[name].least = float(np.median(results[name].rounds)), least[name]
    if OURS in alive:
        for name in alive:
            pairs = zip(results[OURS].rounds, results[name].rounds, strict=True)
            results[name].ours = float(np.median([a / b for a, b in pairs]))
    return peaks


def compare(model: Model, package: Path, environment: Environment, engines: Sequence[str], threads: int,
            options: argparse.Namespace, converted: Path, probes: LiveProbes) -> dict[str, Any]:
    """All engines on one model: the line that is kept."""
    results = {name: Result(name) for name in engines}
    processes: dict[str, Process] = {}
    with tempfile.TemporaryDirectory(prefix="meta-infer-peers-") as text:
        folder = Path(text)
        try:
            for name, result in results.items():
                try:
                    made = Converted(package, package.stat().st_size, {}) if name == OURS else convert(
                        environment, name, model, converted)
                    processes[name] = start(result, made, model, environment.python, threads, folder)
                except PeerFailed as error:
                    result.status = str(error)
            peaks = take_turns(processes, results, probes, options.rounds, options.seconds) if processes else []
            _judge(results, folder)
        finally:
            for process in processes.values():
                process.close()
    return {"model": model.name, "threads": threads, "peaks": peaks,
            "results": [vars(result) for result in results.values()]}


def _judge(results: Mapping[str, Result], folder: Path) -> None:
    """Marks what is wrong, by the outputs that were saved."""
    outputs = {}
    for name in results:
        if (file := folder / f"{name}.npz").exists():
            with np.load(file) as found:
                outputs[name] = [found[key] for key in sorted(found.files)]
    for name, arrays in outputs.items():
        if REFERENCE in outputs:
            results[name].difference = difference(arrays, outputs[REFERENCE])
            if results[name].difference > WRONG and results[name].status == "ok":
                results[name].status = "wrong result"


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


def results_of(row: Mapping[str, Any]) -> dict[str, Result]:
    return {found["engine"]: Result(**found) for found in row["results"]}


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


def kept(file: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Lines of earlier calls by model and threads, the last one of each; a line that was cut short is left out."""
    found = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            row = json.loads(line)
            results_of(row)
            found[row["model"], row["threads"]] = row
        except (ValueError, KeyError, TypeError):
            print(f"{file}: skipping a line that is no result", file=sys.stderr)
    return found


def model_of(network: Network, package: Path, folder: Path) -> Model:
    """The inputs as a file; names of the outputs from the package."""
    arrays = random_inputs(network.imported, network.dims, seed=0)
    file = folder / f"{package.stem}-{'-'.join(map(str, network.dims.values()))}.npz"
    np.savez(file, **arrays)                              # type: ignore[arg-type]
    with load(package, threads=1) as session:
        outputs = tuple(t.name for t in session.get_outputs())
    return Model(network.label, network.file, arrays, file, outputs)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(options: argparse.Namespace) -> tuple[list[dict[str, Any]], bool]:
    """Rows of all models and numbers of threads, and whether all models could be found and built."""
    cache = read_switches().cache / "benchmarks"
    converted = options.env.parent / f"{options.env.name}-models"
    for folder in (cache, converted, options.results.parent):
        folder.mkdir(parents=True, exist_ok=True)
    have = {} if options.again else kept(options.results)
    peers = prepare(options.env, [name for name in options.engines if name != OURS], say)
    probes = {count: LiveProbes(load_profile("native"), count) for count in options.threads}
    rows, complete, begin, measured = [], True, time.monotonic(), 0
    todo = len(options.models) * len(options.threads)
    for at, name in enumerate(options.models):
        try:
            for network in networks(name, cache, parse_dims(options.dim), options.shape):
                missing = [t for t in options.threads if (network.label, t) not in have]
                rows += [have[network.label, t] for t in options.threads if t not in missing]
                if not missing and not options.prepare:
                    say(f"{network.label}: known from {options.results}")
                    continue
                package = cache / f"{network.file.stem}.bin"
                say(f"{network.label}: building")
                api.build(network.file, output=package, shape=network.shapes, verify=False)
                model = model_of(network, package, converted)
                if options.prepare:
                    _convert_all(peers, options.engines, model, converted)
                    continue
                for threads in missing:
                    row = compare(model, package, peers, options.engines, threads, options, converted, probes[threads])
                    row |= environment()
                    with options.results.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    rows.append(row)
                    measured += 1
                    left = max(0, todo - at * len(options.threads) - options.threads.index(threads) - 1)
                    minutes = (time.monotonic() - begin) / measured * left / 60
                    say(f"{network.label}, {threads} threads: done, about {minutes:.0f} min left")
                    if not (options.json or options.markdown):
                        print_model(row)
        except (MetaInferError, ModelMissing) as error:
            say(f"{name}: {error}")
            complete = False
    return rows, complete


def _convert_all(peers: Environment, engines: Sequence[str], model: Model, converted: Path) -> None:
    for peer in (name for name in engines if name != OURS):
        try:
            convert(peers, peer, model, converted)
            say(f"{model.name}: {peer} has it")
        except PeerFailed as error:
            say(f"{model.name}: {peer} {error}")


def main() -> int:
    cache = read_switches().cache / "benchmarks"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[*REAL], help="ONNX files, or names; all real models if none")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
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
