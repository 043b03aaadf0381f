"""e^x for arguments that are not positive: what a softmax raises, its largest element being shifted to 0."""

from __future__ import annotations

import math
from collections.abc import Sequence

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Expr, binary, bitcast, const, intrin, mad
from meta_infer.support.dtypes import FLOAT32, INT32

# Cephes expf: coefficients of e^r - 1 - r over r^2, highest power first, and ln 2 in two parts, the first exact.
_SERIES = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
# Adding it leaves the nearest integer plus 127, the bias of an exponent, in the low bits of the sum.
_ROUND = 1.5 * 2.0**23 + 127


def power_of(b: Builder, x: Expr) -> Expr:
    """e^x for x <= 0. In float32 what would be below 2^-126 is 0, which saves a third of the work of a full exp.

    The largest element of a row has e^0 = 1, so what vanishes is beyond the rounding of the sum. NaN stays NaN.
    """
    return powers_of(b, [x])[0]


def powers_of(b: Builder, xs: Sequence[Expr]) -> list[Expr]:
    """The same of several vectors step by step, so that each coefficient is loaded once for all of them."""
    if xs[0].type.dtype != FLOAT32:
        return [intrin("exp", x) for x in xs]
    type = xs[0].type
    bounded = [b.let(binary("max", -88.0, x), "x") for x in xs]          # at -88 the exponent is 0; NaN stays
    shifted = [b.let(mad(x, math.log2(math.e), const(_ROUND, type)), "shifted") for x in bounded]
    whole = [b.let(s - _ROUND, "n") for s in shifted]
    rest = [b.let(mad(n, -_LN2_HIGH, x), "r") for n, x in zip(whole, bounded, strict=True)]
    rest = [b.let(mad(n, -_LN2_LOW, r), "r") for n, r in zip(whole, rest, strict=True)]
    series = [const(_SERIES[0], type) for _ in xs]
    for coefficient in _SERIES[1:]:
        series = [b.let(mad(s, r, const(coefficient, type)), "s") for s, r in zip(series, rest, strict=True)]
    return [(mad(s, r * r, r) + 1.0) * bitcast(bitcast(n, INT32) << 23, FLOAT32)
            for s, r, n in zip(series, rest, shifted, strict=True)]
