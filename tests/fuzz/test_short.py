"""The short form of the fuzzers; the long one is tools/fuzz.py, see docs/testing.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from .campaign import Target, run
from .registry import TARGETS

COUNTS = {"packages": 150, "onnx": 100, "profiles": 60, "inputs": 150}


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_mutants_are_refused_with_one_message(target: Target, tmp_path: Path) -> None:
    tally = run(target, 0, COUNTS[target.name], tmp_path / "faults")
    assert not tally.faults, "\n".join(f"seed {f.seed}: {f.kind}\n{f.detail}" for f in tally.faults[:3])
    assert tally.count == COUNTS[target.name] and tally.outcomes["accepted"] < tally.count
