/* The instructions of _fused.c on vectors of LANES numbers. It is included once for each kind of processor, as _lanes.h is. */
#include "_lanes.h"

#define Slot NAME(Slot)
typedef struct { Real *at; int64_t stride, step; } Slot;       /* rows are a stride apart, vectors of a row a step: 0 for one */

#ifndef OF_DOUBLES
/* 2^n is multiplied in two halves, because n reaches from -126 to 128. What is smaller than normal numbers is 0, and is not
   computed: instructions on such numbers take many times as long, and masked logits are full of them. */
INLINE Floats NAME(exponential)(Floats x)
{
    const Floats bounded = PICK(x > 89.f, (Floats){} + 89.f, PICK(x < -87.33f, (Floats){} - 87.33f, x));
    const Floats magic = (Floats){} + 12582912.f;
    const Floats shifted = bounded * 1.44269504f + magic;
    Floats scale, p;
    NAME(split_exp)(bounded, &scale, &p);
    const Ints n = (Ints)shifted - 0x4b400000, half = n >> 1;
    const Floats found = (1.f + p) * (Floats)((half + 127) << 23) * (Floats)((n - half + 127) << 23);
    return PICK(x > 88.7228394f, (Floats){} + __builtin_inff(), PICK(x < -87.33f, (Floats){}, found));
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

/* With x = n pi / 2 + r and r between -pi / 4 and pi / 4, a polynomial in r. Larger numbers are left to the library. */
INLINE Floats NAME(sine)(Floats x, int quarter)
{
    const Floats n = NAME(rounded)(x * 0.636619772f);
    const Floats r = ((x - n * 1.5703125f) - n * 4.837512969970703e-4f) - n * 7.54978995489188e-8f, square = r * r;
    const Ints turn = __builtin_convertvector(NAME(clamp)(n, 16384.f), Ints) + quarter;
    const Floats sine = r + r * square * (-1.6666654611e-1f + square * (8.3321608736e-3f + square * -1.9515295891e-4f));
    const Floats cosine = 1.f - 0.5f * square + square * square * (4.166664568298827e-2f + square *
                          (-1.388731625493765e-3f + square * 2.443315711809948e-5f));
    const Ints odd = -(turn & 1);
    Floats found = PICK(odd, cosine, sine);
    found = (Floats)((Ints)found ^ ((turn & 2) << 30));
    const Ints far = ~((x < 8192.f) & (x > -8192.f));
    for (int lane = 0; lane < LANES; lane++)
        if (far[lane])
            found[lane] = quarter ? cosf(x[lane]) : sinf(x[lane]);
    return found;
}

/* A quotient of polynomials in the square of x, which is within [-4, 4]: beyond, the function is 1 to the last bit. */
INLINE Floats NAME(error_function)(Floats x)
{
    const Floats bounded = NAME(clamp)(x, 4.f), square = bounded * bounded;
    Floats p = square * -2.72614225801306e-10f + 2.77068142495902e-08f;
    p = p * square - 2.10102402082508e-06f;
    p = p * square - 5.69250639462346e-05f;
    p = p * square - 7.34990630326855e-04f;
    p = p * square - 2.95459980854025e-03f;
    p = p * square - 1.60960333262415e-02f;
    Floats q = square * -1.45660718464996e-05f - 2.13374055278905e-04f;
    q = q * square - 1.68282697438203e-03f;
    q = q * square - 7.37332916720468e-03f;
    q = q * square - 1.42647390514189e-02f;
    return bounded * p / q;
}

/* With a = |x|: exp(-a a) times a function that changes little, a polynomial in (a - 2) / (a + 2), over 1 + 2 a. The square is
   exact in two parts, because its exponential multiplies what it has lost. */
INLINE Floats NAME(error_function_complement)(Floats x)
{
    const Floats a = NAME(absolute)(NAME(clamp)(x, 9.5f)), q = (a - 2.f) / (a + 2.f);
    Floats p = q * -4.272442327e-04f - 1.271055835e-03f;
    p = p * q + 1.325528174e-03f;
    p = p * q + 8.668490789e-03f;
    p = p * q - 8.058262057e-03f;
    p = p * q - 5.421492247e-02f;
    p = p * q + 1.640543724e-01f;
    p = p * q - 1.660304065e-01f;
    p = p * q - 9.276392241e-02f;
    p = p * q + 1.276978378e+00f;
    const Floats high = (Floats)((Ints)a & ~0xfff);
    const Floats found = p / (1.f + 2.f * a) * NAME(exponential)(-high * high) * NAME(exponential)((high - a) * (high + a));
    return PICK(x < 0.f, 2.f - found, found);
}

#endif

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
        root[i] = sizeof(Real) == sizeof(float) ? __builtin_sqrtf((float)x[i]) : (Real)__builtin_sqrt(x[i]);
    return root;
}

