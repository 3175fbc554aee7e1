/* Random numbers inside of regions (see _regions.h): the few that an op draws in each iteration of a loop. `philox.py` has the
   generator and the distributions, of which these are the same numbers, one counter at a time. */
typedef struct { uint64_t key, low, high; } Stretch;                         /* where a stream is; the layout of Stream.place */
typedef struct { Place to; int32_t what, kind, number, count; uint32_t least[2], range[2]; } Draw;
typedef struct { Draw draw; Place seed; int32_t seed_kind; } Seeded;          /* of the stream of a seed */
enum { UNIFORM, NORMAL, INTEGERS };

/* The beginning of the next `count` counters, which are taken. The interpreter's lock is held. */
static Stretch take(Stretch *place, uint64_t count)
{
    const Stretch here = *place;
    place->low += count;
    place->high += place->low < count;
    return here;
}

/* The four words of the counter `number` counters further on: ten rounds. */
static void make_words(const Stretch *here, uint64_t number, uint32_t words[4])
{
    const uint64_t low = here->low + number, high = here->high + (low < number);
    uint32_t a = (uint32_t)low, b = (uint32_t)(low >> 32), c = (uint32_t)high, d = (uint32_t)(high >> 32);
    uint32_t k0 = (uint32_t)here->key, k1 = (uint32_t)(here->key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
        const uint64_t p = (uint64_t)a * 0xD2511F53, q = (uint64_t)c * 0xCD9E8D57;
        a = (uint32_t)(q >> 32) ^ b ^ k0, b = (uint32_t)q;
        c = (uint32_t)(p >> 32) ^ d ^ k1, d = (uint32_t)p;
    }
    words[0] = a, words[1] = b, words[2] = c, words[3] = d;
}

/* A number in [0, 1) of 23 random bits. */
static float unit(uint32_t word)
{
    const union { uint32_t bits; float number; } made = {(word & 0x7fffff) | 0x3f800000};
    return made.number - 1.f;
}

static void draw_floats(int normal, const uint32_t words[4], float made[4])
{
    if (normal)
        for (int i = 0; i < 4; i += 2) {
            const float radius = sqrtf(-2.f * logf(fmaxf(unit(words[i]), 1e-7f)));
            const float angle = (float)(unit(words[i + 1]) * 6.283185307179586);
            made[i] = sinf(angle) * radius, made[i + 1] = cosf(angle) * radius;
        }
    else
        for (int i = 0; i < 4; i++)
            made[i] = unit(words[i]);
}

/* The stream of a pair of seeds, as stateless ops scramble them: `Philox.scrambled`. */
static Stretch seeded(const void *seed, int kind)
{
    uint64_t given[2];
    for (int i = 0; i < 2; i++)
        given[i] = (uint64_t)(kind == INT64 ? ((const int64_t *)seed)[i] : (int64_t)((const int32_t *)seed)[i]);
    const Stretch mixer = {0x02461E293EC8F720, given[0], given[1]};
    uint32_t words[4];
    make_words(&mixer, 0, words);
    return (Stretch){words[0] | (uint64_t)words[1] << 32, 0, words[2] | (uint64_t)words[3] << 32};
}

/* Integers of the words of one counter: the remainders by `range` from `least` on; all bits, if the range is 0. */
static void draw_integers(const Draw *draw, const uint32_t words[4], void *made)
{
    const uint64_t least = draw->least[0] | (uint64_t)draw->least[1] << 32, range = draw->range[0] | (uint64_t)draw->range[1] << 32;
    if (range == 0)
        memcpy(made, words, 16);
    else if (draw->kind == INT64)
        for (int k = 0; k < 2; k++)
            ((uint64_t *)made)[k] = (words[2 * k] | (uint64_t)words[2 * k + 1] << 32) % range + least;
    else
        for (int k = 0; k < 4; k++)
            ((uint32_t *)made)[k] = (uint32_t)(words[k] % range + least);
}

static void do_draw(const Draw *draw, float *const *buffers, const Stretch *here)
{
    const int group = draw->kind == INT64 ? 2 : 4, size = draw->kind == INT64 ? 8 : 4;
    char *to = place_of(buffers, draw->to, size);
    uint32_t words[4];
    for (int i = 0; i < draw->count; i += group) {
        union { float floats[4]; uint64_t integers[2]; } made;
        make_words(here, i / group, words);
        if (draw->what == INTEGERS)
            draw_integers(draw, words, &made);
        else
            draw_floats(draw->what == NORMAL, words, made.floats);
        memcpy(to + i * size, &made, (draw->count - i < group ? draw->count - i : group) * size);
    }
}

static void do_seeded(const Seeded *seeds, float *const *buffers)
{
    const Stretch here = seeded(place_of(buffers, seeds->seed, seeds->seed_kind == INT64 ? 8 : 4), seeds->seed_kind);
    do_draw(&seeds->draw, buffers, &here);
}
