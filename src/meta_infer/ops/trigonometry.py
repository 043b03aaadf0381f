"""Tan and the inverse, hyperbolic and inverse hyperbolic functions.

All but Tan are computed in float64 and rounded once: results of float32 and narrower are within 0.51 ulp, those of
float64 within a few ulp. Tan is sin / cos, 2 ulp; for huge float64 arguments see docs/vector-math.md. The expressions
share subexpressions, which code generators compute once.

Sources: fdlibm (Sun Microsystems, 1993) for the polynomials of atan, asin and acos and for the arrangement of the
others; expm1 by Cody and Waite's reduction as exp in docs/vector-math.md; log1p(x) = ln u - ((u - 1) - x) / u with
u = fl(1 + x), the first-order correction of the rounding of u (Kahan, HP-15C handbook, 1982).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from meta_infer.ir.loop import Expr, bitcast, cast, const, intrin, mad, maximum, minimum, select, unary
from meta_infer.ops.attrs import Attrs
from meta_infer.ops.elementwise import elementwise, floats, is_float, unary_samples
from meta_infer.ops.elementwise_unary import ODD
from meta_infer.ops.opdef import OnnxImport, OpDef, Sample
from meta_infer.support.dtypes import FLOAT32, FLOAT64, INT64

_ATAN = (1.62858201153657823623e-02, -3.65315727442169155270e-02, 4.97687799461593236017e-02,
         -5.83357013379057348645e-02, 6.66107313738753120669e-02, -7.69187620504482999495e-02,
         9.09088713343650656196e-02, -1.11111104054623557880e-01, 1.42857142725034663711e-01,
         -1.99999999998764832476e-01, 3.33333333333329318027e-01)
_ASIN_P = (3.47933107596021167570e-05, 7.91534994289814532176e-04, -4.00555345006794114027e-02,
           2.01212532134862925881e-01, -3.25565818622400915405e-01, 1.66666666666666657415e-01)
_ASIN_Q = (7.70381505559019352791e-02, -6.88283971605453293030e-01, 2.02094576023350569471e+00,
           -2.40339491173441421878e+00, 1.0)
_PI_2, _PI_2_LOW = 1.57079632679489655800e+00, 6.12323399573676603587e-17
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUND = 6755399441055744.0                               # 1.5 * 2^52: adding it leaves an integer in the low bits


def _series(z: Expr, coefficients: Iterable[float]) -> Expr:
    """A polynomial by Horner's rule, highest power first."""
    first, *rest = coefficients
    total = const(first, z.type)
    for c in rest:
        total = mad(total, z, const(c, z.type))
    return total


def _signed_as(value: Expr, x: Expr) -> Expr:
    """|value| with the sign of x, that of -0 included."""
    sign = bitcast(x, INT64) & -(1 << 63)
    return bitcast((bitcast(value, INT64) & ((1 << 63) - 1)) | sign, FLOAT64)


def _in_double(function: Callable[[Expr], Expr]) -> Callable[[Attrs, Expr], Expr]:
    return lambda attrs, x: cast(function(cast(x, FLOAT64)), x.type.dtype)


def expm1(x: Expr) -> Expr:
    """e^x - 1 for x in [-745, 709], in float64: x = n ln 2 + r; 2^n (e^r - 1) + (2^n - 1)."""
    shifted = x * math.log2(math.e) + _ROUND
    n = shifted - _ROUND
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    series = _series(r, [1 / math.factorial(k) for k in range(14, 1, -1)])
    power = bitcast((bitcast(shifted, INT64) - (0x4338000000000000 - 1023)) << 52, FLOAT64)
    scale = select(n.lt(-1022.0), const(0.0, x.type), power)
    return scale * mad(series, r * r, r) + (scale - 1.0)


def log1p(x: Expr) -> Expr:
    """ln(1 + x) for x > -1 and finite, in float64."""
    u = x + 1.0
    return intrin("log", u) - ((u - 1.0) - x) / u


