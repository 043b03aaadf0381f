"""e^x for arguments that are not positive: what a softmax raises, its largest element being shifted to 0."""

from __future__ import annotations

import math
from collections.abc import Sequence

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Expr, binary, bitcast, const, intrin, mad
from meta_infer.support.dtypes import FLOAT32, INT32

# 2^r for r in [-1/2, 1/2], highest power first: minimax with 1 at zero, relative error 9.2e-8.
_SERIES = (0.001326459074812794, 0.009671619009597338, 0.055507350313527236, 0.24022240460428643, 0.6931469763837146,
           1.0)
# Adding it leaves the nearest integer plus 127, the bias of an exponent, in the low bits of the sum.
_ROUND = 1.5 * 2.0**23 + 127


def power_of(b: Builder, x: Expr) -> Expr:
    """e^x for x <= 0. In float32 what would be below 2^-126 is 0, which saves a third of the work of a full exp.

    The largest element of a row has e^0 = 1, so what vanishes is beyond the rounding of the sum. NaN stays NaN. e^0 is
    exactly 1; elsewhere a result is off by less than 2e-7 of itself, and by |x| 2e-8 of itself (5e-8 without FMA) more.
    """
    return powers_of(b, [x])[0]


def powers_of(b: Builder, xs: Sequence[Expr]) -> list[Expr]:
    """The same of several vectors step by step, so that each coefficient is loaded once for all of them."""
    if xs[0].type.dtype != FLOAT32:
        return [intrin("exp", x) for x in xs]
    type = xs[0].type
    log2_e = const(math.log2(math.e), type)
    bounded = [b.let(binary("max", -88.0, x), "x") for x in xs]          # at -88 the exponent is 0; NaN stays
    shifted = [b.let(mad(x, log2_e, const(_ROUND, type)), "shifted") for x in bounded]
    rest = [b.let(mad(x, log2_e, _ROUND - s), "r") for s, x in zip(shifted, bounded, strict=True)]
    series = [const(_SERIES[0], type) for _ in xs]
    for coefficient in _SERIES[1:]:
        series = [b.let(mad(s, r, const(coefficient, type)), "s") for s, r in zip(series, rest, strict=True)]
    return [s * bitcast(bitcast(n, INT32) << 23, FLOAT32) for s, n in zip(series, shifted, strict=True)]
