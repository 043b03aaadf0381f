"""The hand-written program's package, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import programs


@pytest.fixture(scope="session")
def package_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return programs.write(tmp_path_factory.mktemp("package") / "hand.bin")
