/* Products of matrices on vectors of LANES numbers: see _matrices.c. It is included once for each kind of processor. */
#include "_lanes.h"

#define WIDE (2 * LANES)                  /* columns of a panel of the second matrix */
#define HIGH (LANES == 16 ? 12 : 6)       /* rows of a tile, so that it fits into registers */
enum { NAME(width) = WIDE };

/* A panel of WIDE columns of some rows of the second matrix, filled with 0. */
TARGET static void NAME(pack_panel)(const Product *p, const float *from, int64_t depth, int64_t count, float *to)
{
    if (p->right_across == 1) {
        for (int64_t k = 0; k < depth; k++, to += WIDE, from += p->right_down) {
            *(Unaligned *)to = NAME(load)(from, count);
            *(Unaligned *)(to + LANES) = count > LANES ? NAME(load)(from + LANES, count - LANES) : (Floats){};
        }
        return;
    }
    for (int64_t k = 0; k < depth; k += LANES) {        /* as many as a line of the cache has */
        const int64_t some = depth - k < LANES ? depth - k : LANES;
        const float *b = from + k * p->right_down;
        for (int64_t c = 0; c < WIDE; c++, b += p->right_across)
            for (int64_t i = 0; i < some; i++)
                to[(k + i) * WIDE + c] = c < count ? b[i * p->right_down] : 0.f;
    }
}

/* Some rows of the second matrix as panels of WIDE columns. */
TARGET static void NAME(pack_right)(const Product *p, const float *from, int64_t depth, float *to)
{
    for (int64_t first = 0; first < p->columns; first += WIDE, to += depth * WIDE)
        NAME(pack_panel)(p, from + first * p->right_across, depth, p->columns - first < WIDE ? p->columns - first : WIDE, to);
}

/* Rows of the first matrix as panels of HIGH rows; what fills the last one is not used. `readable`: rows from there on. Writes up
   to LANES numbers too many. */
TARGET static void NAME(pack_left)(const Product *p, const float *from, int64_t rows, int64_t readable, int64_t depth, float *to)
{
    for (int64_t first = 0; first < rows; first += HIGH) {
        const float *a = from + first * p->left_down;
        if (p->left_down == 1 && LANES >= HIGH)
            for (int64_t k = 0; k < depth; k++, to += HIGH)
                *(Unaligned *)to = NAME(load)(a + k * p->left_across, readable - first);
        else
            for (int64_t k = 0; k < depth; k++, to += HIGH)
                for (int64_t r = 0; r < HIGH; r++)
                    to[r] = r < rows - first ? a[r * p->left_down + k * p->left_across] : 0.f;
    }
}

/* A tile of the result: the old one (`from`; NULL is zeros, stride 0 the same row for all) and alpha times a product. */
INLINE void NAME(tile)(const int rows, int64_t depth, const float *a, int64_t down, int64_t across, const float *panel, float alpha,
                       const float *from, int64_t from_stride, float *to, int64_t to_stride, int64_t columns)
{
    Floats left[HIGH], right[HIGH];
    const int64_t rest = columns > LANES ? columns - LANES : 0;
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        left[r] = right[r] = (Floats){};
    for (int64_t k = 0; k < depth; k++, panel += WIDE) {
        const Floats w0 = *(const Unaligned *)panel, w1 = *(const Unaligned *)(panel + LANES);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            const Floats x = (Floats){} + a[r * down + k * across];
            left[r] += x * w0;
            right[r] += x * w1;
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        const float *before = from == NULL ? NULL : from + r * from_stride;
        left[r] *= alpha;
        NAME(store)(to + r * to_stride, before == NULL ? left[r] : left[r] + NAME(load)(before, columns), columns);
        if (rest > 0) {
            right[r] *= alpha;
            NAME(store)(to + r * to_stride + LANES,
                        before == NULL ? right[r] : right[r] + NAME(load)(before + LANES, rest), rest);
        }
    }
}

