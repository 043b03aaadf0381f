"""The process in which whole packages run in turns: `python -m meta_infer.search.whole_child FOLDER`.

FOLDER holds request.json, inputs.npz and the packages, and receives answer.json: the median seconds of a run of each
package in every round.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from meta_infer.runtime.session import load
from meta_infer.search.interleave import interleave


def main(folder: Path) -> None:
    request = json.loads((folder / "request.json").read_text())
    with np.load(folder / "inputs.npz") as arrays:
        inputs = {name: arrays[f"i{i}"] for i, name in enumerate(request["inputs"])}
    sessions = {name: load(folder / name, threads=request["threads"]) for name in request["packages"]}
    runs = {name: lambda session=session: session.run(None, inputs) for name, session in sessions.items()}
    found = interleave(runs, rounds=request["rounds"], seconds=request["seconds"])
    (folder / "answer.json").write_text(json.dumps([found[name].rounds for name in sessions]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
