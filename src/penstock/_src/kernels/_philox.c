/* Philox4x32-10 for a run of counters, on the CPU: `philox.py` has the generator, and computes the same with numpy where this file
   is not compiled.

   Counters are worked on side by side, each word in the lower half of a lane of 64 bits: one instruction gives all bits of a
   product. What is in the upper halves in between does not matter. */
#include "_threads.h"

enum { BLOCK = 512 };                                 /* counters of one item of work */

typedef struct {
    uint64_t key, low, high;                          /* the counter at the beginning: high * 2^64 + low */
    int64_t count;                                    /* words */
    int floats;                                       /* whether words become numbers in [0, 1), or stay as they are */
    void *to;
} Job;

#if defined(__x86_64__)
#include <immintrin.h>
#define LANES 8
#define NAME(name) name##_512
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw")))
#define PRODUCT(a, b) (Lanes)_mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#include "_philox_lanes.h"
#define LANES 4
#define NAME(name) name##_256
#define TARGET __attribute__((target("avx2")))
#define PRODUCT(a, b) (Lanes)_mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#include "_philox_lanes.h"
#endif
#define LANES 2
#define NAME(name) name##_any
#define TARGET
#define PRODUCT(a, b) (((a) & 0xffffffff) * ((b) & 0xffffffff))
#include "_philox_lanes.h"
static Item do_block_here = do_block_any;

/* fill(address, count, floats, key, low, high): writes `count` words of 64 bits each, or float32 numbers in [0, 1). */
static PyObject *fill(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    uint64_t given[6];
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "fill(address, count, floats, key, low, high)");
        return NULL;
    }
    for (int i = 0; i < 6; i++)
        given[i] = PyLong_AsUnsignedLongLong(args[i]);
    if (PyErr_Occurred())
        return NULL;
    const Job job = {given[3], given[4], given[5], (int64_t)given[1], given[2] != 0, (void *)(uintptr_t)given[0]};
    Py_BEGIN_ALLOW_THREADS
    share(do_block_here, &job, (job.count + 4 * BLOCK - 1) / (4 * BLOCK), job.count);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* take(place, count): where a stream is, as (key, low, high); it goes on by `count` counters. `place` has these three numbers of 64
   bits. The interpreter's lock is held, as by regions (_draws.h), which take from the same places. */
static PyObject *take(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    uint64_t place[3];
    if (count != 2 || !PyByteArray_Check(args[0]) || PyByteArray_GET_SIZE(args[0]) != sizeof place) {
        PyErr_SetString(PyExc_TypeError, "take(place: bytearray, count)");
        return NULL;
    }
    const uint64_t taken = PyLong_AsUnsignedLongLong(args[1]);
    if (PyErr_Occurred())
        return NULL;
    memcpy(place, PyByteArray_AS_STRING(args[0]), sizeof place);
    PyObject *here = Py_BuildValue("KKK", (unsigned long long)place[0], (unsigned long long)place[1], (unsigned long long)place[2]);
    place[1] += taken;
    place[2] += place[1] < taken;
    if (here != NULL)
        memcpy(PyByteArray_AS_STRING(args[0]), place, sizeof place);
    return here;
}

/* swap(slots, size, start, shrinks, words, count): swaps the slot at `start` of a ring with one that a word chooses, and replaces the
   word by what is at `start` then; and so on with the next slot and word. Words choose among all slots, or among those that are
   left if each is drawn only once. */
static PyObject *swap(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    int64_t given[6];
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "swap(slots, size, start, shrinks, words, count)");
        return NULL;
    }
    for (int i = 0; i < 6; i++)
        given[i] = PyLong_AsLongLong(args[i]);
    if (PyErr_Occurred())
        return NULL;
    int64_t *slots = (int64_t *)(uintptr_t)given[0], *words = (int64_t *)(uintptr_t)given[4];
    const int64_t size = given[1], shrinks = given[3] != 0;
    int64_t at = given[2], left = size;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < given[5]; i++, left -= shrinks) {
        int64_t other = at + words[i] % left;
        other -= other >= size ? size : 0;
        words[i] = slots[other];
        slots[other] = slots[at];
        slots[at] = words[i];
        at = at + 1 == size ? 0 : at + 1;
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* exchange(kept, added, drawn, width, places, count): draws the rows at `places` of a buffer in turn, rows of `width` bytes, and puts
   the next added row in the place of each. */
static PyObject *exchange(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    int64_t given[6];
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "exchange(kept, added, drawn, width, places, count)");
        return NULL;
    }
    for (int i = 0; i < 6; i++)
        given[i] = PyLong_AsLongLong(args[i]);
    if (PyErr_Occurred())
        return NULL;
    char *kept = (char *)(uintptr_t)given[0], *drawn = (char *)(uintptr_t)given[2];
    const char *added = (const char *)(uintptr_t)given[1];
    const int64_t *places = (const int64_t *)(uintptr_t)given[4], width = given[3];
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < given[5]; i++) {
        char *row = kept + places[i] * width;
        memcpy(drawn + i * width, row, width);
        memcpy(row, added + i * width, width);
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"exchange", (PyCFunction)(void (*)(void))exchange, METH_FASTCALL, "Draws rows of a buffer, and puts others in their places."},
    {"fill", (PyCFunction)(void (*)(void))fill, METH_FASTCALL, "Writes the words of a run of counters, or numbers of them."},
    {"swap", (PyCFunction)(void (*)(void))swap, METH_FASTCALL, "Draws from a ring of slots by random words."},
    {"take", (PyCFunction)(void (*)(void))take, METH_FASTCALL, "Takes counters of a stream."},
    {"use_threads", use_threads, METH_O, "Takes the address of GOMP_parallel."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_philox", "Random words from counters.", -1, methods};

PyMODINIT_FUNC PyInit__philox(void)
{
#if defined(__x86_64__)
    if (has_wide_vectors())
        do_block_here = do_block_512;
    else if (__builtin_cpu_supports("avx2"))
        do_block_here = do_block_256;
#endif
    return PyModule_Create(&module);
}