/* A tile of fewer rows than HIGH, of which there is one at most in a column of tiles. */
TARGET static void NAME(last_tile)(int rows, int64_t depth, const float *a, int64_t down, int64_t across, const float *panel,
                                   float alpha, const float *from, int64_t from_stride, float *to, int64_t to_stride,
                                   int64_t columns)
{
    switch (rows) {
#define TILE(count)                                                                                                         \
    case count:                                                                                                             \
        NAME(tile)(count, depth, a, down, across, panel, alpha, from, from_stride, to, to_stride, columns);                  \
        break;
        TILE(1) TILE(2) TILE(3) TILE(4) TILE(5)
#if LANES == 16
        TILE(6) TILE(7) TILE(8) TILE(9) TILE(10) TILE(11)
#endif
#undef TILE
    }
}

/* Some rows of a product, of a slice of its inner axis. `left`: room for the rows, if they have to be packed. */
TARGET static void NAME(multiply)(const Product *p, const float *a, const float *panels, int64_t rows, int64_t readable,
                                  int64_t depth, float *left, const float *from, int64_t from_stride, float *to)
{
    const int direct = p->left_across == 1;
    if (!direct)
        NAME(pack_left)(p, a, rows, readable, depth, left);
    for (int64_t c = 0; c < p->columns; c += WIDE, panels += depth * WIDE)
        for (int64_t r = 0; r < rows; r += HIGH) {
            const float *before = from == NULL ? NULL : from + r * from_stride + c;
            const float *x = direct ? a + r * p->left_down : left + r * depth;
            float *into = to + r * p->out_down + c;
            const int64_t some = rows - r < HIGH ? rows - r : HIGH;
            if (some < HIGH)
                NAME(last_tile)(some, depth, x, direct ? p->left_down : 1, direct ? 1 : HIGH, panels, p->alpha, before, from_stride,
                                into, p->out_down, p->columns - c);
            else if (direct)
                NAME(tile)(HIGH, depth, x, p->left_down, 1, panels, p->alpha, before, from_stride, into, p->out_down, p->columns - c);
            else
                NAME(tile)(HIGH, depth, x, 1, HIGH, panels, p->alpha, before, from_stride, into, p->out_down, p->columns - c);
        }
}

/* The panel `number` of the second matrix, which has slices of DEPTH rows. */
TARGET static void NAME(pack)(const void *given, int64_t number)
{
    const Product *p = given;
    const int64_t panels = (p->columns + WIDE - 1) / WIDE, first = number % panels * WIDE, slice = number / panels * DEPTH;
    const int64_t depth = p->inner - slice < DEPTH ? p->inner - slice : DEPTH;
    NAME(pack_panel)(p, p->b + slice * p->right_down + first * p->right_across, depth,
                     p->columns - first < WIDE ? p->columns - first : WIDE, p->panels + slice * panels * WIDE + first * depth);
}

/* The item `number` of a job: some rows of one product of the batch. */
TARGET static void NAME(some_rows)(const void *given, int64_t number)
{
    const Product *p = given;
    const int64_t blocks = (p->rows + p->block - 1) / p->block, batch = number / blocks, first = number % blocks * p->block;
    const int64_t rows = p->rows - first < p->block ? p->rows - first : p->block;
    const int64_t wide = (p->columns + WIDE - 1) / WIDE * WIDE;
    const int64_t deepest = p->inner < DEPTH ? p->inner : DEPTH;
    const int64_t left = p->left_across == 1 ? 0 : (rows + HIGH - 1) / HIGH * HIGH * deepest + LANES;
    const int64_t right = p->panels == NULL ? wide * deepest : 0;
    float *room = left + right == 0 ? NULL : malloc((left + right) * sizeof(float));
    if (left + right > 0 && room == NULL) {
        __atomic_store_n(p->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    const float *a = p->a + batch * p->left_batch + first * p->left_down, *b = p->b + batch * p->right_batch;
    float *to = p->out + (batch * p->rows + first) * p->out_down;
    for (int64_t k = 0; k < p->inner; k += DEPTH) {
        const int64_t depth = p->inner - k < DEPTH ? p->inner - k : DEPTH;
        const float *panels = p->panels == NULL ? room + left : p->panels + k * wide;
        if (p->panels == NULL)
            NAME(pack_right)(p, b + k * p->right_down, depth, room + left);
        NAME(multiply)(p, a + k * p->left_across, panels, rows, p->rows - first, depth, room, k > 0 || p->adds ? to : p->bias,
                       k > 0 || p->adds ? p->out_down : 0, to);
    }
    free(room);
}

#undef HIGH
#undef WIDE
#include "_lanes_end.h"
