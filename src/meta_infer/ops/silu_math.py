"""Silu in float32 with one division and no cases: x above zero, less the part that the tail takes away.

    silu(x) = x sigmoid(x) = max(x, 0) - |x| / (1 + e^|x|)

The power is 2^n times a polynomial, for |x| log2(e) = n + r. From |x| = 88.4 on n is 128, which as the exponent of a
float is infinity: the quotient is 0.
"""

from __future__ import annotations

import math

from meta_infer.ir.loop import Expr, bitcast, const, mad, maximum, minimum, unary
from meta_infer.support.dtypes import FLOAT32, INT32

# 2^r for r in [-1/2, 1/2], lowest power first: minimax, relative error 7.5e-8.
_POWER = (1.0000000716547925, 0.6931469670648674, 0.24022119723654495, 0.055507132734491156, 0.009675541341219208,
          0.0013276472001920803)
# Adding it leaves the nearest integer plus 127, the bias of an exponent, in the low bits of the sum.
_ROUND = 1.5 * 2.0**23 + 127
_LAST = 89.0


def silu_of(x: Expr) -> Expr:
    """silu(x) of float32 lanes. NaN stays NaN, a zero keeps its sign, minus infinity gives -0."""
    a = minimum(const(_LAST, x.type), unary("abs", x))
    log2_e = const(math.log2(math.e), x.type)
    shifted = mad(a, log2_e, const(_ROUND, x.type))
    r = mad(a, log2_e, _ROUND - shifted)
    power = const(_POWER[-1], x.type)
    for coefficient in _POWER[-2::-1]:
        power = mad(power, r, const(coefficient, x.type))
    one_more = mad(power, bitcast(bitcast(shifted, INT32) << 23, FLOAT32), const(1.0, x.type))
    return maximum(const(0.0, x.type), x) - a / one_more
