/* The rules of _rules.h, for one type of elements and one kind of processor: TARGET says what it can do, NAME what its functions are called. The
   compiler makes vectors of the loops. Each rule has two forms: for a gradient g, whose square is q, and for rows that have none,
   where both are 0. */
#define LOOP(rule, slots, G, Q, ...)                                                                           \
    for (int64_t i = 0; i < count; i++) {                                                                      \
        REAL v = var[i], a = slots > 0 ? s0[i] : 0.f, b = slots > 1 ? s1[i] : 0.f, c = slots > 2 ? s2[i] : 0.f; \
        const REAL g = G, q = Q;                                                                               \
        (void)a, (void)b, (void)c, (void)g, (void)q;                                                           \
        __VA_ARGS__;                                                                                           \
        var[i] = v;                                                                                            \
        if (slots > 0) s0[i] = a;                                                                              \
        if (slots > 1) s1[i] = b;                                                                              \
        if (slots > 2) s2[i] = c;                                                                              \
    }
#define WRITE(rule, slots, still, ...)                                                                         \
    TARGET static void NAME(rule)(int64_t count, const double *n, void *given, void *slot0, void *slot1,       \
                                  void *slot2, const void *gradient)                                           \
    {                                                                                                          \
        REAL *restrict var = given, *restrict s0 = slot0, *restrict s1 = slot1, *restrict s2 = slot2;          \
        const REAL *restrict grad = gradient, n0 = (REAL)n[0], n1 = (REAL)n[1], n2 = (REAL)n[2],               \
                   n3 = (REAL)n[3], n4 = (REAL)n[4], n5 = (REAL)n[5], n6 = (REAL)n[6], n7 = (REAL)n[7];        \
        (void)s0, (void)s1, (void)s2, (void)n0, (void)n1, (void)n2, (void)n3, (void)n4, (void)n5, (void)n6, (void)n7; \
        if (grad == NULL)                                                                                      \
            LOOP(rule, slots, 0.f, 0.f, __VA_ARGS__)                                                           \
        else                                                                                                   \
            LOOP(rule, slots, grad[i], g * g, __VA_ARGS__)                                                     \
    }
RULES(WRITE)
#define ENTRY(rule, slots, still, ...) NAME(rule),
static const Rule NAME(rules)[] = {RULES(ENTRY)};

TARGET static void NAME(add_row)(int64_t count, void *restrict total, const void *restrict added)
{
    REAL *restrict sum = total;
    const REAL *restrict row = added;
    for (int64_t i = 0; i < count; i++)
        sum[i] += row[i];
}
#undef LOOP
#undef WRITE
#undef ENTRY
#undef NAME
#undef TARGET
