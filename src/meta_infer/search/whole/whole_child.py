"""The process in which whole packages run in turns: `python -m meta_infer.search.whole.whole_child FOLDER`.

FOLDER holds request.json, the packages and inputs of every point (inputs_0.npz, ...), and receives answer.json: the
median seconds of a run of each package in every round, all points added up.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np

from meta_infer.runtime.session import load
from meta_infer.search.measure.interleave import interleave


def main(folder: Path) -> None:
    request = json.loads((folder / "request.json").read_text())
    points = []
    for k, names in enumerate(request["inputs"]):
        with np.load(folder / f"inputs_{k}.npz") as arrays:
            points.append({name: arrays[f"i{i}"] for i, name in enumerate(names)})
    sessions = [load(folder / name, threads=count)
                for name, count in zip(request["packages"], request["threads"], strict=True)]
    totals = [np.zeros(request["rounds"]) for _ in sessions]
    for point in points:
        runs = {str(i): partial(session.run, None, point) for i, session in enumerate(sessions)}
        found = interleave(runs, rounds=request["rounds"], seconds=request["seconds"] / len(points))
        for i, total in enumerate(totals):
            total += found[str(i)].rounds
    (folder / "answer.json").write_text(json.dumps([total.tolist() for total in totals]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
