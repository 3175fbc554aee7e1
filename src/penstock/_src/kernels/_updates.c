/* Updates of variables by optimizers on the CPU (float32 and float64): many variables in one call, or rows of one.

   This is an accelerator: `updates.py` says which tensors it takes; torch computes the rules everywhere else. A rule (_rules.h)
   reads and writes each element of a variable and of its slots once.

   Rows: `indices` names the rows to which gradients belong, some of them several times. They are found by a table of the first
   place of each row and a chain of the others, so nothing is sorted, and no gradient of the whole variable is made. */
#include "_rules.h"
#include <stdlib.h>
#include <string.h>

#define STILL(rule, slots, still, ...) still,
static const int stays[] = {RULES(STILL)};

static Processor here;

enum { BLOCK = 1 << 14 };                                   /* elements that a thread takes at a time */
enum { ROOM = 256 };                                        /* columns of which sums are made at a time */
enum { IN_TURN, SUMMED, ALL };                              /* how rows are updated: see rows() */
typedef struct { char *state[1 + MOST_SLOTS], *grad; int64_t count, first; } Part;
typedef struct { Rule rule; double n[NUMBERS]; Part *parts; int64_t count, size; } Dense;

static PyObject *float32, *float64, *int32, *int64, *name_dtype, *name_is_cpu, *name_numel, *name_is_contiguous, *name_data_ptr, *name_stride, *name_shape;

static PyObject *called(PyObject *tensor, PyObject *name) { return PyObject_CallMethodNoArgs(tensor, name); }

/* Whether a tensor lies as `strides` say; where these are NULL, contiguously. */
static int lies_so(PyObject *tensor, PyObject *strides)
{
    PyObject *own = called(tensor, strides == NULL ? name_is_contiguous : name_stride);
    const int so = own != NULL && (strides == NULL ? own == Py_True : PyObject_RichCompareBool(own, strides, Py_EQ) == 1);
    Py_XDECREF(own);
    return so;
}

/* Where a tensor begins, if it lies as `strides` say, on the CPU, with elements of that type and that many of them (-1: any
   number, which is returned there); else NULL, with or without an error. */
static void *address(PyObject *tensor, PyObject *type, int64_t *elements, PyObject *strides)
{
    PyObject *dtype = PyObject_GetAttr(tensor, name_dtype), *is_cpu = PyObject_GetAttr(tensor, name_is_cpu);
    PyObject *numel = NULL, *at = NULL;
    void *found = NULL;
    if (dtype == type && is_cpu == Py_True && (numel = called(tensor, name_numel)) != NULL && lies_so(tensor, strides)) {
        const int64_t given = PyLong_AsLongLong(numel);
        if ((*elements < 0 || given == *elements) && !PyErr_Occurred() && (at = called(tensor, name_data_ptr)) != NULL) {
            *elements = given;
            found = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(at);
        }
    }
    Py_XDECREF(dtype), Py_XDECREF(is_cpu), Py_XDECREF(numel), Py_XDECREF(at);
    return found;
}

static int rule_and_numbers(PyObject *kind, PyObject *numbers, long *rule, double *n)
{
    *rule = PyLong_AsLong(kind);
    if (*rule < 0 || *rule >= KINDS) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "no such rule");
        return 0;
    }
    return numbers_of_rule(numbers, n);
}

static void do_part(const void *given, int64_t number)
{
    const Dense *job = given;
    int64_t low = 0, high = job->count;                     /* the part that block `number` belongs to */
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (job->parts[middle].first <= number)
            low = middle;
        else
            high = middle;
    }
    const Part *p = job->parts + low;
    const int64_t from = (number - p->first) * BLOCK, left = p->count - from, at = from * job->size;
    char *s[MOST_SLOTS];
    for (int i = 0; i < MOST_SLOTS; i++)
        s[i] = p->state[1 + i] == NULL ? NULL : p->state[1 + i] + at;
    job->rule(left < BLOCK ? left : BLOCK, job->n, p->state[0] + at, s[0], s[1], s[2], p->grad + at);
}

/* The type of elements that a tensor has, of those that have rules; NULL with an error. */
static PyObject *type_of(PyObject *tensor)
{
    PyObject *dtype = PyObject_GetAttr(tensor, name_dtype);
    Py_XDECREF(dtype);                                      /* torch keeps it */
    return dtype == NULL ? NULL : dtype == float64 ? float64 : float32;
}

enum { AXES = 8 };

/* The strides of a tensor that fills its memory in another order of axes, as filters do; NULL, with or without an error, if it
   is contiguous, or has gaps. */
