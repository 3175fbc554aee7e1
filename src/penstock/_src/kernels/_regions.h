/* Regions: operations on small arrays, one after the other, in one call (see regions.py, which writes and checks the code).

   A region is a sequence of 32-bit numbers: a header, the elements of the given tensors and of the results, their kinds, where
   each buffer in between begins, the counters that each draw of random numbers takes, and the instructions. An operand is a
   buffer and an offset in elements.
   Buffers are the given tensors, then the results, then those in between, which share one piece of memory per thread. */
#include <math.h>
#include <pthread.h>

enum { PLAN, PRODUCT, COPY_ITEMS, REDUCE, CHOLESKY, TRIANGULAR, SOLVE, EACH, DIVIDE, FOLD, POSITION, TOP, GATHER, ONE_HOT, RUNNING,
       SEGMENTS, DRAW, SEEDED };
enum { FEW_PRODUCTS = 256 };              /* multiplications of a product that are done here */
typedef struct { int32_t values, results, between, room, instructions, draws; } Region;
typedef struct { Place at; int32_t stride, batch; } Matrix;                  /* rows, and matrices, lie so many elements apart */
typedef struct { int32_t count, rows, columns, depth, turn_a, turn_b; Matrix a, b, to; } Product;
typedef struct { Place to, from; int32_t size, dims[AXES], to_strides[AXES], from_strides[AXES]; } Copy;
/* Square matrices, one after the other, and as many right sides; `spare` has room for one matrix */
typedef struct { Place to, matrix, sides, spare; int32_t count, size, width, upper, turned; } Squares;
typedef void (*Multiply)(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                         const int *, const float *, const int *, const float *, float *, const int *);

static Multiply multiply;                 /* sgemm of the library that torch uses */
static void (*reduce_here)(float *to, const float *from, const Reduce *reduce);
static void (*each_here)(const Each *each, float *const *buffers);
static pthread_key_t room_of_thread;
static __thread float *room;
static __thread int64_t room_size;

#include "_indexing.h"
#include "_draws.h"

static inline float *at(float *const *buffers, Place place)
{
    return buffers[place.buffer] + place.offset;
}

/* A product that is shorter than a call of the library. */
static void multiply_short(const Product *p, const float *a, const float *b, float *to)
{
    const int across = p->turn_a ? 1 : p->a.stride, along = p->turn_a ? p->a.stride : 1;
    for (int i = 0; i < p->rows; i++, to += p->to.stride)
        if (p->turn_b)
            for (int j = 0; j < p->columns; j++) {
                float sum = 0.f;
                for (int k = 0; k < p->depth; k++)
                    sum += a[i * across + k * along] * b[j * p->b.stride + k];
                to[j] = sum;
            }
        else {
            memset(to, 0, p->columns * sizeof(float));
            for (int k = 0; k < p->depth; k++) {
                const float factor = a[i * across + k * along], *row = b + k * p->b.stride;
                for (int j = 0; j < p->columns; j++)
                    to[j] += factor * row[j];
            }
        }
}

static void do_product(const Product *p, float *const *buffers)
{
    const float one = 1.f, zero = 0.f;
    const float *a = at(buffers, p->a.at), *b = at(buffers, p->b.at);
    float *to = at(buffers, p->to.at);
    const int is_short = (int64_t)p->rows * p->columns * p->depth <= FEW_PRODUCTS;
    for (int i = 0; i < p->count; i++, a += p->a.batch, b += p->b.batch, to += p->to.batch)      /* as its transpose, by columns */
        if (is_short)
            multiply_short(p, a, b, to);
        else
            multiply(p->turn_b ? "T" : "N", p->turn_a ? "T" : "N", &p->columns, &p->rows, &p->depth, &one, b, &p->b.stride,
                     a, &p->a.stride, &zero, to, &p->to.stride);
}

#define COPY_OF(A)                                                                                   \
    for (int i = 0; i < d[0]; i++)                                                                   \
        for (int j = 0; j < d[1]; j++)                                                               \
            for (int k = 0; k < d[2]; k++) {                                                         \
                const A *from = (const A *)begin + i * s[0] + j * s[1] + k * s[2];                   \
                A *to = (A *)into + i * t[0] + j * t[1] + k * t[2];                                  \
                if (s[3] == 1 && t[3] == 1)                                                          \
                    memcpy(to, from, d[3] * sizeof(A));                                              \
                else                                                                                 \
                    for (int l = 0; l < d[3]; l++)                                                   \
                        to[l * t[3]] = from[l * s[3]];                                               \
            }

static void do_copy(const Copy *c, float *const *buffers)
{
    const int32_t *d = c->dims, *s = c->from_strides, *t = c->to_strides;
    const void *begin = place_of(buffers, c->from, c->size);
    void *into = place_of(buffers, c->to, c->size);
    if (c->size == 4)
        COPY_OF(float)
    else if (c->size == 8)
        COPY_OF(int64_t)
    else
        COPY_OF(unsigned char)
}

