"""Levels of fusion at made-up prices: a higher one is never slower, and the last is what the search came to."""

from __future__ import annotations

import pytest

from meta_infer.search.space import levels
from meta_infer.search.space.levels import fusion_levels, guessed_share
from tests.search.made_up_market import made_up_market


@pytest.mark.parametrize(("seed", "timed"), [(0, 1.0), (1, 0.5), (2, 0.0), (3, 0.4)])
def test_a_higher_level_is_never_slower(seed: int, timed: float) -> None:
    market = made_up_market(seed, timed)
    solved = market.solve()
    found = fusion_levels(market, solved)
    assert [one.name for one in found] == ["none", "elementwise", "epilogue", "full", "anchors", "moves"]
    for below, above in zip(found, found[1:], strict=False):
        assert above.seconds <= below.seconds
        assert above.gain == pytest.approx(1 - above.seconds / below.seconds)
    assert found[-1].seconds <= solved.seconds + 1e-7
    assert found[0].kernels == 7 and found[-1].kernels < 7, "a kernel for each node without fusion"
    assert all(0.0 <= one.guessed <= 1.0 for one in found)
    assert (found[0].guessed == 0.0) == (timed == 1.0)


def test_what_is_guessed_is_said() -> None:
    market = made_up_market(5, timed=0.0)
    assert guessed_share(market, market.solve()) == pytest.approx(1.0, abs=0.3), "conversions are no kernels"


def test_large_programs_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    market = made_up_market(0)
    monkeypatch.setattr(levels, "MOST_CHOICES", 1)
    assert fusion_levels(market, market.solve()) == ()