static PyObject *other_order(PyObject *tensor)
{
    if (lies_so(tensor, NULL) || PyErr_Occurred())
        return NULL;
    PyObject *shape = PyObject_GetAttr(tensor, name_shape), *strides = shape == NULL ? NULL : called(tensor, name_stride);
    int fills = strides != NULL && PyTuple_Check(shape) && PyTuple_Check(strides) && PyTuple_GET_SIZE(strides) <= AXES &&
                PyTuple_GET_SIZE(shape) == PyTuple_GET_SIZE(strides);
    const int axes = fills ? (int)PyTuple_GET_SIZE(shape) : 0;
    int left = axes, done[AXES] = {0};
    for (int64_t step = 1; fills && left > 0; left--) {      /* the axis whose neighbours lie `step` apart, then the next one */
        int64_t size = 0;
        for (int i = 0; size == 0 && i < axes; i++)
            if (!done[i] && (PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i)) == 1 ||
                             PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i)) == step)) {
                size = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
                done[i] = 1;
            }
        fills = size > 0;
        step *= size;
    }
    Py_XDECREF(shape);
    if (!fills)
        Py_CLEAR(strides);
    return strides;
}

static const Lanes *lanes_of(PyObject *type) { return type == float64 ? &here.doubles : &here.floats; }
static int64_t size_of(PyObject *type) { return type == float64 ? sizeof(double) : sizeof(float); }

/* dense(rule, numbers, states, grads): states is a list of lists, the variables and each of their slots. True, or False if some
   tensor does not fit; then nothing is changed. */
