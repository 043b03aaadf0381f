"""Child processes with a time limit: what crashes or hangs in one costs a sample, not the build."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from meta_infer.backends.base import Failure


def run_child(command: Sequence[str], time_limit: float) -> Failure | None:
    """Run a command to its end; None when it succeeded. It and what it started are killed at the time limit."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                             env=child_environment(), start_new_session=True)
    try:
        _, errors = child.communicate(timeout=time_limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return Failure(f"still running after {time_limit:g} s")
    if child.returncode == 0:
        return None
    if child.returncode < 0:
        return Failure(f"killed by {signal.Signals(-child.returncode).name}")
    lines = [line for line in errors.splitlines() if line.strip() and not line.startswith(" ")]
    return Failure(lines[-1] if lines else f"exit code {child.returncode}")


def child_environment() -> dict[str, str]:
    """The environment in which a child process finds this very copy of the package."""
    root = str(Path(__file__).resolve().parents[3])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))}
