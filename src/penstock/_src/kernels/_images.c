/* Batch normalization of float32 images whose channels lie side by side ([batch, height, width, channels]), on the CPU.

   This is an accelerator: `images.py` checks shapes and layouts, hands over addresses, and without this file ATen does the
   work. The statistics of a batch take one reading of it where ATen's take two, and a ReLU after the normalization no pass of
   its own.

   No interpreter's lock is held. */
#include "_threads.h"
#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#define FAST __attribute__((target("avx2,fma")))
#else
#define FAST
#endif
#define INLINE static inline __attribute__((always_inline)) FAST

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

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
    {"batch_norm", batch_norm, METH_VARARGS, "Normalizes rows of channels by their mean and variance."},
    {"batch_norm_grad", batch_norm_grad, METH_VARARGS, "Writes the gradients of a batch_norm that trains."},
    {"use_threads", use_threads, METH_O, "Takes the address of GOMP_parallel."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_images", "Batch normalization on the CPU.", -1, methods};

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
