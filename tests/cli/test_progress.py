"""Progress on standard error: plain lines in a log, one moving line with a bar on a terminal."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from meta_infer.cli import progress
from meta_infer.cli.progress import step_names


def told(steps: progress.StepNames) -> None:
    steps("import")
    steps("search, fine")
    steps.share(0.25)
    steps.progress("12 kernels timed; about 35 s left, 2 min in all")
    steps("lower")


def test_a_log_has_a_line_for_each_step_and_one_now_and_then(
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with step_names("build") as steps:
        told(steps)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" (")[0] for line in lines] == ["build: import", "build: search, fine", "build: lower"]
    monkeypatch.setattr(progress, "_QUIET", -1.0)
    with step_names("build") as steps:
        told(steps)
    assert "build: search, fine: 12 kernels timed; about 35 s left, 2 min in all" in capsys.readouterr().err


def test_a_terminal_has_a_bar_while_the_share_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(progress, "notes", lambda: Console(file=out, force_terminal=True, width=100))
    with step_names("build") as steps:
        steps("import")
        out.truncate(0)
        steps("search, fine")
        steps.share(0.25)
        steps.progress("12 kernels timed; about 35 s left, 2 min in all")
        progress_line = shown(out)
        steps("lower")
        after = shown(out)
    assert "search, fine, 12 kernels timed; about 35 s left, 2 min in all" in progress_line and "━" in progress_line
    assert "lower" in after and "━" not in after


def shown(out: io.StringIO) -> str:
    """What stands on the terminal after the next refresh: the last line drawn."""
    import time

    out.truncate(0)
    out.seek(0)
    end = time.monotonic() + 10.0
    while "0:00:0" not in out.getvalue() and time.monotonic() < end:
        time.sleep(0.02)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
