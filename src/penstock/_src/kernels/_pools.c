/* Pooling of float32 images whose channels lie side by side ([batch, depth, height, width, channels]), on the CPU: the maxima or
   the means of windows, and the gradients.

   This is an accelerator: `pools.py` checks shapes and layouts, hands over addresses, and without this file ATen does the work.
   ATen's kernels keep the place of a maximum in eight bytes and spread gradients one number at a time; here a place is one byte
   (its number in the window, row by row). A row of results is made in two passes: first down the rows of the images, whose pixels
   and channels are all alike, then across. Gradients are gathered for each row of the images, which is written once. A ReLU after
   a maximum and the sums that are a bias's gradient are done in the same passes.

   No interpreter's lock is held. */
#include "_threads.h"
#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define FAST __attribute__((target("avx2,fma")))
enum { BYTES = 32 };
#else
#define FAST
enum { BYTES = 16 };
#endif
#define INLINE static inline __attribute__((always_inline)) FAST

enum { LANES = BYTES / 4, ROOM = 4096 };                     /* ROOM: numbers of a part of a row, which stay in the first cache */
enum { NOWHERE = 255, OUTSIDE = 1 << 20 };                   /* places: of a maximum that a ReLU made zero, and of padding */
typedef enum { MAXIMA, PLACES, MEANS } Kind;
typedef float Floats __attribute__((vector_size(BYTES)));
typedef float Unaligned __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(BYTES)));
typedef int32_t UnalignedInts __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef uint8_t Bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
#define PICK(mask, yes, no) ((__typeof__(yes))(((mask) & (Ints)(yes)) | (~(mask) & (Ints)(no))))

typedef struct {
    const float *in;                      /* the images; for a gradient, that of the result */
    float *out;                           /* the result; for a gradient, that of the images */
    uint8_t *places;
    float *sums;                          /* of the gradient, for each row of windows; or NULL */
    int64_t batch, channels;
    int64_t size[3], count[3], window[3], step[3], before[3];      /* down, along and across; count: of windows */
    int relu;
} Pool;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The part of a window that lies inside: offsets from its first element. */
typedef struct { int64_t start, from, to; } Reach;

static Reach reach(const Pool *p, int axis, int64_t index)
{
    const int64_t start = index * p->step[axis] - p->before[axis];
    return (Reach){start, most(0, -start), least(p->window[axis], p->size[axis] - start)};
}

static int64_t extent(Reach r) { return r.to - r.from; }

/* -- vectors of up to LANES numbers --------------------------------------------------------------------------------- */
/* Where the vector after the one at e begins, in n numbers; the last one may repeat some of them. */
INLINE int64_t after(int64_t e, int64_t n)
{
    return e + LANES >= n ? n : least(e + LANES, most(n - LANES, 0));
}

INLINE Floats load(const float *from, int64_t n)
{
    Floats x = {};
    if (n >= LANES)
        return *(const Unaligned *)from;
    for (int64_t lane = 0; lane < n; lane++)
        x[lane] = from[lane];
    return x;
}

INLINE void store(float *to, Floats x, int64_t n)
{
    if (n >= LANES)
        *(Unaligned *)to = x;
    else
        for (int64_t lane = 0; lane < n; lane++)
            to[lane] = x[lane];
}

/* Bytes as integers, and back: compilers of vectors of different sizes may do it one by one. */
INLINE Ints widen(const uint8_t *from)
{
#if defined(__x86_64__)
    return (Ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
#else
    return __builtin_convertvector(*(const Bytes *)from, Ints);
#endif
}

INLINE void narrow(uint8_t *to, Ints x)
{
#if defined(__x86_64__)
    const __m128i both = _mm_packus_epi32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
    _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(both, both));
#else
    *(Bytes *)to = __builtin_convertvector(x, Bytes);
#endif
}

INLINE Ints load_places(const uint8_t *from, int64_t n)
{
    Ints x = {};
    if (n >= LANES)
        return widen(from);
    for (int64_t lane = 0; lane < n; lane++)
        x[lane] = from[lane];
    return x;
}