/* The lower triangles L for which L Lᵀ are the matrices; NaN, as a failure, where there is none. Reads lower triangles. */
static void do_cholesky(const Squares *s, float *const *buffers)
{
    const int n = s->size;
    const float *a = at(buffers, s->matrix);
    float *l = at(buffers, s->to);
    for (int m = 0; m < s->count; m++, a += n * n, l += n * n) {
        int fails = 0;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                float sum = j > i ? 0.f : a[i * n + j];
                for (int k = 0; k < j && j <= i; k++)
                    sum -= l[i * n + k] * l[j * n + k];
                fails |= i == j && !(sum > 0.f);
                l[i * n + j] = j > i ? 0.f : i == j ? sqrtf(sum) : sum / l[j * n + j];
            }
        for (int i = 0; fails && i < n; i++)
            for (int j = 0; j <= i; j++)
                l[i * n + j] = NAN;
    }
}

/* Solves one system of equations whose matrix is a triangle; x has the right sides, then the solutions. */
static void solve_triangle(const float *a, float *x, int n, int width, int upper, int turned)
{
    for (int r = 0; r < n; r++) {
        const int i = upper ? n - 1 - r : r;
        float *row = x + i * width;
        for (int j = upper ? i + 1 : 0; j < (upper ? n : i); j++) {
            const float factor = turned ? a[j * n + i] : a[i * n + j];
            for (int c = 0; c < width; c++)
                row[c] -= factor * x[j * width + c];
        }
        for (int c = 0; c < width; c++)
            row[c] /= a[i * n + i];
    }
}

static void do_triangular(const Squares *s, float *const *buffers)
{
    const int n = s->size, each = n * s->width;
    float *x = at(buffers, s->to);
    memcpy(x, at(buffers, s->sides), (size_t)s->count * each * sizeof(float));
    for (int m = 0; m < s->count; m++)
        solve_triangle(at(buffers, s->matrix) + m * n * n, x + m * each, n, s->width, s->upper, s->turned);
}

