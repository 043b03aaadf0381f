"""The process in which one package runs with a clock around every command:
`python -m meta_infer.search.whole.in_place_child FOLDER`.

FOLDER holds request.json, plan.bin and inputs of every point (inputs_0.npz, ...), and receives answer.json: for every
point the rounds, each with the seconds of the whole and of every command.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from meta_infer.runtime.session import load
from meta_infer.search.whole.in_place import time_in_place


def main(folder: Path) -> None:
    request = json.loads((folder / "request.json").read_text())
    session = load(folder / "plan.bin", threads=request["threads"])
    answer = []
    for k, names in enumerate(request["inputs"]):
        with np.load(folder / f"inputs_{k}.npz") as arrays:
            inputs = {name: arrays[f"i{i}"] for i, name in enumerate(names)}
        rounds = time_in_place(session, inputs, None, request["rounds"], request["seconds"] / len(request["inputs"]),
                               request["holders"])
        answer.append([[one.seconds, one.commands.tolist()] for one in rounds])
    (folder / "answer.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
