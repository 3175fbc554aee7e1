/* The instructions of _pointwise.c on vectors of LANES numbers. It is included once for each kind of processor, as _lanes.h is. */
#include "_lanes.h"

/* 2^n is multiplied in two halves, because n reaches from -126 to 128. What is smaller than normal numbers is 0. */
INLINE Floats NAME(exponential)(Floats x)
{
    const Floats bounded = PICK(x > 89.f, (Floats){} + 89.f, PICK(x < -88.f, (Floats){} - 88.f, x));
    const Floats magic = (Floats){} + 12582912.f;
    const Floats shifted = bounded * 1.44269504f + magic;
    Floats scale, p;
    NAME(split_exp)(bounded, &scale, &p);
    const Ints n = (Ints)shifted - 0x4b400000, half = n >> 1;
    const Floats found = (1.f + p) * (Floats)((half + 127) << 23) * (Floats)((n - half + 127) << 23);
    return PICK(x > 88.7228394f, (Floats){} + __builtin_inff(), PICK(x < -87.3365479f, (Floats){}, found));
}

/* With x = 2^n (1 + r) and 1 + r between the roots of 1/2 and 2: n log 2 and a polynomial in r. */
INLINE Floats NAME(logarithm)(Floats x)
{
    const Ints small = x < 1.17549435e-38f;
    const Floats scaled = PICK(small, x * 8388608.f, x);
    const Ints bits = (Ints)scaled;
    const Ints above = ((bits & 0x007fffff) | 0x3f800000) > 0x3fb504f3;
    const Floats m = PICK(above, (Floats)((bits & 0x007fffff) | 0x3f000000), (Floats)((bits & 0x007fffff) | 0x3f800000));
    const Ints exponent = ((bits >> 23) & 0xff) - 127 - above - (small & 23);
    const Floats n = __builtin_convertvector(exponent, Floats), r = m - 1.f, square = r * r;
    Floats q = r * 7.0376836292e-2f - 1.1514610310e-1f;
    q = q * r + 1.1676998740e-1f;
    q = q * r - 1.2420140846e-1f;
    q = q * r + 1.4249322787e-1f;
    q = q * r - 1.6668057665e-1f;
    q = q * r + 2.0000714765e-1f;
    q = q * r - 2.4999993993e-1f;
    q = q * r + 3.3333331174e-1f;
    const Floats tail = q * r * square - n * 2.12194440e-4f - 0.5f * square;
    const Floats found = (r + tail) + n * 0.693359375f;
    const Floats odd = PICK(x == 0.f, (Floats){} - __builtin_inff(), PICK(x > 0.f, x, (Floats){} + __builtin_nanf("")));
    return PICK((x > 0.f) & (x < __builtin_inff()), found, odd);
}

/* log(u) for u = 1 + x, and what rounding u has lost. */
INLINE Floats NAME(logarithm_of_one_plus)(Floats x)
{
    const Floats u = x + 1.f;
    const Floats found = NAME(logarithm)(u) + (x - (u - 1.f)) / u;
    return PICK((u > 0.f) & (u < __builtin_inff()), found, NAME(logarithm)(u));
}

INLINE Floats NAME(square_root)(Floats x)
{
    Floats root;
    for (int i = 0; i < LANES; i++)
        root[i] = __builtin_sqrtf(x[i]);
    return root;
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
        INSTRUCTIONS(EACH)
    }
}

TARGET static void NAME(do_block)(const void *given, int64_t number)
{
    const Job *job = given;
    const Header *h = job->header;
    float rooms[(h->rooms + h->numbers + job->spread) * ROOM + 1] __attribute__((aligned(64)));
    float *spread = rooms + (h->rooms + h->numbers) * ROOM;
    Slot slots[SLOTS];
    const int64_t wide = (h->columns + job->across - 1) / job->across;
    const int64_t row = number / wide * job->down, column = number % wide * job->across;
    const int64_t down = h->rows - row < job->down ? h->rows - row : job->down;
    const int64_t across = h->columns - column < job->across ? h->columns - column : job->across;
    int slot = 0;
    for (int i = 0; i < h->operands; i++) {
        const Operand *o = job->operands + i;
        const float *from = job->bases[o->tensor] + o->offset;
        if (o->stride >= 0) {
            slots[slot++] = (Slot){(float *)from + row * o->stride + column, o->stride};
            continue;
        }
        const int64_t each = o->stride == PER_ROW ? down : 1;
        for (int64_t r = 0; r < each; r++)
            for (int64_t c = 0; c < across; c++)
                spread[r * across + c] = o->stride == PER_ROW ? from[row + r] : from[0];
        slots[slot++] = (Slot){spread, o->stride == PER_ROW ? across : 0};
        spread += ROOM;
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
#include "_lanes_end.h"
