"""How long a search will go on: an estimate that learns, ends at the budget, and never runs backwards to nothing."""

from __future__ import annotations

import pytest

from meta_infer.search.time_left import FIRST_GUESS, TimeLeft, seconds_left


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def search(seconds_each: float, most: float = 1000.0, remembered: bool = False) -> tuple[list[float], list[float]]:
    """Estimates of what is left, and what was left, of a search that times 40 kernels, then tunes 20 more."""
    clock = Clock()
    left = TimeLeft(most, 0.5, clock=clock)
    told, at = [], []
    left.begin("coarse")
    clock.now += 2.0
    for stage, count in (("fine", 40), ("finetune", 20)):
        left.begin(stage)
        left.wants(count)
        for _ in range(count // 4):
            clock.now += 0.0 if remembered else 4 * seconds_each
            left.done(4, not remembered)
            told.append(left.in_all)
            at.append(clock.now)
            assert 0.0 < left.share < 1.0
    left.begin("in place")
    clock.now += 5.0
    left.begin("whole plans")
    clock.now += 15.0
    return told, [clock.now - moment for moment in at]


@pytest.mark.parametrize("seconds_each", [0.1, 0.5, 2.0])
def test_estimates_come_near_to_what_it_takes(seconds_each: float) -> None:
    told, true = search(seconds_each)
    for guess, left in list(zip(told, true, strict=True))[4:]:
        assert guess == pytest.approx(left, rel=0.6)
    assert told[-1] == pytest.approx(true[-1], rel=0.1)


def test_timing_ends_at_the_budget() -> None:
    clock = Clock()
    left = TimeLeft(10.0, 0.0, clock=clock)
    left.begin("fine")
    left.wants(1000)
    assert left.in_stage == pytest.approx(10.0)
    clock.now += 9.0
    assert left.in_stage == pytest.approx(1.0)
    clock.now += 9.0
    assert left.in_stage == 0.0 and left.in_all > 0.0, "whole plans are still to come"


def test_remembered_kernels_do_not_make_timing_look_quick() -> None:
    clock = Clock()
    left = TimeLeft(1000.0, 0.0, clock=clock)
    left.begin("fine")
    left.wants(100)
    for _ in range(90):
        left.done(1, False)
    assert left.per_kernel == FIRST_GUESS and left.in_stage == pytest.approx(10 * FIRST_GUESS)


def test_a_stage_that_is_left_out_takes_no_time() -> None:
    clock = Clock()
    some, fewer = (TimeLeft(100.0, 0.0, places, clock) for places in (True, False))
    some.begin("finetune")
    fewer.begin("finetune")
    assert fewer.in_all < some.in_all


def test_estimates_are_no_finer_than_they_are_sure() -> None:
    assert [seconds_left(s) for s in (0.2, 7.2, 33.0, 61.0, 200.0)] == ["1 s", "7 s", "35 s", "60 s", "3 min"]
