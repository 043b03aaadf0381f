/* Functions of float32 vectors. Templates: see vector_math.py. Rounding to nearest is assumed.

   ROUND is 1.5 * 2^23: adding it leaves the nearest integer in the low bits of the sum, without a conversion that
   would be undefined for NaN and large values. */

/* e^x: x = n ln 2 + r, a minimax polynomial in r, then 2^n in two factors so that denormals round once. The low bits of
   `bits` are n + 254: its two parts that add up to it are exponents with their bias, the high bits are shifted out. */
INLINE V exp_V(V x) {
    const V clamped = min_V(splat_V(88.8f), max_V(splat_V(-104.0f), x));     /* in this order NaN stays */
    const V shifted = mad_V(clamped, splat_V(1.44269504088896341f), splat_V(12583166.0f));   /* ROUND + 254 */
    const V n = shifted - 12583166.0f;
    V r = mad_V(n, splat_V(-0.693359375f), clamped);                         /* exact: 9 bits times 8 bits */
    r = mad_V(n, splat_V(2.12194440e-4f), r);
    V p = splat_V(1.3913232906e-3f);
    p = mad_V(p, r, splat_V(8.3683810423e-3f));
    p = mad_V(p, r, splat_V(4.1666374149e-2f));
    p = mad_V(p, r, splat_V(1.6666524199e-1f));
    p = mad_V(p, r, splat_V(5.0000003326e-1f));
    p = mad_V(p, r * r, r) + 1.0f;
    const I bits = (I)shifted;
    const I half = bits >> 1;
    return p * (V)(half << 23) * (V)((bits - half) << 23);
}

