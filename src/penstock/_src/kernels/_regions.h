/* Regions: operations on small arrays, one after the other, in one call (see regions.py, which writes and checks the code).

   A region is a sequence of 32-bit numbers: a header, the elements of the given tensors and of the results, their kinds, where
   each buffer in between begins, the counters that each draw of random numbers takes, and the instructions. An operand is a
   buffer and an offset in elements.
   Buffers are the given tensors, then the results, then those in between, which share one piece of memory per thread. */
#include <math.h>
#include <pthread.h>

enum { PLAN, PRODUCT, COPY_ITEMS, REDUCE, CHOLESKY, TRIANGULAR, SOLVE, EACH, DIVIDE, FOLD, POSITION, TOP, GATHER, ONE_HOT, RUNNING,
       SEGMENTS, DRAW, SEEDED, BAND };
enum { FEW_PRODUCTS = 256 };              /* multiplications of a product that are done here */
typedef struct { int32_t values, results, between, room, instructions, draws; } Region;
typedef struct { Place at; int32_t stride, batch; } Matrix;                  /* rows, and matrices, lie so many elements apart */
typedef struct { int32_t kind, count, rows, columns, depth, turn_a, turn_b; Matrix a, b, to; } Product;
typedef struct { Place to, from; int32_t size, dims[AXES], to_strides[AXES], from_strides[AXES]; } Copy;
/* Square matrices, one after the other, and as many right sides; `spare` has room for one matrix */
typedef struct { Place to, matrix, sides, spare; int32_t kind, count, size, width, upper, turned; } Squares;
typedef void MultiplyFloats(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                            const int *, const float *, const int *, const float *, float *, const int *);
typedef void MultiplyDoubles(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
                             const int *, const double *, const int *, const double *, double *, const int *);

static MultiplyFloats *multiply_float;    /* sgemm and dgemm of the library that torch uses */
static MultiplyDoubles *multiply_double;
typedef void ReduceMiddle(void *to, const void *from, const Reduce *reduce);
static ReduceMiddle *reduce_here, *reduce_double_here;
static void (*each_here)(const Each *each, float *const *buffers);
static pthread_key_t room_of_thread;
static __thread float *room;
static __thread int64_t room_size;

#include "_indexing.h"
#include "_draws.h"

#define Real float
#define NAME(name) name##_float
#include "_matrix_regions.h"
#define Real double
#define NAME(name) name##_double
#include "_matrix_regions.h"

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

static void do_plan(const int32_t *words, float *const *buffers)
{
    const int32_t count = words[0];
    const Place *places = (const Place *)(words + 1);
    Job job;
    const int size = SIZES[((const Header *)(places + count))->real];
    for (int i = 0; i < count; i++)
        job.bases[i] = place_of(buffers, places[i], size);
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
            ((const Product *)what)->kind == DOUBLE ? do_product_double(what, buffers) : do_product_float(what, buffers);
            break;
        case COPY_ITEMS:
            do_copy(what, buffers);
            break;
        case REDUCE: {
            const Reduce *r = what;
            const int size = SIZES[r->kind];
            (r->kind == DOUBLE ? reduce_double_here : reduce_here)(place_of(buffers, r->to, size), place_of(buffers, r->from, size), r);
            break;
        }
        case CHOLESKY:
            ((const Squares *)what)->kind == DOUBLE ? do_cholesky_double(what, buffers) : do_cholesky_float(what, buffers);
            break;
        case TRIANGULAR:
            ((const Squares *)what)->kind == DOUBLE ? do_triangular_double(what, buffers) : do_triangular_float(what, buffers);
            break;
        case SOLVE:
            if (!(((const Squares *)what)->kind == DOUBLE ? do_solve_double(what, buffers) : do_solve_float(what, buffers)))
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
            break;
        case BAND:
            do_band(what, buffers);
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

static PyObject *use_products(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    unsigned long long given[2] = {0, 0};
    for (int i = 0; i < 2 && count == 2 && !PyErr_Occurred(); i++)
        given[i] = PyLong_AsUnsignedLongLong(args[i]);
    if (PyErr_Occurred())
        return NULL;
    multiply_float = (MultiplyFloats *)(uintptr_t)given[0];
    multiply_double = (MultiplyDoubles *)(uintptr_t)given[1];
    Py_RETURN_NONE;
}
