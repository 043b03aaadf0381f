"""The fine stage corrects the cost model by what it has timed, not at every turn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from meta_infer.cost.features import Features
from meta_infer.cost.fit import CostSample
from meta_infer.cost.model import CostModel
from meta_infer.search.fine import _correct
from tests.kernels.harness import make_profile

MODEL = CostModel.of(make_profile("x86-64-v3"), ())


def timed(count: int) -> Any:
    """A timer that has timed so many ways of one site, each of which took twice what theory says."""
    def sample(site: Any, way: int) -> CostSample | None:
        features = Features({"ports": 1e5 * (1 + way % 7)}, {}, 1.0)
        seconds = 2 * MODEL.theory.seconds(features)
        return CostSample("gemm", "fp32", f"{way // 4}", features, seconds) if way < count else None

    return SimpleNamespace(sample=sample)


def test_what_a_search_times_corrects_the_model() -> None:
    market: Any = SimpleNamespace(sites={"one": SimpleNamespace(ways=range(100))}, cost=MODEL, corrected=None)
    assert _correct(market, timed(0), 0) == 0 and market.corrected is None
    assert _correct(market, timed(20), 0) == 20
    first, features = market.corrected, Features({"ports": 3e5}, {}, 1.0)
    ratio = first.seconds("gemm", "fp32", features).seconds / MODEL.seconds("gemm", "fp32", features).seconds
    assert 1.8 < ratio < 2.2
    assert _correct(market, timed(24), 20) == 20 and market.corrected is first, "four more say little"
    assert _correct(market, timed(40), 20) == 40 and market.corrected is not first
