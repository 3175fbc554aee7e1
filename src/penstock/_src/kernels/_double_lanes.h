/* Functions of doubles, right to about two units in the last place: see _lanes.h, which includes it. Integers are kept in the
   lowest bits of numbers near 1.5 * 2^52, because not all processors have shifts with a sign, and conversions, of 64 bits. */
#define MAGIC 0x1.8p52
#define ONE_FROM 20.0                      /* hyperbolic tangents from here on are 1 */
#define BITS_OF_ONE ((int64_t)1023 << 52)

/* 2^n and p, so that exp(x) = 2^n (1 + p), for x where neither is infinite. NaN gives NaN. */
INLINE void NAME(split_exp)(Floats x, Floats *scale, Floats *p)
{
    const Floats shifted = x * 1.4426950408889634 + MAGIC;
    const Floats n = shifted - MAGIC;
    const Floats r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    Floats q = r * (1 / 6227020800.0) + 1 / 479001600.0;            /* 1 / k!, from 13 down to 2 */
    q = q * r + 1 / 39916800.0;
    q = q * r + 1 / 3628800.0;
    q = q * r + 1 / 362880.0;
    q = q * r + 1 / 40320.0;
    q = q * r + 1 / 5040.0;
    q = q * r + 1 / 720.0;
    q = q * r + 1 / 120.0;
    q = q * r + 1 / 24.0;
    q = q * r + 1 / 6.0;
    q = q * r + 0.5;
    *p = q * r * r + r;
    *scale = (Floats)(((Ints)shifted << 52) + BITS_OF_ONE);
}

/* 2^n is multiplied in two halves, because n reaches from -1074 to 1024. */
INLINE Floats NAME(exponential)(Floats x)
{
    const Floats bounded = PICK(x > 710.0, (Floats){} + 710.0, PICK(x < -746.0, (Floats){}, x));
    Floats scale, p;
    NAME(split_exp)(bounded, &scale, &p);
    const Floats n = (bounded * 1.4426950408889634 + MAGIC) - MAGIC;
    const Floats half = n * 0.5 + MAGIC, rest = (n - (half - MAGIC)) + MAGIC;
    const Floats found = (1.0 + p) * (Floats)(((Ints)half << 52) + BITS_OF_ONE) * (Floats)(((Ints)rest << 52) + BITS_OF_ONE);
    return PICK(x > 709.782712893384, (Floats){} + __builtin_inf(), PICK(x < -746.0, (Floats){}, found));
}

INLINE Floats NAME(sigmoid)(Floats x)
{
    return 1.0 / (1.0 + NAME(exponential)(-x));
}

/* With x = 2^n (1 + f), 1 + f between the roots of 1/2 and 2, and s = f / (2 + f): n log 2 and a polynomial in s. */
INLINE Floats NAME(logarithm)(Floats x)
{
    typedef uint64_t Bits __attribute__((vector_size(sizeof(Floats))));
    const Ints small = x < 0x1p-1022;
    const Floats scaled = PICK(small, x * 0x1p54, x);
    const Ints fraction = (Ints)scaled & 0x000fffffffffffff;
    const Ints above = fraction > 0x6a09e667f3bcd;
    const Floats m = (Floats)(fraction | (BITS_OF_ONE - (above & ((int64_t)1 << 52))));
    const Ints exponent = (Ints)((Bits)scaled >> 52 & 0x7ff) - 1023 - above - (small & 54);
    const Floats n = (Floats)(exponent + 0x4338000000000000) - MAGIC, f = m - 1.0, s = f / (2.0 + f), z = s * s;
    Floats q = z * 1.479819860511658591e-01 + 1.531383769920937332e-01;
    q = q * z + 1.818357216161805012e-01;
    q = q * z + 2.222219843214978396e-01;
    q = q * z + 2.857142874366239149e-01;
    q = q * z + 3.999999999940941908e-01;
    q = q * z + 6.666666666666735130e-01;
    const Floats half = 0.5 * f * f;
    const Floats found = n * 6.93147180369123816490e-01 - ((half - (s * (half + q * z) + n * 1.90821492927058770002e-10)) - f);
    const Floats odd = PICK(x == 0.0, (Floats){} - __builtin_inf(), PICK(x > 0.0, x, (Floats){} + __builtin_nan("")));
    return PICK((x > 0.0) & (x < __builtin_inf()), found, odd);
}

/* With x = n pi / 2 + r and r between -pi / 4 and pi / 4, a polynomial in r. Larger numbers are left to the library. */
INLINE Floats NAME(sine)(Floats x, int quarter)
{
    const Floats n = NAME(rounded)(NAME(clamp)(x, 1e5) * 0.63661977236758134308);
    const Floats r = ((x - n * 1.57079632673412561417e+00) - n * 6.07710050630396597660e-11) - n * 2.02226624879595063154e-21;
    const Floats z = r * r, half = 0.5 * z, w = 1.0 - half;
    Floats s = z * 1.58969099521155010221e-10 - 2.50507602534068634195e-08;
    s = s * z + 2.75573137070700676789e-06;
    s = s * z - 1.98412698298579493134e-04;
    s = s * z + 8.33333333332248946124e-03;
    s = s * z - 1.66666666666666324348e-01;
    Floats c = z * -1.13596475577881948265e-11 + 2.08757232129817482790e-09;
    c = c * z - 2.75573143513906633035e-07;
    c = c * z + 2.48015872894767294178e-05;
    c = c * z - 1.38888888888741095749e-03;
    c = c * z + 4.16666666666666019037e-02;
    const Floats sine = r + r * z * s, cosine = w + ((1.0 - w) - half + z * z * c);
    const Ints turn = (Ints)(n + MAGIC) + quarter;
    Floats found = PICK(-(turn & 1), cosine, sine);
    found = (Floats)((Ints)found ^ ((turn & 2) << 62));
    const Ints far = ~((x < 1e5) & (x > -1e5));
    for (int lane = 0; lane < LANES; lane++)
        if (far[lane])
            found[lane] = quarter ? cos(x[lane]) : sin(x[lane]);
    return found;
}

INLINE Floats NAME(error_function)(Floats x)
{
    for (int lane = 0; lane < LANES; lane++)
        x[lane] = erf(x[lane]);
    return x;
}

INLINE Floats NAME(error_function_complement)(Floats x)
{
    for (int lane = 0; lane < LANES; lane++)
        x[lane] = erfc(x[lane]);
    return x;
}

#undef MAGIC
#undef BITS_OF_ONE
