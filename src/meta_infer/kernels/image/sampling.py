"""Samples of an image between its pixels: which pixels a point is made of, with which weights.

Every axis gives taps (pixel, weight, whether it lies inside); the sample is the sum over all combinations. Pixels
that padding names lie inside always; of those outside only zero is taken, they are never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as combinations

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, Type, cast, const, maximum, minimum, select, unary
from meta_infer.support.dtypes import FLOAT32, FLOAT64, INT64, DType

# Coordinates are held inside this range, so that they fit an index whatever a model computes; NaN becomes the bound.
_FAR = float(1 << 30)


@dataclass(frozen=True)
class Tap:
    """A pixel of one axis, clamped into the image; None: weight 1, always inside."""

    at: Expr
    weight: Expr | None = None
    inside: Expr | None = None


def real_of(*dtypes: DType) -> DType:
    """The type that coordinates and weights are computed in."""
    return FLOAT64 if FLOAT64 in dtypes else FLOAT32


def bounded(b: Builder, at: Expr) -> Expr:
    """A coordinate that can be converted to an index."""
    limit = const(_FAR, at.type)
    return b.let(maximum(minimum(at, limit), -limit), "at")


def linear_taps(b: Builder, at: Expr, size: Expr) -> list[Tap]:
    """The two pixels around a bounded coordinate; what lies outside counts as zero."""
    base = b.let(unary("floor", at), "base")
    far = b.let(at - base, "far")
    first = b.let(cast(base, INT64), "first")
    return [zero_tap(b, first, size, b.let(1.0 - far, "near")), zero_tap(b, b.let(first + 1), size, far)]


def zero_tap(b: Builder, at: Expr, size: Expr, weight: Expr | None) -> Tap:
    """Pixel `at`, which counts as zero when it is outside."""
    held = b.let(maximum(minimum(at, size - 1), 0), "held")
    return Tap(held, weight, b.let(held.eq(at), "inside"))


def cubic_weights(b: Builder, t: Expr, a: float) -> list[Expr]:
    """Keys' weights with coefficient a at distances 1+t, t, 1-t, 2-t (R. Keys, 1981)."""
    def far(d: Expr) -> Expr:
        return ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a

    def near(d: Expr) -> Expr:
        return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0

    return [b.let(w, "w") for w in (far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t))]


@dataclass(frozen=True)
class Sample:
    """All pixels of a point: (element within the plane, weight, whether inside)."""

    pixels: tuple[tuple[Expr, Expr | None, Expr | None], ...]

    def read(self, b: Builder, image: Buffer, plane: Expr, real: DType) -> Expr:
        """The sample of the plane that begins at element `plane`."""
        total: Expr | None = None
        for at, weight, inside in self.pixels:
            value = b.load(image, plane + at)
            if inside is not None:
                value = select(inside, value, const(0, Type(image.dtype)))
            term = value if weight is None else cast(value, real) * weight
            total = term if total is None else b.let(total + term, "total")
        assert total is not None
        return total


def sample_of(b: Builder, taps: Sequence[Sequence[Tap]], sizes: Sequence[Expr]) -> Sample:
    """The combinations of the axes' taps in a row-major plane of `sizes`."""
    pixels = []
    for combination in combinations(*taps):
        at: Expr = const(0)
        weight: Expr | None = None
        inside: Expr | None = None
        for tap, size in zip(combination, sizes, strict=True):
            at = at * size + tap.at
            if tap.weight is not None:
                weight = tap.weight if weight is None else weight * tap.weight
            if tap.inside is not None:
                inside = tap.inside if inside is None else inside & tap.inside
        pixels.append((b.let(at, "pixel"), None if weight is None else b.let(weight, "weight"),
                       None if inside is None else b.let(inside, "is_inside")))
    return Sample(tuple(pixels))
