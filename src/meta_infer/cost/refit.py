"""A cost model corrected by what was measured since: class by class, drawn to what it said before.

    12 samples of 3 groups or more   coefficients are fitted again, the ones before being what they are drawn to; where
                                     groups can be held out, only if they are better on these
    fewer                            the ones before, times a factor: the median of measured over predicted, to the
                                     power n / (n + 4)
    300 of all classes               what the linear form gets wrong is learned as well (residual.py), if that helps

What a profile says is of one thread and of the clock it was calibrated at: before all else its times are taken times
what the samples took together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from meta_infer.cost.fit import FEWEST, CostSample, fit_class, is_held_out, judge
from meta_infer.cost.model import ANY, Coefficients, CostModel
from meta_infer.cost.residual import learn

FEWEST_GROUPS = 3
_HALF = 4
"""Samples of which half of what they say is taken for a class that has too few."""
_SHARED = 40
"""Groups of a class of which half is taken of how it differs from all others within networks."""
_FACTOR = 4.0
"""Most that a factor may be, either way."""


def refit(before: CostModel, samples: Sequence[CostSample], learns: bool = False) -> CostModel:
    """The model by `samples` of kernels timed by themselves; with `learns`, a residual too, where it helps.

    Depends on nothing but its arguments and the order of samples.
    """
    known = [s for s in samples if 0 < s.seconds < math.inf and _predicted(before, s) > 0]
    if not known:
        return before
    level = _median_ratio(before, known)
    seen = replace(before, theory=times(before.theory, level),
                   fitted={key: times(one, level) for key, one in before.fitted.items()}, correction=None)
    fitted: dict[tuple[str, str], Coefficients] = {}
    honest: dict[tuple[str, str], Coefficients] = {}
    for key in sorted({(s.kernel, s.precision) for s in known}):
        members = [s for s in known if (s.kernel, s.precision) == key]
        fitted[key], honest[key] = _corrected(seen.coefficients(*key), seen.coefficients(ANY, key[1]), members)
    model = replace(seen, fitted={**seen.fitted, **fitted})
    if not learns:
        return model
    return replace(model, correction=learn(known, replace(seen, fitted={**seen.fitted, **honest})))


def times(found: Coefficients, factor: float) -> Coefficients:
    """Coefficients that take so many times as long."""
    def scaled(values: Mapping[str, float]) -> dict[str, float]:
        return {name: factor * value for name, value in values.items()}

    return replace(found, alpha=scaled(found.alpha), beta=scaled(found.beta), gamma=factor * found.gamma,
                   delta=scaled(found.delta))


def context_factors(model: CostModel, samples: Sequence[CostSample]) -> dict[str, float]:
    """Factors from times of kernels by themselves to those within networks, by class, from samples of the latter.

    Each is the median of measured over predicted, groups counting by their time, drawn to that of all classes (`ANY`),
    which few groups of a class differ from by more than chance.
    """
    ratios: dict[str, list[tuple[float, float]]] = {}
    for sample in samples:
        predicted = _predicted(model, sample)
        if 0 < sample.seconds < math.inf and predicted > 0:
            ratios.setdefault(sample.kernel, []).append((sample.seconds / predicted, sample.seconds))
    if not ratios:
        return {}
    shared = _heavy_median([one for own in ratios.values() for one in own])
    found = {ANY: shared}
    for kernel, own in ratios.items():
        share = len(own) / (len(own) + _SHARED)
        found[kernel] = math.exp(share * math.log(_heavy_median(own)) + (1 - share) * math.log(shared))
    return {kernel: min(max(factor, 1 / _FACTOR), _FACTOR) for kernel, factor in found.items()}


def _corrected(before: Coefficients, shared: Coefficients,
               members: Sequence[CostSample]) -> tuple[Coefficients, Coefficients]:
    """Coefficients of a class, and those that know nothing of the held-out groups.

    They are drawn to the ones before, or to those of all classes where that is better on what is held out.
    """
    if len(members) < FEWEST or len({s.group for s in members}) < FEWEST_GROUPS:
        off = float(np.median([s.seconds / max(before.seconds(s.features), 1e-12) for s in members]))
        factor = min(max(off, 1 / _FACTOR), _FACTOR) ** (len(members) / (len(members) + _HALF))
        return times(before, factor), before
    if not any(is_held_out(s.group) for s in members):
        found = replace(fit_class(members, before), error=before.error)
        return found, found
    tried = [(judge(members, before).error, 0, before, before)]
    for number, prior in enumerate((before, shared) if shared != before else (before,), 1):
        honest = fit_class(members, prior)
        tried.append((judge(members, honest).error, number, prior, honest))
    error, number, prior, honest = min(tried, key=lambda one: one[:2])
    if not number:
        return before, before
    return replace(fit_class(members, prior, holds_out=False), error=error), replace(honest, error=error)


def _predicted(model: CostModel, sample: CostSample) -> float:
    return model.coefficients(sample.kernel, sample.precision).seconds(sample.features)


def _median_ratio(model: CostModel, samples: Sequence[CostSample]) -> float:
    return float(np.median([s.seconds / _predicted(model, s) for s in samples]))


def _heavy_median(ratios: Sequence[tuple[float, float]]) -> float:
    """The ratio below which half of the seconds lie."""
    ordered = sorted(ratios)
    sums = np.cumsum([seconds for _, seconds in ordered])
    return ordered[int(np.searchsorted(sums, sums[-1] / 2))][0]
