/* Pointwise instructions of regions on integers, booleans, and floats, for one kind of processor:
   loops that the compiler makes vectors of. `_fused_lanes.h` includes it. */

/* Row after row of the last axis: WORK has `count` elements, whose operands lie S0, S1 and S2 apart. */
#define ROWS_OF(To, A, B, C, WORK)                                                                            \
    {                                                                                                         \
        To *into = (To *)buffers[e->to.buffer] + e->to.offset;                                                \
        const A *first = (const A *)buffers[e->from[0].buffer] + e->from[0].offset;                           \
        const B *second = (const B *)buffers[e->from[1].buffer] + e->from[1].offset;                          \
        const C *third = (const C *)buffers[e->from[2].buffer] + e->from[2].offset;                           \
        const int32_t *d = e->dims, (*s)[AXES] = e->strides, count = d[3], s0 = s[0][3], s1 = s[1][3], s2 = s[2][3]; \
        for (int i = 0; i < d[0]; i++)                                                                        \
            for (int j = 0; j < d[1]; j++)                                                                    \
                for (int k = 0; k < d[2]; k++, into += count) {                                               \
                    const A *x = first + i * s[0][0] + j * s[0][1] + k * s[0][2];                             \
                    const B *y = second + i * s[1][0] + j * s[1][1] + k * s[1][2];                            \
                    const C *z = third + i * s[2][0] + j * s[2][1] + k * s[2][2];                             \
                    (void)y, (void)z, (void)s1, (void)s2;                                                     \
                    WORK                                                                                      \
                }                                                                                             \
        return;                                                                                               \
    }
#define EACH_OF(S0, S1, S2, result) for (int l = 0; l < count; l++) { a = x[l * S0]; b = y[l * S1]; c = z[l * S2]; into[l] = result; }
#define ONE(To, A, result)                                                                                    \
    ROWS_OF(To, A, A, A, A a; if (s0 == 1) for (int l = 0; l < count; l++) { a = x[l]; into[l] = result; }    \
            else for (int l = 0; l < count; l++) { a = x[l * s0]; into[l] = result; })
#define TWO(To, A, result)                                                                                    \
    ROWS_OF(To, A, A, A, A a; A b; A c; (void)c;                                                              \
            if (s0 == 1 && s1 == 1) EACH_OF(1, 1, 0, result)                                                  \
            else if (s0 == 1 && s1 == 0) EACH_OF(1, 0, 0, result)                                             \
            else if (s0 == 0 && s1 == 1) EACH_OF(0, 1, 0, result)                                             \
            else EACH_OF(s0, s1, 0, result))
#define CHOICE(A)                                                                                             \
    ROWS_OF(A, unsigned char, A, A, unsigned char a; A b; A c;                                                \
            if (s0 == 1 && s1 == 1 && s2 == 1) EACH_OF(1, 1, 1, a ? b : c) else EACH_OF(s0, s1, s2, a ? b : c))

#define COMPARED(A)                                                                                           \
    case LESS: TWO(unsigned char, A, a < b)                                                                   \
    case LESS_EQUAL: TWO(unsigned char, A, a <= b)                                                            \
    case GREATER: TWO(unsigned char, A, a > b)                                                                \
    case GREATER_EQUAL: TWO(unsigned char, A, a >= b)                                                         \
    case EQUAL: TWO(unsigned char, A, a == b)                                                                 \
    case NOT_EQUAL: TWO(unsigned char, A, a != b)

/* Arithmetic wraps around: it is done without signs. */
#define INTEGER(A, U)                                                                                         \
    switch (e->what) {                                                                                        \
        COMPARED(A)                                                                                           \
    case ADD: TWO(A, A, (A)((U)a + (U)b))                                                                     \
    case SUB: TWO(A, A, (A)((U)a - (U)b))                                                                     \
    case MUL: TWO(A, A, (A)((U)a * (U)b))                                                                     \
    case SQUARED_DIFFERENCE: TWO(A, A, (A)(((U)a - (U)b) * ((U)a - (U)b)))                                    \
    case MAXIMUM: TWO(A, A, a > b ? a : b)                                                                    \
    case MINIMUM: TWO(A, A, a < b ? a : b)                                                                    \
    case NEG: ONE(A, A, (A)(0 - (U)a))                                                                        \
    case ABS: ONE(A, A, a < 0 ? (A)(0 - (U)a) : a)                                                            \
    case SQUARE: ONE(A, A, (A)((U)a * (U)a))                                                                  \
    case SIGN: ONE(A, A, (a > 0) - (a < 0))                                                                   \
    }                                                                                                         \
    return;

#define CONVERTED(A)                                                                                          \
    switch (e->to_kind) {                                                                                     \
    case FLOAT: ONE(float, A, (float)a)                                                                       \
    case TRUTH: ONE(unsigned char, A, a != 0)                                                                 \
    case INT32: ONE(int32_t, A, (int32_t)a)                                                                   \
    case INT64: ONE(int64_t, A, (int64_t)a)                                                                   \
    case DOUBLE: ONE(double, A, (double)a)                                                                    \
    }                                                                                                         \
    return;

#define REAL(A, power)                                                                                        \
    switch (e->what) {                                                                                        \
        COMPARED(A)                                                                                           \
    case IS_NAN: ONE(unsigned char, A, a != a)                                                                \
    case IS_INF: ONE(unsigned char, A, a - a != a - a && a == a)                                              \
    case IS_FINITE: ONE(unsigned char, A, a - a == a - a)                                                     \
    case POWER: TWO(A, A, power(a, b))                                                                        \
    }                                                                                                         \
    return;

TARGET static void NAME(do_each)(const Each *e, float *const *buffers)
{
    if (e->what == CONVERT)
        switch (e->kind) {
        case FLOAT: CONVERTED(float)
        case TRUTH: CONVERTED(unsigned char)
        case INT32: CONVERTED(int32_t)
        case INT64: CONVERTED(int64_t)
        case DOUBLE: CONVERTED(double)
        }
    if (e->what == SELECT)
        switch (e->kind) {
        case TRUTH: CHOICE(unsigned char)
        case INT64: case DOUBLE: CHOICE(int64_t)        /* of numbers, their bits */
        default: CHOICE(int32_t)
        }
    switch (e->kind) {
    case FLOAT: REAL(float, powf)
    case DOUBLE: REAL(double, pow)
    case TRUTH:
        switch (e->what) {
        case AND: TWO(unsigned char, unsigned char, a & b)
        case OR: TWO(unsigned char, unsigned char, a | b)
        case NOT: ONE(unsigned char, unsigned char, !a)
        case EQUAL: TWO(unsigned char, unsigned char, a == b)
        case NOT_EQUAL: TWO(unsigned char, unsigned char, a != b)
        }
        return;
    case INT32: INTEGER(int32_t, uint32_t)
    case INT64: INTEGER(int64_t, uint64_t)
    }
}

#undef ROWS_OF
#undef EACH_OF
#undef ONE
#undef TWO
#undef CHOICE
#undef COMPARED
#undef INTEGER
#undef REAL
#undef CONVERTED
