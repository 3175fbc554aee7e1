/* Instructions of regions that read or return positions, and reductions of integers and booleans (see _regions.h).
   Arrays have three axes, outer, middle and inner ones together; an instruction works along the middle. */
typedef struct { Place to, from; int32_t what, kind, outer, middle, inner; } Fold;
typedef struct { Place to, from; int32_t least, kind, to_kind, outer, middle, inner; } Position;
typedef struct { Place values, places, from; int32_t kind, to_kind, rows, columns, count; } Top;
typedef struct { Place to, from, places; int32_t size, kind, batch, outer, limit, inner, count; } Gather;
typedef struct { Place to, places, on, off; int32_t size, kind, outer, depth, inner; } OneHot;
typedef struct { Place to, from; int32_t kind, exclusive, reverse, outer, middle, inner; } Running;
typedef struct { Place to, from, places; int32_t kind, place_kind, rows, inner, limit; } Segments;
typedef struct { Place to, from[2]; int32_t what, kind, dims[AXES], strides[2][AXES]; } Divide;
typedef struct { Place to, from; int32_t size, count, rows, columns, lower, upper; } Band;

static inline void *place_of(float *const *buffers, Place place, int size)
{
    return (char *)buffers[place.buffer] + (int64_t)place.offset * size;
}

static inline int64_t integer(const void *from, int32_t kind, int64_t i)
{
    return kind == INT64 ? ((const int64_t *)from)[i] : ((const int32_t *)from)[i];
}

static inline void set_integer(void *to, int32_t kind, int64_t i, int64_t value)
{
    if (kind == INT64)
        ((int64_t *)to)[i] = value;
    else
        ((int32_t *)to)[i] = (int32_t)value;
}

#define FOLD_OF(A, first, result)                                             \
    {                                                                         \
        const A *from = place_of(buffers, f->from, sizeof(A));                \
        A *to = place_of(buffers, f->to, sizeof(A));                          \
        for (int o = 0; o < f->outer; o++, from += f->middle * f->inner)      \
            for (int i = 0; i < f->inner; i++, to++) {                        \
                A a = first;                                                  \
                for (int m = 0; m < f->middle; m++) {                         \
                    const A b = from[m * f->inner + i];                       \
                    a = result;                                               \
                }                                                             \
                *to = a;                                                      \
            }                                                                 \
        return;                                                               \
    }
#define FOLDS_OF(A, U, lowest, highest)                                       \
    switch (f->what) {                                                        \
    case ADD: FOLD_OF(A, 0, (A)((U)a + (U)b))                                 \
    case MUL: FOLD_OF(A, 1, (A)((U)a * (U)b))                                 \
    case MAXIMUM: FOLD_OF(A, lowest, b > a ? b : a)                           \
    case MINIMUM: FOLD_OF(A, highest, b < a ? b : a)                          \
    }                                                                         \
    return;

static void do_fold(const Fold *f, float *const *buffers)
{
    switch (f->kind) {
    case FLOAT:
        if (f->what == MUL)
            FOLD_OF(float, 1.f, a * b)
        FOLD_OF(float, INFINITY, b < a || b != b ? b : a)
    case DOUBLE:
        if (f->what == MUL)
            FOLD_OF(double, 1.0, a * b)
        FOLD_OF(double, INFINITY, b < a || b != b ? b : a)
    case TRUTH:
        if (f->what == AND)
            FOLD_OF(unsigned char, 1, a & b)
        FOLD_OF(unsigned char, 0, a | b)
    case INT32: FOLDS_OF(int32_t, uint32_t, INT32_MIN, INT32_MAX)
    case INT64: FOLDS_OF(int64_t, uint64_t, INT64_MIN, INT64_MAX)
    }
}

static inline double passed_over(double x, int least)
{
    return x != x ? (least ? INFINITY : -INFINITY) : x;
}

#define AS_IT_IS(x, least) (x)

/* The first of the greatest, or least, elements. NaN counts as the last of all numbers. */
#define POSITION_OF(A, READ)                                                  \
    {                                                                         \
        const A *from = place_of(buffers, p->from, sizeof(A));                \
        for (int o = 0; o < p->outer; o++, from += p->middle * p->inner)      \
            for (int i = 0; i < p->inner; i++) {                              \
                A best = READ(from[i], p->least);                             \
                int at = 0;                                                   \
                for (int m = 1; m < p->middle; m++) {                         \
                    const A b = READ(from[m * p->inner + i], p->least);       \
                    if (p->least ? b < best : b > best)                       \
                        best = b, at = m;                                     \
                }                                                             \
                set_integer(to, p->to_kind, o * p->inner + i, at);            \
            }                                                                 \
        return;                                                               \
    }

