"""A cost model corrected by samples: classes with many are fitted again, others scaled, and nothing gets worse."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernels.harness import make_profile

from meta_infer.cost.features import Features
from meta_infer.cost.fit import CostSample
from meta_infer.cost.model import ANY, Coefficients, CostModel
from meta_infer.cost.refit import context_factors, refit, times

PROFILE = make_profile("x86-64-v3")
BEFORE = Coefficients({"ports": 1e-10, "load": 5e-11}, {"l2": 1e-11}, 1e-8, {"chunks": 1e-9})


def _samples(truth: Coefficients, count: int, kernel: str = "gemm", seed: int = 0, noise: float = 0.02,
             weight: float = 1.0) -> list[CostSample]:
    rng = np.random.default_rng(seed)
    found = []
    for i in range(count):
        size, loads = 10.0 ** rng.uniform(4, 7), rng.uniform(0.1, 2.0)
        features = Features({"ports": size, "load": loads * size}, {"l2": size}, 1.0, {"chunks": 4.0})
        found.append(CostSample(kernel, "fp32", f"{kernel} {seed} {i // 3}", features,
                                truth.seconds(features) * np.exp(rng.normal(0, noise)), weight=weight))
    return found


def _model(**fitted: Coefficients) -> CostModel:
    model = CostModel.of(PROFILE, ())
    return CostModel(model.theory, {(name, "fp32"): one for name, one in {ANY: BEFORE, **fitted}.items()})


def _error(model: CostModel, samples: list[CostSample]) -> float:
    return float(np.median([abs(model.seconds(s.kernel, s.precision, s.features).seconds / s.seconds - 1)
                            for s in samples]))


def test_a_class_with_many_samples_is_fitted_again() -> None:
    truth = Coefficients({"ports": 1e-10, "load": 2e-10}, {"l2": 3e-11}, 1e-8, {"chunks": 1e-9})
    seen, fresh = _samples(truth, 60), _samples(truth, 40, seed=1)
    before = _model(gemm=BEFORE)
    after = refit(before, seen)
    assert _error(before, fresh) > 0.3 and _error(after, fresh) < 0.05
    assert refit(before, seen) == after, "the same samples give the same model"


def test_few_samples_scale_a_class_and_leave_the_shape() -> None:
    slow = [*_samples(times(BEFORE, 2.0), 4, "pool"), *_samples(BEFORE, 80)]
    before = _model(gemm=BEFORE, pool=BEFORE)
    after = refit(before, slow)
    factor = after.coefficients("pool", "fp32").alpha["ports"] / BEFORE.alpha["ports"]
    assert 1.3 < factor < 1.6, "four of them are believed half: the root of two"
    assert after.coefficients("gemm", "fp32").alpha["ports"] == pytest.approx(BEFORE.alpha["ports"], rel=0.1)


def test_all_that_is_faster_by_one_factor_is_scaled_with_what_has_no_sample() -> None:
    after = refit(_model(gemm=BEFORE, pool=BEFORE), _samples(times(BEFORE, 0.5), 60))
    assert after.coefficients("pool", "fp32").alpha["ports"] == pytest.approx(0.5 * BEFORE.alpha["ports"], rel=0.05)
    assert after.coefficients("softmax", "fp32").alpha["ports"] == pytest.approx(0.5 * BEFORE.alpha["ports"], rel=0.05)


def test_a_wrong_entry_is_left_behind() -> None:
    wrong = Coefficients({"ports": 1e-10, "load": 1e-8}, {"l2": 1e-11}, 1e-8, {})
    fresh = _samples(BEFORE, 40, seed=1)
    after = refit(_model(gemm=wrong), [*_samples(BEFORE, 60), *_samples(BEFORE, 90, "conv")])
    assert _error(after, fresh) < 0.1


def test_noise_makes_nothing_worse() -> None:
    before = _model(gemm=BEFORE)
    after = refit(before, _samples(BEFORE, 30, noise=0.5))
    assert _error(after, _samples(BEFORE, 60, seed=1)) < 0.2


def test_weights_count() -> None:
    old, new = _samples(times(BEFORE, 3.0), 30, seed=2, weight=0.01), _samples(BEFORE, 30)
    after = refit(_model(gemm=BEFORE), [*old, *new])
    assert _error(after, _samples(BEFORE, 30, seed=3)) < _error(after, _samples(times(BEFORE, 3.0), 30, seed=3))


def test_samples_that_say_nothing_change_nothing() -> None:
    before = _model(gemm=BEFORE)
    failed = CostSample("gemm", "fp32", "g", Features({"ports": 1.0}, {}), float("inf"))
    assert refit(before, []) is before and refit(before, [failed]) is before


def test_context_is_shared_unless_a_class_has_many_groups() -> None:
    model = _model(gemm=BEFORE)
    found = context_factors(model, [*_samples(times(BEFORE, 0.9), 200), *_samples(times(BEFORE, 2.0), 3, "pool", 5)])
    assert found["gemm"] == pytest.approx(0.9, rel=0.03) and found[ANY] == pytest.approx(0.9, rel=0.03)
    assert 0.85 < found["pool"] < 1.1, "three groups of 200 say little"
    assert context_factors(model, []) == {}
    inside = CostModel(model.theory, model.fitted, context=found)
    (one,) = _samples(BEFORE, 1)
    alone, within = (inside.seconds("gemm", "fp32", one.features, in_network=place).seconds for place in (False, True))
    assert within == pytest.approx(found["gemm"] * alone)
    other = inside.seconds("softmax", "fp32", one.features, in_network=True).seconds
    assert other == pytest.approx(found[ANY] * inside.seconds("softmax", "fp32", one.features).seconds)
