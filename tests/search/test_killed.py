"""Searches that are killed, and two at once on one library: nothing that was timed is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from meta_infer.library.store import Library
from tests.search.test_search import small_model

BUILD = ("import sys; from meta_infer import api; "
         "api.build(sys.argv[1], output=sys.argv[2], search_mode='fast', search_seconds=float(sys.argv[3]))")


def start(model: Path, name: str, library: Path, seconds: float = 60.0) -> subprocess.Popen[bytes]:
    env = {**os.environ, "META_INFER_LIBRARY": str(library)}
    return subprocess.Popen([sys.executable, "-c", BUILD, str(model), str(model.with_name(name)), str(seconds)],
                            env=env, stderr=subprocess.PIPE, start_new_session=True)


def keys(library: Path) -> set[str]:
    if not library.exists():
        return set()
    with Library.open(library) as known:
        return {sample.key for sample in known.samples()}


def test_killed_at_random_moments(tmp_path: Path, full: bool) -> None:
    """Every sample that was there stays, the next build goes on, and the last one equals a replay of all."""
    rng, model, library = random.Random(0), small_model(tmp_path), tmp_path / "library.sqlite"
    before: set[str] = set()
    for _ in range(10 if full else 3):
        child = start(model, "killed.bin", library)
        time.sleep(rng.uniform(1.0, 8.0))
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        after = keys(library)
        assert before <= after
        before = after
    last = start(model, "m.bin", library, seconds=600.0)       # one that time cuts has no replay
    assert last.wait(timeout=300) == 0, last.stderr
    assert before <= keys(library)
    built = (tmp_path / "m.bin").read_bytes()
    env = {**os.environ, "META_INFER_LIBRARY": str(library), "META_INFER_MEASURE": "replay"}
    subprocess.run([sys.executable, "-c", BUILD, str(model), str(tmp_path / "m.bin"), "600.0"], env=env, check=True)
    assert (tmp_path / "m.bin").read_bytes() == built


@pytest.mark.parametrize("count", [2])
def test_builds_at_once(tmp_path: Path, count: int) -> None:
    model, library = small_model(tmp_path), tmp_path / "library.sqlite"
    children = [start(model, f"{i}.bin", library, seconds=15.0) for i in range(count)]
    for child in children:
        _, errors = child.communicate(timeout=300)
        assert child.returncode == 0 and b"lock" not in errors.lower(), errors
    assert len(keys(library)) > 5
