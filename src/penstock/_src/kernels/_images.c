/* Max pooling and batch normalization of float32 images whose channels lie side by side ([batch, height, width, channels]),
   on the CPU.

   This is an accelerator: `images.py` checks shapes and layouts, hands over addresses, and without this file ATen does the
   work. ATen's kernels keep the place of a maximum in eight bytes and spread gradients one number at a time; here a place is
   one byte (its number in the window), and both directions work on many channels at once. A ReLU after the pooling and the
   sums that are a bias's gradient are done in the same pass. The statistics of a batch take one reading of it where ATen's
   take two, and a ReLU after the normalization no pass of its own.

   No interpreter's lock is held. */
#include "_threads.h"
#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#define FAST __attribute__((target("avx2,fma")))
enum { BYTES = 32 };
#else
#define FAST
enum { BYTES = 16 };
#endif
#define INLINE static inline __attribute__((always_inline)) FAST

enum { LANES = BYTES / 4, VECTORS = 4, BLOCK = VECTORS * LANES, NOWHERE = 255 };   /* NOWHERE: the place of a maximum that a ReLU made zero */
typedef float Floats __attribute__((vector_size(BYTES)));
typedef float Unaligned __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(BYTES)));
typedef uint8_t Bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
#define AT(address, v) (((Unaligned *)(address))[v])
#define PICK(mask, yes, no) ((__typeof__(yes))(((mask) & (Ints)(yes)) | (~(mask) & (Ints)(no))))

INLINE int any(Ints mask)
{
    int32_t found = 0;
    for (int lane = 0; lane < LANES; lane++)
        found |= mask[lane];
    return found != 0;
}

/* -- max pooling -------------------------------------------------------------------------------------------------- */
typedef struct {
    const float *in;                      /* the images; for the gradient, that of the result */
    float *out;                           /* the maxima; for the gradient, that of the images */
    uint8_t *places;
    float *sums;                          /* of the gradient, for each row of windows; or NULL */
    int64_t batch, height, width, channels, rows, columns;     /* rows and columns: of the result */
    int64_t window_h, window_w, step_h, step_w, before_h, before_w;
    int relu, apart;                      /* apart: windows do not overlap */
} Pool;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The part of a window that lies inside: offsets from its first element. */
typedef struct { int64_t start, from, to; } Reach;

static Reach reach(int64_t index, int64_t step, int64_t before, int64_t window, int64_t size)
{
    int64_t start = index * step - before;
    return (Reach){start, most(0, -start), least(window, size - start)};
}

/* The maximum of one window in one channel. NaN is a maximum, but has a place only as the first element. */
INLINE void pool_one(const Pool *p, const float *image, Reach h, Reach w, float *out, uint8_t *places)
{
    float best = image[((h.start + h.from) * p->width + w.start + w.from) * p->channels];
    int64_t place = h.from * p->window_w + w.from;
    int nan = 0;
    for (int64_t i = h.from; i < h.to; i++)
        for (int64_t j = w.from; j < w.to; j++) {
            const float x = image[((h.start + i) * p->width + w.start + j) * p->channels];
            place = x > best ? i * p->window_w + j : place;
            best = x > best ? x : best;
            nan |= x != x;
        }
    best = nan ? NAN : best;
    const int not = p->relu && best <= 0;
    *out = not ? 0 : best;
    if (places != NULL)
        *places = (uint8_t)(not ? NOWHERE : place);
}

/* The same in BLOCK channels. */
INLINE void pool_block(const Pool *p, const float *image, Reach h, Reach w, float *out, uint8_t *places)
{
    const float *first = image + ((h.start + h.from) * p->width + w.start + w.from) * p->channels;
    Floats best[VECTORS], odd = {};          /* odd: NaN where a channel has a NaN, and for some that have infinities */
    Ints place[VECTORS];
    for (int v = 0; v < VECTORS; v++) {
        best[v] = AT(first, v);
        place[v] = (Ints){} + (int32_t)(h.from * p->window_w + w.from);
    }
    for (int64_t i = h.from; i < h.to; i++)
        for (int64_t j = w.from; j < w.to; j++) {
            const float *from = image + ((h.start + i) * p->width + w.start + j) * p->channels;
            const Ints here = (Ints){} + (int32_t)(i * p->window_w + j);
            for (int v = 0; v < VECTORS; v++) {
                const Floats x = AT(from, v);
                const Ints larger = x > best[v];
                best[v] = PICK(larger, x, best[v]);
                place[v] = PICK(larger, here, place[v]);
                odd += x * 0;
            }
        }
    if (any(odd != odd)) {
        for (int64_t c = 0; c < BLOCK; c++)
            pool_one(p, image + c, h, w, out + c, places ? places + c : NULL);
        return;
    }
    for (int v = 0; v < VECTORS; v++) {
        if (p->relu) {
            const Ints not = best[v] <= 0;
            best[v] = PICK(not, (Floats){}, best[v]);
            place[v] |= not & NOWHERE;
        }
        AT(out, v) = best[v];
        if (places != NULL)
            ((Bytes *)places)[v] = __builtin_convertvector(place[v], Bytes);
    }
}