static void swap(float *a, float *b, int count)
{
    for (int i = 0; i < count; i++) {
        const float kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* Gauss's elimination with the largest pivots of columns. Whether all matrices have an inverse. */
static int do_solve(const Squares *s, float *const *buffers)
{
    const int n = s->size, width = s->width;
    const float *a = at(buffers, s->matrix);
    float *lu = at(buffers, s->spare), *x = at(buffers, s->to);
    memcpy(x, at(buffers, s->sides), (size_t)s->count * n * width * sizeof(float));
    for (int m = 0; m < s->count; m++, a += n * n, x += n * width) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                lu[i * n + j] = s->turned ? a[j * n + i] : a[i * n + j];
        for (int k = 0; k < n; k++) {
            int pivot = k;
            for (int i = k + 1; i < n; i++)
                if (fabsf(lu[i * n + k]) > fabsf(lu[pivot * n + k]) || isnan(lu[i * n + k]))
                    pivot = i;
            if (lu[pivot * n + k] == 0.f)
                return 0;
            if (pivot != k) {
                swap(lu + pivot * n, lu + k * n, n);
                swap(x + pivot * width, x + k * width, width);
            }
            for (int i = k + 1; i < n; i++) {
                const float factor = lu[i * n + k] / lu[k * n + k];
                for (int j = k + 1; j < n; j++)
                    lu[i * n + j] -= factor * lu[k * n + j];
                for (int c = 0; c < width; c++)
                    x[i * width + c] -= factor * x[k * width + c];
            }
        }
        solve_triangle(lu, x, n, width, 1, 0);
    }
    return 1;
}

static void do_plan(const int32_t *words, float *const *buffers)
{
    const int32_t count = words[0];
    const Place *places = (const Place *)(words + 1);
    Job job;
    for (int i = 0; i < count; i++) {
        float *base = buffers[places[i].buffer];
        job.bases[i] = base + places[i].offset;
    }
    run_plan(&job, places + count);
}

/* Whether this thread has memory for a region; it is freed when the thread ends. */
static int has_room(const Region *region)
{
    if (room_size < region->room) {
        free(room);
        room = aligned_alloc(64, (region->room * sizeof(float) + 63) / 64 * 64);
        room_size = room == NULL ? 0 : region->room;
        pthread_setspecific(room_of_thread, room);
    }
    return room != NULL || region->room == 0;
}

/* The number of the instruction that has failed, or -1. */
static int do_region(const Region *region, const int32_t *begins, const int32_t *words, float **buffers, const Stretch *places)
{
    for (int i = 0; i < region->between; i++)
        buffers[region->values + region->results + i] = room + begins[i];
    for (int i = 0; i < region->instructions; i++) {
        const int32_t kind = words[0], length = words[1];
        const void *what = words + 2;
        switch (kind) {
        case PLAN:
            do_plan(what, buffers);
            break;
        case PRODUCT:
            do_product(what, buffers);
            break;
        case COPY_ITEMS:
            do_copy(what, buffers);
            break;
        case REDUCE: {
            const Reduce *r = what;
            reduce_here(at(buffers, r->to), at(buffers, r->from), r);
            break;
        }
        case CHOLESKY:
            do_cholesky(what, buffers);
            break;
        case TRIANGULAR:
            do_triangular(what, buffers);
            break;
        case SOLVE:
            if (!do_solve(what, buffers))
                return i;
            break;
        case EACH:
            each_here(what, buffers);
            break;
        case DIVIDE:
            if (!do_divide(what, buffers))
                return i;
            break;
        case FOLD:
            do_fold(what, buffers);
            break;
        case POSITION:
            do_position(what, buffers);
            break;
        case TOP:
            do_top(what, buffers);
            break;
        case GATHER:
            if (!do_gather(what, buffers))
                return i;
            break;
        case ONE_HOT:
            do_one_hot(what, buffers);
            break;
        case RUNNING:
            do_running(what, buffers);
            break;
        case SEGMENTS:
            if (!do_segments(what, buffers))
                return i;
            break;
        case DRAW:
            do_draw(what, buffers, places + ((const Draw *)what)->number);
            break;
        case SEEDED:
            do_seeded(what, buffers);
        }
        words += 2 + length;
    }
    return -1;
}

/* Takes what each draw of a region takes from its stream. Whether the streams are those of the region. */
static int take_all(PyObject *streams, const int32_t *reserved, int32_t draws, Stretch *places)
{
    if (!PyList_Check(streams) || PyList_GET_SIZE(streams) != draws)
        return 0;
    for (int i = 0; i < draws; i++) {
        PyObject *stream = PyList_GET_ITEM(streams, i);
        if (!PyByteArray_Check(stream) || PyByteArray_GET_SIZE(stream) != sizeof(Stretch))
            return 0;
        places[i] = take((Stretch *)PyByteArray_AS_STRING(stream), (uint64_t)reserved[i]);
    }
    return 1;
}

/* run_region(code, values, results[, streams]): True; False if a tensor is not what the region was made for; the number of an
   instruction that has failed. */
static PyObject *run_region(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count < 3 || count > 4 || !PyBytes_Check(args[0]) || !PyList_Check(args[1]) || !PyList_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "run_region(code: bytes, values: list, results: list, streams: list)");
        return NULL;
    }
    const Region *region = (const Region *)PyBytes_AS_STRING(args[0]);
    const int32_t *sizes = (const int32_t *)(region + 1), *kinds = sizes + region->values + region->results;
    const int32_t *begins = kinds + region->values + region->results, *reserved = begins + region->between;
    const int32_t *words = reserved + region->draws;
    if (PyList_GET_SIZE(args[1]) != region->values || PyList_GET_SIZE(args[2]) != region->results || (region->draws && count != 4))
        Py_RETURN_FALSE;
    const int32_t given = region->values + region->results;
    Stretch *places = PyMem_Malloc(region->draws * sizeof(Stretch) + (given + region->between) * sizeof(float *) +
                                   given * sizeof(PyObject *));
    if (places == NULL)
        return PyErr_NoMemory();
    float **buffers = (float **)(places + region->draws);
    PyObject **held = (PyObject **)(buffers + given + region->between);
    int fits = 1, known = 0, failed = -1;
    for (; fits && known < given; known++) {
        PyObject *t = known < region->values ? PyList_GET_ITEM(args[1], known) : PyList_GET_ITEM(args[2], known - region->values);
        held[known] = known < region->values ? in_order(t) : Py_NewRef(t);
        buffers[known] = held[known] == NULL ? NULL : address(held[known], sizes[known], types[kinds[known]]);
        fits = buffers[known] != NULL;
    }
    if (fits && !has_room(region)) {
        PyErr_NoMemory();
        fits = 0;
    }
    fits = fits && (region->draws == 0 || take_all(args[3], reserved, region->draws, places));
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        failed = do_region(region, begins, words, buffers, places);
        Py_END_ALLOW_THREADS
    }
    for (int i = 0; i < known; i++)
        Py_XDECREF(held[i]);
    PyMem_Free(places);
    if (!fits && PyErr_Occurred())
        return NULL;
    return failed >= 0 ? PyLong_FromLong(failed) : PyBool_FromLong(fits);
}

static PyObject *use_products(PyObject *self, PyObject *address)
{
    const unsigned long long given = PyLong_AsUnsignedLongLong(address);
    if (given == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    multiply = (Multiply)(uintptr_t)given;
    Py_RETURN_NONE;
}