/* ln x: x = 2^e m with m in [sqrt(1/2), sqrt(2)), a polynomial in m - 1 (Cephes logf). */
INLINE V log_V(V x) {
    const I tiny = (I)(x < 1.17549435e-38f);
    const V scaled = select_V(tiny, x * 8388608.0f, x);
    const I bits = (I)scaled - 0x3f3504f3;                                   /* sqrt(1/2) */
    const I exponent = bits >> 23;
    const V f = (V)((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
    const V e = __builtin_convertvector(exponent, V) - select_V(tiny, splat_V(23.0f), splat_V(0.0f));
    const V z = f * f;
    V p = splat_V(7.0376836292e-2f);
    p = mad_V(p, f, splat_V(-1.1514610310e-1f));
    p = mad_V(p, f, splat_V(1.1676998740e-1f));
    p = mad_V(p, f, splat_V(-1.2420140846e-1f));
    p = mad_V(p, f, splat_V(1.4249322787e-1f));
    p = mad_V(p, f, splat_V(-1.6668057665e-1f));
    p = mad_V(p, f, splat_V(2.0000714765e-1f));
    p = mad_V(p, f, splat_V(-2.4999993993e-1f));
    p = mad_V(p, f, splat_V(3.3333331174e-1f));
    V y = p * f * z;
    y = mad_V(e, splat_V(-2.12194440e-4f), y);
    y = mad_V(z, splat_V(-0.5f), y);
    y = mad_V(e, splat_V(0.693359375f), f + y);
    const V inf = splat_V(__builtin_inff());
    y = select_V((I)(x == 0.0f), -inf, y);
    y = select_V((I)(x < 0.0f), splat_V(__builtin_nanf("")), y);
    return select_V((I)(x < inf), y, x + x);
}

/* tanh x = E / (E + 2) for |x| with E = e^2|x| - 1 = 2^n (e^r - 1) + (2^n - 1): e^r - 1 comes from a polynomial without
   a constant, so nothing cancels near zero. |x| is bounded where tanh is 1. */
INLINE V tanh_V(V x) {
    const V a = min_V(splat_V(9.1f), abs_V(x));                              /* in this order NaN stays */
    const V shifted = mad_V(a, splat_V(2.88539008f), splat_V(12583039.0f));  /* ROUND + 127 */
    const V n = shifted - 12583039.0f;
    V r = mad_V(n, splat_V(-0.693359375f), a + a);                           /* exact, as in exp */
    r = mad_V(n, splat_V(2.12194440e-4f), r);
    V p = splat_V(1.3913232906e-3f);
    p = mad_V(p, r, splat_V(8.3683810423e-3f));
    p = mad_V(p, r, splat_V(4.1666374149e-2f));
    p = mad_V(p, r, splat_V(1.6666524199e-1f));
    p = mad_V(p, r, splat_V(5.0000003326e-1f));
    p = mad_V(p, r * r, r);
    const V scale = (V)((I)shifted << 23);
    const V less = mad_V(p, scale, scale - 1.0f);
    const I sign = (I)x & (I)splat_V(-0.0f);
    return (V)((I)(less / (less + 2.0f)) | sign);
}

/* 1 / (1 + e^-x) with e^-x = 2^n p: x = -n ln 2 + r, p a minimax polynomial of e^-r. As 2^-h / (2^-h + 2^(n-h) p) with
   h = n / 2 nothing overflows, small results keep their digits and the division alone rounds denormals. */
INLINE V sigmoid_V(V x) {
    const V clamped = min_V(splat_V(104.0f), max_V(splat_V(-104.0f), x));    /* in this order NaN stays */
    const V shifted = mad_V(clamped, splat_V(-1.44269504088896341f), splat_V(12583166.0f));  /* ROUND + 254 */
    const V n = shifted - 12583166.0f;
    V r = mad_V(n, splat_V(0.693359375f), clamped);                          /* exact, as in exp */
    r = mad_V(n, splat_V(-2.12194440e-4f), r);
    const V z = r * r;
    V p = mad_V(r, splat_V(1.381461e-3f), splat_V(-8.368711e-3f));
    p = mad_V(p, r, splat_V(4.166839e-2f));
    p = mad_V(p, r, splat_V(-1.6666521e-1f));
    p = mad_V(p, r, splat_V(4.9999994e-1f));
    p = mad_V(p, z, 1.0f - r);
    const I bits = (I)shifted;                                               /* exponents with their bias, as in exp */
    const I half = bits >> 1;
    const V scale = (V)((254 - half) << 23);
    return scale / mad_V(p, (V)((bits - half) << 23), scale);
}

/* erf x: two polynomials by Norbert Juffa, the far one of ln(1 - erf), here of log2(1 - erf), which lies in [-23, -2]
   where it counts: the power of two needs neither clamps nor a reduction. */
INLINE V erf_V(V x) {
    const V t = min_V(splat_V(4.0f), abs_V(x));
    const V s = t * t;
    V far = mad_V(splat_V(-2.49374846e-5f), t, splat_V(5.52836964e-4f));
    const V u = mad_V(splat_V(-5.60337725e-3f), t, splat_V(3.49918866e-2f));
    far = mad_V(far, s, u);
    far = mad_V(far, t, splat_V(-1.54047914e-1f));
    far = mad_V(far, t, splat_V(-9.15890167e-1f));
    far = mad_V(far, t, splat_V(-1.62839517f));
    far = far * t;
    const V shifted = far + 12583039.0f;                                     /* 1.5 * 2^23 + 127 */
    const V r = far - (shifted - 12583039.0f);
    V p = splat_V(1.3276472e-3f);
    p = mad_V(p, r, splat_V(9.6755413e-3f));
    p = mad_V(p, r, splat_V(5.5507133e-2f));
    p = mad_V(p, r, splat_V(2.4022120e-1f));
    p = mad_V(p, r, splat_V(6.9314697e-1f));
    p = mad_V(p, r, splat_V(1.0000001f));
    far = mad_V(-p, (V)((I)shifted << 23), splat_V(1.0f));
    const I sign = (I)x & (I)splat_V(-0.0f);
    V near = splat_V(-5.96761703e-4f);
    near = mad_V(near, s, splat_V(4.99119423e-3f));
    near = mad_V(near, s, splat_V(-2.67681349e-2f));
    near = mad_V(near, s, splat_V(1.12819925e-1f));
    near = mad_V(near, s, splat_V(-3.76125336e-1f));
    near = mad_V(near, s, splat_V(1.28379166e-1f));
    near = mad_V(near, x, x);
    return select_V((I)(t > 0.927734375f), (V)((I)far | sign), near);
}

/* |x| mod pi/2 for a huge float, by Payne and Hanek: the product with 2/pi, of which only the bits around the binary
   point are formed. Returns the quadrant and stores the remainder in [-pi/4, pi/4]. */
INLINE int32_t reduce_huge_V(float x, double* remainder) {
    static const uint32_t two_over_pi[] = {0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041,
                                           0xfe5163ab};
    union { float f; uint32_t u; } bits = {x};
    const int32_t exponent = (int32_t)((bits.u >> 23) & 0xff) - 150;         /* x = mantissa * 2^exponent */
    const uint64_t mantissa = (bits.u & 0x7fffff) | 0x800000;
    const int32_t position = exponent + 30, word = position >> 5, shift = position & 31;
    uint64_t high = ((uint64_t)two_over_pi[word] << 32) | two_over_pi[word + 1];
    uint64_t low = ((uint64_t)two_over_pi[word + 2] << 32) | two_over_pi[word + 3];
    if (shift) {
        high = (high << shift) | (low >> (64 - shift));
        low <<= shift;
    }
    const uint64_t product = mantissa * high + ((mantissa * (low >> 32)) >> 32);     /* 2 bits of quadrant on top */
    const uint64_t rounded = product + ((uint64_t)1 << 61);
    const int64_t fraction = (int64_t)(product - (rounded & ((uint64_t)3 << 62)));
    *remainder = (double)fraction * (1.57079632679489661923 / 4611686018427387904.0);
    return (int32_t)(rounded >> 62);
}

/* sin(x + quadrant pi/2): reduced modulo pi/2 and evaluated in double. */
INLINE V sin_quadrant_V(V x, int32_t quadrant) {
    const D wide = __builtin_convertvector(abs_V(x), D);
    const I huge = (I)(abs_V(x) >= 67108864.0f);                             /* 2^26 */
    const I known = (I)(abs_V(x) < splat_V(__builtin_inff()));
    const D shifted = wide * 0.63661977236758134308 + 6755399441055744.0;
    const D n = shifted - 6755399441055744.0;
    D r = wide - n * 1.57079631090164184570;                                 /* 26 bits: exact */
    r = r - n * 1.58932547735281966916e-8;
    L q = (L)shifted & 3;
    for (int i = 0; i < (int)(sizeof(V) / sizeof(float)); ++i) {
        if (!(huge[i] & known[i])) continue;
        double remainder;
        q[i] = reduce_huge_V(x[i], &remainder);
        r[i] = remainder;
    }
    const L negative = __builtin_convertvector((I)(x < 0.0f), L);
    r = select_D(negative, -r, r);
    q = (L)select_D(negative, (D)(-q), (D)q) + quadrant;
    const D z = r * r;
    D s = splat_D(-2.50521083854417187751e-8);
    s = s * z + 2.75573192239858906526e-6;
    s = s * z - 1.98412698412698412698e-4;
    s = s * z + 8.33333333333333333333e-3;
    s = s * z - 1.66666666666666666667e-1;
    s = s * z * r + r;
    D c = splat_D(2.08767569878680989792e-9);
    c = c * z - 2.75573192239858906526e-7;
    c = c * z + 2.48015873015873015873e-5;
    c = c * z - 1.38888888888888888889e-3;
    c = c * z + 4.16666666666666666667e-2;
    c = c * z - 0.5;
    c = c * z + 1.0;
    D y = select_D((L)((q & 1) != 0), c, s);
    y = select_D((L)((q & 2) != 0), -y, y);
    return select_V(known, __builtin_convertvector(y, V), x - x);
}

/* sin x; -0 stays -0. */
INLINE V sin_V(V x) {
    return select_V((I)(x == 0.0f), x, sin_quadrant_V(x, 0));
}

/* cos x = sin(x + pi/2). */
INLINE V cos_V(V x) {
    return sin_quadrant_V(x, 1);
}

/* x^y in double; the special cases are those of C99 Annex F. */
INLINE V pow_V(V x, V y) {
    return __builtin_convertvector(pow_D(__builtin_convertvector(x, D), __builtin_convertvector(y, D)), V);
}
