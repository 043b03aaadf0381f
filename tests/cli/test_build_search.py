"""`build` with a search: what it prints, its JSON, and what Ctrl-C leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_infer import api
from meta_infer.runtime.reader import Package
from meta_infer.search.timing import Timer
from tests.cli.conftest import Cli
from tests.search.test_search import small_model


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("META_INFER_LIBRARY", str(tmp_path / "library.sqlite"))
    return ["build", "--model", str(small_model(tmp_path)), "--threads", "1", "--no-verify",
            "--output", str(tmp_path / "m.bin")]


def test_a_search_is_told_as_text_and_as_json(cli: Cli, arguments: list[str], tmp_path: Path) -> None:
    text = cli(*arguments, "--search-mode", "balanced", "--search-seconds", "4", "--verbose")
    assert text.code == 0, text.err
    for words in ("combinations of kernels and knobs", "kernels timed alone add up to", "each operator in a kernel",
                  "estimate", "measured", "default", "nearest rival", "could not be"):
        assert words in text.out, words
    assert max(map(len, text.out.splitlines())) <= 100
    steps = [line for line in text.err.splitlines() if line.startswith("build: search, ")]
    names = [line.removeprefix("build: search, ").partition(" (")[0] for line in steps]
    stages = ["coarse", "fine", "finetune", "in place", "whole plans"]
    assert [name for name in names if name in stages] in (stages, [one for one in stages if one != "finetune"])

    (rows,) = cli(*arguments, "--search-mode", "fast", "--json").json["searches"]
    assert rows["fusion_levels"] and rows["heaviest"] and "timed" in rows["this_run"]
    (kept,) = Package(tmp_path / "m.bin").json("report.json")["searches"]
    assert kept == {key: value for key, value in rows.items() if key != "this_run"}


def test_ctrl_c_says_what_was_kept(cli: Cli, arguments: list[str], tmp_path: Path,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    settle = Timer._settle

    def interrupted(self: Timer, *given: object, **more: object) -> None:
        settle(self, *given, **more)                                     # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(Timer, "_settle", interrupted)
    ended = cli(*arguments, "--search-mode", "fast")
    assert ended.code == 130 and "interrupted" in ended.err
    assert f"are kept in {tmp_path / 'library.sqlite'}: the same command goes on from there" in ended.err
    assert not (tmp_path / "m.bin").exists()


def test_ctrl_c_before_anything_was_timed_promises_nothing(cli: Cli, arguments: list[str],
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "import_model", interrupted)
    ended = cli(*arguments, "--search-mode", "fast")
    assert ended.code == 130 and "kept" not in ended.err
