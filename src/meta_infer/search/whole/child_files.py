"""What passes between a search and a process that runs packages for it: one folder of files.

    request.json     what is asked; its `inputs` are the names of the inputs, for every point
    inputs_0.npz     arrays of the first point, ...
    answer.json      what came of it
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from meta_infer.backends.cpu.child import run_child

_PATIENCE = 60.0
"""Seconds that a process may take beyond three times what it is asked to run for."""


def ask(module: str, folder: Path, inputs: Sequence[Mapping[str, np.ndarray]], seconds: float, **asked: Any) -> Any:
    """What `python -m module folder` answers, None where it failed; packages lie in the folder already."""
    for k, point in enumerate(inputs):
        np.savez(folder / f"inputs_{k}.npz",
                 **{f"i{i}": array for i, array in enumerate(point.values())})      # type: ignore[arg-type]
    request = {"inputs": [list(point) for point in inputs], "seconds": seconds, **asked}
    (folder / "request.json").write_text(json.dumps(request))
    failed = run_child([sys.executable, "-m", module, str(folder)], _PATIENCE + 3 * seconds)
    return None if failed is not None else json.loads((folder / "answer.json").read_text())


def read_request(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "request.json").read_text()))


def read_points(folder: Path, request: Mapping[str, Any]) -> Iterator[dict[str, np.ndarray]]:
    """The inputs of every point by name."""
    for k, names in enumerate(request["inputs"]):
        with np.load(folder / f"inputs_{k}.npz") as arrays:
            yield {name: arrays[f"i{i}"] for i, name in enumerate(names)}


def write_answer(folder: Path, answer: object) -> None:
    (folder / "answer.json").write_text(json.dumps(answer))
