"""Seconds of a lowered group from its features, with an error bar.

    busy  = sum of alpha * work            moving = sum over memories of beta * bytes
    seconds = max(busy, moving) + (1 - overlap) * min(busy, moving) + gamma * launches + sum of delta * penalty

`overlap` says how much of the lesser hides behind the greater: 1 is the roofline's maximum, 0 the plain sum. The
coefficients are those that were fitted for the class of kernels and the precision, else for all kernels of that
precision (class `ANY`), else what follows from peak and bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from meta_infer.cost.features import WORK, Features, crossings
from meta_infer.hardware.profile import PRECISIONS, Profile
from meta_infer.hardware.schema import Cost
from meta_infer.support.dtypes import FLOAT32

ANY = "any"
"""The class of coefficients that stand for kernels of all classes."""

_UNKNOWN_ERROR = 1.0
_CLOCK, _BYTES_PER_CYCLE = 1e9, 8.0
"""Where a profile says nothing: such figures still rank kernels of one chip."""
_LAUNCH, _CHUNK = 2e-8, 5e-9
_CACHE_STEPS = (1 / 6, 1 / 5, 1 / 2)
"""Seconds of a byte from the second, third... level, as shares of one from main memory."""
_OVERLAP = 0.75


@dataclass(frozen=True)
class Estimate:
    """A predicted time and how far off it may be: half of what was held out lay within `spread`. Seconds."""

    seconds: float
    spread: float


@dataclass(frozen=True)
class Coefficients:
    """Seconds per unit of each feature, on one core; `error` is the median relative error of what they predict."""

    alpha: Mapping[str, float]
    beta: Mapping[str, float]
    gamma: float
    delta: Mapping[str, float]
    overlap: float = 1.0
    error: float = _UNKNOWN_ERROR

    def seconds(self, features: Features) -> float:
        busy = sum(self.alpha.get(kind, 0.0) * count for kind, count in features.work.items())
        moving = sum(self.beta.get(name, 0.0) * count for name, count in features.bytes.items())
        rest = sum(self.delta.get(name, 0.0) * count for name, count in features.penalty.items())
        return (max(busy, moving) + (1 - self.overlap) * min(busy, moving) + self.gamma * features.launches + rest)

    @classmethod
    def of(cls, cost: Cost) -> Coefficients:
        """Those of an entry of a profile's `cost`."""
        alpha: dict[str, float] = {kind: value for kind, value in cost.alpha.items()}
        delta: dict[str, float] = {kind: value for kind, value in cost.delta.items()}
        return cls(alpha, cost.beta, cost.gamma, delta, cost.overlap, cost.error)


def in_theory(profile: Profile, peak: float | None = None, bandwidth: float | None = None) -> Coefficients:
    """Coefficients of one core that nothing was measured on.

    `peak` (float32 operations per second of a core) and `bandwidth` (bytes per second from main memory) are for what a
    profile does not state. Where neither says it, a register takes a cycle.
    """
    stated = profile.macs_per_second(FLOAT32)
    if peak is None and stated:
        peak = 2 * stated / profile.cores
    clock = profile.clock_ghz * 1e9 if profile.clock_ghz else _CLOCK
    register = 2 * profile.lanes(FLOAT32) / peak if peak else 1 / clock
    byte = 1 / (bandwidth or profile.bandwidth or _BYTES_PER_CYCLE * clock)
    names = [name for name, _ in crossings(profile)]
    shares = [*_CACHE_STEPS[:len(names) - 1], 1.0]
    alpha = {kind: share * register for kind, share in WORK.items() if share}
    beta = {name: byte * share for name, share in zip(names, shares, strict=True)}
    return Coefficients(alpha, beta, _LAUNCH, {"chunks": _CHUNK}, _OVERLAP)


Correction = Callable[[str, str, Features, float], float]
"""(kernel, precision, features, seconds of the linear form) -> factor on them."""


@dataclass(frozen=True)
class CostModel:
    """Predicts from coefficients by (class of kernels, precision), and from theory where there are none.

    `context` are factors by class from times of kernels by themselves to those within a network; that of ANY is for
    classes without one. It is empty where no network was timed.
    """

    theory: Coefficients
    fitted: Mapping[tuple[str, str], Coefficients] = field(default_factory=dict)
    correction: Correction | None = None
    context: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, profile: Profile, entries: Iterable[Cost] | None = None, correction: Correction | None = None,
           peak: float | None = None, bandwidth: float | None = None) -> CostModel:
        """The model of a profile: by `entries`, else by its own `cost`, and by theory for what these lack."""
        given = profile.chip.cost if entries is None else entries
        fitted: dict[tuple[str, str], Coefficients] = {
            (entry.kernel_class, entry.precision): Coefficients.of(entry) for entry in given}
        return cls(in_theory(profile, peak, bandwidth), fitted, correction)

    def coefficients(self, kernel: str, precision: str) -> Coefficients:
        """The nearest there are: of the class, of all classes in that precision, in float32, in theory."""
        for key in ((kernel, precision), (ANY, precision), (kernel, "fp32"), (ANY, "fp32")):
            if key in self.fitted:
                return self.fitted[key]
        return self.theory

    def seconds(self, kernel: str, precision: str, features: Features, in_network: bool = False) -> Estimate:
        """Time of one run on one core of a group that a kernel of this class computes."""
        found = self.coefficients(kernel, precision)
        seconds = found.seconds(features)
        if self.correction is not None:
            seconds *= self.correction(kernel, precision, features, seconds)
        if in_network:
            seconds *= self.context.get(kernel, self.context.get(ANY, 1.0))
        return Estimate(seconds, found.error * seconds)


def precision_of(dtype: str) -> str:
    """The precision word of a profile for the dtype that a group computes in: 'fp32' for 'float32' and all others."""
    return next((word for word, known in PRECISIONS.items() if known.name == dtype), "fp32")
