"""Two threads while other processes keep every core busy, beside one thread under the same load.

    python benchmarks/busy.py resnet18 mobilenetv2

A thread that is not scheduled holds up a run with a static share of work. Here chunks are claimed one by one, so two
threads should never be slower than one. Sessions with one and with two threads run in turns, first on the machine as
it is, then with one spinning process per core; medians of the rounds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.latency import find
from tests.real_models import ModelMissing

from meta_infer import api
from meta_infer.frontend.import_model import import_model
from meta_infer.runtime.session import load
from meta_infer.search.measure.interleave import interleave, median_round
from meta_infer.support.switches import read_switches
from meta_infer.verify.samples import random_inputs, small_point


def spin(seconds: float) -> None:
    """Keep one core busy, for a bounded time should the parent die."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(10000))


def measure(package: Path, inputs: dict, rounds: int, seconds: float) -> tuple[float, float, float]:
    """Seconds with one thread, with two, and the median ratio."""
    with load(package, threads=1) as one, load(package, threads=2) as two:
        found = interleave({"two": partial(two.run, None, inputs), "one": partial(one.run, None, inputs)},
                           rounds=rounds, seconds=seconds)
        middle = median_round(found["two"], found["one"])
        return middle.reference, middle.seconds, middle.ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=6.0, help="for each line")
    options = parser.parse_args()
    cache = read_switches().cache / "benchmarks"
    cache.mkdir(parents=True, exist_ok=True)
    print("| model | load | one thread ms | two threads ms | two / one |\n|---|---|---:|---:|---:|")
    missing = False
    for name in options.models:
        try:
            model = find(name, cache)
        except ModelMissing as reason:
            print(f"{name}: {reason}", file=sys.stderr)
            missing = True
            continue
        package = cache / f"{model.stem}.bin"
        api.build(model, output=package, verify=False)
        graph = import_model(model)
        inputs = random_inputs(graph, small_point(graph.input_symbols, 128), seed=0)
        for busy in (0, len(os.sched_getaffinity(0))):
            spinners = [multiprocessing.Process(target=spin, args=(options.seconds * 20,)) for _ in range(busy)]
            for spinner in spinners:
                spinner.start()
            try:
                one, two, ratio = measure(package, inputs, options.rounds, options.seconds)
            finally:
                for spinner in spinners:
                    spinner.kill()
                    spinner.join()
            load_text = f"{busy} spinning processes" if busy else "as it is"
            print(f"| {name} | {load_text} | {one * 1e3:.2f} | {two * 1e3:.2f} | {ratio:.2f} |", flush=True)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
