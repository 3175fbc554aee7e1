/* Regions: operations on small arrays, one after the other, in one call (see regions.py, which writes and checks the code).

   A region is a sequence of 32-bit numbers: a header, the elements and the types of the given tensors, the elements of the
   results, where each buffer in between begins, and the instructions. An operand is a buffer and an offset in elements.
   Buffers are the given tensors, then the results, then those in between, which share one piece of memory per thread. */
#include <pthread.h>

enum { PLAN, PRODUCT, COPY_ITEMS, REDUCE };
enum { AXES = 4 };                        /* of what is copied */
typedef struct { int32_t values, results, between, room, instructions; } Region;
typedef struct { Place at; int32_t stride, batch; } Matrix;                  /* rows, and matrices, lie so many elements apart */
typedef struct { int32_t count, rows, columns, depth, turn_a, turn_b; Matrix a, b, to; } Product;
typedef struct { Place to, from; int32_t dims[AXES], to_strides[AXES], from_strides[AXES]; } Copy;
typedef void (*Multiply)(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                         const int *, const float *, const int *, const float *, float *, const int *);

static Multiply multiply;                 /* sgemm of the library that torch uses */
static void (*reduce_here)(float *to, const float *from, const Reduce *reduce);
static pthread_key_t room_of_thread;
static __thread float *room;
static __thread int64_t room_size;

static inline float *at(float *const *buffers, Place place)
{
    return buffers[place.buffer] + place.offset;
}

static void do_product(const Product *p, float *const *buffers)
{
    const float one = 1.f, zero = 0.f;
    const float *a = at(buffers, p->a.at), *b = at(buffers, p->b.at);
    float *to = at(buffers, p->to.at);
    for (int i = 0; i < p->count; i++, a += p->a.batch, b += p->b.batch, to += p->to.batch)      /* as its transpose, by columns */
        multiply(p->turn_b ? "T" : "N", p->turn_a ? "T" : "N", &p->columns, &p->rows, &p->depth, &one, b, &p->b.stride,
                 a, &p->a.stride, &zero, to, &p->to.stride);
}

static void do_copy(const Copy *c, float *const *buffers)
{
    const int32_t *d = c->dims, *s = c->from_strides, *t = c->to_strides;
    for (int i = 0; i < d[0]; i++)
        for (int j = 0; j < d[1]; j++)
            for (int k = 0; k < d[2]; k++) {
                const float *from = at(buffers, c->from) + i * s[0] + j * s[1] + k * s[2];
                float *to = at(buffers, c->to) + i * t[0] + j * t[1] + k * t[2];
                if (s[3] == 1 && t[3] == 1)
                    memcpy(to, from, d[3] * sizeof(float));
                else
                    for (int l = 0; l < d[3]; l++)
                        to[l * t[3]] = from[l * s[3]];
            }
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

static void do_region(const Region *region, const int32_t *begins, const int32_t *words, float **buffers)
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
        }
        }
        words += 2 + length;
    }
}

/* run_region(code, values, results): True, or False if a tensor is not what the region was made for. */
static PyObject *run_region(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyBytes_Check(args[0]) || !PyList_Check(args[1]) || !PyList_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "run_region(code: bytes, values: list, results: list)");
        return NULL;
    }
    const Region *region = (const Region *)PyBytes_AS_STRING(args[0]);
    const int32_t *sizes = (const int32_t *)(region + 1), *truths = sizes + region->values + region->results;
    const int32_t *begins = truths + region->values, *words = begins + region->between;
    if (PyList_GET_SIZE(args[1]) != region->values || PyList_GET_SIZE(args[2]) != region->results)
        Py_RETURN_FALSE;
    const int32_t given = region->values + region->results;
    float **buffers = PyMem_Malloc((given + region->between) * sizeof(float *) + given * sizeof(PyObject *));
    if (buffers == NULL)
        return PyErr_NoMemory();
    PyObject **held = (PyObject **)(buffers + given + region->between);
    int fits = 1, known = 0;
    for (; fits && known < given; known++) {
        PyObject *t = known < region->values ? PyList_GET_ITEM(args[1], known) : PyList_GET_ITEM(args[2], known - region->values);
        held[known] = known < region->values ? in_order(t) : Py_NewRef(t);
        buffers[known] = held[known] == NULL ? NULL : address(held[known], sizes[known], known < region->values && truths[known] ? boolean : float32);
        fits = buffers[known] != NULL;
    }
    if (fits && !has_room(region)) {
        PyErr_NoMemory();
        fits = 0;
    }
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        do_region(region, begins, words, buffers);
        Py_END_ALLOW_THREADS
    }
    for (int i = 0; i < known; i++)
        Py_XDECREF(held[i]);
    PyMem_Free(buffers);
    if (!fits && PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(fits);
}

static PyObject *use_products(PyObject *self, PyObject *address)
{
    const unsigned long long given = PyLong_AsUnsignedLongLong(address);
    if (given == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    multiply = (Multiply)(uintptr_t)given;
    Py_RETURN_NONE;
}
