/* Sharing work between the threads of torch's own OpenMP team.

   Work is cut into items of a fixed size, which the threads take as they come: results do not depend on their number. */
#ifndef PENSTOCK_THREADS_H
#define PENSTOCK_THREADS_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Item)(const void *job, int64_t number);
typedef struct { Item item; const void *job; int64_t count, next; } Work;
typedef void (*Parallel)(void (*)(void *), void *, unsigned, unsigned);

enum { WORTH = 1 << 15 };                 /* numbers that are worth waking threads */
static Parallel parallel;                 /* libgomp's GOMP_parallel, or NULL: then the caller's thread does all */

static void take_items(void *given)
{
    Work *work = given;
    int64_t number;
    while ((number = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED)) < work->count)
        work->item(work->job, number);
}

static void share(Item item, const void *job, int64_t count, int64_t numbers)
{
    Work work = {item, job, count, 0};
    if (parallel != NULL && count > 1 && numbers >= WORTH)
        parallel(take_items, &work, 0, 0);       /* as many threads as torch's kernels use */
    else
        take_items(&work);
}

#if defined(__x86_64__)
/* Whether to use vectors of 512 bits: the processor has them, and torch's kernels, of which this variable is, use them, too. */
static inline int has_wide_vectors(void)
{
    const char *limit = getenv("ATEN_CPU_CAPABILITY");
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && (limit == NULL || *limit == 0 || strcmp(limit, "avx512") == 0);
}
#endif

static PyObject *use_threads(PyObject *self, PyObject *address)
{
    const unsigned long long given = PyLong_AsUnsignedLongLong(address);
    if (given == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    parallel = (Parallel)(uintptr_t)given;
    Py_RETURN_NONE;
}
#endif
