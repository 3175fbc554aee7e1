/* Recurrent layers on vectors of LANES numbers: see _recurrent.c. It is included once for each kind of processor. */
#include "_lanes.h"

#define WIDE (2 * LANES)                  /* columns of a panel of weights */

INLINE Floats NAME(activated)(int kind, Floats x)
{
    switch (kind) {
    case TANH: return NAME(hyperbolic_tangent)(x);
    case SIGMOID: return NAME(sigmoid)(x);
    case RELU: return PICK((x > 0.f) | (x != x), x, (Floats){});
    case HARD_SIGMOID: {
        const Floats y = x * 0.2f + 0.5f;
        return PICK(y < 0.f, (Floats){}, PICK(y > 1.f, (Floats){} + 1.f, y));
    }
    default: return x;
    }
}

/* The derivative of an activation, from its result. */
INLINE Floats NAME(slope)(int kind, Floats y)
{
    switch (kind) {
    case TANH: return 1.f - y * y;
    case SIGMOID: return y * (1.f - y);
    case RELU: return PICK(y > 0.f, (Floats){} + 1.f, (Floats){});
    case HARD_SIGMOID: return PICK((y > 0.f) & (y < 1.f), (Floats){} + 0.2f, (Floats){});
    default: return (Floats){} + 1.f;
    }
}

/* Weights [depth, columns] (or their transpose, if the strides say so) as panels of WIDE columns, the last one filled with 0. */
TARGET static void NAME(pack)(const float *from, int64_t down, int64_t across, int64_t depth, int64_t columns, float *to)
{
    for (int64_t first = 0; first < columns; first += WIDE)
        for (int64_t k = 0; k < depth; k++)
            for (int64_t c = first; c < first + WIDE; c++)
                *to++ = c < columns ? from[k * down + c * across] : 0.f;
}

INLINE void NAME(tile)(const int rows, int64_t depth, const float *a, int64_t a_stride, const float *panel, const float *from,
                       int64_t from_stride, float *to, int64_t to_stride, int64_t columns)
{
    Floats left[ROWS], right[ROWS];
    const int64_t rest = columns > LANES ? columns - LANES : 0;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        left[r] = from == NULL ? (Floats){} : NAME(load)(from + r * from_stride, columns);
        right[r] = from == NULL || rest == 0 ? (Floats){} : NAME(load)(from + r * from_stride + LANES, rest);
    }
    for (int64_t k = 0; k < depth; k++, panel += WIDE) {
        const Floats w0 = *(const Unaligned *)panel, w1 = *(const Unaligned *)(panel + LANES);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const Floats x = (Floats){} + a[r * a_stride + k];
            left[r] += x * w0;
            right[r] += x * w1;
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        NAME(store)(to + r * to_stride, left[r], columns);
        if (rest > 0)
            NAME(store)(to + r * to_stride + LANES, right[r], rest);
    }
}

/* to = from + a * weights; `from` may be NULL (zeros), one row for all (stride 0), or `to` itself. */
TARGET static void NAME(product)(int64_t rows, int64_t depth, int64_t columns, const float *a, int64_t a_stride,
                                 const float *panels, const float *from, int64_t from_stride, float *to, int64_t to_stride)
{
    for (int64_t c = 0; c < columns; c += WIDE, panels += depth * WIDE)
        for (int64_t r = 0; r < rows; r += ROWS) {
            const float *x = a + r * a_stride, *f = from == NULL ? NULL : from + r * from_stride + c;
            float *into = to + r * to_stride + c;
#define TILE(count)                                                                                        \
    case count:                                                                                            \
        NAME(tile)(count, depth, x, a_stride, panels, f, from_stride, into, to_stride, columns - c);       \
        break;
            switch (rows - r < ROWS ? rows - r : ROWS) {
                TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) TILE(8)
            }
#undef TILE
        }
}

#define EACH_LANE(units) for (int64_t j = 0, left; left = (units) - j, j < (units); j += LANES)
#define LOAD(from) NAME(load)((from) + j, left)
#define STORE(to, value) NAME(store)((to) + j, value, left)

