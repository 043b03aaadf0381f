"""Files of results, a line of JSON each: a benchmark that was ended goes on from what it has."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

Key = TypeVar("Key", bound=Hashable)
Row = TypeVar("Row")


def read_results(file: Path, read: Callable[[dict[str, Any]], tuple[Key, Row]]) -> dict[Key, Row]:
    """Rows by what they are of, the last of each; a line that `read` makes nothing of, as one that was cut short, is
    left out and told on standard error."""
    found = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            key, row = read(json.loads(line))
            found[key] = row
        except (ValueError, KeyError, TypeError):
            print(f"{file}: skipping a line that is no result", file=sys.stderr)
    return found


def add_result(file: Path, row: Mapping[str, Any]) -> None:
    with file.open("a") as opened:
        opened.write(json.dumps(row) + "\n")
