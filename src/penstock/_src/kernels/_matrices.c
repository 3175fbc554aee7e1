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
    int64_t block;
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
    int done;
    Py_BEGIN_ALLOW_THREADS
    done = compute(&p);
    Py_END_ALLOW_THREADS
    if (!done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
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
