/* Sums over the middle one of three axes, where few numbers lie behind it: coordinates of points, colours along a ray.

   This is an accelerator: `sums.py` says which tensors it takes. Torch makes vectors of the numbers behind the axis, so it needs
   up to thirty times as long as reading them if these are two or three. Here each number of the result has an accumulator. */
#include "_threads.h"

enum { MOST_BEHIND = 7, BLOCK = 1 << 14 };                  /* BLOCK: numbers that a thread takes at a time */
typedef struct { const char *from; char *to; int64_t outer, middle, inner, each; int doubles; double scale; } Job;

#define SUMS(TYPE, INNER)                                                                        \
    case INNER:                                                                                  \
        for (int64_t o = first; o < end; o++) {                                                  \
            const TYPE *from = (const TYPE *)job->from + o * job->middle * INNER;                \
            TYPE even[INNER] = {0}, odd[INNER] = {0}, *to = (TYPE *)job->to + o * INNER;         \
            int64_t m = 0;                                                                       \
            for (; m + 2 <= job->middle; m += 2, from += 2 * INNER)                              \
                for (int i = 0; i < INNER; i++)                                                  \
                    even[i] += from[i], odd[i] += from[INNER + i];                               \
            for (int i = 0; i < INNER; i++)                                                      \
                to[i] = (even[i] + odd[i] + (m < job->middle ? from[i] : 0)) * (TYPE)job->scale; \
        }                                                                                        \
        break;
#define ALL_SUMS(TYPE)                                                                           \
    switch (job->inner) {                                                                        \
        SUMS(TYPE, 1) SUMS(TYPE, 2) SUMS(TYPE, 3) SUMS(TYPE, 4) SUMS(TYPE, 5) SUMS(TYPE, 6) SUMS(TYPE, 7) \
    }

static void do_block(const void *given, int64_t number)
{
    const Job *job = given;
    const int64_t first = number * job->each, last = first + job->each, end = last < job->outer ? last : job->outer;
    if (job->doubles)
        ALL_SUMS(double)
    else
        ALL_SUMS(float)
}

/* middle(from, to, doubles, outer, middle, inner, scale): the sums, times a number */
static PyObject *middle(PyObject *self, PyObject *args)
{
    unsigned long long from, to;
    long long outer, count, inner;
    Job job;
    if (!PyArg_ParseTuple(args, "KKpLLLd", &from, &to, &job.doubles, &outer, &count, &inner, &job.scale))
        return NULL;
    if (outer < 0 || count < 0 || inner < 1 || inner > MOST_BEHIND) {
        PyErr_SetString(PyExc_ValueError, "sizes of axes");
        return NULL;
    }
    job.from = (const char *)(uintptr_t)from, job.to = (char *)(uintptr_t)to;
    job.outer = outer, job.middle = count, job.inner = inner;
    const int64_t row = count * inner > 0 ? count * inner : 1;
    job.each = row < BLOCK ? BLOCK / row : 1;
    Py_BEGIN_ALLOW_THREADS
    share(do_block, &job, (outer + job.each - 1) / job.each, outer * row);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"middle", middle, METH_VARARGS, "Sums over the middle one of three axes."},
    {"use_threads", use_threads, METH_O, "Takes the address of GOMP_parallel."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_sums", "Sums over an axis with few numbers behind it.", -1, methods};

PyMODINIT_FUNC PyInit__sums(void) { return PyModule_Create(&module); }
