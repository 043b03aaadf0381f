/* Functions of float64 vectors, templates as in vector_math_f32.h (there V is float32; here V is float64, I int64). */

/* 2^n for an integer n in [-1022, 1023]. */
INLINE V exp2i_V(I n) {
    return (V)((n + 1023) << 52);
}

/* e^x: x = n ln 2 + r and the Taylor series of e^r, whose 14th term is below 2^-56 for |r| <= 0.35. */
INLINE V exp_V(V x) {
    const V clamped = min_V(splat_V(710.0), max_V(splat_V(-746.0), x));
    const V shifted = mad_V(clamped, splat_V(1.44269504088896338700), splat_V(6755399441055744.0));
    const V n = shifted - 6755399441055744.0;
    V r = mad_V(n, splat_V(-6.93147180369123816490e-1), clamped);            /* 33 bits: exact */
    r = mad_V(n, splat_V(-1.90821492927058770002e-10), r);
    V p = splat_V(1.0 / 6227020800.0);
    p = mad_V(p, r, splat_V(1.0 / 479001600.0));
    p = mad_V(p, r, splat_V(1.0 / 39916800.0));
    p = mad_V(p, r, splat_V(1.0 / 3628800.0));
    p = mad_V(p, r, splat_V(1.0 / 362880.0));
    p = mad_V(p, r, splat_V(1.0 / 40320.0));
    p = mad_V(p, r, splat_V(1.0 / 5040.0));
    p = mad_V(p, r, splat_V(1.0 / 720.0));
    p = mad_V(p, r, splat_V(1.0 / 120.0));
    p = mad_V(p, r, splat_V(1.0 / 24.0));
    p = mad_V(p, r, splat_V(1.0 / 6.0));
    p = mad_V(p, r, splat_V(0.5));
    p = mad_V(p, r * r, r) + 1.0;
    const I whole = (I)shifted - 0x4338000000000000LL;
    const I half = whole >> 1;
    return p * exp2i_V(half) * exp2i_V(whole - half);
}

/* ln x: x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716. */
INLINE V log_V(V x) {
    const I tiny = (I)(x < 2.2250738585072014e-308);
    const V scaled = select_V(tiny, x * 4503599627370496.0, x);
    const I bits = (I)scaled - 0x3fe6a09e667f3bcdLL;                         /* sqrt(1/2) */
    const I exponent = bits >> 52;
    const V f = (V)((bits & 0x000fffffffffffffLL) + 0x3fe6a09e667f3bcdLL) - 1.0;
    const V e = (V)(exponent + 0x4338000000000000LL) - 6755399441055744.0 - select_V(tiny, splat_V(52.0), splat_V(0.0));
    const V s = f / (f + 2.0);
    const V z = s * s;
    V p = splat_V(2.0 / 21.0);
    p = mad_V(p, z, splat_V(2.0 / 19.0));
    p = mad_V(p, z, splat_V(2.0 / 17.0));
    p = mad_V(p, z, splat_V(2.0 / 15.0));
    p = mad_V(p, z, splat_V(2.0 / 13.0));
    p = mad_V(p, z, splat_V(2.0 / 11.0));
    p = mad_V(p, z, splat_V(2.0 / 9.0));
    p = mad_V(p, z, splat_V(2.0 / 7.0));
    p = mad_V(p, z, splat_V(2.0 / 5.0));
    p = mad_V(p, z, splat_V(2.0 / 3.0));
    /* 2 atanh(s) = f - f^2/2 + s (f^2/2 + z p): the leading terms are nearly exact (fdlibm's arrangement). */
    const V half = 0.5 * f * f;
    V y = mad_V(s, mad_V(p, z, half), e * 1.90821492927058770002e-10);
    y = mad_V(e, splat_V(6.93147180369123816490e-1), f - (half - y));
    const V inf = splat_V(__builtin_inf());
    y = select_V((I)(x == 0.0), -inf, y);
    y = select_V((I)(x < 0.0), splat_V(__builtin_nan("")), y);
    return select_V((I)(x < inf), y, x + x);
}

/* tanh x: Taylor near zero, else 1 - 2 / (e^2|x| + 1). */
INLINE V tanh_V(V x) {
    const V a = abs_V(x);
    const V z = x * x;
    V p = splat_V(-443861162.0 / 1856156927625.0);
    p = mad_V(p, z, splat_V(6404582.0 / 10854718875.0));
    p = mad_V(p, z, splat_V(-929569.0 / 638512875.0));
    p = mad_V(p, z, splat_V(21844.0 / 6081075.0));
    p = mad_V(p, z, splat_V(-1382.0 / 155925.0));
    p = mad_V(p, z, splat_V(62.0 / 2835.0));
    p = mad_V(p, z, splat_V(-17.0 / 315.0));
    p = mad_V(p, z, splat_V(2.0 / 15.0));
    p = mad_V(p, z, splat_V(-1.0 / 3.0));
    const V near = mad_V(p * z, a, a);
    const V far = 1.0 - 2.0 / (exp_V(a + a) + 1.0);
    const I sign = (I)x & (I)splat_V(-0.0);
    return (V)((I)select_V((I)(a < 0.2), near, far) | sign);
}

