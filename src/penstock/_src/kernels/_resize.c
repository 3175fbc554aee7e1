/* Resizing of images whose channels lie side by side ([batch, height, width, channels]) by weighted sums of neighbours (taps), on
   the CPU: from bytes or float32 to float32.

   This is an accelerator: `resizing.py` checks everything and hands over addresses, and without this file ATen does the work. A
   row of the result is first a weighted sum of rows of the image, which are read as they are, and then of its columns. */
#include "_threads.h"

#if defined(__x86_64__)
#define FAST __attribute__((target("avx2,fma")))
#else
#define FAST
#endif

enum { ROWS = 8 };                        /* of the result, in an item of work */
enum { MANY = 8 };                        /* channels that fill a vector */

typedef struct {
    const void *images;
    const int64_t *row_taps, *column_taps;                /* [height or width of the result, taps] */
    const float *row_weights, *column_weights;
    float *out;
    int64_t bytes, batch, height, width, channels, new_height, new_width, taps;
    int32_t *places;                      /* where each number of a row of the result has a tap, if there are few channels, */
    float *weights;                       /* and its weight: [taps, new_width * channels] */
    int *failed;
} Resize;

/* to = weight * from, plus `to` if it `adds`. */
FAST static void weigh_floats(const float *restrict from, float weight, int adds, int64_t count, float *restrict to)
{
    if (adds)
        for (int64_t i = 0; i < count; i++)
            to[i] += weight * from[i];
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = weight * from[i];
}

FAST static void weigh_bytes(const unsigned char *restrict from, float weight, int adds, int64_t count, float *restrict to)
{
    if (adds)
        for (int64_t i = 0; i < count; i++)
            to[i] += weight * (float)from[i];
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = weight * (float)from[i];
}

/* The columns of a row with few channels. */
FAST static void gather(const Resize *r, const float *restrict row, float *restrict to)
{
    const int64_t count = r->new_width * r->channels;
    const int32_t *restrict places = r->places;
    const float *restrict weights = r->weights;
    if (r->taps == 2) {
        for (int64_t i = 0; i < count; i++)
            to[i] = weights[i] * row[places[i]] + weights[count + i] * row[places[count + i]];
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        float sum = 0.f;
        for (int64_t k = 0; k < r->taps; k++)
            sum += weights[k * count + i] * row[places[k * count + i]];
        to[i] = sum;
    }
}

/* The columns of a row with many channels. */
FAST static void join(const Resize *r, const float *restrict row, float *restrict to)
{
    for (int64_t x = 0; x < r->new_width; x++, to += r->channels) {
        const int64_t *taps = r->column_taps + x * r->taps;
        const float *weights = r->column_weights + x * r->taps;
        if (r->taps == 2) {
            const float *restrict left = row + taps[0] * r->channels, *restrict right = row + taps[1] * r->channels;
            const float near = weights[0], far = weights[1];
            for (int64_t c = 0; c < r->channels; c++)
                to[c] = near * left[c] + far * right[c];
        } else
            for (int64_t k = 0; k < r->taps; k++)
                weigh_floats(row + taps[k] * r->channels, weights[k], k > 0, r->channels, to);
    }
}

/* Some rows of the result. */
FAST static void some_rows(const void *given, int64_t number)
{
    const Resize *r = given;
    const int64_t blocks = (r->new_height + ROWS - 1) / ROWS, image = number / blocks, first = number % blocks * ROWS;
    const int64_t end = first + ROWS < r->new_height ? first + ROWS : r->new_height, wide = r->width * r->channels;
    float *row = malloc(wide * sizeof(float));
    if (row == NULL) {
        __atomic_store_n(r->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t y = first; y < end; y++) {
        for (int64_t k = 0; k < r->taps; k++) {
            const int64_t at = (image * r->height + r->row_taps[y * r->taps + k]) * wide;
            const float weight = r->row_weights[y * r->taps + k];
            if (r->bytes)
                weigh_bytes((const unsigned char *)r->images + at, weight, k > 0, wide, row);
            else
                weigh_floats((const float *)r->images + at, weight, k > 0, wide, row);
        }
        float *to = r->out + (image * r->new_height + y) * r->new_width * r->channels;
        if (r->channels < MANY)
            gather(r, row, to);
        else
            join(r, row, to);
    }
    free(row);
}

/* Returns whether there was enough memory. */
static int compute(Resize *r)
{
    const int64_t count = r->channels < MANY ? r->new_width * r->channels : 0;
    int failed = 0;
    r->failed = &failed;
    if (count > 0) {
        r->places = malloc(count * r->taps * (sizeof(int32_t) + sizeof(float)));
        if (r->places == NULL)
            return 0;
        r->weights = (float *)(r->places + count * r->taps);
        for (int64_t k = 0; k < r->taps; k++)
            for (int64_t i = 0; i < count; i++) {
                const int64_t tap = i / r->channels * r->taps + k;
                r->places[k * count + i] = (int32_t)(r->column_taps[tap] * r->channels + i % r->channels);
                r->weights[k * count + i] = r->column_weights[tap];
            }
    }
    share(some_rows, r, r->batch * ((r->new_height + ROWS - 1) / ROWS), r->batch * r->new_height * r->new_width * r->channels);
    free(r->places);
    return !failed;
}

/* resize(images, row taps, column taps, row weights, column weights, out, bytes, batch, height, width, channels, new height, new
   width, taps) */
static PyObject *resize(PyObject *self, PyObject *args)
{
    unsigned long long addresses[6];
    Resize r = {0};
    int done;
    if (!PyArg_ParseTuple(args, "KKKKKKLLLLLLLL", &addresses[0], &addresses[1], &addresses[2], &addresses[3], &addresses[4],
                          &addresses[5], &r.bytes, &r.batch, &r.height, &r.width, &r.channels, &r.new_height, &r.new_width, &r.taps))
        return NULL;
    r.images = (const void *)(uintptr_t)addresses[0];
    r.row_taps = (const int64_t *)(uintptr_t)addresses[1];
    r.column_taps = (const int64_t *)(uintptr_t)addresses[2];
    r.row_weights = (const float *)(uintptr_t)addresses[3];
    r.column_weights = (const float *)(uintptr_t)addresses[4];
    r.out = (float *)(uintptr_t)addresses[5];
    Py_BEGIN_ALLOW_THREADS
    done = compute(&r);
    Py_END_ALLOW_THREADS
    if (!done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"resize", resize, METH_VARARGS, "Resizes images by weighted sums of neighbours."},
    {"use_threads", use_threads, METH_O, "Takes the address of GOMP_parallel."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_resize", "Resizing of images.", -1, methods};

PyMODINIT_FUNC PyInit__resize(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        PyErr_SetString(PyExc_ImportError, "penstock.kernels._resize needs a processor with AVX2 and FMA");
        return NULL;
    }
#endif
    return PyModule_Create(&module);
}
