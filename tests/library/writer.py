"""A process that adds to a library: `python -m tests.library.writer FILE NAME COUNT`.

It adds samples NAME-0, NAME-1, ... one at a time, with a decision each, and prints the number of each once it is in.
"""

from __future__ import annotations

import sys
from pathlib import Path

from meta_infer.library.store import Library
from tests.library.made_up import decision, sample


def main(file: str, name: str, count: str) -> None:
    with Library.open(Path(file)) as library:
        for i in range(int(count)):
            library.add([sample(f"{name}-{i}"), sample("shared", seconds=1.0 + i)])
            library.decide([decision(f"group {name} {i}")])
            print(i, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
