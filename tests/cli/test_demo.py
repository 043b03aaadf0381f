"""The demo from end to end, with few and short rounds of timing."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_infer.cli import demo
from tests.cli.conftest import Cli


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "ROUNDS", 2)
    monkeypatch.setattr(demo, "SECONDS", 0.05)


def test_the_demo_tells_its_story(cli: Cli, tmp_path: Path) -> None:
    ended = cli("demo", "--output", tmp_path / "new" / "folder")
    assert ended.code == 0, ended.err
    package = tmp_path / "new" / "folder" / "digits.bin"
    assert package.exists() and f"The package: {package}\n" in ended.out
    for words in ("compile", "batch 1 ", "batch 32", "ONNX Runtime", "digits read right", "450 held-out samples",
                  "largest deviation", "arena", "meta-infer inspect"):
        assert words in ended.out, words
    assert not [line for line in ended.out.splitlines() if line != line.rstrip()]
    assert max(len(line) for line in ended.out.splitlines() if str(package) not in line) <= 100
    hint = ended.out.splitlines()[-1].partition("meta-infer ")[2]
    assert cli(*hint.split()).code == 0, "the closing hint must work as it stands"


def test_its_figures(cli: Cli, tmp_path: Path) -> None:
    found = cli("demo", "--output", tmp_path, "--batch", "7", "--json").json
    assert found["accuracy"] == found["reference_accuracy"] >= 0.97
    assert found["largest_deviation"] <= 1e-4
    assert [row["batch"] for row in found["latency"]] == [1, 7]
    assert found["package_bytes"] == (tmp_path / "digits.bin").stat().st_size


def test_a_folder_that_cannot_be_made(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = cli("demo", "--output", tmp_path / "file" / "folder")
    assert ended.code == 2 and "--output" in ended.err
