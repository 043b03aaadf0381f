"""Memory of the real models' packages: the arena beside its lower bound, the largest sum of buffers alive at once.

    python benchmarks/memory.py                     # all real models, as a table for docs/benchmarks.md
    python benchmarks/memory.py resnet18 path/to/model.onnx

Models with dynamic sizes are planned at the upper end of their ranges: that much address space is reserved, and what
a run at a smaller size does not touch stays untouched. Nothing is compiled.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.models.cases import CASES, REAL
from tests.real_models import ModelMissing, find_model

from meta_infer import api
from meta_infer.support.errors import MetaInferError
from meta_infer.support.switches import read_switches

SHAPES = {case.name: case.shape for case in CASES}


def figures(model: Path, shape: tuple[str, ...]) -> tuple[int, int]:
    """Bytes of the arena, and of the lower bound."""
    trace = api.build(model, shape=shape, stop_after="memory", verify=False).trace
    found = next(step.figures for step in trace.steps if step.name == "memory")
    return int(found["arena_bytes"]), int(found["lower_bound_bytes"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(REAL), help="names or ONNX files; all real models if none")
    cache = read_switches().cache / "benchmarks"
    cache.mkdir(parents=True, exist_ok=True)
    complete = True
    print("| model | ranges | arena KiB | lower bound KiB | ratio |\n|---|---|---:|---:|---:|")
    for name in parser.parse_args().models:
        shape = SHAPES.get(name, ())
        try:
            model = Path(name) if name.endswith(".onnx") else find_model(name, cache)
            arena, bound = figures(model, shape)
        except (MetaInferError, ModelMissing) as error:
            print(f"{name}: {error}", file=sys.stderr)
            complete = False
            continue
        ratio = f"{arena / bound:.3f}" if bound else "1.000"
        ranges = shape[0] if shape else "static"
        print(f"| {Path(name).stem} | {ranges} | {arena / 1024:,.0f} | {bound / 1024:,.0f} | {ratio} |", flush=True)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
