"""Fits the coefficients of the cost model to measured times, by non-negative least squares on relative errors.

A row is a sample divided by its time, so that the sum of its terms should be 1 whatever its size. Which of busy and
moving is the greater of a sample depends on the coefficients: it is assigned by the last ones, and fitted again, a few
times (as for any max-affine function: Magnani, Boyd, Convex piecewise-linear fitting, 2009). Rows are weighted so that
errors count once, not squared (iteratively reweighted least squares): outliers of a noisy machine pull little. Each
coefficient is drawn weakly to that of all classes, so that what a class's samples do not tell stays plausible.

One group in five, by the hash of its text, is held out: what was never seen tells the error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
from scipy.optimize import nnls
from scipy.stats import spearmanr

from meta_infer.cost.features import Features
from meta_infer.cost.model import ANY, Coefficients, in_theory
from meta_infer.hardware.profile import Profile
from meta_infer.hardware.schema import Cost

FEWEST = 12
"""Samples below which a class has no coefficients of its own."""
OVERLAPS = (0.0, 0.5, 0.75, 1.0)
_HELD_OUT = 5
_ROUNDS = 8
_PULL = 0.5
"""Weight of the coefficients of all classes, in groups' worth of samples."""
_PULL_OF_REST = 0.2
"""Least relative error that twice the usual time of a launch or a penalty counts as, to samples that do not tell."""
_LEAST_OF_BYTES = 0.8
"""Share of the time of a byte among all classes that it takes in any class: memory is as fast for one as for another,
which a class whose samples wait for none does not show."""
_MOST, _MOST_OF_ALL = 4.0, 10.0
"""Times the time of a unit of work among all classes that it may take in one, and among all classes times theory: of a
kind that its samples hardly have, a class could say anything."""
_LEAST_UNIT = 0.2
"""Share of a unit of `ports` that a unit of any work counts as in these bounds, 1 among all classes."""
_FLAT = 0.03
"""Relative error below which errors count squared: about that of the measurements themselves."""


@dataclass(frozen=True)
class CostSample:
    """One measured candidate: `group` tells equal groups apart from others, `seconds` is of one run on one core.

    `peak`: operations per second that the probe reached beside it, 0 when unknown. Times are taken as at the median
    peak of all samples, so that what a slower clock cost is not put down to a kernel. `weight` is how much it counts.
    """

    kernel: str
    precision: str
    group: str
    features: Features
    seconds: float
    peak: float = 0.0
    weight: float = 1.0


@dataclass(frozen=True)
class Fit:
    """Coefficients as a profile keeps them, and how good they are on held-out groups by (class, precision)."""

    entries: tuple[Cost, ...]
    quality: Mapping[tuple[str, str], Quality]


@dataclass(frozen=True)
class Quality:
    """Median relative error, and Spearman's rank correlation of predicted and measured, over `samples` held out."""

    error: float
    rank: float
    samples: int


def is_held_out(group: str) -> bool:
    """Whether a group is among the fifth that is fitted to nothing."""
    return int.from_bytes(hashlib.sha256(group.encode()).digest()[:4], "big") % _HELD_OUT == 0


def at_one_clock(samples: Sequence[CostSample]) -> list[CostSample]:
    """The samples with the times they would have taken at the median peak."""
    peaks = [sample.peak for sample in samples if sample.peak]
    usual = float(np.median(peaks)) if peaks else 0.0
    return [replace(s, seconds=s.seconds * s.peak / usual, peak=usual) if s.peak else s for s in samples]


def fit(samples: Iterable[CostSample], profile: Profile, today: date) -> Fit:
    """Coefficients of every (class, precision) with enough samples, and of all classes of each precision."""
    known = at_one_clock([s for s in samples if 0 < s.seconds < float("inf")])
    entries: list[Cost] = []
    quality: dict[tuple[str, str], Quality] = {}
    peaks = [s.peak for s in known if s.peak]
    theory = in_theory(profile, peak=float(np.median(peaks)) if peaks else None)
    for precision in sorted({s.precision for s in known}):
        own = [s for s in known if s.precision == precision]
        pooled = fit_class(own, theory, 0.0)
        classes = sorted({s.kernel for s in own})
        for name in (ANY, *classes):
            members = own if name == ANY else [s for s in own if s.kernel == name]
            if len(members) < FEWEST and name != ANY:
                continue
            found = pooled if name == ANY else fit_class(members, pooled)
            quality[name, precision] = judged = judge(members, found)
            entries.append(Cost.model_validate({
                "kernel_class": name, "precision": precision, "alpha": found.alpha, "beta": found.beta,
                "gamma": found.gamma, "delta": found.delta, "overlap": found.overlap, "fitted": today,
                "samples": len(members), "error": judged.error}))
    return Fit(tuple(entries), quality)


def judge(samples: Sequence[CostSample], found: Coefficients) -> Quality:
    """How good coefficients are on the held-out ones of `samples`; on all where none is held out."""
    held = [s for s in samples if is_held_out(s.group)] or list(samples)
    predicted, measured = (np.array(v) for v in zip(*((found.seconds(s.features), s.seconds) for s in held),
                                                    strict=True))
    rank = spearmanr(predicted, measured)[0] if len({*predicted}) > 1 and len({*measured}) > 1 else 0.0
    return Quality(float(np.median(np.abs(predicted / measured - 1))), float(rank), len(held))


def fit_class(samples: Sequence[CostSample], prior: Coefficients, least: float = _LEAST_OF_BYTES,
              holds_out: bool = True) -> Coefficients:
    """Coefficients for the samples that are not held out (all, when there are no others), drawn weakly to `prior`.

    A byte takes at least the share `least` of what it takes there.
    """
    seen = [s for s in samples if not (holds_out and is_held_out(s.group))] or list(samples)
    table = _Table.of(seen, prior)
    found = [(table.solve(overlap, least), overlap) for overlap in OVERLAPS]
    values, overlap = min(found, key=lambda one: table.loss(one[0], one[1]))
    return table.coefficients(values, overlap)