INLINE void store_places(uint8_t *to, Ints places, int64_t n)
{
    if (n >= LANES)
        narrow(to, places);
    else
        for (int64_t lane = 0; lane < n; lane++)
            to[lane] = (uint8_t)places[lane];
}

INLINE int any(Ints mask)
{
    int32_t found = 0;
    for (int lane = 0; lane < LANES; lane++)
        found |= mask[lane];
    return found != 0;
}

/* -- a row of results ----------------------------------------------------------------------------------------------- */
/* A part of a row of results: some of its columns and channels, and the pixels that their windows cover. */
typedef struct {
    const float *rows[NOWHERE];           /* of the images, from the first pixel that lies inside, in the first channel */
    int32_t places[NOWHERE];              /* of the first element of each of them in its window */
    int64_t lines;                        /* how many rows there are */
    int64_t column, columns, channel, channels;
    int64_t pixels, left, right;          /* pixels of the windows, and how many of them are padding */
    int whole;                            /* all channels are in this part, so its pixels follow each other */
    float values[ROOM + LANES];
    int32_t at[ROOM + LANES];
} Part;

/* Joins up to LANES numbers of the rows, at an offset in each, into one row; what is a NaN is marked, if numbers are compared. */
INLINE void join(Part *t, int64_t offset, int64_t to, int64_t n, Ints *nan, Kind kind)
{
    Floats best = load(t->rows[0] + offset, n);
    Ints place = (Ints){} + t->places[0], odd = best != best;
    for (int64_t line = 1; line < t->lines; line++) {
        const Floats x = load(t->rows[line] + offset, n);
        if (kind == MEANS) {
            best += x;
            continue;
        }
        const Ints larger = x > best;
        best = PICK(larger, x, best);
        odd |= x != x;
        if (kind == PLACES)
            place = PICK(larger, (Ints){} + t->places[line], place);
    }
    *(Unaligned *)(t->values + to) = best;               /* a short one goes beyond its end, which is written later */
    if (kind == PLACES)
        *(UnalignedInts *)(t->at + to) = place;
    if (kind != MEANS)
        *nan |= odd;
}

/* Joins the rows of the windows into one. Says whether there is a NaN among numbers to compare. */
INLINE int go_down(const Pool *p, Part *t, Kind kind)
{
    const int64_t inside = t->pixels - t->left - t->right, runs = t->whole ? 1 : inside;
    const int64_t n = t->whole ? inside * t->channels : t->channels;
    Ints nan = {};
    for (int64_t run = 0; run < runs; run++) {
        const int64_t from = run * p->channels, to = (t->left + run) * t->channels;
        if (n < LANES)
            join(t, from, to, n, &nan, kind);
        else
            for (int64_t e = 0; e < n; e = after(e, n))
                join(t, from + e, to + e, LANES, &nan, kind);
    }
    return any(nan);
}

INLINE void fill(Part *t, int64_t pixel, int64_t pixels, Kind kind)
{
    for (int64_t e = pixel * t->channels; e < (pixel + pixels) * t->channels; e++) {
        t->values[e] = kind == MEANS ? 0 : -INFINITY;
        t->at[e] = OUTSIDE;
    }
}

/* The results of n numbers side by side, from the values of the joined row that begin at `first`. */
INLINE void go_across(const Pool *p, const Part *t, int64_t first, int64_t n, float *out, uint8_t *places, float cover, Kind kind)
{
    const int64_t window = p->window[2];
    for (int64_t e = 0; e < n; e = after(e, n)) {
        Floats best = *(const Unaligned *)(t->values + first + e);
        Ints place = {};
        if (kind == PLACES)
            place = *(const UnalignedInts *)(t->at + first + e);
        for (int64_t j = 1; j < window; j++) {
            const int64_t other = first + e + j * t->channels;
            const Floats x = *(const Unaligned *)(t->values + other);
            if (kind == MEANS) {
                best += x;
            } else if (kind == MAXIMA) {
                best = PICK(x > best, x, best);
            } else {                                     /* of equal ones the first, row by row */
                const Ints here = *(const UnalignedInts *)(t->at + other) + (int32_t)j;
                const Ints larger = (x > best) | ((x == best) & (here < place));
                best = PICK(larger, x, best);
                place = PICK(larger, here, place);
            }
        }
        if (kind == MEANS) {
            best /= cover;
        } else if (p->relu) {
            const Ints not = best <= 0;
            best = PICK(not, (Floats){}, best);
            place |= not & NOWHERE;
        }
        store(out + e, best, n);
        if (kind == PLACES)
            store_places(places + e, place, n);
    }
}

