"""Fixtures shared by all tests: the real models, and a summary line when they did not run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real_models import ModelMissing, find_model, models_folder

NOT_RUN = "REAL-MODEL TEST NOT RUN"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true",
                     help="all seeds at all sizes of the real models; see docs/testing.md")


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """Whether the long form of the tests was asked for."""
    return bool(pytestconfig.getoption("--full"))


@pytest.fixture(scope="session")
def real_model(pytestconfig: pytest.Config) -> Callable[[str], Path]:
    """A function from a model's name to the path of its ONNX file; skips the test loudly when there is none."""
    cache = Path(pytestconfig.cache.mkdir("real-models"))

    def get(name: str) -> Path:
        try:
            return find_model(name, cache)
        except ModelMissing as missing:
            pytest.skip(f"{NOT_RUN}: {name}: {missing}")

    return get


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A green run without the real models must not look like a full one."""
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    count = sum(NOT_RUN in reason for reason in skipped)
    folder = models_folder()
    if count:
        terminalreporter.section("real models", red=True, bold=True)
        terminalreporter.line(f"{count} real-model tests DID NOT RUN; see the SKIPPED lines", red=True)
    elif not folder.is_dir():
        terminalreporter.section("real models", red=True, bold=True)
        terminalreporter.line(f"no real-model test can run: no folder {folder} (META_INFER_MODELS)", red=True)