TARGET static void NAME(forward)(const void *given, int64_t number)
{
    const Layer *l = given;
    const int64_t units = l->units, wide = l->gates * units, first = number * l->rows;
    const int64_t rows = l->batch - first < l->rows ? l->batch - first : l->rows;
    const int64_t i_at = l->place[0] * units, c_at = l->place[1] * units, f_at = l->place[2] * units, o_at = l->place[3] * units;
    float *inner = l->room + first * wide;
    for (int64_t t = 0; t < l->steps; t++) {
        const int64_t at = t * l->batch + first;
        const float *x = l->x + at * wide;
        float *gates = l->kind == SIMPLE ? l->h + at * wide : l->gates_of + at * wide, *h = l->h + at * units;
        const float *before = t > 0 ? h - l->batch * units : l->h0 + first * units;
        const unsigned char *counts = l->mask == NULL ? NULL : l->mask + at;
        if (counts == NULL || memchr(counts, 1, rows) != NULL) {
            if (l->kind == GRU)
                NAME(product)(rows, units, wide, before, units, l->panels, l->bias, 0, inner, wide);
            else
                NAME(product)(rows, units, wide, before, units, l->panels, x, wide, gates, wide);
        }
        for (int64_t r = 0; r < rows; r++) {
            float *g = gates + r * wide, *new_h = h + r * units, *q = inner + r * wide;
            const float *old_h = before + r * units, *given_x = x + r * wide;
            float *c = l->kind == LSTM ? l->c + (at + r) * units : NULL, *extra = l->extra + (at + r) * units;
            const float *old_c = l->kind != LSTM ? NULL : t > 0 ? c - l->batch * units : l->c0 + (first + r) * units;
            if (counts != NULL && !counts[r]) {
                memcpy(new_h, old_h, units * sizeof(float));
                if (c != NULL) {
                    memcpy(c, old_c, units * sizeof(float));
                    EACH_LANE(units) STORE(extra, NAME(activated)(l->activation, LOAD(c)));
                }
                continue;
            }
            switch (l->kind) {
            case SIMPLE:
                EACH_LANE(units) STORE(new_h, NAME(activated)(l->activation, LOAD(new_h)));
                break;
            case LSTM:
                EACH_LANE(units) {
                    const Floats i = NAME(activated)(l->gate_activation, LOAD(g + i_at));
                    const Floats f = NAME(activated)(l->gate_activation, LOAD(g + f_at));
                    const Floats o = NAME(activated)(l->gate_activation, LOAD(g + o_at));
                    const Floats candidate = NAME(activated)(l->activation, LOAD(g + c_at));
                    Floats carry = i * candidate + f * LOAD(old_c);
                    if (l->clip > 0.f)
                        carry = NAME(clamp)(carry, l->clip);
                    const Floats out = NAME(activated)(l->activation, carry);
                    STORE(g + i_at, i), STORE(g + f_at, f), STORE(g + o_at, o), STORE(g + c_at, candidate);
                    STORE(c, carry), STORE(extra, out), STORE(new_h, o * out);
                }
                break;
            case GRU:
                EACH_LANE(units) {
                    const Floats z = NAME(activated)(l->gate_activation, LOAD(given_x) + LOAD(q));
                    const Floats reset = NAME(activated)(l->gate_activation, LOAD(given_x + units) + LOAD(q + units));
                    const Floats recurrent = LOAD(q + 2 * units);
                    const Floats candidate = NAME(activated)(l->activation, LOAD(given_x + 2 * units) + reset * recurrent);
                    STORE(g, z), STORE(g + units, reset), STORE(g + 2 * units, candidate), STORE(extra, recurrent);
                    STORE(new_h, candidate + z * (LOAD(old_h) - candidate));
                }
                break;
            }
        }
    }
}

/* Writes the gradients of the gates before activation to `x`, and those of the recurrent part of a GRU's candidate to `extra_grad`.
   `dh` and `dc` hold the gradients of the states, at the end those of the first ones. */
