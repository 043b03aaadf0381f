"""What the linear form gets wrong, learned: gradient boosting on log(measured / linear), where that helps.

Friedman: Greedy function approximation: a gradient boosting machine (2001), as scikit-learn implements it over binned
features. It has to prove itself: fitted to the groups that are not held out, it is used only while it predicts those
that are better than the linear form alone. It needs scikit-learn, which is optional; without it there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from meta_infer.cost.features import WORK, Features
from meta_infer.cost.fit import CostSample, at_one_clock, is_held_out
from meta_infer.cost.model import CostModel

FEWEST = 300
"""Samples below which nothing is learned."""
_GAIN = 0.85
"""Share of the linear form's error that a residual may have: less gain may be chance, and a prediction by it takes
milliseconds."""
_BOUND = math.log(3.0)
"""Most that a correction may be, either way: what lies beyond is outside what was learned from."""


@dataclass(frozen=True)
class Residual:
    """A learned factor on the linear form: `error` and `linear_error` are median relative errors on held-out groups."""

    regressor: Any
    kernels: tuple[str, ...]
    memories: tuple[str, ...]
    error: float
    linear_error: float

    def __call__(self, kernel: str, precision: str, features: Features, seconds: float) -> float:
        """The factor; 1 for a class that it was not learned on."""
        if kernel not in self.kernels or seconds <= 0:
            return 1.0
        row = _row(self.kernels.index(kernel), self.memories, features, seconds)
        with _pools().limit(limits=1, user_api="openmp"):
            found = float(self.regressor.predict([row])[0])
        return math.exp(min(max(found, -_BOUND), _BOUND))


def learn(samples: Sequence[CostSample], linear: CostModel) -> Residual | None:
    """A residual that beats `linear` on the held-out groups; None when there is none, or too few samples.

    `linear` must have been fitted to the groups that are not held out, as `fit` does.
    """
    known = at_one_clock([s for s in samples if 0 < s.seconds < math.inf])
    if len(known) < FEWEST:
        return None
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
    except ImportError:
        return None
    kernels = tuple(sorted({s.kernel for s in known}))
    memories = tuple(sorted({name for s in known for name in s.features.bytes}))
    guessed = np.array([linear.seconds(s.kernel, s.precision, s.features).seconds for s in known])
    measured, held = np.array([s.seconds for s in known]), np.array([is_held_out(s.group) for s in known])
    if not held.any() or held.all() or not (guessed > 0).all():
        return None
    rows = np.array([_row(kernels.index(s.kernel), memories, s.features, guess)
                     for s, guess in zip(known, guessed, strict=True)])
    regressor = HistGradientBoostingRegressor(
        loss="absolute_error", max_iter=60, learning_rate=0.06, max_leaf_nodes=8, min_samples_leaf=20,
        l2_regularization=1.0, categorical_features=[0], random_state=0)
    with _pools().limit(limits=1, user_api="openmp"):
        regressor.fit(rows[~held], np.clip(np.log(measured / guessed), -_BOUND, _BOUND)[~held])
    corrected = guessed * np.exp(np.clip(regressor.predict(rows), -_BOUND, _BOUND))
    error, linear_error = (float(np.median(np.abs(p / measured - 1)[held])) for p in (corrected, guessed))
    return Residual(regressor, kernels, memories, error, linear_error) if error < _GAIN * linear_error else None


@cache
def _pools() -> Any:
    """scikit-learn's threads, which on a busy machine take longer to wait for each other than one of them alone."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _row(kernel: int, memories: Sequence[str], features: Features, seconds: float) -> list[float]:
    """Numbers that do not grow with size but for the first: shares of the work, and bytes for each unit of it."""
    ports = max(features.work.get("ports", 0.0), 1.0)
    row = [float(kernel), math.log(seconds), math.log(ports / seconds)]
    row += [features.work.get(kind, 0.0) / ports for kind in WORK if kind != "ports"]
    row += [math.log1p(features.bytes.get(name, 0.0) / ports) for name in memories]
    row += [math.log1p(features.bytes.get(name, 0.0)) for name in memories]
    return [*row, math.log1p(features.penalty.get("chunks", 0.0)), features.launches]