/* Near 0 it is exact, as the whole part of the power is not added. */
INLINE Floats NAME(exponential_minus_one)(Floats x)
{
    Floats scale, p;
    NAME(split_exp)(NAME(clamp)(x, 40.f), &scale, &p);
    return PICK(x > 40.f, NAME(exponential)(x), PICK(x == 0.f, x, scale * p + (scale - 1.f)));
}

INLINE Floats NAME(rounded_down)(Floats x)
{
    const Floats near = NAME(rounded)(x);
    return PICK(near > x, near - 1.f, near);
}

/* The sum, or the greatest, of the lanes, in all lanes. */
INLINE Floats NAME(over_lanes)(Floats x, int greatest)
{
    Real part[LANES];
    memcpy(part, &x, sizeof x);
    for (int half = LANES / 2; half > 0; half /= 2)       /* halves of halves: none waits for the one before it */
        for (int i = 0; i < half; i++) {
            const Real a = part[i], b = part[half + i];
            part[i] = !greatest ? a + b : b > a || b != b ? b : a;
        }
    return (Floats){} + part[0];
}

INLINE Floats NAME(either)(Floats a, Floats b, int greatest)
{
    return greatest ? PICK((a > b) | (a != a), a, b) : a + b;
}

/* The sums, or the greatest, of as many rows as there are lanes. */
INLINE Floats NAME(reduce_short)(const Real *from, int64_t stride, int64_t across, int greatest)
{
    Floats found = greatest ? (Floats){} - __builtin_inff() : (Floats){};
    for (int64_t i = 0; i < across; i++) {
        Floats x;
        for (int lane = 0; lane < LANES; lane++)
            x[lane] = from[lane * stride + i];
        found = NAME(either)(x, found, greatest);
    }
    return found;
}

/* Two vectors of partial results, so that one need not wait for the other. Of short rows, a vector has one number of each. */
INLINE void NAME(reduce_rows)(Slot to, Slot from, int64_t down, int64_t across, int greatest)
{
    int64_t row = 0;
    for (; across <= SHORT && from.step && row + LANES <= down; row += LANES) {
        const Floats found = NAME(reduce_short)(from.at + row * from.stride, from.stride, across, greatest);
        for (int lane = 0; lane < LANES; lane++)
            NAME(store)(to.at + (row + lane) * to.stride, (Floats){} + found[lane], LANES);
    }
    for (; row < down; row++) {
        const Real *at = from.at + row * from.stride;
        const Floats none = greatest ? (Floats){} - __builtin_inff() : (Floats){};
        Floats one = none, other = none;
        int64_t i = 0;
        for (; i + 2 * LANES <= across; i += 2 * LANES, at += 2 * from.step) {
            one = NAME(either)(NAME(load)(at, LANES), one, greatest);
            other = NAME(either)(NAME(load)(at + from.step, LANES), other, greatest);
        }
        for (; i < across; i += LANES, at += from.step) {
            const int64_t left = across - i < LANES ? across - i : LANES;
            Floats last = none;
            memcpy(&last, at, left * sizeof(Real));
            one = NAME(either)(last, one, greatest);
        }
        NAME(store)(to.at + row * to.stride, NAME(over_lanes)(NAME(either)(one, other, greatest), greatest), LANES);
    }
}

#define EACH(kind, result)                                                                                    \
    case kind:                                                                                                \
        for (int64_t row = 0; row < down; row++) {                                                            \
            const Real *from0 = s0.at + row * s0.stride, *from1 = s1.at + row * s1.stride, *from2 = s2.at + row * s2.stride; \
            Real *into = to.at + row * to.stride;                                                            \
            int64_t i = 0;                                                                                    \
            for (; i + LANES <= across; i += LANES, from0 += s0.step, from1 += s1.step, from2 += s2.step) {   \
                const Floats a = NAME(load)(from0, LANES), b = NAME(load)(from1, LANES), c = NAME(load)(from2, LANES); \
                (void)b, (void)c;                                                                             \
                NAME(store)(into + i, result, LANES);                                                         \
            }                                                                                                 \
            if (i < across) {                                                                                 \
                const Floats a = NAME(load)(from0, across - i), b = NAME(load)(from1, across - i), c = NAME(load)(from2, across - i); \
                (void)b, (void)c;                                                                             \
                NAME(store)(into + i, result, across - i);                                                    \
            }                                                                                                 \
        }                                                                                                     \
        break;