static void do_position(const Position *p, float *const *buffers)
{
    void *to = place_of(buffers, p->to, SIZES[p->to_kind]);
    switch (p->kind) {
    case FLOAT: POSITION_OF(float, passed_over)
    case DOUBLE: POSITION_OF(double, passed_over)
    case TRUTH: POSITION_OF(unsigned char, AS_IT_IS)
    case INT32: POSITION_OF(int32_t, AS_IT_IS)
    case INT64: POSITION_OF(int64_t, AS_IT_IS)
    }
}

/* The greatest elements of rows, in order; of equal ones the first comes first. NaN is greater than all numbers. */
#define TOP_OF(A)                                                             \
    {                                                                         \
        const A *from = place_of(buffers, t->from, sizeof(A));                \
        A *values = place_of(buffers, t->values, sizeof(A));                  \
        for (int r = 0; r < t->rows; r++, from += t->columns, values += t->count) { \
            int known = 0;                                                    \
            for (int i = 0; i < t->columns; i++) {                            \
                const A x = from[i];                                          \
                int at = known;                                               \
                if (known == t->count && !(x > values[known - 1] || (x != x && values[known - 1] == values[known - 1]))) \
                    continue;                                                 \
                if (known == t->count)                                        \
                    at--;                                                     \
                else                                                          \
                    known++;                                                  \
                for (; at > 0 && (x > values[at - 1] || (x != x && values[at - 1] == values[at - 1])); at--) { \
                    values[at] = values[at - 1];                              \
                    order[at] = order[at - 1];                                \
                }                                                             \
                values[at] = x;                                               \
                order[at] = i;                                                \
            }                                                                 \
            for (int i = 0; i < t->count; i++)                                \
                set_integer(places, t->to_kind, (int64_t)r * t->count + i, order[i]); \
        }                                                                     \
        return;                                                               \
    }

static void do_top(const Top *t, float *const *buffers)
{
    int32_t order[t->count + 1];
    void *places = place_of(buffers, t->places, SIZES[t->to_kind]);
    if (t->count == 0)
        return;
    switch (t->kind) {
    case FLOAT: TOP_OF(float)
    case DOUBLE: TOP_OF(double)
    case INT32: TOP_OF(int32_t)
    case INT64: TOP_OF(int64_t)
    }
}

/* Slices at positions along the middle axis. Whether all positions are inside. */
static int do_gather(const Gather *g, float *const *buffers)
{
    const char *from = place_of(buffers, g->from, g->size);
    char *to = place_of(buffers, g->to, g->size);
    const void *places = place_of(buffers, g->places, SIZES[g->kind]);
    const int64_t bytes = (int64_t)g->inner * g->size;
    for (int64_t i = 0; i < (int64_t)g->batch * g->count; i++) {
        const int64_t at = integer(places, g->kind, i);
        if (at < 0 || at >= g->limit)
            return 0;
    }
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t o = 0; o < g->outer; o++, from += g->limit * bytes)
            for (int64_t i = 0; i < g->count; i++, to += bytes) {
                const char *row = from + integer(places, g->kind, b * g->count + i) * bytes;
                if (bytes == 4)
                    memcpy(to, row, 4);
                else
                    memcpy(to, row, bytes);
            }
    return 1;
}

static void do_one_hot(const OneHot *h, float *const *buffers)
{
    const void *places = place_of(buffers, h->places, SIZES[h->kind]);
    const char *on = place_of(buffers, h->on, h->size), *off = place_of(buffers, h->off, h->size);
    char *to = place_of(buffers, h->to, h->size);
    for (int64_t i = 0; i < (int64_t)h->outer * h->depth * h->inner; i++)
        memcpy(to + i * h->size, off, h->size);
    for (int64_t o = 0; o < h->outer; o++)
        for (int64_t i = 0; i < h->inner; i++) {
            const int64_t at = integer(places, h->kind, o * h->inner + i);
            if (at >= 0 && at < h->depth)
                memcpy(to + ((o * h->depth + at) * h->inner + i) * h->size, on, h->size);
        }
}

