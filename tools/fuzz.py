"""Fuzz what comes from strangers: packages, ONNX files, hardware profiles, input arrays.

    python tools/fuzz.py packages --count 10000
    python tools/fuzz.py onnx --seed 2500 --count 500 --failures faults

Each seed gives one mutant, always the same, so a run is resumed by its first seed. A mutant has ten seconds and 4 GiB
in a child process. It passes when it is accepted, or refused by a MetaInferError with one message. Everything else is
saved with its seed: the mutant and what happened. `--show SEED` tries one mutant in this process, with its traceback.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fuzz.campaign import Tally, Target, run
from tests.fuzz.registry import TARGETS


def show_progress(target: Target, first: int, tally: Tally) -> None:
    print(f"\r{target.name}: seeds {first}..{first + tally.count - 1}, {len(tally.faults)} faults", end="",
          file=sys.stderr, flush=True)


def show_one(target: Target, seed: int) -> None:
    """Try one mutant here; the exception, if any, goes up."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "state").mkdir()
        state = target.prepare(Path(folder) / "state")
        path = target.mutate(state, random.Random(f"{target.name} {seed}"), Path(folder))
        target.attempt(state, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {target.name: target for target in TARGETS}
    parser.add_argument("target", choices=known)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--failures", type=Path, default=Path("build/fuzz"), help="where faults are saved")
    parser.add_argument("--show", type=int, metavar="SEED", help="try this one mutant in this process")
    options = parser.parse_args()
    target = known[options.target]
    if options.show is not None:
        show_one(target, options.show)
        return 0
    tally = run(target, options.seed, options.count, options.failures,
                lambda tally: show_progress(target, options.seed, tally))
    print(file=sys.stderr)
    print(f"{target.name}: {tally.count} mutants, seeds {options.seed}..{options.seed + options.count - 1}; "
          f"slowest {tally.slowest:.1f} s")
    for outcome, count in tally.outcomes.most_common():
        print(f"  {outcome}: {count}")
    for fault in tally.faults:
        print(f"  FAULT seed {fault.seed}: {fault.kind}, saved at {fault.saved}")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