/* 1 / (1 + e^-x), from e^-|x|. */
INLINE V sigmoid_V(V x) {
    const V e = exp_V(-abs_V(x));
    return select_V((I)(x < 0.0), e, splat_V(1.0)) / (1.0 + e);
}

/* erf x = 2/sqrt(pi) e^-x^2 sum 2^n x^(2n+1) / (2n+1)!! up to 3 (all terms positive), beyond it 1 - erfc by its
   continued fraction. Right to a few units, not fast. */
INLINE V erf_V(V x) {
    const V a = min_V(splat_V(6.0), abs_V(x));
    const V z = a * a;
    V term = a, sum = a;
    for (int n = 1; n < 64; ++n) {
        term = term * (2.0 * z) / (2.0 * n + 1.0);
        sum += term;
    }
    const V gauss = exp_V(-z);
    V fraction = a;
    for (int n = 60; n > 0; --n) fraction = a + (0.5 * n) / fraction;
    const V near = 1.12837916709551257390 * gauss * sum;
    const V far = 1.0 - 0.56418958354775628695 * gauss / fraction;
    const I sign = (I)x & (I)splat_V(-0.0);
    const V small = mad_V(a * 0.12837916709551257390, splat_V(1.0), a);      /* z = 0: no rounding through e^-z */
    V y = select_V((I)(a < 3.0), near, far);
    y = select_V((I)(a < 1e-9), small, y);
    return (V)((I)y | sign);
}

/* sin(x + quadrant pi/2), pi/2 in three parts: exact products for |x| < 2^20 pi/2, absolute error grows beyond. */
INLINE V sin_quadrant_V(V x, int64_t quadrant) {
    const V shifted = x * 0.63661977236758134308 + 6755399441055744.0;
    const V n = shifted - 6755399441055744.0;
    V r = x - n * 1.57079632673412561417;
    r = r - n * 6.07710050630396597660e-11;
    r = r - n * 2.02226624879595063154e-21;
    const I q = ((I)shifted + quadrant) & 3;
    const V z = r * r;
    V s = splat_V(-1.0 / 1307674368000.0);
    s = mad_V(s, z, splat_V(1.0 / 6227020800.0));
    s = mad_V(s, z, splat_V(-1.0 / 39916800.0));
    s = mad_V(s, z, splat_V(1.0 / 362880.0));
    s = mad_V(s, z, splat_V(-1.0 / 5040.0));
    s = mad_V(s, z, splat_V(1.0 / 120.0));
    s = mad_V(s, z, splat_V(-1.0 / 6.0));
    s = mad_V(s * z, r, r);
    V c = splat_V(1.0 / 20922789888000.0);
    c = mad_V(c, z, splat_V(-1.0 / 87178291200.0));
    c = mad_V(c, z, splat_V(1.0 / 479001600.0));
    c = mad_V(c, z, splat_V(-1.0 / 3628800.0));
    c = mad_V(c, z, splat_V(1.0 / 40320.0));
    c = mad_V(c, z, splat_V(-1.0 / 720.0));
    c = mad_V(c, z, splat_V(1.0 / 24.0));
    c = mad_V(c, z, splat_V(-0.5));
    c = mad_V(c, z, splat_V(1.0));
    const V y = select_V((I)((q & 1) != 0), c, s);
    const I known = (I)(abs_V(x) < splat_V(__builtin_inf()));
    return select_V(known, select_V((I)((q & 2) != 0), -y, y), x - x);
}

/* sin x; -0 stays -0. */
INLINE V sin_V(V x) {
    return select_V((I)(x == 0.0), x, sin_quadrant_V(x, 0));
}

/* cos x = sin(x + pi/2). */
INLINE V cos_V(V x) {
    return sin_quadrant_V(x, 1);
}

/* x^y = e^(y ln |x|) with the sign of an odd integer y; special cases as in C99 Annex F. */
INLINE V pow_V(V x, V y) {
    const V inf = splat_V(__builtin_inf()), nan = splat_V(__builtin_nan("")), one = splat_V(1.0);
    const V a = abs_V(x), b = abs_V(y);
    const V whole = trunc_V(y);
    const I integer = (I)(whole == y);
    const I odd = integer & (I)(b < 9007199254740992.0) & (I)(trunc_V(whole * 0.5) * 2.0 != whole);
    V r = exp_V(y * log_V(a));
    r = select_V((I)(x < 0.0) & ~integer & (I)(a < inf), nan, r);
    const I sign = (I)x & (I)splat_V(-0.0) & odd;
    r = (V)((I)r ^ sign);
    r = select_V((I)(x == -1.0) & (I)(b == inf), one, r);
    r = select_V((I)(x == 1.0) | (I)(y == 0.0), one, r);
    const I unordered = (I)(x != x) | (I)(y != y);
    return select_V(unordered & ~((I)(x == 1.0) | (I)(y == 0.0)), x + y, r);
}