TARGET static void NAME(backward)(const void *given, int64_t number)
{
    const Layer *l = given;
    const int64_t units = l->units, wide = l->gates * units, first = number * l->rows;
    const int64_t rows = l->batch - first < l->rows ? l->batch - first : l->rows;
    const int64_t i_at = l->place[0] * units, c_at = l->place[1] * units, f_at = l->place[2] * units, o_at = l->place[3] * units;
    float *inner = l->room + first * wide, *all_dh = l->dh + first * units;
    for (int64_t t = l->steps - 1; t >= 0; t--) {
        const int64_t at = t * l->batch + first;
        const unsigned char *counts = l->mask == NULL ? NULL : l->mask + at;
        for (int64_t r = 0; r < rows; r++) {
            const int64_t row = at + r, earlier = row - l->batch;
            const float *g = l->gates_of + row * wide, *h = l->h + row * units, *more = l->h_grad + row * units;
            const float *old_h = t > 0 ? l->h + earlier * units : l->h0 + (first + r) * units;
            float *d = l->x + row * wide, *dh = all_dh + r * units, *q = inner + r * wide;
            if (counts != NULL && !counts[r]) {
                memset(d, 0, wide * sizeof(float));
                EACH_LANE(units) STORE(dh, LOAD(dh) + LOAD(more));
                if (l->kind == GRU) {
                    memset(q, 0, wide * sizeof(float));
                    memset(l->extra_grad + row * units, 0, units * sizeof(float));
                }
                if (l->c_grad != NULL)
                    EACH_LANE(units) STORE(l->dc + (first + r) * units,
                                           LOAD(l->dc + (first + r) * units) + LOAD(l->c_grad + row * units));
                continue;
            }
            switch (l->kind) {
            case SIMPLE:
                EACH_LANE(units) {
                    STORE(d, (LOAD(dh) + LOAD(more)) * NAME(slope)(l->activation, LOAD(h)));
                    STORE(dh, (Floats){});
                }
                break;
            case LSTM: {
                const float *old_c = t > 0 ? l->c + earlier * units : l->c0 + (first + r) * units;
                const float *out = l->extra + row * units;
                float *dc = l->dc + (first + r) * units;
                EACH_LANE(units) {
                    const Floats i = LOAD(g + i_at), f = LOAD(g + f_at), o = LOAD(g + o_at), candidate = LOAD(g + c_at);
                    const Floats co = LOAD(out), dy = LOAD(dh) + LOAD(more);
                    Floats carry = LOAD(dc) + dy * o * NAME(slope)(l->activation, co);
                    if (l->c_grad != NULL)
                        carry += LOAD(l->c_grad + row * units);
                    STORE(d + o_at, dy * co * NAME(slope)(l->gate_activation, o));
                    STORE(d + i_at, carry * candidate * NAME(slope)(l->gate_activation, i));
                    STORE(d + f_at, carry * LOAD(old_c) * NAME(slope)(l->gate_activation, f));
                    STORE(d + c_at, carry * i * NAME(slope)(l->activation, candidate));
                    STORE(dc, carry * f);
                    STORE(dh, (Floats){});
                }
                break;
            }
            case GRU: {
                const float *recurrent = l->extra + row * units;
                EACH_LANE(units) {
                    const Floats z = LOAD(g), reset = LOAD(g + units), candidate = LOAD(g + 2 * units);
                    const Floats dy = LOAD(dh) + LOAD(more);
                    const Floats dz = dy * (LOAD(old_h) - candidate) * NAME(slope)(l->gate_activation, z);
                    const Floats dcandidate = dy * (1.f - z) * NAME(slope)(l->activation, candidate);
                    const Floats dreset = dcandidate * LOAD(recurrent) * NAME(slope)(l->gate_activation, reset);
                    STORE(d, dz), STORE(d + units, dreset), STORE(d + 2 * units, dcandidate);
                    STORE(q, dz), STORE(q + units, dreset), STORE(q + 2 * units, dcandidate * reset);
                    STORE(l->extra_grad + row * units, dcandidate * reset);
                    STORE(dh, dy * z);
                }
                break;
            }
            }
        }
        if (counts == NULL || memchr(counts, 1, rows) != NULL)
            NAME(product)(rows, wide, units, l->kind == GRU ? inner : l->x + at * wide, wide, l->panels, all_dh, units, all_dh, units);
    }
}

#undef STORE
#undef LOAD
#undef EACH_LANE
#undef WIDE
#include "_lanes_end.h"