/* Matrices with zeros, whose bits are 0 in all types, outside of a band. */
static void do_band(const Band *band, float *const *buffers)
{
    const int64_t width = (int64_t)band->columns * band->size;
    const char *from = place_of(buffers, band->from, band->size);
    char *to = place_of(buffers, band->to, band->size);
    for (int64_t m = 0; m < band->count; m++)
        for (int64_t r = 0; r < band->rows; r++, from += width, to += width) {
            const int64_t first = r > band->lower ? r - band->lower : 0, last = r + band->upper + 1;
            const int64_t begin = (first < band->columns ? first : band->columns) * band->size;
            const int64_t end = (last < band->columns ? last : band->columns) * band->size;
            memset(to, 0, begin);
            if (begin < end)
                memcpy(to + begin, from + begin, end - begin);
            memset(to + end, 0, width - end);
        }
}

#define RUNNING_OF(A, U)                                                      \
    {                                                                         \
        const A *from = place_of(buffers, r->from, sizeof(A));                \
        A *to = place_of(buffers, r->to, sizeof(A));                          \
        for (int o = 0; o < r->outer; o++, from += r->middle * r->inner, to += r->middle * r->inner) \
            for (int i = 0; i < r->inner; i++) {                              \
                U sum = 0;                                                    \
                for (int m = 0; m < r->middle; m++) {                         \
                    const int64_t at = (int64_t)(r->reverse ? r->middle - 1 - m : m) * r->inner + i; \
                    const U next = sum + (U)from[at];                         \
                    to[at] = (A)(r->exclusive ? sum : next);                  \
                    sum = next;                                               \
                }                                                             \
            }                                                                 \
        return;                                                               \
    }

static void do_running(const Running *r, float *const *buffers)
{
    switch (r->kind) {
    case FLOAT: RUNNING_OF(float, double)
    case DOUBLE: RUNNING_OF(double, double)
    case INT32: RUNNING_OF(int32_t, uint32_t)
    case INT64: RUNNING_OF(int64_t, uint64_t)
    }
}

#define SEGMENTS_OF(A, U)                                                     \
    {                                                                         \
        const A *from = place_of(buffers, s->from, sizeof(A));                \
        A *to = place_of(buffers, s->to, sizeof(A));                          \
        memset(to, 0, (size_t)s->limit * s->inner * sizeof(A));               \
        for (int64_t r = 0; r < s->rows; r++, from += s->inner) {             \
            const int64_t at = integer(places, s->place_kind, r);             \
            if (at >= s->limit)                                               \
                return 0;                                                     \
            for (int i = 0; i < s->inner && at >= 0; i++)                     \
                to[at * s->inner + i] = (A)((U)to[at * s->inner + i] + (U)from[i]); \
        }                                                                     \
        return 1;                                                             \
    }

/* The sums of rows by the places that go with them, of which negative ones are left out. Whether none is too large. */
static int do_segments(const Segments *s, float *const *buffers)
{
    const void *places = place_of(buffers, s->places, SIZES[s->place_kind]);
    switch (s->kind) {
    case FLOAT: SEGMENTS_OF(float, float)
    case DOUBLE: SEGMENTS_OF(double, double)
    case INT32: SEGMENTS_OF(int32_t, uint32_t)
    default: SEGMENTS_OF(int64_t, uint64_t)
    }
}

/* The lowest integer by -1 is itself, as arithmetic wraps around: processors trap on it. */
#define DIVIDE_OF(A, U)                                                       \
    {                                                                         \
        const A *first = place_of(buffers, d->from[0], sizeof(A)), *second = place_of(buffers, d->from[1], sizeof(A)); \
        A *to = place_of(buffers, d->to, sizeof(A));                          \
        for (int i = 0; i < n[0]; i++)                                        \
            for (int j = 0; j < n[1]; j++)                                    \
                for (int k = 0; k < n[2]; k++)                                \
                    for (int l = 0; l < n[3]; l++, to++) {                    \
                        const A a = first[i * s[0] + j * s[1] + k * s[2] + l * s[3]], b = second[i * t[0] + j * t[1] + k * t[2] + l * t[3]]; \
                        if (b == 0)                                           \
                            return 0;                                         \
                        const A q = b == -1 ? (A)(0 - (U)a) : a / b, left = b == -1 ? 0 : a % b; \
                        const int under = left != 0 && (left < 0) != (b < 0); \
                        *to = d->what == FLOOR_DIV ? q - under : d->what == TRUNCATE_DIV ? q : d->what == TRUNCATE_MOD ? left : left + (under ? b : 0); \
                    }                                                         \
        return 1;                                                             \
    }

/* Quotients and remainders of integers; whether no divisor is zero. */
static int do_divide(const Divide *d, float *const *buffers)
{
    const int32_t *n = d->dims, *s = d->strides[0], *t = d->strides[1];
    if (d->kind == INT32)
        DIVIDE_OF(int32_t, uint32_t)
    DIVIDE_OF(int64_t, uint64_t)
}