FAST static void pool_row(const void *job, int64_t number)
{
    const Pool *p = job;
    const float *image = p->in + number / p->rows * p->height * p->width * p->channels;
    const Reach h = reach(number % p->rows, p->step_h, p->before_h, p->window_h, p->height);
    for (int64_t column = 0; column < p->columns; column++) {
        const Reach w = reach(column, p->step_w, p->before_w, p->window_w, p->width);
        int64_t at = (number * p->columns + column) * p->channels, c = 0;
        for (; c + BLOCK <= p->channels; c += BLOCK)
            pool_block(p, image + c, h, w, p->out + at + c, p->places ? p->places + at + c : NULL);
        for (; c < p->channels; c++)
            pool_one(p, image + c, h, w, p->out + at + c, p->places ? p->places + at + c : NULL);
    }
}

/* The gradient of one window in BLOCK channels, to the places of its maxima. */
INLINE void spread_block(const Pool *p, const float *grad, const uint8_t *places, float *image, Reach h, Reach w, float *sums)
{
    Floats g[VECTORS];
    Ints place[VECTORS];
    for (int v = 0; v < VECTORS; v++) {
        g[v] = AT(grad, v);
        place[v] = __builtin_convertvector(((const Bytes *)places)[v], Ints);
        if (sums != NULL)
            AT(sums, v) += PICK(place[v] == NOWHERE, (Floats){}, g[v]);
    }
    for (int64_t i = h.from; i < h.to; i++)
        for (int64_t j = w.from; j < w.to; j++) {
            float *to = image + ((h.start + i) * p->width + w.start + j) * p->channels;
            for (int v = 0; v < VECTORS; v++) {
                const Floats x = PICK(place[v] == (int32_t)(i * p->window_w + j), g[v], (Floats){});
                AT(to, v) = p->apart ? x : (Floats)AT(to, v) + x;
            }
        }
}

/* The same in one channel. */
INLINE void spread_one(const Pool *p, float grad, int64_t place, float *image, Reach h, Reach w, float *sums)
{
    if (sums != NULL)
        *sums += place == NOWHERE ? 0 : grad;
    for (int64_t i = h.from; i < h.to; i++)
        for (int64_t j = w.from; j < w.to; j++) {
            float *to = image + ((h.start + i) * p->width + w.start + j) * p->channels;
            const float x = place == i * p->window_w + j ? grad : 0;
            *to = p->apart ? x : *to + x;
        }
}

/* The gradient of one row of windows. */
INLINE void spread_row(const Pool *p, float *image, int64_t number, Reach h)
{
    float *sums = p->sums ? p->sums + number * p->channels : NULL;
    if (sums != NULL)
        memset(sums, 0, p->channels * sizeof(float));
    for (int64_t column = 0; column < p->columns; column++) {
        const Reach w = reach(column, p->step_w, p->before_w, p->window_w, p->width);
        int64_t at = (number * p->columns + column) * p->channels, c = 0;
        for (; c + BLOCK <= p->channels; c += BLOCK)
            spread_block(p, p->in + at + c, p->places + at + c, image + c, h, w, sums ? sums + c : NULL);
        for (; c < p->channels; c++)
            spread_one(p, p->in[at + c], p->places[at + c], image + c, h, w, sums ? sums + c : NULL);
    }
}

static void clear(const Pool *p, float *image, int64_t from, int64_t to)
{
    if (from < to)
        memset(image + from * p->width * p->channels, 0, (to - from) * p->width * p->channels * sizeof(float));
}

