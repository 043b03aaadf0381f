"""Where the elements of a resized axis come from: taps, pairs of (input position, weight) for each output position.

One tap for nearest, two for linear, four for cubic. Formulas follow the Resize section of the ONNX operator
specification; coordinates are computed in float32, since rounding decides which element nearest takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Attr
from meta_infer.ir.loop import Expr, Type, cast, const, maximum, minimum, select, unary
from meta_infer.ir.shapes import Dim, bounds
from meta_infer.kernels.image.sampling import cubic_weights
from meta_infer.ops import resize as resize_op
from meta_infer.support.dtypes import FLOAT32, INT64

Tap = tuple[Expr, Expr | None]
"""Input position (int64) and weight (float32; None stands for 1)."""

TRANSFORMS = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric",
              "tf_half_pixel_for_nn")
TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
"""How many taps an output position has, by mode."""
F32 = Type(FLOAT32)
# Longer axes are not looked through for a pattern, and positions of up to so many elements are exact in float32.
_LONGEST = 1 << 16


@dataclass(frozen=True)
class AxisResize:
    """One axis of a Resize: `size` elements become `out`; `scale` is None where the sizes' ratio is meant."""

    attrs: Mapping[str, Attr]
    size: Dim
    out: Dim
    scale: float | None

    @property
    def is_same(self) -> bool:
        return self.size == self.out and self.scale in (None, 1.0)

    def repeats(self) -> int | None:
        """The s for which nearest takes element x // s for every x, whatever the sizes; None when there is none."""
        if self.attrs["mode"] != "nearest":
            return None
        most = min(bounds(self.out)[1], _LONGEST)
        found = next((s for s in range(2, 17) if self.size * s == self.out), None)
        if found is None or self.scale not in (None, float(found)) or bounds(self.out)[1] > _LONGEST:
            return None
        if not isinstance(self.out, int) and self.attrs["coordinate_transformation_mode"] == "align_corners":
            return None                                               # the only one whose coordinates depend on sizes
        positions, _ = resize_op.taps(self.attrs, -(-most // found), most, float(found))
        return found if np.array_equal(positions[:, 0], np.arange(most) // found) else None

    def taps(self, b: Builder, x: Expr) -> list[Tap]:
        """The taps of output position x."""
        attrs, size, out_size = self.attrs, b.dim(self.size), b.dim(self.out)
        real_size, real_out = cast(size, FLOAT32), cast(out_size, FLOAT32)
        ratio = b.let(real_out / real_size if self.scale is None else const(self.scale, F32), "scale")
        at = b.let(coordinate(attrs["coordinate_transformation_mode"], cast(x, FLOAT32), ratio, real_size,
                              real_out), "at")
        mode = attrs["mode"]
        if mode == "nearest":
            return [(_inside(b, cast(nearest(attrs["nearest_mode"], at, ratio), INT64), size), None)]
        if mode == "linear":
            held = b.let(minimum(maximum(at, const(0.0, F32)), real_size - 1.0), "held")
            low = b.let(cast(unary("floor", held), INT64), "low")
            weight = b.let(held - cast(low, FLOAT32), "w")
            return [(low, b.let(1.0 - weight)), (_inside(b, low + 1, size), weight)]
        return _cubic_taps(b, attrs, at, size)


def coordinate(transformation: Attr, x: Expr, scale: Expr, size: Expr, out_size: Expr) -> Expr:
    """The real input coordinate of output position x (a float like the others), by coordinate_transformation_mode."""
    match transformation:
        case "tf_half_pixel_for_nn":
            return (x + 0.5) / scale
        case "asymmetric":
            return x / scale
        case "align_corners":
            return select(out_size.gt(1.0), x * (size - 1.0) / maximum(out_size - 1.0, 1.0), 0.0 * x)
        case "pytorch_half_pixel":
            return select(out_size.gt(1.0), (x + 0.5) / scale - 0.5, 0.0 * x)
        case "half_pixel_symmetric":
            adjustment = out_size / (scale * size)
            return size / 2.0 * (1.0 - adjustment) + ((x + 0.5) / scale - 0.5)
    return (x + 0.5) / scale - 0.5


def _inside(b: Builder, position: Expr, size: Expr) -> Expr:
    return b.let(maximum(minimum(position, size - 1), 0), "p")


def nearest(nearest_mode: Attr, at: Expr, scale: Expr) -> Expr:
    """A coordinate rounded to the pixel that `nearest_mode` names (see ops/resize.py)."""
    match nearest_mode:
        case "simple":
            return select(scale.lt(1.0), unary("ceil", at), unary("floor", at))
        case "floor":
            return unary("floor", at)
        case "ceil":
            return unary("ceil", at)
        case "round_prefer_ceil":
            return unary("floor", at + 0.5)
    return unary("ceil", at - 0.5)


def _cubic_taps(b: Builder, attrs: Mapping[str, Attr], at: Expr, size: Expr) -> list[Tap]:
    a = attrs.get("cubic_coeff_a", -0.75)
    assert isinstance(a, float)
    base = b.let(unary("floor", at), "base")
    first = b.let(cast(base, INT64) - 1, "first")
    weights = cubic_weights(b, b.let(at - base, "t"), a)
    positions = [first + i for i in range(4)]
    if attrs.get("exclude_outside"):
        zero = const(0.0, F32)
        weights = [b.let(select(p.ge(0) & p.lt(size), w, zero)) for p, w in zip(positions, weights, strict=True)]
        total = b.let(weights[0] + weights[1] + weights[2] + weights[3])
        weights = [b.let(w / total) for w in weights]
    return [(_inside(b, p, size), w) for p, w in zip(positions, weights, strict=True)]
