"""Loading, the first run and memory, beside ONNX Runtime.

    python benchmarks/load.py resnet50 detector_320 minilm_l6
    python benchmarks/load.py resnet18 --markdown

Every figure comes from fresh child processes, the two sides in turns; medians are printed. A child imports numpy, then
its library, and then times: making the session (load), the first run, and the steady runs after it. `first / steady`
is that child's own. Memory is the resident set after ten runs, less that of a process that has numpy and the inputs
alone. Files are in the page cache on both sides.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from benchmarks.latency import find
from tests.real_models import ModelMissing

from meta_infer import api
from meta_infer.frontend.import_model import import_model
from meta_infer.support.switches import read_switches
from meta_infer.verify.samples import random_inputs, small_point

SOURCE = Path(api.__file__).resolve().parent.parent

CHILD = """
import sys, time, json, os, statistics
side, file, inputs_file, threads = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
import numpy as np
with np.load(inputs_file) as found:
    inputs = {name: found[name] for name in found.files}
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
figures = {"base": resident()}
clock = time.perf_counter
if side != "numpy":
    start = clock()
    if side == "ours":
        from meta_infer.runtime.session import load
    else:
        import onnxruntime
    figures["import"] = clock() - start
    start = clock()
    if side == "ours":
        session = load(file, threads=threads)
    else:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    figures["load"] = clock() - start
    times = []
    for _ in range(12):
        start = clock()
        session.run(None, inputs)
        times.append(clock() - start)
    figures["first"], figures["steady"] = times[0], statistics.median(times[2:])
figures["resident"] = resident()
print(json.dumps(figures))
"""


def child(side: str, file: Path, inputs: Path, threads: int) -> dict[str, float]:
    """The figures of one fresh process: seconds and bytes."""
    done = subprocess.run([sys.executable, "-c", CHILD, side, str(file), str(inputs), str(threads)],
                          capture_output=True, text=True, check=True, cwd=SOURCE)
    figures: dict[str, float] = json.loads(done.stdout)
    if side != "numpy":
        figures["first / steady"] = figures["first"] / figures["steady"]
    return figures


def measure(name: str, rounds: int, threads: int, cache: Path) -> dict[str, Mapping[str, float]]:
    """Medians of both sides over the rounds; 'memory' is what a process has beyond numpy alone."""
    model = find(name, cache)
    package = cache / f"{model.stem}.bin"
    api.build(model, output=package, verify=False)
    graph = import_model(model)
    inputs = cache / "load-inputs.npz"
    np.savez(inputs, **random_inputs(graph, small_point(graph.input_symbols, 128), seed=0))  # type: ignore[arg-type]
    seen: dict[str, list[dict[str, float]]] = {"numpy": [], "ours": [], "theirs": []}
    for _ in range(rounds):
        for side, file in (("numpy", model), ("ours", package), ("theirs", model)):
            seen[side].append(child(side, file, inputs, threads))
    found = {side: {key: statistics.median(row[key] for row in rows) for key in rows[0]} for side, rows in seen.items()}
    for side in ("ours", "theirs"):
        found[side]["memory"] = found[side]["resident"] - found["numpy"]["resident"]
    return found


HEAD = ["model", "load ms", "ONNX Runtime ms", "ratio", "first / steady", "ONNX Runtime", "memory MiB",
        "ONNX Runtime MiB"]


def cells(name: str, found: Mapping[str, Mapping[str, float]]) -> list[str]:
    ours, theirs = found["ours"], found["theirs"]
    return [name, f"{ours['load'] * 1e3:.1f}", f"{theirs['load'] * 1e3:.1f}", f"{ours['load'] / theirs['load']:.3f}",
            f"{ours['first / steady']:.2f}", f"{theirs['first / steady']:.2f}", f"{ours['memory'] / 2**20:.0f}",
            f"{theirs['memory'] / 2**20:.0f}"]


def table(rows: Sequence[Sequence[str]], markdown: bool) -> str:
    if markdown:
        rule = "|---|" + "---:|" * (len(HEAD) - 1)
        return "\n".join(["| " + " | ".join(HEAD) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows)])
    widths = [max(len(row[i]) for row in (HEAD, *rows)) for i in range(len(HEAD))]
    return "\n".join("  ".join(text.rjust(w) for text, w in zip(row, widths, strict=True)) for row in (HEAD, *rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["resnet50", "detector_320", "minilm_l6"])
    parser.add_argument("--rounds", type=int, default=7, help="fresh processes of each side")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    cache = read_switches().cache / "benchmarks"
    cache.mkdir(parents=True, exist_ok=True)
    rows, complete = [], True
    for name in options.models:
        try:
            rows.append(cells(name, measure(name, options.rounds, options.threads, cache)))
        except ModelMissing as missing:
            print(f"{name}: {missing}", file=sys.stderr)
            complete = False
    print(table(rows, options.markdown))
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