def _tan_expr(attrs: Attrs, x: Expr) -> Expr:
    wide = cast(x, FLOAT32) if x.type.dtype.bits < 32 else x
    return cast(intrin("sin", wide) / intrin("cos", wide), x.type.dtype)


def _atan(x: Expr) -> Expr:
    """|x| is brought below 7/16 by atan x = c + atan((x - t) / (1 + t x)), tan c = t in {0, 1/2, 1, 3/2, inf}."""
    a = unary("abs", x)
    top, bottom = a, const(1.0, x.type)
    high, low = const(0.0, x.type), const(0.0, x.type)
    for limit, t, c, rest in ((7 / 16, 0.5, 4.63647609000806093515e-01, 2.26987774529616870924e-17),
                              (11 / 16, 1.0, 7.85398163397448278999e-01, 3.06161699786838301793e-17),
                              (19 / 16, 1.5, 9.82793723247329054082e-01, 1.39033110312309984516e-17)):
        beyond = a.ge(limit)
        top = select(beyond, a - t, top)
        bottom = select(beyond, mad(a, t, const(1.0, x.type)), bottom)
        high, low = select(beyond, const(c, x.type), high), select(beyond, const(rest, x.type), low)
    beyond = a.ge(39 / 16)
    top, bottom = select(beyond, const(-1.0, x.type), top), select(beyond, a, bottom)
    high, low = select(beyond, const(_PI_2, x.type), high), select(beyond, const(_PI_2_LOW, x.type), low)
    s = top / bottom
    z = s * s
    return _signed_as(high - ((s * (z * _series(z, _ATAN)) - low) - s), x)


def _asin_ratio(z: Expr) -> Expr:
    """(asin(x) - x) / x for z = x^2 <= 1/4."""
    return z * _series(z, _ASIN_P) / _series(z, _ASIN_Q)


def _asin(x: Expr) -> Expr:
    """Beyond 1/2: asin x = pi/2 - 2 asin(sqrt((1 - x) / 2)). NaN outside [-1, 1], from the square root."""
    a = unary("abs", x)
    far = a.ge(0.5)
    z = select(far, (const(1.0, x.type) - a) * 0.5, x * x)
    ratio, root = _asin_ratio(z), unary("sqrt", z)
    high = bitcast(bitcast(root, INT64) & -(1 << 32), FLOAT64)             # its square is exact
    rest = (z - high * high) / maximum(root + high, 1e-300)
    beyond = const(_PI_2 / 2, x.type) - ((root * ratio * 2.0 - (_PI_2_LOW - rest * 2.0)) - (
        _PI_2 / 2 - high * 2.0))
    inside = select(far, beyond, mad(a, ratio, a))
    return _signed_as(select(a.le(1.0), inside, const(float("nan"), x.type)), x)


def _acos(x: Expr) -> Expr:
    """Up to 1/2 pi/2 - asin x, beyond it 2 asin(sqrt((1 - x) / 2)), below -1/2 pi minus that of -x."""
    a, one = unary("abs", x), const(1.0, x.type)
    far = a.ge(0.5)
    z = select(far, (one - a) * 0.5, x * x)
    ratio, root = _asin_ratio(z), unary("sqrt", z)
    near = _PI_2 - (x - (_PI_2_LOW - x * ratio))
    left = 2 * _PI_2 - (root + (root * ratio - _PI_2_LOW)) * 2.0
    high = bitcast(bitcast(root, INT64) & -(1 << 32), FLOAT64)
    rest = (z - high * high) / maximum(root + high, 1e-300)
    right = (high + (root * ratio + rest)) * 2.0
    return select(a.le(1.0), select(far, select(x.lt(0.0), left, right), near), const(float("nan"), x.type))


