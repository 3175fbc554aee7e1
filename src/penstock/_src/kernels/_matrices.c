/* Products of matrices, and of batches of them, on the CPU (float32).

   This is an accelerator: `products.py` calls it where it is faster than MKL's and oneDNN's kernels: for matrices that are too
   small for the time that oneDNN takes to begin, for batches, and for transposed matrices, which it reads as they are.

   A tile of the result stays in registers while a slice of the inner axis is added up. The second matrix is packed into panels
   as wide as a tile, and the first one into panels as high as a tile if its rows are not contiguous. The order of additions
   depends on the shapes only, not on the number of threads. */
#include "_threads.h"

enum { DEPTH = 512 };                     /* of a slice of the inner axis: a panel of it stays in the cache */
enum { BLOCK = 48 };                      /* rows of an item of work, if there are several for each product */

typedef struct {
    int64_t batch, rows, inner, columns, left_batch, left_down, left_across, right_batch, right_down, right_across, adds;
    const float *a, *b, *bias;
    float *out, *panels;                  /* the packed second matrix, if all items share it */
    int64_t out_down, block;
    float alpha;
    int *failed;
} Product;

#define WIDTHS_OF "_matrices_lanes.h"
#include "_widths.h"
static Item pack_here, some_rows_here;
static int64_t width_here;

enum { NUMBERS = 11, POINTERS = 4 };

/* Shares the rows of one product between threads, or the products of a batch. Returns whether there was enough memory. */
static int compute(Product *p)
{
    const int64_t numbers = p->batch * p->rows * p->columns * p->inner / 16;
    int failed = 0;
    p->failed = &failed;
    p->block = p->rows;
    if (p->batch == 1 || p->right_batch == 0) {
        const int64_t panels = (p->columns + width_here - 1) / width_here;
        p->panels = malloc(panels * width_here * p->inner * sizeof(float));
        if (p->panels == NULL)
            return 0;
        share(pack_here, p, (p->inner + DEPTH - 1) / DEPTH * panels, p->inner * p->columns / 4);
        p->block = BLOCK;
    }
    share(some_rows_here, p, p->batch * ((p->rows + p->block - 1) / p->block), numbers);
    free(p->panels);
    return !failed;
}

/* run(numbers, alpha, addresses): the numbers and addresses are the fields of Product, in order. */
static PyObject *run(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Product p = {0};
    int64_t numbers[NUMBERS];
    uintptr_t addresses[POINTERS];
    if (count != 3 || !PyTuple_CheckExact(args[0]) || PyTuple_GET_SIZE(args[0]) != NUMBERS ||
        !PyTuple_CheckExact(args[2]) || PyTuple_GET_SIZE(args[2]) != POINTERS) {
        PyErr_SetString(PyExc_TypeError, "run(numbers, alpha, addresses)");
        return NULL;
    }
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(args[0], i));
    for (int i = 0; i < POINTERS; i++)
        addresses[i] = (uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(args[2], i));
    p.alpha = (float)PyFloat_AsDouble(args[1]);
    if (PyErr_Occurred())
        return NULL;
    memcpy(&p.batch, numbers, sizeof numbers);
    memcpy(&p.a, addresses, sizeof addresses);
    p.out_down = p.columns;
    int done;
    Py_BEGIN_ALLOW_THREADS
    done = compute(&p);
    Py_END_ALLOW_THREADS
    if (!done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* -- as other kernels call it --------------------------------------------------------------------------------------- */
enum { LEAST = 1 << 16, LEAST_ROWS = 4 };         /* multiplications, and rows, that are not left to the library */
typedef void (*Multiply)(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                         const int *, const float *, const int *, const float *, float *, const int *);
static Multiply library;                  /* sgemm of the library that torch uses */

/* What BLAS calls sgemm: its matrices lie by columns, so the transposed result is the product of the transposed matrices. */
static void as_sgemm(const char *turn_a, const char *turn_b, const int *m, const int *n, const int *k, const float *alpha,
                     const float *a, const int *a_stride, const float *b, const int *b_stride, const float *beta, float *c,
                     const int *c_stride)
{
    const int a_turned = *turn_a != 'N', b_turned = *turn_b != 'N';
    Product p = {.batch = 1, .rows = *n, .inner = *k, .columns = *m, .left_down = b_turned ? 1 : *b_stride,
                 .left_across = b_turned ? *b_stride : 1, .right_down = a_turned ? 1 : *a_stride,
                 .right_across = a_turned ? *a_stride : 1, .a = b, .b = a, .out = c, .out_down = *c_stride, .alpha = *alpha};
    if (*n < LEAST_ROWS || (int64_t)*m * *n * *k < LEAST || *beta != 0.f || !compute(&p))
        library(turn_a, turn_b, m, n, k, alpha, a, a_stride, b, b_stride, beta, c, c_stride);
}

/* Takes the address of the library's sgemm; returns that of one that calls it for what is small only. */
static PyObject *beside_sgemm(PyObject *self, PyObject *address)
{
    const unsigned long long given = PyLong_AsUnsignedLongLong(address);
    if (given == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    library = (Multiply)(uintptr_t)given;
    return PyLong_FromUnsignedLongLong((uintptr_t)as_sgemm);
}

static PyMethodDef methods[] = {
    {"beside_sgemm", beside_sgemm, METH_O, "The address of a function like the library's sgemm, whose address it takes."},
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, "Multiplies matrices."},
    {"use_threads", use_threads, METH_O, "Takes the address of GOMP_parallel."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_matrices", "Products of matrices.", -1, methods};

PyMODINIT_FUNC PyInit__matrices(void)
{
    if (!has_width())
        return NULL;
    pack_here = OF_WIDTH(pack);
    some_rows_here = OF_WIDTH(some_rows);
    width_here = OF_WIDTH(width);
    return PyModule_Create(&module);
}