INLINE void NAME(do_one)(int32_t kind, Slot to, Slot s0, Slot s1, Slot s2, int64_t down, int64_t across)
{
    switch (kind) {
        INSTRUCTIONS(EACH)
    case ROW_SUM:
        NAME(reduce_rows)(to, s0, down, across, 0);
        break;
    case ROW_MAXIMUM:
        NAME(reduce_rows)(to, s0, down, across, 1);
        break;
    }
}

/* One number for each row, or for all, as vectors that hold it in all lanes. */
INLINE void NAME(spread)(Real *to, const Real *from, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++)
        NAME(store)(to + r * LANES, (Floats){} + from[r], LANES);
}

/* The same for all columns of a row, in rows that follow each other; it writes up to a vector behind them. */
INLINE void NAME(repeat_each)(Real *to, const Real *from, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++, to += columns)
        for (int64_t i = 0; i < columns; i += LANES)
            NAME(store)(to + i, (Floats){} + from[r], LANES);
}

/* A row, so many times. */
INLINE void NAME(repeat_row)(Real *to, const Real *from, int64_t rows, int64_t columns)
{
    memcpy(to, from, columns * sizeof(Real));
    for (int64_t done = columns; done < rows * columns; done *= 2)
        memcpy(to + done, to, (2 * done <= rows * columns ? done : rows * columns - done) * sizeof(Real));
}

/* Rows of an operand that do not follow each other, or are boolean, as rows of numbers that do. */
INLINE void NAME(fill_rows)(Real *to, const Job *job, const Operand *o, int64_t row, int64_t down, int64_t column, int64_t across)
{
    const Real *numbers = job->bases[o->tensor];
    const unsigned char *truths = (const unsigned char *)numbers;
    const int is_truth = job->truths[o->tensor] != 0;
    int64_t within = row % o->every, turn = row / o->every % o->times, r = row % o->period;
    for (; down > 0; down--, to += across) {
        const int64_t at = o->offset + turn * o->jump + r * o->stride + column;
        for (int64_t c = 0; c < across; c++)
            to[c] = is_truth ? truths[at + c] : numbers[at + c];
        r = r + 1 == o->period ? 0 : r + 1;
        if (++within == o->every)
            within = 0, turn = turn + 1 == o->times ? 0 : turn + 1;
    }
}

