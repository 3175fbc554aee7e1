/* The instructions of _pointwise.c on vectors of LANES numbers. It is included once for each kind of processor: TARGET says what
   that can do, NAME what its functions are called. */
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

#define EACH(kind, result)                                                                                    \
    case kind:                                                                                                \
        for (int64_t row = 0; row < down; row++) {                                                            \
            const float *from0 = s0.at + row * s0.stride, *from1 = s1.at + row * s1.stride, *from2 = s2.at + row * s2.stride; \
            float *into = to.at + row * to.stride;                                                            \
            int64_t i = 0;                                                                                    \
            for (; i + LANES <= across; i += LANES) {                                                         \
                const Floats a = NAME(load)(from0 + i, LANES), b = NAME(load)(from1 + i, LANES), c = NAME(load)(from2 + i, LANES); \
                (void)b, (void)c;                                                                             \
                NAME(store)(into + i, result, LANES);                                                               \
            }                                                                                                 \
            if (i < across) {                                                                                 \
                const Floats a = NAME(load)(from0 + i, across - i), b = NAME(load)(from1 + i, across - i), c = NAME(load)(from2 + i, across - i); \
                (void)b, (void)c;                                                                             \
                NAME(store)(into + i, result, across - i);                                                          \
            }                                                                                                 \
        }                                                                                                     \
        break;

INLINE void NAME(do_one)(int32_t kind, Slot to, Slot s0, Slot s1, Slot s2, int64_t down, int64_t across)
{
    switch (kind) {
        EACH(ADD, a + b)
        EACH(SUB, a - b)
        EACH(MUL, a * b)
        EACH(DIV, a / b)
        EACH(NEG, -a)
        EACH(SQUARE, a * a)
        EACH(COPY, a)
        EACH(ADD_PRODUCT, a + b * c)
        EACH(SIGMOID, NAME(sigmoid)(a))
        EACH(TANH, NAME(hyperbolic_tangent)(a))
        EACH(SIGMOID_GRAD, b * (1.f - a) * a)
        EACH(TANH_GRAD, b * (1.f - a * a))
    }
}

TARGET static void NAME(do_block)(const void *given, int64_t number)
{
    const Job *job = given;
    const Header *h = job->header;
    float rooms[(h->rooms + h->numbers) * ROOM + 1] __attribute__((aligned(64)));
    Slot slots[SLOTS];
    const int64_t wide = (h->columns + job->across - 1) / job->across;
    const int64_t row = number / wide * job->down, column = number % wide * job->across;
    const int64_t down = h->rows - row < job->down ? h->rows - row : job->down;
    const int64_t across = h->columns - column < job->across ? h->columns - column : job->across;
    int slot = 0;
    for (int i = 0; i < h->operands; i++) {
        const Operand *o = job->operands + i;
        slots[slot++] = (Slot){job->bases[o->tensor] + o->offset + row * o->stride + column, o->stride};
    }
    for (int i = 0; i < h->rooms; i++)
        slots[slot++] = (Slot){rooms + i * ROOM, across};
    for (int i = 0; i < h->numbers; i++) {
        float *at = rooms + (h->rooms + i) * ROOM;
        for (int64_t c = 0; c < across; c++)
            at[c] = job->numbers[i];
        slots[slot++] = (Slot){at, 0};
    }
    for (int i = 0; i < h->instructions; i++) {
        const Instruction *n = job->instructions + i;
        NAME(do_one)(n->kind, slots[n->to], slots[n->from[0]], slots[n->from[1]], slots[n->from[2]], down, across);
    }
}

TARGET static void NAME(add_scaled)(float *to, const float *a, const float *b, float scale, int64_t count)
{
    for (int64_t i = 0; i < count; i += LANES)
        NAME(store)(to + i, NAME(load)(a + i, count - i) + NAME(load)(b + i, count - i) * scale, count - i);
}

#undef EACH
#undef Ints
#undef Unaligned
#undef Floats
#undef PICK
#undef INLINE
#undef TARGET
#undef NAME
#undef LANES
