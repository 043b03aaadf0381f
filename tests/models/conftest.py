"""The packages that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .cases import ModelCase
from .packages import Built, build_once


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, real_model: Callable[[str], Path],
          full: bool) -> Callable[[ModelCase], Built]:
    """A function that gives the package of a case, built once; what only the long form covers is skipped otherwise."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "packages"
    folder.mkdir(exist_ok=True)
    found: dict[str, Built] = {}

    def get(case: ModelCase) -> Built:
        if case.long and not full:
            pytest.skip("takes long to compile: only with --full")
        if case.name not in found:
            found[case.name] = build_once(case, folder, real_model)
        return found[case.name]

    return get