/* Windows that do not overlap: a row of them has rows of the image to itself. What no window covers is zero. */
FAST static void spread_apart(const void *job, int64_t number)
{
    const Pool *p = job;
    float *image = p->out + number / p->rows * p->height * p->width * p->channels;
    const int64_t row = number % p->rows;
    const Reach h = reach(row, p->step_h, p->before_h, p->window_h, p->height);
    const int64_t end = row + 1 == p->rows ? p->height : h.start + p->step_h;
    const int whole = p->step_w == p->window_w && p->columns * p->step_w - p->before_w >= p->width;
    clear(p, image, whole ? h.start + h.to : h.start + h.from, end);
    spread_row(p, image, number, h);
}

/* Windows that overlap: one image at a time; its rows are cleared shortly before they are first written. */
FAST static void spread_image(const void *job, int64_t number)
{
    const Pool *p = job;
    float *image = p->out + number * p->height * p->width * p->channels;
    int64_t cleared = 0;
    for (int64_t row = 0; row < p->rows; row++) {
        const Reach h = reach(row, p->step_h, p->before_h, p->window_h, p->height);
        clear(p, image, cleared, h.start + h.to);
        cleared = most(cleared, h.start + h.to);
        spread_row(p, image, number * p->rows + row, h);
    }
    clear(p, image, cleared, p->height);
}

/* -- batch normalization ------------------------------------------------------------------------------------------ */
typedef struct {
    const float *x, *scale, *offset;
    float *y, *mean, *variance;
    float *factor, *shift;                /* y = x * factor + shift */
    float *means, *squares;               /* of each block of rows: its mean, and the squares of what differs from it */
    int64_t rows, channels, block;        /* rows: of channels, one for each pixel; block: rows that fit the first cache */
    double epsilon;
    int relu;
} Norm;

FAST static void measure_block(const void *job, int64_t number)
{
    const Norm *n = job;
    const int64_t channels = n->channels, from = number * n->block, count = least(n->rows - from, n->block);
    const float *x = n->x + from * channels;
    float *restrict mean = n->means + number * channels, *restrict square = n->squares + number * channels;
    memset(mean, 0, channels * sizeof(float));
    memset(square, 0, channels * sizeof(float));
    for (int64_t r = 0; r < count; r++)
        for (int64_t c = 0; c < channels; c++)
            mean[c] += x[r * channels + c];
    for (int64_t c = 0; c < channels; c++)
        mean[c] /= (float)count;
    for (int64_t r = 0; r < count; r++)
        for (int64_t c = 0; c < channels; c++) {
            const float d = x[r * channels + c] - mean[c];
            square[c] += d * d;
        }
}

/* The statistics of all rows from those of the blocks, and from these what to multiply and to add. */
static void merge_blocks(const Norm *n)
{
    const int64_t blocks = (n->rows + n->block - 1) / n->block;
    for (int64_t c = 0; c < n->channels; c++) {
        double mean = 0, square = 0;
        for (int64_t b = 0; b < blocks; b++)
            mean += (double)n->means[b * n->channels + c] * (double)least(n->rows - b * n->block, n->block);
        mean /= (double)n->rows;
        for (int64_t b = 0; b < blocks; b++) {
            const double d = n->means[b * n->channels + c] - mean;
            square += n->squares[b * n->channels + c] + d * d * (double)least(n->rows - b * n->block, n->block);
        }
        const double variance = square / (double)n->rows, factor = n->scale[c] / sqrt(variance + n->epsilon);
        n->mean[c] = (float)mean;
        n->variance[c] = (float)variance;
        n->factor[c] = (float)factor;
        n->shift[c] = (float)(n->offset[c] - mean * factor);
    }
}

FAST static void normalize_block(const void *job, int64_t number)
{
    const Norm *n = job;
    const int64_t channels = n->channels, from = number * n->block, count = least(n->rows - from, n->block);
    const float *x = n->x + from * channels, *factor = n->factor, *shift = n->shift;
    float *restrict y = n->y + from * channels;
    for (int64_t r = 0; r < count; r++) {
        if (n->relu)
            for (int64_t c = 0; c < channels; c++) {
                const float v = x[r * channels + c] * factor[c] + shift[c];
                y[r * channels + c] = v <= 0 ? 0 : v;
            }
        else
            for (int64_t c = 0; c < channels; c++)
                y[r * channels + c] = x[r * channels + c] * factor[c] + shift[c];
    }
}

