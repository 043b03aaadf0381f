"""The timer: what the compiler itself fails on costs one way, not the search."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from meta_infer.backends.registry import backend_for
from meta_infer.hardware.load import load_profile
from meta_infer.library.store import Library
from meta_infer.search import timing
from meta_infer.search.measure.candidate import Uncompiled
from meta_infer.search.measure.measurements import Measurement
from meta_infer.search.space.sites import Known, Site
from meta_infer.search.timing import Timer
from meta_infer.support.errors import CompilerFaultError, ToolchainError
from tests.search.made_up_market import made_up_market


def measured(self: Timer, groups: Sequence[Sequence[Sequence[Uncompiled]]], rounds: int,
             on_group: Callable[[list[list[Measurement]]], None]) -> None:
    for group in groups:
        on_group([[Measurement(one.name, 1e-3, 1e-5, 0.5, 3, turns=((1e-3, 1e9),) * 3) for one in points]
                  for points in group])


def compiles_but(spoiled: set[str], error: type[ToolchainError]) -> Callable[..., tuple[Uncompiled, ...]]:
    def compiled(wanted: Sequence[Uncompiled], isa: str) -> tuple[Uncompiled, ...]:
        if any(one.name in spoiled for one in wanted):
            raise error("no code", what="compiler", hint="none")
        return tuple(wanted)

    return compiled


@pytest.fixture
def untimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Timer, Site, list[Known]]]:
    """A timer that compiles and measures nothing, a site, and four of its ways that were not timed."""
    market, profile = made_up_market(0, timed=0.0), load_profile("x86-64-v3")
    site = max(market.sites.values(), key=lambda one: len(one.ways))
    monkeypatch.setattr(Timer, "_measure", measured)
    with Library.open(tmp_path / "library.sqlite") as library:
        yield Timer(backend_for(profile), profile, library=library), site, list(site.ways.values())[:4]


def test_one_that_does_not_compile_is_known_to_fail_and_the_others_are_timed(
        untimed: tuple[Timer, Site, list[Known]], monkeypatch: pytest.MonkeyPatch) -> None:
    timer, site, known = untimed
    name = timer._job(site, known[1].variant).name
    monkeypatch.setattr(timing, "compile_candidates", compiles_but({name}, CompilerFaultError))
    timer.time([(site, [one.variant for one in known])])
    assert [one.measured for one in known] == [1e-3, math.inf, 1e-3, 1e-3]
    assert timer.library is not None
    (failed,) = [one for one in timer.library.samples() if not one.ok]
    assert failed.status == "the compiler failed" and failed.kernel == known[1].variant.kernel

    again = Timer(timer.backend, timer.profile, library=timer.library, is_replay=True)
    for one in known:
        one.measured = None
    again.time([(site, [one.variant for one in known])])
    assert [one.measured for one in known] == [1e-3, math.inf, 1e-3, 1e-3], "a replay needs no compiler"


def test_where_none_compiles_nothing_is_timed(
        untimed: tuple[Timer, Site, list[Known]], monkeypatch: pytest.MonkeyPatch) -> None:
    timer, site, known = untimed
    names = {timer._job(site, one.variant).name for one in known}
    monkeypatch.setattr(timing, "compile_candidates", compiles_but(names, CompilerFaultError))
    timer.time([(site, [one.variant for one in known])])
    assert all(one.measured == math.inf for one in known)


def test_a_fault_of_ours_ends_the_search(
        untimed: tuple[Timer, Site, list[Known]], monkeypatch: pytest.MonkeyPatch) -> None:
    timer, site, known = untimed
    name = timer._job(site, known[1].variant).name
    monkeypatch.setattr(timing, "compile_candidates", compiles_but({name}, ToolchainError))
    with pytest.raises(ToolchainError, match="no code"):
        timer.time([(site, [one.variant for one in known])])
