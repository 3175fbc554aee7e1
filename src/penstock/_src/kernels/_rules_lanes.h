/* The rules of _rules.h, for one kind of processor: TARGET says what it can do, NAME what its functions are called. The
   compiler makes vectors of the loops. Each rule has two forms: for a gradient g, whose square is q, and for rows that have none,
   where both are 0. */
#define LOOP(rule, slots, G, Q, ...)                                                                           \
    for (int64_t i = 0; i < count; i++) {                                                                      \
        float v = var[i], a = slots > 0 ? s0[i] : 0.f, b = slots > 1 ? s1[i] : 0.f, c = slots > 2 ? s2[i] : 0.f; \
        const float g = G, q = Q;                                                                              \
        (void)a, (void)b, (void)c, (void)g, (void)q;                                                           \
        __VA_ARGS__;                                                                                           \
        var[i] = v;                                                                                            \
        if (slots > 0) s0[i] = a;                                                                              \
        if (slots > 1) s1[i] = b;                                                                              \
        if (slots > 2) s2[i] = c;                                                                              \
    }
#define WRITE(rule, slots, still, ...)                                                                         \
    TARGET static void NAME(rule)(int64_t count, const float *n, float *restrict var, float *restrict s0,      \
                                  float *restrict s1, float *restrict s2, const float *restrict grad)          \
    {                                                                                                          \
        const float n0 = n[0], n1 = n[1], n2 = n[2], n3 = n[3], n4 = n[4], n5 = n[5], n6 = n[6];               \
        (void)n0, (void)n1, (void)n2, (void)n3, (void)n4, (void)n5, (void)n6;                                  \
        if (grad == NULL)                                                                                      \
            LOOP(rule, slots, 0.f, 0.f, __VA_ARGS__)                                                           \
        else                                                                                                   \
            LOOP(rule, slots, grad[i], g * g, __VA_ARGS__)                                                     \
    }
RULES(WRITE)
#define ENTRY(rule, slots, still, ...) NAME(rule),
static const Rule NAME(rules)[] = {RULES(ENTRY)};

TARGET static void NAME(add_row)(int64_t count, float *restrict sum, const float *restrict row)
{
    for (int64_t i = 0; i < count; i++)
        sum[i] += row[i];
}
#undef LOOP
#undef WRITE
#undef ENTRY
#undef NAME
#undef TARGET
