/* Positions of coordinates, and elements at places along an axis of each batch: one pass that also checks the indices.

   This is an accelerator of `indexing.py`, which does the same with torch where this file is not compiled. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { MOST_AXES = 16 };

/* to[r] = the position of row r of coordinates in an array of some sizes. Returns the first row outside of it, or -1. */
#define LOCATE(name, Index)                                                                                             \
    static int64_t name(const Index *row, int64_t rows, int depth, const int64_t *sizes, int64_t *to)                   \
    {                                                                                                                   \
        for (int64_t r = 0; r < rows; r++, row += depth) {                                                              \
            int64_t at = 0;                                                                                             \
            for (int k = 0; k < depth; k++) {                                                                           \
                if ((uint64_t)(int64_t)row[k] >= (uint64_t)sizes[k])                                                    \
                    return r;                                                                                           \
                at = at * sizes[k] + row[k];                                                                            \
            }                                                                                                           \
            to[r] = at;                                                                                                 \
        }                                                                                                               \
        return -1;                                                                                                      \
    }
LOCATE(locate_short, int32_t)
LOCATE(locate_long, int64_t)

/* locate(indices, wide, rows, sizes, to): addresses of contiguous arrays; indices have 64 bits if they are `wide`, and as many
   columns as there are sizes. */
static PyObject *locate(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    int64_t sizes[MOST_AXES];
    if (count != 5 || !PyTuple_Check(args[3]) || PyTuple_GET_SIZE(args[3]) > MOST_AXES) {
        PyErr_SetString(PyExc_TypeError, "locate(indices, wide, rows, sizes, to)");
        return NULL;
    }
    const int depth = (int)PyTuple_GET_SIZE(args[3]);
    for (int k = 0; k < depth; k++)
        sizes[k] = PyLong_AsLongLong(PyTuple_GET_ITEM(args[3], k));
    const void *indices = PyLong_AsVoidPtr(args[0]);
    const long wide = PyLong_AsLong(args[1]);
    const int64_t rows = PyLong_AsLongLong(args[2]);
    int64_t *to = PyLong_AsVoidPtr(args[4]), bad;
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    bad = wide ? locate_long(indices, rows, depth, sizes, to) : locate_short(indices, rows, depth, sizes, to);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(bad);
}

typedef struct { int64_t batch, outer, limit, inner, places, size; } Shape;

/* Elements of `Item`s, or (`inner` > 1) runs of them. */
#define PICK(name, Index, Item)                                                                                         \
    static int64_t name(const Shape *s, const Item *from, const Index *places, Item *to)                                \
    {                                                                                                                   \
        for (int64_t b = 0; b < s->batch; b++, places += s->places) {                                                   \
            for (int64_t p = 0; p < s->places; p++)                                                                     \
                if ((uint64_t)(int64_t)places[p] >= (uint64_t)s->limit)                                                 \
                    return b * s->places + p;                                                                           \
            for (int64_t o = 0; o < s->outer; o++, from += s->limit * s->inner)                                         \
                if (s->inner == 1)                                                                                      \
                    for (int64_t p = 0; p < s->places; p++)                                                             \
                        *to++ = from[places[p]];                                                                        \
                else                                                                                                    \
                    for (int64_t p = 0; p < s->places; p++, to += s->inner)                                             \
                        memcpy(to, from + places[p] * (int64_t)s->inner, s->inner * sizeof(Item));                      \
        }                                                                                                               \
        return -1;                                                                                                      \
    }
PICK(pick_short_1, int32_t, uint8_t)
PICK(pick_short_4, int32_t, uint32_t)
PICK(pick_short_8, int32_t, uint64_t)
PICK(pick_long_1, int64_t, uint8_t)
PICK(pick_long_4, int64_t, uint32_t)
PICK(pick_long_8, int64_t, uint64_t)

static int64_t pick_any(const Shape *s, const void *from, const void *places, int wide, void *to)
{
    Shape bytes = *s;
    if (s->size == 4)
        return wide ? pick_long_4(s, from, places, to) : pick_short_4(s, from, places, to);
    if (s->size == 8)
        return wide ? pick_long_8(s, from, places, to) : pick_short_8(s, from, places, to);
    bytes.inner *= s->size;
    return wide ? pick_long_1(&bytes, from, places, to) : pick_short_1(&bytes, from, places, to);
}

/* pick(from, indices, wide, to, batch, outer, limit, inner, places, size): addresses of contiguous arrays [batch, outer, limit,
   inner] of elements of `size` bytes, [batch, places] and [batch, outer, places, inner]. Returns the first index that is not
   below `limit`, or -1. */
static PyObject *pick(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    uint64_t given[10];
    if (count != 10) {
        PyErr_SetString(PyExc_TypeError, "pick(from, indices, wide, to, batch, outer, limit, inner, places, size)");
        return NULL;
    }
    for (int i = 0; i < 10; i++)
        given[i] = PyLong_AsUnsignedLongLong(args[i]);
    if (PyErr_Occurred())
        return NULL;
    const Shape shape = {(int64_t)given[4], (int64_t)given[5], (int64_t)given[6], (int64_t)given[7], (int64_t)given[8], (int64_t)given[9]};
    int64_t bad;
    Py_BEGIN_ALLOW_THREADS
    bad = pick_any(&shape, (const void *)(uintptr_t)given[0], (const void *)(uintptr_t)given[1], given[2] != 0,
                   (void *)(uintptr_t)given[3]);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(bad);
}

static PyMethodDef methods[] = {
    {"locate", (PyCFunction)(void (*)(void))locate, METH_FASTCALL, "Turns rows of coordinates into positions."},
    {"pick", (PyCFunction)(void (*)(void))pick, METH_FASTCALL, "Gathers elements along an axis of each batch."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_gather", "Positions, and elements at positions.", -1, methods};

PyMODINIT_FUNC PyInit__gather(void)
{
    return PyModule_Create(&module);
}
