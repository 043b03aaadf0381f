"""Kernels of users in a search: timed, remembered and survived like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_infer.api import build
from meta_infer.library.store import Library
from tests.custom.test_kernels import no_rivals_left, saved_model, write

__all__ = ["no_rivals_left"]


def test_a_search_times_it_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is timed and remembered; one that crashes costs its sample; edited text is timed again."""
    monkeypatch.setenv("META_INFER_LIBRARY", str(tmp_path / "library.sqlite"))
    text = ("KERNELS = (c_kernel('mine', op='MatMul', source=GOOD, items=rows, fits=fits, grain=5, epilogue=True,\n"
            "                    cost=1.0),\n"
            "           c_kernel('crashing', op='MatMul', source='*(volatile int*)0 = 1;', fits=fits, cost=0.5))\n")
    model = saved_model(tmp_path)

    def samples() -> list[tuple[str, str]]:
        with Library.open(tmp_path / "library.sqlite") as library:
            return sorted((one.kernel, one.status) for one in library.samples() if one.kernel in ("mine", "crashing"))

    def searched(text: str) -> None:
        build(model, custom=(write(tmp_path, text),) if text else (), output=tmp_path / "a.bin", search_mode="fast",
              search_seconds=600, verify=False)

    searched("")
    searched(text)                                              # not what the search without them has found
    found = samples()
    assert ("crashing", "killed by SIGSEGV") in found and ("mine", "ok") in found
    searched(text)
    assert samples() == found
    searched(text.replace("source=GOOD", "source=GOOD + '/* edited */'"))
    assert len(samples()) > len(found)
