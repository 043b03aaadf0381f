"""e^x for arguments that are not positive: what a softmax raises, its largest element being shifted to 0."""

from __future__ import annotations

import math

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
    if x.type.dtype != FLOAT32:
        return intrin("exp", x)
    bounded = b.let(binary("max", -88.0, x), "x")                        # at -88 the exponent is 0; NaN stays
    shifted = b.let(mad(bounded, math.log2(math.e), const(_ROUND, x.type)), "shifted")
    n = b.let(shifted - _ROUND, "n")
    r = b.let(mad(n, -_LN2_LOW, mad(n, -_LN2_HIGH, bounded)), "r")
    series = const(_SERIES[0], x.type)
    for coefficient in _SERIES[1:]:
        series = mad(series, r, const(coefficient, x.type))
    return (mad(series, r * r, r) + 1.0) * bitcast(bitcast(shifted, INT32) << 23, FLOAT32)