static PyObject *dense(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    Dense job;
    long rule;
    if (given != 4 || !PyList_CheckExact(args[2]) || !PyList_CheckExact(args[3])) {
        PyErr_SetString(PyExc_TypeError, "dense(rule, numbers, states, grads)");
        return NULL;
    }
    if (!rule_and_numbers(args[0], args[1], &rule, job.n))
        return NULL;
    const Py_ssize_t states = PyList_GET_SIZE(args[2]);
    job.count = PyList_GET_SIZE(args[3]);
    if (states != 1 + slots_of[rule] || job.count == 0)
        Py_RETURN_FALSE;
    PyObject *type = type_of(PyList_GET_ITEM(args[3], 0));
    if (type == NULL)
        return NULL;
    job.rule = lanes_of(type)->rules[rule];
    job.size = size_of(type);
    job.parts = calloc((size_t)job.count, sizeof *job.parts);
    if (job.parts == NULL)
        return PyErr_NoMemory();
    int64_t blocks = 0, elements = 0;
    int fits = 1;
    for (Py_ssize_t i = 0; fits && i < job.count; i++) {
        Part *p = job.parts + i;
        p->count = -1;
        PyObject *strides = other_order(PyList_GET_ITEM(args[3], i));
        fits = !PyErr_Occurred();
        for (Py_ssize_t k = 0; fits && k <= states; k++) {
            PyObject *list = k < states ? PyList_GET_ITEM(args[2], k) : args[3];
            if (!PyList_CheckExact(list) || PyList_GET_SIZE(list) != job.count)
                fits = 0;
            else {
                char *at = address(PyList_GET_ITEM(list, i), type, &p->count, strides);
                fits = at != NULL || (p->count == 0 && !PyErr_Occurred());
                *(k < states ? p->state + k : &p->grad) = at;
            }
        }
        Py_XDECREF(strides);
        p->first = blocks;
        blocks += (p->count + BLOCK - 1) / BLOCK;
        elements += p->count;
    }
    if (fits) {
        Py_ssize_t kept = 0;                                /* empty ones have no block, and no part */
        for (Py_ssize_t i = 0; i < job.count; i++)
            if (job.parts[i].count > 0)
                job.parts[kept++] = job.parts[i];
        job.count = kept;
        Py_BEGIN_ALLOW_THREADS
        share(do_part, &job, blocks, elements * 4);
        Py_END_ALLOW_THREADS
    }
    free(job.parts);
    if (PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(fits);
}

typedef struct {
    Rule rule;
    AddRow add_row;
    double n[NUMBERS];
    char *state[1 + MOST_SLOTS];
    const char *grad;
    int64_t size, rows, width, places, distinct, each;            /* each: rows, or distinct rows, of an item */
    int how, still;
    int32_t *head, *next, *last, *row_of;                   /* chains of places; the row of each distinct one, or NULL */
} Rows;

/* The rule on `count` elements that begin at element `at` of the variable. */
static void on_some(const Rows *job, int64_t at, int64_t count, const void *grad)
{
    char *s[MOST_SLOTS];
    for (int i = 0; i < MOST_SLOTS; i++)
        s[i] = job->state[1 + i] == NULL ? NULL : job->state[1 + i] + at * job->size;
    job->rule(count, job->n, job->state[0] + at * job->size, s[0], s[1], s[2], grad);
}

static void on_chain(const Rows *job, int64_t row, int32_t first)
{
    const int64_t width = job->width, at = row * width, size = job->size;
    if (job->next[first] < 0)
        on_some(job, at, width, job->grad + first * width * size);
    else if (job->how == IN_TURN)
        for (int64_t place = first; place >= 0; place = job->next[place])
            on_some(job, at, width, job->grad + place * width * size);
    else
        for (int64_t column = 0; column < width; column += ROOM) {
            const int64_t count = width - column < ROOM ? width - column : ROOM;
            union { double doubles[ROOM]; float floats[ROOM]; } sum = {{0}};
            for (int64_t place = first; place >= 0; place = job->next[place])
                job->add_row(count, &sum, job->grad + (place * width + column) * size);
            on_some(job, at + column, count, &sum);
        }
}

static void do_rows(const void *given, int64_t number)
{
    const Rows *job = given;
    const int64_t total = job->row_of == NULL ? job->rows : job->distinct;
    const int64_t from = number * job->each, to = total < from + job->each ? total : from + job->each;
    if (job->row_of != NULL)
        for (int64_t i = from; i < to; i++)
            on_chain(job, job->row_of[i], job->head[i]);
    else
        for (int64_t row = from; row < to;) {
            int64_t end = row;
            while (end < to && job->head[end] < 0)
                end++;
            if (end > row)
                on_some(job, row * job->width, (end - row) * job->width, NULL);
            if (end < to)
                on_chain(job, end, job->head[end]);
            row = end + 1;
        }
}

/* Chains the places of each row. With a head for each row of the variable, or, where rows without a gradient stay as they are,
   with a head for each distinct row, found by hashing. The first index that is not a row, or -1. */
static int64_t chain(Rows *job, const void *indices, int wide, int32_t *table, uint64_t mask)
{
    memset(job->head, 0xff, (size_t)(job->row_of == NULL ? job->rows : job->places) * sizeof *job->head);
    if (table != NULL)
        memset(table, 0xff, (mask + 1) * sizeof *table);
    for (int64_t i = 0; i < job->places; i++) {
        const int64_t row = wide ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
        if (row < 0 || row >= job->rows)
            return i;
        int64_t slot = row;
        if (table != NULL) {
            uint64_t at = ((uint64_t)row * 0x9e3779b97f4a7c15u >> 20) & mask;
            while (table[at] >= 0 && job->row_of[table[at]] != row)
                at = (at + 1) & mask;
            if (table[at] < 0) {
                job->row_of[job->distinct] = (int32_t)row;
                table[at] = (int32_t)job->distinct++;
            }
            slot = table[at];
        }
        job->next[i] = -1;
        if (job->head[slot] < 0)
            job->head[slot] = (int32_t)i;
        else
            job->next[job->last[slot]] = (int32_t)i;
        job->last[slot] = (int32_t)i;
    }
    return -1;
}

/* rows(rule, numbers, states, grad, indices, rows, how): how is IN_TURN (each place by itself), SUMMED (gradients of a row are
   added up first) or ALL (the same, and all other rows have a gradient of 0). -1 if it is done,
   -2 if some tensor does not fit, or the place of an index that is not a row; then nothing is changed. */
static PyObject *rows(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    Rows job = {0};
    long rule;
    if (given != 7 || !PyList_CheckExact(args[2])) {
        PyErr_SetString(PyExc_TypeError, "rows(rule, numbers, states, grad, indices, rows, how)");
        return NULL;
    }
    if (!rule_and_numbers(args[0], args[1], &rule, job.n))
        return NULL;
    const Py_ssize_t states = PyList_GET_SIZE(args[2]);
    PyObject *type = type_of(args[3]);
    if (type == NULL)
        return NULL;
    job.rule = lanes_of(type)->rules[rule];
    job.add_row = lanes_of(type)->add_row;
    job.size = size_of(type);
    job.still = stays[rule];
    job.rows = PyLong_AsLongLong(args[5]);
    job.how = (int)PyLong_AsLong(args[6]);
    int64_t elements = -1, places = -1, expected;
    if (PyErr_Occurred())
        return NULL;
    int fits = states == 1 + slots_of[rule];
    for (Py_ssize_t k = 0; fits && k < states; k++)
        fits = (job.state[k] = address(PyList_GET_ITEM(args[2], k), type, &elements, NULL)) != NULL;
    const void *indices = fits ? address(args[4], int64, &places, NULL) : NULL;
    const int wide = indices != NULL;
    if (fits && !wide && !PyErr_Occurred())
        indices = address(args[4], int32, &places, NULL);
    fits = fits && indices != NULL && job.rows > 0 && elements > 0 && places > 0 && job.rows < INT32_MAX && places < INT32_MAX;
    if (fits) {
        job.places = places;
        job.width = elements / job.rows;
        expected = places * job.width;
        fits = (job.grad = address(args[3], type, &expected, NULL)) != NULL;
    }
    if (!fits)
        return PyErr_Occurred() ? NULL : PyLong_FromLong(-2);
    const int few = job.how != ALL || job.still;            /* only the rows that are named change */
    const int hashed = few && job.rows > 4 * places;
    const int64_t heads = hashed ? places : job.rows;
    uint64_t mask = 1;
    while (hashed && mask < 2 * (uint64_t)places)
        mask = 2 * mask;
    int32_t *room = malloc(((size_t)(2 * heads + places) + (hashed ? (size_t)places + mask : 0)) * sizeof *room);
    if (room == NULL)
        return PyErr_NoMemory();
    job.head = room, job.last = room + heads, job.next = job.last + heads;
    job.row_of = hashed ? job.next + places : NULL;
    int64_t bad;
    Py_BEGIN_ALLOW_THREADS
    bad = chain(&job, indices, wide, hashed ? job.row_of + places : NULL, mask - 1);
    if (bad < 0) {
        if (few && !hashed) {                               /* the rows that are named, in their order: `last` is free now */
            for (int64_t row = 0; row < job.rows; row++)
                if (job.head[row] >= 0) {
                    job.last[job.distinct] = (int32_t)row;
                    job.head[job.distinct++] = job.head[row];
                }
            job.row_of = job.last;
        }
        const int64_t total = job.row_of == NULL ? job.rows : job.distinct;
        job.each = job.width >= BLOCK ? 1 : BLOCK / job.width;
        share(do_rows, &job, (total + job.each - 1) / job.each, total * job.width * 4);
    }
    Py_END_ALLOW_THREADS
    free(room);
    return PyLong_FromLongLong(bad);
}

static PyMethodDef methods[] = {
    {"dense", (PyCFunction)(void (*)(void))dense, METH_FASTCALL, "Updates variables and their slots by gradients."},
    {"rows", (PyCFunction)(void (*)(void))rows, METH_FASTCALL, "Updates rows of a variable and of its slots."},
    {"use_threads", use_threads, METH_O, "Takes the address of GOMP_parallel."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_updates", "Updates of variables by optimizers.", -1, methods};

static int add_names(PyObject *made)
{
    for (int kind = 0; kind < KINDS; kind++)
        if (PyModule_AddIntConstant(made, rule_names[kind], kind) < 0)
            return 0;
    return PyModule_AddIntConstant(made, "IN_TURN", IN_TURN) == 0 && PyModule_AddIntConstant(made, "SUMMED", SUMMED) == 0 &&
           PyModule_AddIntConstant(made, "ALL", ALL) == 0;
}

PyMODINIT_FUNC PyInit__updates(void)
{
    here = choose_rules();
    PyObject *torch = PyImport_ImportModule("torch");
    if (torch == NULL)
        return NULL;
    float32 = PyObject_GetAttrString(torch, "float32");
    float64 = PyObject_GetAttrString(torch, "float64");
    int32 = PyObject_GetAttrString(torch, "int32");
    int64 = PyObject_GetAttrString(torch, "int64");
    Py_DECREF(torch);
    name_dtype = PyUnicode_InternFromString("dtype");
    name_is_cpu = PyUnicode_InternFromString("is_cpu");
    name_numel = PyUnicode_InternFromString("numel");
    name_is_contiguous = PyUnicode_InternFromString("is_contiguous");
    name_data_ptr = PyUnicode_InternFromString("data_ptr");
    name_stride = PyUnicode_InternFromString("stride");
    name_shape = PyUnicode_InternFromString("shape");
    if (float32 == NULL || float64 == NULL || int32 == NULL || int64 == NULL || name_dtype == NULL || name_is_cpu == NULL || name_numel == NULL ||
        name_is_contiguous == NULL || name_data_ptr == NULL || name_stride == NULL || name_shape == NULL)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && !add_names(made))
        Py_CLEAR(made);
    return made;
}
