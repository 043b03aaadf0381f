"""The process in which one package runs with a clock around every command:
`python -m meta_infer.search.whole.in_place_child FOLDER`.

FOLDER holds plan.bin and a request (child_files.py); the answer has for every point the rounds, each with
the seconds of the whole and of every command.
"""

from __future__ import annotations

import sys
from pathlib import Path

from meta_infer.runtime.session import load
from meta_infer.search.whole.child_files import read_points, read_request, write_answer
from meta_infer.search.whole.in_place import time_in_place


def main(folder: Path) -> None:
    request = read_request(folder)
    session = load(folder / "plan.bin", threads=request["threads"])
    answer = []
    for inputs in read_points(folder, request):
        rounds = time_in_place(session, inputs, None, request["rounds"], request["seconds"] / len(request["inputs"]),
                               request["holders"])
        answer.append([[one.seconds, one.commands.tolist()] for one in rounds])
    write_answer(folder, answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