/* The maximum of one window in one channel. NaN is a maximum, but has a place only as the first element. */
static void max_one(const Pool *p, const float *image, Reach d, Reach h, Reach w, float *out, uint8_t *places)
{
    const int64_t line = p->size[2] * p->channels;
    float best = 0;
    int64_t place = -1;
    int nan = 0;
    for (int64_t i = d.from; i < d.to; i++)
        for (int64_t k = h.from; k < h.to; k++)
            for (int64_t j = w.from; j < w.to; j++) {
                const float x = image[((d.start + i) * p->size[1] + h.start + k) * line + (w.start + j) * p->channels];
                if (place < 0 || x > best) {
                    best = x;
                    place = (i * p->window[1] + k) * p->window[2] + j;
                }
                nan |= x != x;
            }
    best = nan ? NAN : best;
    const int not = p->relu && best <= 0;
    *out = not ? 0 : best;
    if (places != NULL)
        *places = (uint8_t)(not ? NOWHERE : place);
}

/* One part of a row of results, which begins at `row`. */
INLINE void pool_part(const Pool *p, const float *image, int64_t row, Reach d, Reach h, Part *t, Kind kind)
{
    const Reach begin = reach(p, 2, t->column), last = reach(p, 2, t->column + t->columns - 1);
    t->pixels = last.start + p->window[2] - begin.start;
    t->left = most(0, -begin.start);
    t->right = most(0, last.start + p->window[2] - p->size[2]);
    t->lines = 0;
    for (int64_t i = d.from; i < d.to; i++)
        for (int64_t k = h.from; k < h.to; k++) {
            const int64_t line = ((d.start + i) * p->size[1] + h.start + k) * p->size[2] + begin.start + t->left;
            t->rows[t->lines] = image + line * p->channels + t->channel;
            t->places[t->lines++] = (int32_t)((i * p->window[1] + k) * p->window[2]);
        }
    const int nan = go_down(p, t, kind);
    fill(t, 0, t->left, kind);
    fill(t, t->pixels - t->right, t->right, kind);
    const int64_t lines = extent(d) * extent(h), side_by_side = t->whole && p->step[2] == 1;
    for (int64_t column = 0, many; column < t->columns; column += many) {
        const Reach w = reach(p, 2, t->column + column);
        const int64_t at = row + (t->column + column) * p->channels + t->channel;
        uint8_t *places = kind == PLACES ? p->places + at : NULL;
        many = 1;
        if (nan) {
            for (int64_t c = 0; c < t->channels; c++)
                max_one(p, image + t->channel + c, d, h, w, p->out + at + c, places ? places + c : NULL);
            continue;
        }
        if (side_by_side && kind != MEANS)
            many = t->columns;
        else if (side_by_side && extent(w) == p->window[2])              /* up to the last window that lies inside */
            many = least(t->columns - column, p->size[2] - p->window[2] - w.start + 1);
        go_across(p, t, column * p->step[2] * t->channels, many * t->channels, p->out + at, places,
                  (float)(lines * extent(w)), kind);
    }
}

INLINE void pool_row(const Pool *p, int64_t number, Kind kind)
{
    Part t;
    const Reach h = reach(p, 1, number % p->count[1]), d = reach(p, 0, number / p->count[1] % p->count[0]);
    const float *image = p->in + number / p->count[1] / p->count[0] * p->size[0] * p->size[1] * p->size[2] * p->channels;
    const int64_t channels = least(p->channels, ROOM / p->window[2]);
    const int64_t columns = (ROOM / channels - p->window[2]) / p->step[2] + 1;
    t.whole = channels == p->channels;
    for (t.channel = 0; t.channel < p->channels; t.channel += channels)
        for (t.column = 0; t.column < p->count[2]; t.column += columns) {
            t.channels = least(channels, p->channels - t.channel);
            t.columns = least(columns, p->count[2] - t.column);
            pool_part(p, image, number * p->count[2] * p->channels, d, h, &t, kind);
        }
}

