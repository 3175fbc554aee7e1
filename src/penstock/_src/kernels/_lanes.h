/* Vectors of LANES numbers, and functions of them. Included once for each kind of processor: TARGET says what that can do, NAME
   what its functions are called. _lanes_end.h undoes the definitions. */
#define INLINE static inline __attribute__((always_inline)) TARGET
#define PICK(mask, yes, no) ((Floats)(((mask) & (Ints)(yes)) | (~(mask) & (Ints)(no))))

#define Floats NAME(Floats)
#define Unaligned NAME(Unaligned)
#define Ints NAME(Ints)
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef float Unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));

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

INLINE Floats NAME(clamp)(Floats x, float limit)
{
    x = PICK(x > limit, (Floats){} + limit, x);
    return PICK(x < -limit, (Floats){} - limit, x);
}

/* What is smaller than normal numbers is 0: weights of what is masked by -infinity have to be. */
INLINE Floats NAME(sigmoid)(Floats x)
{
    Floats scale, p;
    NAME(split_exp)(-NAME(clamp)(x, 87.f), &scale, &p);
    const Floats found = 1.f / (1.f + (scale * p + scale));
    return PICK(x < -87.f, (Floats){}, found);
}

/* With m = exp(2x) - 1, which is exact near 0: m / (m + 2). */
INLINE Floats NAME(hyperbolic_tangent)(Floats x)
{
    Floats scale, p;
    NAME(split_exp)(NAME(clamp)(x, 10.f) * 2.f, &scale, &p);
    const Floats m = scale * p + (scale - 1.f);
    return m / (m + 2.f);
}

INLINE Floats NAME(load)(const float *from, int64_t count)
{
    Floats x = {};
    if (count >= LANES)
        return *(const Unaligned *)from;
    memcpy(&x, from, count * sizeof(float));
    return x;
}

INLINE void NAME(store)(float *to, Floats x, int64_t count)
{
    if (count >= LANES)
        *(Unaligned *)to = x;
    else
        memcpy(to, &x, count * sizeof(float));
}
