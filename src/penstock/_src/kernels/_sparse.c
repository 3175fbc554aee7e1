/* Products of sparse matrices and dense ones: each element adds its multiple of a row of the dense matrix to a row of the result.

   The matrix is given by coordinates, in any order, some of them perhaps more than once. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

/* Adds up values[e] * b[column[e]] in the rows row[e]. Returns the first element that is not in the matrix, or -1. */
#define MULTIPLY(name, Real)                                                                                                   \
    CLONES static int64_t name(const int64_t *indices, const Real *values, int64_t elements, int row, int64_t rows,            \
                               int64_t columns, const Real *b, int64_t width, Real *to)                                        \
    {                                                                                                                          \
        for (int64_t e = 0; e < elements; e++) {                                                                               \
            const uint64_t i = (uint64_t)indices[2 * e + row], j = (uint64_t)indices[2 * e + 1 - row];                         \
            if (i >= (uint64_t)rows || j >= (uint64_t)columns)                                                                 \
                return e;                                                                                                      \
            const Real value = values[e];                                                                                      \
            const Real *from = b + j * width;                                                                                  \
            Real *sum = to + i * width;                                                                                        \
            for (int64_t k = 0; k < width; k++)                                                                                \
                sum[k] += value * from[k];                                                                                     \
        }                                                                                                                      \
        return -1;                                                                                                             \
    }
MULTIPLY(multiply_float, float)
MULTIPLY(multiply_double, double)

/* multiply(indices, values, elements, row, rows, columns, b, width, to, wide): addresses of contiguous arrays, and sizes. `row`
   says which coordinate is the row, `to` is zeros, `wide` says that the numbers have 64 bits. */
static PyObject *multiply(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    uint64_t given[10];
    if (count != 10) {
        PyErr_SetString(PyExc_TypeError, "multiply(indices, values, elements, row, rows, columns, b, width, to, wide)");
        return NULL;
    }
    for (int i = 0; i < 10; i++)
        given[i] = PyLong_AsUnsignedLongLong(args[i]);
    if (PyErr_Occurred())
        return NULL;
    int64_t bad;
    const int64_t *indices = (const int64_t *)(uintptr_t)given[0];
    const void *values = (const void *)(uintptr_t)given[1], *b = (const void *)(uintptr_t)given[6];
    void *to = (void *)(uintptr_t)given[8];
    const int64_t elements = (int64_t)given[2], rows = (int64_t)given[4], columns = (int64_t)given[5], width = (int64_t)given[7];
    const int row = given[3] != 0;
    Py_BEGIN_ALLOW_THREADS
    bad = given[9] ? multiply_double(indices, values, elements, row, rows, columns, b, width, to)
                   : multiply_float(indices, values, elements, row, rows, columns, b, width, to);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(bad);
}

static PyMethodDef methods[] = {
    {"multiply", (PyCFunction)(void (*)(void))multiply, METH_FASTCALL, "Multiplies a sparse matrix by a dense one."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_sparse", "Products of sparse matrices.", -1, methods};

PyMODINIT_FUNC PyInit__sparse(void)
{
    return PyModule_Create(&module);
}
