"""The learned residual: used where it helps on what it has not seen, absent where it does not."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from tests.kernels.harness import make_profile

from meta_infer.cost.features import Features
from meta_infer.cost.fit import CostSample, fit
from meta_infer.cost.model import Coefficients, CostModel
from meta_infer.cost.residual import FEWEST, learn

PROFILE = make_profile("x86-64-v3")
TRUE = Coefficients({"ports": 1e-10, "load": 5e-11}, {"l2": 2e-11}, 1e-7, {})


def _samples(count: int, bent: bool) -> list[CostSample]:
    rng = np.random.default_rng(5)
    found = []
    for i in range(count):
        size, loads = 10.0 ** rng.uniform(4, 7), rng.uniform(0.1, 1.0)
        features = Features({"ports": size, "load": loads * size}, {"l2": size}, 1.0, {"chunks": 4.0})
        # What no linear form has: kernels of few loads take twice the time.
        factor = 2.0 if bent and loads < 0.5 else 1.0
        found.append(CostSample("gemm", "fp32", f"group {i // 4}", features,
                                TRUE.seconds(features) * factor * np.exp(rng.normal(0, 0.02))))
    return found


def _linear(samples: list[CostSample]) -> CostModel:
    return CostModel.of(PROFILE, fit(samples, PROFILE, date(2026, 11, 30)).entries)


def test_what_is_not_linear_is_learned() -> None:
    samples = _samples(600, bent=True)
    linear = _linear(samples)
    residual = learn(samples, linear)
    assert residual is not None and residual.error < 0.7 * residual.linear_error
    both = replace(linear, correction=residual)
    off = [[abs(m.seconds(s.kernel, s.precision, s.features).seconds / s.seconds - 1) for s in samples[:80]]
           for m in (linear, both)]
    assert np.median(off[1]) < np.median(off[0])
    assert residual("conv", "fp32", samples[0].features, 1e-3) == 1.0, "a class it knows nothing of"
    wild = Features({"ports": 1e12, "load": 1e3}, {"l2": 1.0})
    assert 1 / 3 <= residual("gemm", "fp32", wild, 1e-9) <= 3.0001


def test_it_is_left_out_where_it_does_not_help() -> None:
    samples = _samples(400, bent=False)
    linear = _linear(samples)
    residual = learn(samples, linear)
    assert residual is None or residual.error < residual.linear_error
    assert learn(samples[:FEWEST - 1], linear) is None
    assert learn([replace(s, group="one") for s in samples], linear) is None, "nothing to judge it by"


def test_without_scikit_learn_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = _samples(FEWEST, bent=True)
    linear = _linear(samples)
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    assert learn(samples, linear) is None