def _sinh(x: Expr) -> Expr:
    """t = e^|x| - 1: sinh = (t + t / (t + 1)) / 2; from 22 on e^|x| / 2, as a square so that it overflows last."""
    a = unary("abs", x)
    t = expm1(minimum(22.0, a))
    half = intrin("exp", a * 0.5)
    return _signed_as(select(a.ge(22.0), half * 0.5 * half, (t + t / (t + 1.0)) * 0.5), x)


def _cosh(x: Expr) -> Expr:
    a = unary("abs", x)
    e, half = intrin("exp", minimum(22.0, a)), intrin("exp", a * 0.5)
    return select(a.ge(22.0), half * 0.5 * half, (e + 1.0 / e) * 0.5)


def _asinh(x: Expr) -> Expr:
    """log1p(|x| + x^2 / (1 + sqrt(1 + x^2))), from 2^28 on ln |x| + ln 2; NaN and infinities through the latter."""
    a = unary("abs", x)
    bound = minimum(float(2**28), a)
    square = bound * bound
    near = log1p(bound + square / (unary("sqrt", square + 1.0) + 1.0))
    return _signed_as(select(a.lt(float(2**28)), near, intrin("log", a) + math.log(2)), x)


def _acosh(x: Expr) -> Expr:
    """t = x - 1: log1p(t + sqrt(2 t + t^2)), from 2^28 on ln x + ln 2."""
    t = minimum(float(2**28), x) - 1.0
    near = log1p(t + unary("sqrt", t * 2.0 + t * t))
    far = intrin("log", x) + math.log(2)
    return select(x.lt(1.0), const(float("nan"), x.type), select(x.lt(float(2**28)), near, far))


def _atanh(x: Expr) -> Expr:
    """log1p(2 |x| / (1 - |x|)) / 2; infinite at 1, NaN beyond."""
    a = unary("abs", x)
    inside = select(a.lt(1.0), a, const(0.5, x.type))
    y = log1p((inside + inside) / (1.0 - inside)) * 0.5
    edge = select(a.eq(1.0), const(float("inf"), x.type), const(float("nan"), x.type))
    return _signed_as(select(a.lt(1.0), y, edge), x)


def _samples(low: float, high: float) -> Callable[[np.random.Generator], Iterable[Sample]]:
    plain = unary_samples(low, high, special=(*ODD, 1e-30, -1e-8, 0.5, -0.5, 0.43, 0.7, 1.2, 2.5, 1e9))

    def samples(rng: np.random.Generator) -> Iterable[Sample]:
        yield from plain(rng)
        yield Sample((floats(rng, (3, 5), low, high).astype(np.float64),), onnx_op="-")
        yield Sample((floats(rng, (7,), low, high).astype(np.float16),), rtol=2e-3, onnx_op="-")
    return samples


def _function(name: str, reference: Callable[[np.ndarray], np.ndarray], expr: Callable[[Attrs, Expr], Expr],
              low: float, high: float, *, since: int, keeps_zero: bool = True) -> OpDef:
    return elementwise(name, 1, lambda attrs, x: np.asarray(reference(x)), expr, _samples(low, high),
                       takes=is_float, onnx=(OnnxImport(name, since),), keeps_zero=keeps_zero, cost=30)


OPS: tuple[OpDef, ...] = (
    _function("Tan", np.tan, _tan_expr, -20, 20, since=7),
    _function("Asin", np.arcsin, _in_double(_asin), -1, 1, since=7),
    _function("Acos", np.arccos, _in_double(_acos), -1, 1, since=7, keeps_zero=False),
    _function("Atan", np.arctan, _in_double(_atan), -20, 20, since=7),
    _function("Sinh", np.sinh, _in_double(_sinh), -30, 30, since=9),
    _function("Cosh", np.cosh, _in_double(_cosh), -30, 30, since=9, keeps_zero=False),
    _function("Asinh", np.arcsinh, _in_double(_asinh), -50, 50, since=9),
    _function("Acosh", np.arccosh, _in_double(_acosh), 1, 50, since=9, keeps_zero=False),
    _function("Atanh", np.arctanh, _in_double(_atanh), -1, 1, since=9),
)