FAST static void maxima_row(const void *job, int64_t number) { pool_row(job, number, MAXIMA); }
FAST static void places_row(const void *job, int64_t number) { pool_row(job, number, PLACES); }
FAST static void means_row(const void *job, int64_t number) { pool_row(job, number, MEANS); }

/* -- a row of a gradient -------------------------------------------------------------------------------------------- */
/* A row of windows that cover a row of the images. */
typedef struct {
    int64_t windows;                      /* the number of the first one */
    int64_t place;                        /* of the row's first element in them */
    int64_t cover;                        /* rows of the images that they cover */
} Line;

/* Windows that cover a pixel: in each of some lines, those from `first` up to `last`. */
typedef struct {
    Line lines[NOWHERE];
    int64_t count, first, last;
    int64_t place;                        /* of the pixel in the row of the last window; one step more in the one before it */
    float weights[NOWHERE];               /* of means: one part in as many as each of the windows covers */
    int64_t weighed;                      /* how many windows of a line the weights are for, all inside; or 0 */
} Around;

/* The gradient of up to LANES numbers, from channel e of the pixel on. */
INLINE void gather_some(const Pool *p, const Around *a, int64_t e, int64_t n, float *out, Kind kind)
{
    const float *weight = a->weights;
    Floats sum = {};
    for (int64_t line = 0; line < a->count; line++) {
        int32_t place = (int32_t)(a->lines[line].place + a->place + (a->last - a->first) * p->step[2]);
        const int64_t at = (a->lines[line].windows + a->first) * p->channels + e;
        for (int64_t window = 0; window <= a->last - a->first; window++, place -= (int32_t)p->step[2]) {
            const Floats grad = load(p->in + at + window * p->channels, n);
            if (kind == MEANS)
                sum += grad * *weight++;
            else
                sum += PICK(load_places(p->places + at + window * p->channels, n) == place, grad, (Floats){});
        }
    }
    store(out + e, sum, n);
}

static int64_t windows_of(const Pool *p) { return p->batch * p->count[0] * p->count[1] * p->count[2]; }

/* The gradient of n numbers, of `room` up to the end of the row: what a short vector writes too much is written again later. */
INLINE void gather(const Pool *p, const Around *a, int64_t n, int64_t room, float *out, Kind kind)
{
    const int64_t end = a->count ? (a->lines[a->count - 1].windows + a->last) * p->channels + LANES : 0;
    if (n < LANES && room >= LANES && end <= windows_of(p) * p->channels)
        gather_some(p, a, 0, LANES, out, kind);
    else if (n < LANES)
        gather_some(p, a, 0, n, out, kind);
    else
        for (int64_t e = 0; e < n; e = after(e, n))
            gather_some(p, a, e, LANES, out, kind);
}

static void weigh(const Pool *p, Around *a)
{
    const int64_t many = a->last - a->first + 1, end = a->last * p->step[2] - p->before[2] + p->window[2];
    const int inside = many > 0 && a->first * p->step[2] >= p->before[2] && end <= p->size[2];
    float *weight = a->weights;
    if (inside && many == a->weighed)
        return;
    a->weighed = inside ? many : 0;
    for (int64_t line = 0; line < a->count; line++)
        for (int64_t window = a->first; window <= a->last; window++)
            *weight++ = 1 / (float)(a->lines[line].cover * extent(reach(p, 2, window)));
}