@dataclass(frozen=True)
class _Table:
    """Samples as rows of terms, each divided by its sample's seconds: columns of work, of bytes, and of the rest."""

    work: np.ndarray
    bytes: np.ndarray
    rest: np.ndarray
    names: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    prior: np.ndarray
    groups: int
    counts: np.ndarray

    @classmethod
    def of(cls, samples: Sequence[CostSample], prior: Coefficients) -> _Table:
        def names(part: str) -> tuple[str, ...]:
            return tuple(sorted({name for s in samples for name in getattr(s.features, part)}))

        kinds, memories, penalties = names("work"), names("bytes"), names("penalty")
        seconds = np.array([s.seconds for s in samples])[:, None]

        def columns(part: str, wanted: Sequence[str]) -> np.ndarray:
            rows = [[getattr(s.features, part).get(name, 0.0) for name in wanted] for s in samples]
            return np.array(rows, float).reshape(len(samples), len(wanted)) / seconds

        rest = np.concatenate([np.array([[s.features.launches] for s in samples]) / seconds,
                               columns("penalty", penalties)], 1)
        start = [prior.alpha.get(n, 0.0) for n in kinds] + [prior.beta.get(n, 0.0) for n in memories]
        start += [prior.gamma] + [prior.delta.get(n, 0.0) for n in penalties]
        return cls(columns("work", kinds), columns("bytes", memories), rest, (kinds, memories, penalties),
                   np.array(start), len({s.group for s in samples}), np.sqrt([s.weight for s in samples]))

    def rows(self, values: np.ndarray, overlap: float) -> np.ndarray:
        """Terms of each sample as `values` order them: the lesser of busy and moving counts by what is not hidden."""
        split = len(self.names[0]), len(self.names[0]) + len(self.names[1])
        busy, moving = self.work @ values[:split[0]], self.bytes @ values[split[0]:split[1]]
        lesser = 1.0 - overlap
        of_work, of_bytes = np.where(busy >= moving, 1.0, lesser), np.where(busy >= moving, lesser, 1.0)
        return np.concatenate([self.work * of_work[:, None], self.bytes * of_bytes[:, None], self.rest], 1)

    def solve(self, overlap: float, least_of_bytes: float) -> np.ndarray:
        values, weights = self.prior, self.counts
        everything = np.concatenate([self.work, self.bytes, self.rest], 1)
        # Launches and penalties take the same whatever is launched, which samples of long runs do not show.
        usual = everything.mean(0)
        rest = slice(len(usual) - self.rest.shape[1], None)
        usual[rest] = np.maximum(usual[rest], _PULL_OF_REST / np.maximum(self.prior[rest], 1e-12))
        scale = np.sqrt(_PULL / self.groups * len(everything)) * usual
        least = np.zeros_like(self.prior)
        of_bytes = slice(len(self.names[0]), len(self.names[0]) + len(self.names[1]))
        least[of_bytes] = least_of_bytes * self.prior[of_bytes]
        most = self.most(least_of_bytes > 0)
        for _ in range(_ROUNDS):
            left = np.concatenate([self.rows(values, overlap) * weights[:, None], np.diag(scale)])
            right = np.concatenate([weights, scale * self.prior])
            values = _bounded(left, right, least, most)
            off = np.abs(self.rows(values, overlap) @ values - 1)
            weights = self.counts / np.sqrt(np.maximum(off, _FLAT) / _FLAT)
        return values

    def most(self, is_class: bool) -> np.ndarray:
        """The greatest that each coefficient may be: of work, as the prior has it for `ports` and its own kind."""
        found = np.full_like(self.prior, np.inf)
        kinds = self.names[0]
        if "ports" in kinds:
            unit = self.prior[kinds.index("ports")] * (_LEAST_UNIT if is_class else 1.0)
            of_work = self.prior[:len(kinds)]
            found[:len(kinds)] = (np.maximum(_MOST * of_work, _MOST * unit) if is_class
                                  else np.maximum(_MOST_OF_ALL * of_work, unit))
        return found

    def loss(self, values: np.ndarray, overlap: float) -> float:
        """The mean relative error."""
        return float(np.abs(self.rows(values, overlap) @ values - 1).mean())

    def coefficients(self, values: np.ndarray, overlap: float) -> Coefficients:
        kinds, memories, penalties = self.names
        numbers = iter(float(v) for v in values)
        alpha = {name: next(numbers) for name in kinds}
        beta = {name: next(numbers) for name in memories}
        gamma = next(numbers)
        delta = {name: next(numbers) for name in penalties}

        def used(found: dict[str, float]) -> dict[str, float]:
            return {name: value for name, value in found.items() if value > 0}

        return Coefficients(used(alpha), used(beta), gamma, used(delta), overlap)


def _bounded(left: np.ndarray, right: np.ndarray, least: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Least squares of `left @ x = right` with `least <= x <= most`: what comes out too great is held at its bound, and
    the others are solved for again."""
    size = np.maximum(np.linalg.norm(left, axis=0), 1e-300)               # columns of one length: well conditioned
    values, free = least.copy(), np.ones(len(least), bool)
    for _ in range(len(least)):
        fixed = np.where(free, least, most)
        values = fixed.copy()
        values[free] += nnls(left[:, free] / size[free], right - left @ fixed)[0] / size[free]
        over = free & (values > most)
        free &= ~over
        if not over.any() or not free.any():
            break
    return np.minimum(values, most)
