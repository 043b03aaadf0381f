"""Which whole plan wins: what is clearly quicker than the plan by rule, as the final says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from meta_infer.search.story import Contender
from meta_infer.search.whole.contenders import contenders_of, standing
from meta_infer.search.whole.settle import Settling, _enough
from tests.search.made_up_market import made_up_market

MARKET = made_up_market(0)
PLAN = MARKET.solve().plan


def contender(name: str, measured: float, spread: float = 0.0, **more: Any) -> Contender:
    return Contender(name, PLAN, 1.0, measured, spread, **more)


def first(*contenders: Contender) -> str:
    default = contenders[-1]
    return min(contenders, key=lambda one: standing(one, default)).name


@pytest.mark.parametrize(("measured", "spread", "more", "wins"), [
    (0.98, 0.01, {}, True), (0.98, 0.03, {}, False), (0.98, 0.03, {"doubt": 0.38}, True),
    (0.994, 0.0, {}, True), (0.997, 0.0, {}, False),
    (0.5, 0.0, {"is_out": True}, False), (inf, 0.0, {}, False)])
def test_another_plan_must_be_clearly_quicker(measured: float, spread: float, more: Any, wins: bool) -> None:
    found = first(contender("other", measured, spread, **more), contender("default", 1.0))
    assert found == ("other" if wins else "default")


class Final(Settling):
    """Whole plans take in the final what `times` says, beside the default's 1.0."""

    times = {"lucky": 1.01, "good": 0.97, "fair": 0.98}
    asked: tuple[str, ...] = ()

    def run(self, contenders: Sequence[Contender], base: Contender | None = None, *rest: Any) -> list[Contender]:
        assert base is not None and base.name == "default"
        self.asked = tuple(one.name for one in contenders)
        return [replace(one, measured=self.times[one.name], spread=0.01) for one in contenders]


def test_the_best_three_run_again_and_the_others_are_out() -> None:
    final = Final(MARKET, None, [], 1.5, inf)                            # type: ignore[arg-type]
    ran = [contender("lucky", 0.93), contender("fourth", 0.965), contender("good", 0.96),
           contender("fair", 0.961), contender("failed", inf),
           contender("default", 1.0)]
    ended = final.final(ran)
    assert final.asked == ("lucky", "good", "fair") and ended[-1] is ran[-1] and len(ended) == len(ran)
    assert first(*ended) == "good" and {one.doubt for one in ended[:3]} == {0.38}
    assert {one.name for one in ended if one.is_out} == {"fourth", "failed"}


def test_without_a_rival_there_is_no_final() -> None:
    final = Final(MARKET, None, [], 1.5, inf)                            # type: ignore[arg-type]
    for ran in ([contender("slow", 1.3), contender("default", 1.0)], [contender("default", 1.0)],
                [contender("not run", inf), contender("default", inf)]):
        assert final.final(ran) == ran and not final.asked


def test_contenders_have_a_kernel_throughout_or_not_at_all() -> None:
    solved = MARKET.solve()
    default = MARKET.solve(lambda offer, way, known: way.kernel not in ("conv_direct", "conv_winograd")).plan
    found = contenders_of(MARKET, solved, default, 12)
    assert (found[0].name, found[-1].name) == ("searched", "default")
    by_name = {one.name: {planned.variant.kernel for planned in one.plan.groups} for one in found}
    for name, kernels in by_name.items():
        if name.startswith("without "):
            assert name.removeprefix("without ") not in kernels
        if name.endswith(" throughout"):
            kernel = name.removesuffix(" throughout")
            convolutions = {k for k in kernels if k.startswith("conv_")}
            assert kernel in kernels and len(convolutions - {kernel}) <= 1
    assert any(name.endswith(" throughout") for name in by_name) and any(name.startswith("without") for name in by_name)
    assert len({repr(one.plan.groups) for one in found}) == len(found)


def test_small_networks_need_no_long_comparison() -> None:
    small, large = [contender("a", 2e-5), contender("b", 3e-3)], [contender("c", inf), contender("d", 0.5)]
    assert _enough(small, 21, 6.0) == pytest.approx(21 * (0.005 + 20 * 3e-3))
    assert _enough(large, 21, 6.0) == 6.0