/* The sum of the gradients of a row of windows in each channel, without those that a ReLU keeps back. */
INLINE void add_up(const Pool *p, int64_t windows)
{
    float *sums = p->sums + windows / p->count[2] * p->channels;
    for (int64_t c = 0; c < p->channels; c += LANES) {
        const int64_t n = least(LANES, p->channels - c), end = (windows + p->count[2]) * p->channels;
        const int64_t read = end + LANES <= windows_of(p) * p->channels ? LANES : n;
        Floats sum = {};
        for (int64_t at = windows * p->channels + c; at < end; at += p->channels)
            sum += PICK(load_places(p->places + at, read) == NOWHERE, (Floats){}, load(p->in + at, read));
        store(sums + c, sum, n);
    }
}

/* The first window of an axis that covers an index, and the last; there may be none. */
static int64_t first_over(const Pool *p, int axis, int64_t index)
{
    const int64_t behind = index + p->before[axis] - p->window[axis];
    return behind < 0 ? 0 : behind / p->step[axis] + 1;
}

static int64_t last_over(const Pool *p, int axis, int64_t index)
{
    return least(p->count[axis] - 1, (index + p->before[axis]) / p->step[axis]);
}

/* Finds the rows of windows over a row of the images; adds up those that begin with it, if requested. */
INLINE void find_lines(const Pool *p, Around *a, int64_t image, int64_t d, int64_t h)
{
    a->count = 0;
    for (int64_t i = first_over(p, 0, d); i <= last_over(p, 0, d); i++)
        for (int64_t k = first_over(p, 1, h); k <= last_over(p, 1, h); k++) {
            const Reach down = reach(p, 0, i), along = reach(p, 1, k);
            const int64_t windows = ((image * p->count[0] + i) * p->count[1] + k) * p->count[2];
            a->lines[a->count++] = (Line){windows, ((d - down.start) * p->window[1] + h - along.start) * p->window[2],
                                          extent(down) * extent(along)};
            if (p->sums != NULL && down.start + down.from == d && along.start + along.from == h)
                add_up(p, windows);
        }
}

/* Where windows are one step apart, pixels between these have as many windows, and numbers side by side belong together. */
INLINE void gather_row(const Pool *p, int64_t number, Kind kind)
{
    Around a;
    const int64_t width = p->size[2], channels = p->channels, window = p->window[2], step = p->step[2];
    const int64_t d = number / p->size[1] % p->size[0], h = number % p->size[1];
    const int64_t from = kind == MEANS ? window - 1 : window - 1 - p->before[2];
    const int64_t to = step > 1 ? 0 : kind == MEANS ? width - window + 1 : least(width, p->count[2] - p->before[2]);
    float *out = p->out + number * width * channels;
    a.weighed = 0;
    find_lines(p, &a, number / p->size[1] / p->size[0], d, h);
    const int64_t steps = (window - 1) / step, rest = (window - 1) % step;
    int64_t over = p->before[2] / step, phase = p->before[2] % step;       /* the nearest window, and the pixel's place in it */
    for (int64_t x = 0, many; x < width; x += many) {
        many = x >= from && x < to ? to - x : 1;
        const int64_t before = phase <= rest ? steps : steps - 1;          /* windows that also reach the pixel */
        a.last = least(over, p->count[2] - 1);
        a.first = before < 0 ? a.last + 1 : most(0, over - before);
        a.place = phase + (over - a.last) * step;
        if (kind == MEANS)
            weigh(p, &a);
        gather(p, &a, many * channels, (width - x) * channels, out + x * channels, kind);
        if (step == 1) {
            over += many;
        } else if (++phase == step) {
            phase = 0;
            over++;
        }
    }
}

FAST static void max_grad_row(const void *job, int64_t number) { gather_row(job, number, PLACES); }
FAST static void mean_grad_row(const void *job, int64_t number) { gather_row(job, number, MEANS); }