/* The gradient of a normalization of x by its own mean and variance. Where `after`, what a ReLU left of the result, is given, `grad`
   is that of the ReLU's result. */
typedef struct {
    const float *grad, *after, *x, *scale, *mean, *variance;
    float *to, *for_scale, *for_offset;
    float *factor, *share, *slope;        /* to = grad * factor - share - (x - mean) * slope */
    float *sums, *products;               /* of each block of rows: the gradients, and they times what x differs from the mean */
    int64_t rows, channels, block;
    double epsilon;
} NormGrad;

#define PASSED(i) (after == NULL || !(after[i] <= 0) ? grad[i] : 0)

INLINE void add_up_rows(const NormGrad *n, int64_t number, const float *after)
{
    const int64_t channels = n->channels, from = number * n->block, count = least(n->rows - from, n->block);
    const float *x = n->x + from * channels, *grad = n->grad + from * channels, *mean = n->mean;
    float *restrict sum = n->sums + number * channels, *restrict product = n->products + number * channels;
    memset(sum, 0, channels * sizeof(float));
    memset(product, 0, channels * sizeof(float));
    for (int64_t r = 0; r < count; r++, x += channels, grad += channels, after = after == NULL ? NULL : after + channels)
        for (int64_t c = 0; c < channels; c++) {
            const float g = PASSED(c);
            sum[c] += g;
            product[c] += g * (x[c] - mean[c]);
        }
}

FAST static void add_up_block(const void *job, int64_t number)
{
    const NormGrad *n = job;
    if (n->after == NULL)
        add_up_rows(n, number, NULL);
    else
        add_up_rows(n, number, n->after + number * n->block * n->channels);
}

static void merge_sums(const NormGrad *n)
{
    const int64_t blocks = (n->rows + n->block - 1) / n->block;
    for (int64_t c = 0; c < n->channels; c++) {
        double sum = 0, product = 0;
        for (int64_t b = 0; b < blocks; b++) {
            sum += n->sums[b * n->channels + c];
            product += n->products[b * n->channels + c];
        }
        const double inverse = 1 / sqrt(n->variance[c] + n->epsilon), factor = n->scale[c] * inverse;
        n->for_offset[c] = (float)sum;
        n->for_scale[c] = (float)(product * inverse);
        n->factor[c] = (float)factor;
        n->share[c] = (float)(factor * sum / (double)n->rows);
        n->slope[c] = (float)(factor * product * inverse * inverse / (double)n->rows);
    }
}

INLINE void lead_back_rows(const NormGrad *n, int64_t number, const float *after)
{
    const int64_t channels = n->channels, from = number * n->block, count = least(n->rows - from, n->block);
    const float *x = n->x + from * channels, *grad = n->grad + from * channels;
    const float *mean = n->mean, *factor = n->factor, *share = n->share, *slope = n->slope;
    float *restrict to = n->to + from * channels;
    for (int64_t r = 0; r < count; r++, x += channels, grad += channels, to += channels,
             after = after == NULL ? NULL : after + channels)
        for (int64_t c = 0; c < channels; c++)
            to[c] = PASSED(c) * factor[c] - share[c] - (x[c] - mean[c]) * slope[c];
}

FAST static void lead_back_block(const void *job, int64_t number)
{
    const NormGrad *n = job;
    if (n->after == NULL)
        lead_back_rows(n, number, NULL);
    else
        lead_back_rows(n, number, n->after + number * n->block * n->channels);
}

/* -- as Python calls it ------------------------------------------------------------------------------------------- */
static int read_pool(PyObject *args, Pool *p)
{
    unsigned long long in, out, places, sums;
    if (!PyArg_ParseTuple(args, "KKKKLLLLLLLLLLLLp", &in, &out, &places, &sums, &p->batch, &p->height, &p->width,
                          &p->channels, &p->rows, &p->columns, &p->window_h, &p->window_w, &p->step_h, &p->step_w,
                          &p->before_h, &p->before_w, &p->relu))
        return 0;
    p->in = (const float *)(uintptr_t)in;
    p->out = (float *)(uintptr_t)out;
    p->places = (uint8_t *)(uintptr_t)places;
    p->sums = (float *)(uintptr_t)sums;
    p->apart = p->step_h >= p->window_h && p->step_w >= p->window_w;
    return 1;
}

