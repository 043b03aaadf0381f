"""What whole plans come to beside each other: a machine that is busy in half of the rounds changes little."""

from __future__ import annotations

import math
import random

import pytest

from meta_infer.search.whole.whole import _beside


@pytest.mark.parametrize("seed", range(5))
def test_two_per_cent_are_told_apart_on_a_busy_machine(seed: int) -> None:
    rng = random.Random(seed)

    def rounds(seconds: float) -> list[float]:
        return [seconds * (1 + rng.random() * 0.01) * (rng.uniform(1.05, 1.4) if rng.random() < 0.6 else 1)
                for _ in range(41)]

    base = rounds(1.0)
    quicker, same, slower = (_beside(rounds(seconds), base, level=2.0) for seconds in (0.97, 1.0, 1.03))
    assert quicker.seconds == pytest.approx(1.94, rel=0.008) and same.seconds == pytest.approx(2.0, rel=0.008)
    assert slower.seconds == pytest.approx(2.06, rel=0.008)
    assert quicker.seconds + 0.38 * quicker.spread < 2.0


def test_the_base_is_its_median_and_one_round_is_enough() -> None:
    assert _beside([1.0, 2.0, 9.0], [1.0, 2.0, 9.0]) == (2.0, 0.0)
    assert _beside([3.0], [2.0]) == (3.0, 0.0) and _beside([3.0], [2.0], 4.0) == (6.0, 0.0)


def test_what_failed_takes_for_ever_and_without_a_base_the_median_counts() -> None:
    assert _beside([], [1.0]).seconds == math.inf
    assert _beside([1.0, 2.0, 9.0], []).seconds == 2.0