TARGET static void NAME(do_block)(const void *given, int64_t number)
{
    const Job *job = given;
    const Header *h = job->header;
    const int flat = job->flat;
    const int64_t narrow = flat ? job->room : job->down * LANES;
    Real area[(h->rooms + job->filled) * job->room + (h->narrow + job->spread) * narrow + h->numbers * LANES + 1]
        __attribute__((aligned(64)));
    Real *free = area;
    Slot slots[SLOTS];
    const int64_t wide = (h->columns + job->across - 1) / job->across;
    const int64_t row = number / wide * job->down, column = number % wide * job->across;
    const int64_t down = h->rows - row < job->down ? h->rows - row : job->down;
    const int64_t across = h->columns - column < job->across ? h->columns - column : job->across;
    int slot = 0;
    for (int i = 0; i < h->operands; i++) {
        const Operand *o = job->operands + i;
        const int64_t begin = o->offset + row / o->every % o->times * o->jump;
        if (o->stride < 0) {
            const Real *from = (const Real *)job->bases[o->tensor] + begin + (o->stride == PER_ROW ? row : 0);
            const int each = flat && o->stride == PER_ROW;
            if (o->tensor < h->values && each)
                NAME(repeat_each)(free, from, down, across);
            else if (o->tensor < h->values)
                NAME(spread)(free, from, o->stride == PER_ROW ? down : 1);
            slots[slot++] = each ? (Slot){free, across, LANES} : (Slot){free, o->stride == PER_ROW ? LANES : 0, 0};
            free += narrow;
        } else if (job->truths[o->tensor] || is_scattered(h, o)) {
            NAME(fill_rows)(free, job, o, row, down, column, across);
            slots[slot++] = (Slot){free, across, LANES};
            free += job->room;
        } else {
            Real *from = (Real *)job->bases[o->tensor] + begin + row % o->period * o->stride + column;
            if (flat && o->stride == 0) {
                NAME(repeat_row)(free, from, down, across);
                from = free;
                free += job->room;
            }
            slots[slot++] = (Slot){from, o->stride, LANES};
        }
    }
    for (int i = 0; i < h->rooms; i++, free += job->room)
        slots[slot++] = (Slot){free, across, LANES};
    for (int i = 0; i < h->narrow; i++, free += narrow)
        slots[slot++] = flat ? (Slot){free, across, LANES} : (Slot){free, LANES, 0};
    for (int i = 0; i < h->numbers; i++, free += LANES) {
        Real number;
        memcpy(&number, (const char *)job->numbers + i * sizeof number, sizeof number);
        NAME(spread)(free, &number, 1);
        slots[slot++] = (Slot){free, 0, 0};
    }
    for (int i = 0; i < h->instructions; i++) {
        const Instruction *n = job->instructions + i;
        const Slot to = slots[n->to], *from = slots;
        if (flat && n->kind >= ROW_SUM) {
            Real each[job->down + LANES];
            NAME(do_one)(n->kind, (Slot){each, 1, 0}, from[n->from[0]], from[n->from[1]], from[n->from[2]], down, across);
            NAME(repeat_each)(to.at, each, down, across);
        } else {
            const int64_t wanted = flat ? down * across : to.step || n->kind >= ROW_SUM ? across : LANES;
            NAME(do_one)(n->kind, to, from[n->from[0]], from[n->from[1]], from[n->from[2]], flat ? 1 : down, wanted);
        }
    }
    for (int i = 0; i < h->operands; i++) {
        const Operand *o = job->operands + i;
        if (o->stride == PER_ROW && o->tensor >= h->values)
            for (int64_t r = 0; r < down; r++)
                ((Real *)job->bases[o->tensor])[o->offset + row + r] = slots[i].at[r * slots[i].stride];
    }
}

TARGET static void NAME(add_scaled)(void *into, const void *first, const void *second, double factor, int64_t count)
{
    Real *to = into;
    const Real *a = first, *b = second, scale = (Real)factor;
    for (int64_t i = 0; i < count; i += LANES)
        NAME(store)(to + i, NAME(load)(a + i, count - i) + NAME(load)(b + i, count - i) * scale, count - i);
}

/* The sum, or the greatest, over the middle one of three axes, times a number. */
TARGET static void NAME(reduce_middle)(void *into, const void *given, const Reduce *r)
{
    const int64_t middle = r->middle, inner = r->inner;
    const int greatest = r->greatest;
    const Real *from = given;
    Real *to = into;
    double factor;
    memcpy(&factor, r->scale, sizeof factor);
    const Real scale = (Real)factor;
    int64_t o = 0;
    for (; inner == 1 && middle <= SHORT && o + LANES <= r->outer; o += LANES, from += LANES * middle, to += LANES)
        NAME(store)(to, NAME(reduce_short)(from, middle, middle, greatest) * scale, LANES);
    for (; o < r->outer; o++, from += middle * inner, to += inner) {
        if (inner == 1) {
            Real area[LANES];
            NAME(reduce_rows)((Slot){area, 0, 0}, (Slot){(Real *)from, 0, LANES}, 1, middle, greatest);
            to[0] = area[0] * scale;
            continue;
        }
        for (int64_t i = 0; i < inner; i += LANES) {
            const int64_t left = inner - i < LANES ? inner - i : LANES;
            Floats found = greatest ? (Floats){} - __builtin_inff() : (Floats){}, other = found;
            int64_t m = 0;
            for (; m + 2 <= middle; m += 2) {
                found = NAME(either)(NAME(load)(from + m * inner + i, left), found, greatest);
                other = NAME(either)(NAME(load)(from + (m + 1) * inner + i, left), other, greatest);
            }
            if (m < middle)
                found = NAME(either)(NAME(load)(from + m * inner + i, left), found, greatest);
            NAME(store)(to + i, NAME(either)(found, other, greatest) * scale, left);
        }
    }
}

#undef EACH
#undef Slot
#ifndef OF_DOUBLES
#include "_typed_lanes.h"
#endif
#include "_lanes_end.h"
