"""Running the command line inside the test process, and one small package to run it on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from meta_infer.cli.main import main
from tests.cli.small_model import write_model
from tests.runtime import programs


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Ended]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A function that runs one command."""
    monkeypatch.delenv("META_INFER_DEBUG", raising=False)

    def run(*arguments: str | Path) -> Ended:
        capsys.readouterr()
        code = main([str(a) for a in arguments])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err + printed.out
        return Ended(code, printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hand-written program of tests/runtime: x[B, W], steps, flag -> rows, tail, same."""
    return programs.write(tmp_path_factory.mktemp("cli") / "hand.bin")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(ONNX file, package) of tests/cli/small_model.py with batch 1..64, built by the command line."""
    folder = tmp_path_factory.mktemp("built")
    model, output = write_model(folder / "small.onnx"), folder / "small.bin"
    assert main(["build", "--model", str(model), "--shape", "x=1..64,12", "--output", str(output)]) == 0
    return model, output