/* -- sums of overlapping windows ------------------------------------------------------------------------------------- */
/* A row of images to which windows with values of their own, [batch, *count, *window, channels], are added where they lie. */
FAST static void windows_row(const void *job, int64_t number)
{
    const Pool *p = job;
    const int64_t place[2] = {number / p->size[1] % p->size[0] + p->before[0], number % p->size[1] + p->before[1]};
    const int64_t image = number / (p->size[0] * p->size[1]), elements = p->window[0] * p->window[1] * p->window[2];
    float *row = p->out + number * p->size[2] * p->channels;
    int64_t first[2], last[2];
    for (int i = 0; i < 2; i++) {                            /* the windows that the row lies in */
        first[i] = most(0, (place[i] - p->window[i] + p->step[i]) / p->step[i]);
        last[i] = least(p->count[i] - 1, place[i] / p->step[i]);
    }
    memset(row, 0, p->size[2] * p->channels * sizeof *row);
    for (int64_t a = first[0]; a <= last[0]; a++)
        for (int64_t b = first[1]; b <= last[1]; b++) {
            const int64_t line = (place[0] - a * p->step[0]) * p->window[1] + place[1] - b * p->step[1];
            const float *in = p->in + (((image * p->count[0] + a) * p->count[1] + b) * p->count[2] * elements
                                       + line * p->window[2]) * p->channels;
            for (int64_t c = 0; c < p->count[2]; c++, in += elements * p->channels) {
                const Reach r = reach(p, 2, c);
                for (int64_t e = r.from * p->channels; e < r.to * p->channels; e++)
                    row[r.start * p->channels + e] += in[e];
            }
        }
}

/* -- as Python calls it --------------------------------------------------------------------------------------------- */
#define THREE(name) &p->name[0], &p->name[1], &p->name[2]

static int read_pool(PyObject *args, Pool *p)
{
    unsigned long long in, out, places, sums;
    if (!PyArg_ParseTuple(args, "KKKKLL(LLL)(LLL)(LLL)(LLL)(LLL)p", &in, &out, &places, &sums, &p->batch, &p->channels, THREE(size),
                          THREE(count), THREE(window), THREE(step), THREE(before), &p->relu))
        return 0;
    p->in = (const float *)(uintptr_t)in;
    p->out = (float *)(uintptr_t)out;
    p->places = (uint8_t *)(uintptr_t)places;
    p->sums = (float *)(uintptr_t)sums;
    return 1;
}

static PyObject *run(PyObject *args, int gradient, int means)
{
    Pool p;
    if (!read_pool(args, &p))
        return NULL;
    const int64_t *lines = gradient ? p.size : p.count;
    const Item item = gradient ? (means ? mean_grad_row : max_grad_row) : means ? means_row : p.places ? places_row : maxima_row;
    Py_BEGIN_ALLOW_THREADS
    share(item, &p, p.batch * lines[0] * lines[1], p.batch * p.size[0] * p.size[1] * p.size[2] * p.channels);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *max_pool(PyObject *self, PyObject *args) { return run(args, 0, 0); }
static PyObject *max_pool_grad(PyObject *self, PyObject *args) { return run(args, 1, 0); }
static PyObject *mean_pool(PyObject *self, PyObject *args) { return run(args, 0, 1); }
static PyObject *mean_pool_grad(PyObject *self, PyObject *args) { return run(args, 1, 1); }

static PyObject *add_windows(PyObject *self, PyObject *args)
{
    Pool p;
    if (!read_pool(args, &p))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    share(windows_row, &p, p.batch * p.size[0] * p.size[1], p.batch * p.count[0] * p.count[1] * p.count[2] * p.channels);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"add_windows", add_windows, METH_VARARGS, "Writes the sums of overlapping windows."},
    {"max_pool", max_pool, METH_VARARGS, "Writes the maxima of windows, and their places."},
    {"max_pool_grad", max_pool_grad, METH_VARARGS, "Writes the gradient of max_pool, and its sums over the rows of windows."},
    {"mean_pool", mean_pool, METH_VARARGS, "Writes the means of windows."},
    {"mean_pool_grad", mean_pool_grad, METH_VARARGS, "Writes the gradient of mean_pool."},
    {"use_threads", use_threads, METH_O, "Takes the address of GOMP_parallel."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_pools", "Pooling on the CPU.", -1, methods};

PyMODINIT_FUNC PyInit__pools(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        PyErr_SetString(PyExc_ImportError, "penstock.kernels._pools needs a processor with AVX2 and FMA");
        return NULL;
    }
#endif
    return PyModule_Create(&module);
}
