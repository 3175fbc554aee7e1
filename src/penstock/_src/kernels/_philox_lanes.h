/* The words of _philox.c for 2 * LANES counters at a time. It is included once for each kind of processor; PRODUCT multiplies the
   lower halves of lanes. */
#define Lanes NAME(Lanes)
typedef uint64_t Lanes __attribute__((vector_size(8 * LANES)));

/* The words of the counters from `first` on, in their order. Two vectors take turns: a product takes several cycles. */
TARGET static inline void NAME(make_words)(const Job *job, uint64_t first, uint64_t pairs[4 * LANES])
{
    const Lanes mul_a = (Lanes){} + 0xD2511F53, mul_b = (Lanes){} + 0xCD9E8D57;
    uint32_t k0 = (uint32_t)job->key, k1 = (uint32_t)(job->key >> 32);
    Lanes a[2], b[2], c[2], d[2], step = {};
    for (int i = 0; i < LANES; i++)
        step[i] = i;
    for (int v = 0; v < 2; v++) {
        a[v] = step + (job->low + first + v * LANES);
        c[v] = job->high - (Lanes)(a[v] < job->low);       /* a comparison is -1 where it holds: the carry */
        b[v] = a[v] >> 32, d[v] = c[v] >> 32;
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9, k1 += 0xBB67AE85)
        for (int v = 0; v < 2; v++) {
            const Lanes p = PRODUCT(a[v], mul_a), q = PRODUCT(c[v], mul_b);
            a[v] = (q >> 32) ^ b[v] ^ k0, b[v] = q;
            c[v] = (p >> 32) ^ d[v] ^ k1, d[v] = p;
        }
    for (int v = 0; v < 2; v++) {
        const Lanes ab = (a[v] & 0xffffffff) | b[v] << 32, cd = (c[v] & 0xffffffff) | d[v] << 32;
        for (int i = 0; i < LANES; i++)
            pairs[2 * (v * LANES + i)] = ab[i], pairs[2 * (v * LANES + i) + 1] = cd[i];
    }
}

TARGET static void NAME(do_block)(const void *given, int64_t number)
{
    enum { WORDS = 8 * LANES };
    const Job *job = given;
    for (int64_t at = number * BLOCK; at < (number + 1) * BLOCK && 4 * at < job->count; at += 2 * LANES) {
        union { uint64_t pairs[4 * LANES]; uint32_t words[WORDS]; float units[WORDS]; } made;
        NAME(make_words)(job, (uint64_t)at, made.pairs);
        const int64_t left = job->count - 4 * at, count = left < WORDS ? left : WORDS;
        if (job->floats) {
            for (int i = 0; i < WORDS; i++) {
                made.words[i] = (made.words[i] & 0x7fffff) | 0x3f800000;
                made.units[i] -= 1.f;
            }
            memcpy((float *)job->to + 4 * at, made.units, count * sizeof(float));
        } else {
            uint64_t *to = (uint64_t *)job->to + 4 * at;
            for (int64_t i = 0; i < count; i++)
                to[i] = made.words[i];
        }
    }
}

#undef Lanes
#undef LANES
#undef NAME
#undef TARGET
#undef PRODUCT
