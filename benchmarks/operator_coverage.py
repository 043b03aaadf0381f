"""How many operator cases of the onnx package pass: compiled packages beside ONNX Runtime, by the same rules.

    python benchmarks/operator_coverage.py [--json]

Cases run in worker processes, a crash counts as a failure. Takes about ten minutes with an empty cache.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from meta_infer.suite.cases import collect_cases
from meta_infer.suite.run_case import Feeds, compiled
from meta_infer.suite.run_suite import run_suite
from meta_infer.suite.tally import by_kind
from meta_infer.verify.reference import run_reference


def in_onnx_runtime(model: onnx.ModelProto, feeds: Feeds, folder: Path) -> Sequence[Any]:
    """Outputs of ONNX Runtime on a processor."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return run_reference(session, feeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print all outcomes as JSON")
    arguments = parser.parse_args()
    cases, workers = collect_cases(), len(os.sched_getaffinity(0))
    ways = {"meta-infer": compiled, f"ONNX Runtime {onnxruntime.__version__}": in_onnx_runtime}
    found = {name: run_suite(cases, workers, compute=compute) for name, compute in ways.items()}
    if arguments.json:
        print(json.dumps({name: [asdict(o) for o in outcomes] for name, outcomes in found.items()}, indent=2))
        return
    for name, outcomes in found.items():
        parts = [f"{kind} {tally.passed} of {tally.total}" for kind, tally in by_kind(outcomes)]
        print(f"{name}: {', '.join(parts)}")


if __name__ == "__main__":
    main()
