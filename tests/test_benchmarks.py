"""The latency benchmark runs as its page says; figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "benchmarks" / "latency.py"
QUICK = ("--rounds", "2", "--seconds", "0")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def test_a_row_per_size_and_number_of_threads() -> None:
    done = run("digits", "--threads", "1", "2", "--dim", "batch=1,3", "--json", *QUICK)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {"cpu", "date", "versions", "rows"}
    assert [(row["dims"]["batch"], row["threads"]) for row in found["rows"]] == [(1, 1), (1, 2), (3, 1), (3, 2)]
    for row in found["rows"]:
        assert row["relative_difference"] <= 1e-3
        assert row["ratio"] == row["seconds"] / row["reference_seconds"] and row["rounds"] == 2


def test_mistakes_are_named_and_the_rest_is_measured() -> None:
    done = run("nothing.onnx", "digits", "--markdown", "--dim", "betch=4", *QUICK)
    assert done.returncode == 1
    assert "nothing.onnx: nothing.onnx does not exist" in done.stderr
    assert "--dim betch: no model has a dynamic dimension of this name" in done.stderr
    assert "| digits | batch 1 | 1 |" in done.stdout


@pytest.mark.parametrize(("script", "arguments", "columns"), [
    ("load.py", ("digits", "--rounds", "1", "--markdown"), 8), ("busy.py", ("digits", *QUICK), 5)])
def test_the_other_benchmarks_print_their_tables(script: str, arguments: tuple[str, ...], columns: int) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT.with_name(script)), *arguments], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| digits |")]
    assert rows and all(row.count("|") == columns + 1 for row in rows)
