"""Interleaved timing, on a clock that only the candidates move."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from meta_infer.search.measure import interleave as module
from meta_infer.search.measure.interleave import Stats, in_turns, interleave, median_round, summarize, timed_runs


class Clock:
    """Time passes only in candidates."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def takes(self, *seconds: float) -> Callable[[], None]:
        """A candidate whose runs take these times in turn."""
        calls = 0

        def run() -> None:
            nonlocal calls
            self.now += seconds[calls % len(seconds)]
            calls += 1
        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def test_figures_are_those_of_the_runs(clock: Clock) -> None:
    found = interleave({"a": clock.takes(1.0), "b": clock.takes(4.0)}, rounds=5, seconds=100.0, warmup=2)
    assert found["a"] == Stats(50, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, (1.0,) * 5)
    assert found["b"].count == 15 and found["b"].rounds == (4.0,) * 5        # a turn of 10 s holds three of 4 s
    assert median_round(found["b"], found["a"]).ratio == 4.0
    assert found["a"].per_second == 1.0


def test_a_slow_candidate_still_runs_once_per_round(clock: Clock) -> None:
    found = interleave({"slow": clock.takes(1000.0)}, rounds=3, seconds=0.0)
    assert found["slow"].count == 3


def test_percentiles() -> None:
    stats = summarize([float(i) for i in range(101)])
    assert (stats.min, stats.p50, stats.p90, stats.p99, stats.max, stats.mean) == (0, 50, 90, 99, 100, 50)
    assert summarize([2.0]) == Stats(1, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0)


def test_every_round_begins_with_another_candidate() -> None:
    assert in_turns(["a", "b", "c"], 4) == [*"abc", *"bca", *"cab", *"abc"]
    assert in_turns(["a"], 2) == ["a", "a"]


def test_the_ratio_is_that_of_one_round() -> None:
    """A disturbance of one round, however large, moves neither the ratio nor the figures beside it."""
    ours = summarize([1.0], [1.0, 1.0, 50.0, 1.0, 1.1])
    theirs = summarize([1.0], [2.0, 2.0, 2.0, 90.0, 2.0])
    middle = median_round(ours, theirs)
    assert (middle.seconds, middle.reference) == (1.0, 2.0) and middle.ratio == 0.5


def test_a_fixed_number_of_runs(clock: Clock) -> None:
    assert timed_runs(clock.takes(1.0, 2.0), 1, 3, 0.0) == [2.0, 1.0, 2.0]