static PyObject *max_pool(PyObject *self, PyObject *args)
{
    Pool p;
    if (!read_pool(args, &p))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    share(pool_row, &p, p.batch * p.rows, p.batch * p.height * p.width * p.channels);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *max_pool_grad(PyObject *self, PyObject *args)
{
    Pool p;
    if (!read_pool(args, &p))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    share(p.apart ? spread_apart : spread_image, &p, p.apart ? p.batch * p.rows : p.batch,
          p.batch * p.height * p.width * p.channels);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *batch_norm(PyObject *self, PyObject *args)
{
    unsigned long long x, y, scale, offset, room;
    Norm n;
    if (!PyArg_ParseTuple(args, "KKKKKLLLdp", &x, &y, &scale, &offset, &room, &n.rows, &n.channels, &n.block, &n.epsilon, &n.relu))
        return NULL;
    const int64_t blocks = (n.rows + n.block - 1) / n.block;
    n.x = (const float *)(uintptr_t)x;
    n.y = (float *)(uintptr_t)y;
    n.scale = (const float *)(uintptr_t)scale;
    n.offset = (const float *)(uintptr_t)offset;
    n.mean = (float *)(uintptr_t)room;               /* one vector of channels after another: the results, and what is in between */
    n.variance = n.mean + n.channels;
    n.factor = n.variance + n.channels;
    n.shift = n.factor + n.channels;
    n.means = n.shift + n.channels;
    n.squares = n.means + blocks * n.channels;
    Py_BEGIN_ALLOW_THREADS
    share(measure_block, &n, blocks, n.rows * n.channels);
    merge_blocks(&n);
    share(normalize_block, &n, blocks, n.rows * n.channels);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *batch_norm_grad(PyObject *self, PyObject *args)
{
    unsigned long long grad, after, x, scale, mean, variance, to, room;
    NormGrad n;
    if (!PyArg_ParseTuple(args, "KKKKKKKKLLLd", &grad, &after, &x, &scale, &mean, &variance, &to, &room, &n.rows, &n.channels, &n.block,
                          &n.epsilon))
        return NULL;
    const int64_t blocks = (n.rows + n.block - 1) / n.block;
    n.grad = (const float *)(uintptr_t)grad;
    n.after = (const float *)(uintptr_t)after;
    n.x = (const float *)(uintptr_t)x;
    n.scale = (const float *)(uintptr_t)scale;
    n.mean = (const float *)(uintptr_t)mean;
    n.variance = (const float *)(uintptr_t)variance;
    n.to = (float *)(uintptr_t)to;
    n.for_scale = (float *)(uintptr_t)room;          /* as above */
    n.for_offset = n.for_scale + n.channels;
    n.factor = n.for_offset + n.channels;
    n.share = n.factor + n.channels;
    n.slope = n.share + n.channels;
    n.sums = n.slope + n.channels;
    n.products = n.sums + blocks * n.channels;
    Py_BEGIN_ALLOW_THREADS
    share(add_up_block, &n, blocks, n.rows * n.channels);
    merge_sums(&n);
    share(lead_back_block, &n, blocks, n.rows * n.channels);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"max_pool", max_pool, METH_VARARGS, "Writes the maxima of windows, and their places."},
    {"max_pool_grad", max_pool_grad, METH_VARARGS, "Writes the gradient of max_pool, and its sums over the rows of windows."},
    {"batch_norm", batch_norm, METH_VARARGS, "Normalizes rows of channels by their mean and variance."},
    {"batch_norm_grad", batch_norm_grad, METH_VARARGS, "Writes the gradients of a batch_norm that trains."},
    {"use_threads", use_threads, METH_O, "Takes the address of GOMP_parallel."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_images", "Max pooling and batch normalization on the CPU.", -1, methods};

PyMODINIT_FUNC PyInit__images(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        PyErr_SetString(PyExc_ImportError, "penstock.kernels._images needs a processor with AVX2 and FMA");
        return NULL;
    }
#endif
    return PyModule_Create(&module);
}
