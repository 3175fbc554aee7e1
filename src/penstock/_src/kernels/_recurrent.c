/* LSTM, GRU and simple recurrent layers over all time steps, forward and backward, on the CPU (float32).

   This is an accelerator: `recurrent.py` checks and allocates everything, and computes the same with torch where this file is not
   compiled. A call takes no longer to start than one operation of torch does, and a step of a small layer takes less than that.

   Rows of a batch do not depend on each other, so a thread computes some rows over all of time. The products of the inputs are
   not done here but for all steps at once; what is left in a step is the product of the states with the recurrent weights, which
   are packed into panels of the processor's vectors once. A row whose step is masked keeps its states. */
#include "_threads.h"

enum { SIMPLE, LSTM, GRU };
enum { TANH, SIGMOID, RELU, LINEAR, HARD_SIGMOID };
enum { ROWS = 8 };                        /* of a tile of a product: with two vectors each, they fit into registers */

typedef struct {
    int64_t kind, activation, gate_activation, steps, batch, units, gates, rows;
    int64_t place[4];                     /* where an LSTM has the input, cell, forget and output gates */
    float clip;
    float *x, *h, *c, *extra, *h0, *c0, *room, *panels, *bias, *gates_of, *h_grad, *c_grad, *extra_grad, *dh, *dc;
    const unsigned char *mask;
} Layer;

#define WIDTHS_OF "_recurrent_lanes.h"
#include "_widths.h"
static Item forward_here, backward_here;
static void (*pack_here)(const float *from, int64_t down, int64_t across, int64_t depth, int64_t columns, float *to);

enum { NUMBERS = 12, POINTERS = 16 };

/* run(backward, weights, numbers, clip, addresses): the numbers and addresses are the fields of Layer, in order. */
static PyObject *run(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Layer layer;
    int64_t numbers[NUMBERS];
    uintptr_t addresses[POINTERS];
    if (count != 5 || !PyTuple_CheckExact(args[2]) || PyTuple_GET_SIZE(args[2]) != NUMBERS ||
        !PyTuple_CheckExact(args[4]) || PyTuple_GET_SIZE(args[4]) != POINTERS) {
        PyErr_SetString(PyExc_TypeError, "run(backward, weights, numbers, clip, addresses)");
        return NULL;
    }
    const int back = PyObject_IsTrue(args[0]);
    const float *weights = (const float *)(uintptr_t)PyLong_AsUnsignedLongLong(args[1]);
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(args[2], i));
    for (int i = 0; i < POINTERS; i++)
        addresses[i] = (uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(args[4], i));
    layer.clip = (float)PyFloat_AsDouble(args[3]);
    if (PyErr_Occurred())
        return NULL;
    memcpy(&layer.kind, numbers, sizeof numbers);
    memcpy(&layer.x, addresses, sizeof addresses);
    const int64_t wide = layer.gates * layer.units, items = (layer.batch + layer.rows - 1) / layer.rows;
    Py_BEGIN_ALLOW_THREADS
    if (back)
        pack_here(weights, 1, wide, wide, layer.units, layer.panels);
    else
        pack_here(weights, wide, 1, layer.units, wide, layer.panels);
    share(back ? backward_here : forward_here, &layer, items, layer.steps * layer.batch * wide * layer.units / 8);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, "Runs a layer over time, or its gradient."},
    {"use_threads", use_threads, METH_O, "Takes the address of GOMP_parallel."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_recurrent", "Recurrent layers over time.", -1, methods};

PyMODINIT_FUNC PyInit__recurrent(void)
{
    if (!has_width())
        return NULL;
    forward_here = OF_WIDTH(forward);
    backward_here = OF_WIDTH(backward);
    pack_here = OF_WIDTH(pack);
    return PyModule_Create(&module);
}
