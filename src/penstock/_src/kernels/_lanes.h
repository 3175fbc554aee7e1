/* Vectors of LANES numbers, and functions of them. Included once for each kind of processor and each precision: TARGET says what
   the processor can do, NAME what the functions are called. Numbers are floats, or doubles where OF_DOUBLES is defined.
   _lanes_end.h undoes the definitions. */
#define INLINE static inline __attribute__((always_inline)) TARGET
#define PICK(mask, yes, no) ((Floats)(((Ints)(mask) & (Ints)(yes)) | (~(Ints)(mask) & (Ints)(no))))
#ifdef OF_DOUBLES
#define Real double
#define Whole int64_t
#define WHOLE_FROM 0x1p52                  /* numbers from here on are whole */
#else
#define Real float
#define Whole int32_t
#define WHOLE_FROM 0x1p23f
#endif
#define SIGN_BIT ((Whole)1 << (8 * sizeof(Whole) - 1))

#define Floats NAME(Floats)
#define Unaligned NAME(Unaligned)
#define Ints NAME(Ints)
typedef Real Floats __attribute__((vector_size(sizeof(Real) * LANES)));
typedef Real Unaligned __attribute__((vector_size(sizeof(Real) * LANES), aligned(sizeof(Real)), may_alias));
typedef Whole Ints __attribute__((vector_size(sizeof(Whole) * LANES)));

INLINE Floats NAME(clamp)(Floats x, Real limit)
{
    x = PICK(x > limit, (Floats){} + limit, x);
    return PICK(x < -limit, (Floats){} - limit, x);
}

INLINE Floats NAME(absolute)(Floats x)
{
    return (Floats)((Ints)x & ~SIGN_BIT);
}

INLINE Floats NAME(load)(const Real *from, int64_t count)
{
    Floats x = {};
    if (count >= LANES)
        return *(const Unaligned *)from;
    memcpy(&x, from, count * sizeof(Real));
    return x;
}

INLINE void NAME(store)(Real *to, Floats x, int64_t count)
{
    if (count >= LANES)
        *(Unaligned *)to = x;
    else
        memcpy(to, &x, count * sizeof(Real));
}

/* The nearest whole number, halves to the even one. The sign of a zero stays. */
INLINE Floats NAME(rounded)(Floats x)
{
    const Ints sign = (Ints)x & SIGN_BIT;
    const Floats size = (Floats)((Ints)x ^ sign);
    const Floats shifted = size + WHOLE_FROM, whole = shifted - WHOLE_FROM;
    return PICK(size < WHOLE_FROM, (Floats)((Ints)whole | sign), x);
}

#ifdef OF_DOUBLES
#include "_double_lanes.h"
#else

/* 2^n and p, so that exp(x) = 2^n (1 + p), for x where neither is infinite. NaN gives NaN. */
INLINE void NAME(split_exp)(Floats x, Floats *scale, Floats *p)
{
    const Floats magic = (Floats){} + 12582912.f;       /* 1.5 * 2^23: adding it rounds */
    const Floats shifted = x * 1.44269504f + magic;
    const Floats n = shifted - magic;
    const Floats r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    Floats q = r * 1.38938364e-3f + 8.36315556e-3f;
    q = q * r + 4.16669432e-2f;
    q = q * r + 1.66665772e-1f;
    q = q * r + 4.99999994e-1f;
    *p = q * r * r + r;
    *scale = (Floats)(((Ints)shifted << 23) + 0x3f800000);
}

/* What is smaller than normal numbers is 0: weights of what is masked by -infinity have to be. */
INLINE Floats NAME(sigmoid)(Floats x)
{
    Floats scale, p;
    NAME(split_exp)(-NAME(clamp)(x, 87.f), &scale, &p);
    const Floats found = 1.f / (1.f + (scale * p + scale));
    return PICK(x < -87.f, (Floats){}, found);
}

#define ONE_FROM 10.f                      /* hyperbolic tangents from here on are 1 */
#endif

/* With m = exp(2x) - 1, which is exact near 0: m / (m + 2). */
INLINE Floats NAME(hyperbolic_tangent)(Floats x)
{
    Floats scale, p;
    NAME(split_exp)(NAME(clamp)(x, ONE_FROM) * 2.f, &scale, &p);
    const Floats m = scale * p + (scale - 1.f);
    return m / (m + 2.f);
}
