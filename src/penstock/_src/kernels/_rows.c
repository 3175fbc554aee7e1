/* Rows of different lengths, given by their splits or by the row of each value: their places in a box, those that are chosen, the
   coordinates of their values, sums by row, counts, rows that are empty, distinct numbers, positions of coordinates in a box, and
   the order of rows by label.

   This is an accelerator of `kernels/rows.py`; where it is not compiled, torch does the same. Every function reads contiguous
   arrays at addresses, checks what it is given before it writes, and reports what is not right by a result, so that the slower
   code raises the error. Integers have 64 bits if they are `wide`, otherwise 32. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { const void *at; int wide; } Ints;

static inline int64_t get(Ints a, int64_t i)
{
    return a.wide ? ((const int64_t *)a.at)[i] : ((const int32_t *)a.at)[i];
}

static inline void put(void *to, int wide, int64_t i, int64_t value)
{
    if (wide)
        ((int64_t *)to)[i] = value;
    else
        ((int32_t *)to)[i] = (int32_t)value;
}

/* Reads `count` integers; 0 after an exception. */
static int numbers(PyObject *const *args, Py_ssize_t given, int count, int64_t *to)
{
    if (given != count) {
        PyErr_Format(PyExc_TypeError, "takes %d integers", count);
        return 0;
    }
    for (int i = 0; i < count; i++)
        to[i] = PyLong_AsLongLong(args[i]);
    return !PyErr_Occurred();
}

static inline void *pointer(int64_t address)
{
    return (void *)(intptr_t)address;
}

/* extent(by_rows, partition, wide, count, above) -> (values, columns) of rows with these splits, or of values with these rows;
   None if `above` rows cannot have them. */
static PyObject *extent(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    int64_t a[5], columns = 0, total, run = 0;
    if (!numbers(args, given, 5, a))
        return NULL;
    const Ints part = {pointer(a[1]), a[2] != 0};
    const int64_t count = a[3], above = a[4];
    if (a[0]) {
        for (int64_t i = 0; i < count; i++) {
            const int64_t row = get(part, i);
            if (row < 0 || row >= above)
                Py_RETURN_NONE;
            run = i && row == get(part, i - 1) ? run + 1 : 1;
            if (run > columns)
                columns = run;
        }
        total = count;
    } else {
        if (count < 1 || count - 1 > above || get(part, 0) != 0)
            Py_RETURN_NONE;
        for (int64_t i = 1; i < count; i++) {
            const int64_t length = get(part, i) - get(part, i - 1);
            if (length < 0)
                Py_RETURN_NONE;
            if (length > columns)
                columns = length;
        }
        total = get(part, count - 1);
    }
    return Py_BuildValue("LL", (long long)total, (long long)columns);
}

/* place(by_rows, partition, wide, count, above, size, limit, to): the place of each value, of rows at the places `above` (0: row i at i,
   if it is below `limit`) and of `size` columns each; -1 where there is none. */
static PyObject *place(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    int64_t a[8];
    if (!numbers(args, given, 8, a))
        return NULL;
    const Ints part = {pointer(a[1]), a[2] != 0};
    const int64_t count = a[3], size = a[5], *above = pointer(a[4]), limit = a[6];
    int64_t *to = pointer(a[7]);
#define PLACE_OF(row) (above ? above[row] : (row) < limit ? (row) : -1)
    if (a[0]) {
        int64_t run = 0;
        for (int64_t i = 0; i < count; i++) {
            const int64_t row = get(part, i), base = PLACE_OF(row);
            run = i && row == get(part, i - 1) ? run + 1 : 0;
            to[i] = base < 0 || run >= size ? -1 : base * size + run;
        }
    } else
        for (int64_t row = 0; row + 1 < count; row++) {
            const int64_t first = get(part, row), end = get(part, row + 1), base = PLACE_OF(row);
            for (int64_t i = first; i < end; i++)
                to[i] = base < 0 || i - first >= size ? -1 : base * size + (i - first);
        }
#undef PLACE_OF
    Py_RETURN_NONE;
}

/* spread(values, places, count, bytes, to): values of so many bytes each to their places. */
static PyObject *spread(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    int64_t a[5];
    if (!numbers(args, given, 5, a))
        return NULL;
    const char *values = pointer(a[0]);
    const int64_t *places = pointer(a[1]), count = a[2], bytes = a[3];
    char *to = pointer(a[4]);
    Py_BEGIN_ALLOW_THREADS
    if (bytes == 4) {
        for (int64_t i = 0; i < count; i++)
            if (places[i] >= 0)
                memcpy(to + places[i] * 4, values + i * 4, 4);
    } else if (bytes == 8) {
        for (int64_t i = 0; i < count; i++)
            if (places[i] >= 0)
                memcpy(to + places[i] * 8, values + i * 8, 8);
    } else
        for (int64_t i = 0; i < count; i++)
            if (places[i] >= 0)
                memcpy(to + places[i] * bytes, values + i * bytes, bytes);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* chosen(splits, wide, count, most, rows, rows_wide, chosen, to): the splits of the chosen rows; returns how many values they have,
   or -1 if the splits do not divide at most `most` values, or a row does not exist. */
static PyObject *chosen(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    int64_t a[8], total = 0;
    if (!numbers(args, given, 8, a))
        return NULL;
    const Ints splits = {pointer(a[0]), a[1] != 0}, rows = {pointer(a[4]), a[5] != 0};
    const int64_t count = a[2], most = a[3], picked = a[6];
    void *to = pointer(a[7]);
    if (count < 1 || get(splits, 0) < 0 || get(splits, count - 1) > most)
        return PyLong_FromLong(-1);
    for (int64_t i = 1; i < count; i++)
        if (get(splits, i) < get(splits, i - 1))
            return PyLong_FromLong(-1);
    put(to, splits.wide, 0, 0);
    for (int64_t i = 0; i < picked; i++) {
        const int64_t row = get(rows, i);
        if (row < 0 || row >= count - 1)
            return PyLong_FromLong(-1);
        total += get(splits, row + 1) - get(splits, row);
        if (!splits.wide && total > INT32_MAX)
            return PyLong_FromLong(-1);
        put(to, splits.wide, i + 1, total);
    }
    return PyLong_FromLongLong(total);
}

/* members(splits, wide, rows, rows_wide, chosen, to): the positions of the values of the chosen rows, which `chosen` has checked. */
static PyObject *members(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    int64_t a[6];
    if (!numbers(args, given, 6, a))
        return NULL;
    const Ints splits = {pointer(a[0]), a[1] != 0}, rows = {pointer(a[2]), a[3] != 0};
    int64_t *to = pointer(a[5]);
    for (int64_t i = 0; i < a[4]; i++) {
        const int64_t row = get(rows, i), end = get(splits, row + 1);
        for (int64_t j = get(splits, row); j < end; j++)
            *to++ = j;
    }
    Py_RETURN_NONE;
}

/* coordinates(splits, wide, count, to): the row and the column of each value, of splits that `extent` has checked. */
static PyObject *coordinates(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    int64_t a[4];
    if (!numbers(args, given, 4, a))
        return NULL;
    const Ints splits = {pointer(a[0]), a[1] != 0};
    int64_t *to = pointer(a[3]);
    for (int64_t row = 0; row + 1 < a[2]; row++) {
        const int64_t first = get(splits, row), end = get(splits, row + 1);
        for (int64_t i = first; i < end; i++) {
            *to++ = row;
            *to++ = i - first;
        }
    }
    Py_RETURN_NONE;
}

/* Rows of `width` numbers to those that their ids name; the first row whose id is not below `n`, or -1. */
#define REDUCE(name, Item, CHANGE)                                                                                      \
    static int64_t name(const Item *data, Ints ids, int64_t count, int64_t width, int64_t n, Item *to)                  \
    {                                                                                                                   \
        for (int64_t i = 0; i < count; i++, data += width) {                                                            \
            const int64_t id = get(ids, i);                                                                             \
            if (id >= n)                                                                                                \
                return i;                                                                                               \
            if (id < 0)                                                                                                 \
                continue;                                                                                               \
            Item *row = to + id * width;                                                                                \
            for (int64_t j = 0; j < width; j++)                                                                         \
                CHANGE(row[j], data[j]);                                                                                \
        }                                                                                                               \
        return -1;                                                                                                      \
    }
#define ADD(a, x) a += x
#define RAISE(a, x) a = x > a || x != x ? x : a                     /* a number that is none stays, as in torch */
#define LOWER(a, x) a = x < a || x != x ? x : a
REDUCE(add_float, float, ADD)
REDUCE(add_double, double, ADD)
REDUCE(add_int, uint32_t, ADD)
REDUCE(add_long, uint64_t, ADD)
REDUCE(raise_float, float, RAISE)
REDUCE(raise_double, double, RAISE)
REDUCE(raise_int, int32_t, RAISE)
REDUCE(raise_long, int64_t, RAISE)
REDUCE(lower_float, float, LOWER)
REDUCE(lower_double, double, LOWER)
REDUCE(lower_int, int32_t, LOWER)
REDUCE(lower_long, int64_t, LOWER)

/* name(type, data, ids, wide, count, width, n, to): type is 'f', 'd', 'i' or 'l'. Rows with negative ids are left out. */
#define REDUCTION(name, of_float, of_double, of_int, of_long)                                                           \
    static PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t given)                                      \
    {                                                                                                                   \
        int64_t a[8], bad;                                                                                              \
        if (!numbers(args, given, 8, a))                                                                                \
            return NULL;                                                                                                \
        const void *data = pointer(a[1]);                                                                               \
        const Ints ids = {pointer(a[2]), a[3] != 0};                                                                    \
        void *to = pointer(a[7]);                                                                                       \
        Py_BEGIN_ALLOW_THREADS                                                                                          \
        bad = a[0] == 'f' ? of_float(data, ids, a[4], a[5], a[6], to)                                                   \
            : a[0] == 'd' ? of_double(data, ids, a[4], a[5], a[6], to)                                                  \
            : a[0] == 'i' ? of_int(data, ids, a[4], a[5], a[6], to) : of_long(data, ids, a[4], a[5], a[6], to);         \
        Py_END_ALLOW_THREADS                                                                                            \
        return PyLong_FromLongLong(bad);                                                                                \
    }
REDUCTION(add, add_float, add_double, add_int, add_long)
REDUCTION(largest, raise_float, raise_double, raise_int, raise_long)
REDUCTION(smallest, lower_float, lower_double, lower_int, lower_long)

/* count(values, wide, count, size, to): how often each number below `size` occurs, as 64-bit integers. Returns whether a number was
   negative. */
static PyObject *count(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    int64_t a[5];
    if (!numbers(args, given, 5, a))
        return NULL;
    const Ints values = {pointer(a[0]), a[1] != 0};
    int64_t *to = pointer(a[4]);
    for (int64_t i = 0; i < a[2]; i++) {
        const int64_t value = get(values, i);
        if (value < 0)
            Py_RETURN_TRUE;
        if (value < a[3])
            to[value]++;
    }
    Py_RETURN_FALSE;
}

/* rising(ids, wide, count, limit) -> whether the ids are sorted, and all of them are from 0 to limit - 1. */
static PyObject *rising(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    int64_t a[4], before = 0;
    if (!numbers(args, given, 4, a))
        return NULL;
    const Ints ids = {pointer(a[0]), a[1] != 0};
    for (int64_t i = 0; i < a[2]; i++) {
        const int64_t id = get(ids, i);
        if (id < before || id >= a[3])
            Py_RETURN_FALSE;
        before = id;
    }
    Py_RETURN_TRUE;
}

/* Coordinates [count, depth] grouped by row, with a place in each row that has none; `next` has rows + 1 zeros. */
static void fill_rows(const int64_t *indices, int64_t count, int64_t depth, int64_t rows, int64_t *next, int64_t *to,
                      int64_t *source, uint8_t *empty, int64_t *back)
{
    for (int64_t i = 0; i < count; i++)
        next[indices[i * depth]]++;
    int64_t total = 0;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t size = next[row];
        empty[row] = !size;
        next[row] = total;
        if (!size) {
            memset(to + total * depth, 0, depth * sizeof *to);
            to[total * depth] = row;
            source[total] = count;
        }
        total += size ? size : 1;
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = next[indices[i * depth]]++;
        memcpy(to + at * depth, indices + i * depth, depth * sizeof *to);
        source[at] = i;
        back[i] = at;
    }
}

/* filled(indices, count, depth, rows, to, source, empty, back): coordinates with a place in each empty row; the value of each, `count`
   for the default; which rows were empty; and where each value went. `to` and `source` have room for count + rows. Returns how many
   there are, -1 if a row does not exist. */
static PyObject *filled(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    int64_t a[8], total;
    if (!numbers(args, given, 8, a))
        return NULL;
    const int64_t *indices = pointer(a[0]), count = a[1], depth = a[2], rows = a[3];
    for (int64_t i = 0; i < count; i++)
        if (indices[i * depth] < 0 || indices[i * depth] >= rows)
            return PyLong_FromLong(-1);
    int64_t *next = calloc(rows + 1, sizeof *next);
    uint8_t *empty = pointer(a[6]);
    if (!next)
        return PyErr_NoMemory();
    fill_rows(indices, count, depth, rows, next, pointer(a[4]), pointer(a[5]), empty, pointer(a[7]));
    free(next);
    total = count;
    for (int64_t row = 0; row < rows; row++)
        total += empty[row];
    return PyLong_FromLongLong(total);
}

/* distinct(values, wide, count, firsts, index): where each distinct number is first, and which of them each number is; returns how
   many there are. */
static PyObject *distinct(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    int64_t a[5], kinds = 0;
    int bits = 4;
    if (!numbers(args, given, 5, a))
        return NULL;
    const Ints values = {pointer(a[0]), a[1] != 0};
    int64_t *firsts = pointer(a[3]), *index = pointer(a[4]);
    while ((int64_t)1 << bits < 2 * a[2])
        bits++;
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    int64_t *table = calloc(mask + 1, sizeof *table);                /* 1 + the number of a distinct number; 0: free */
    if (!table)
        return PyErr_NoMemory();
    for (int64_t i = 0; i < a[2]; i++) {
        const int64_t value = get(values, i);
        uint64_t at = (uint64_t)value * 0x9E3779B97F4A7C15u >> (64 - bits);
        while (table[at] && get(values, firsts[table[at] - 1]) != value)
            at = (at + 1) & mask;
        if (!table[at]) {
            firsts[kinds++] = i;
            table[at] = kinds;
        }
        index[i] = table[at] - 1;
    }
    free(table);
    return PyLong_FromLongLong(kinds);
}

#define DEEPEST 16

/* positions(indices, wide, count, to, size...): the position of each row of coordinates in a box of these sizes. Returns whether
   positions grow strictly; None if a row is outside. */
static PyObject *positions(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    int64_t a[4 + DEEPEST];
    const int depth = (int)given - 4;
    if (given < 4 || depth > DEEPEST) {
        PyErr_SetString(PyExc_TypeError, "takes 4 integers, and sizes");
        return NULL;
    }
    if (!numbers(args, given, (int)given, a))
        return NULL;
    const Ints indices = {pointer(a[0]), a[1] != 0};
    int64_t *to = pointer(a[3]);
    int sorted = 1;
    for (int64_t i = 0; i < a[2]; i++) {
        int64_t position = 0;
        for (int d = 0; d < depth; d++) {
            const int64_t at = get(indices, i * depth + d);
            if (at < 0 || at >= a[4 + d])
                Py_RETURN_NONE;
            position = position * a[4 + d] + at;
        }
        to[i] = position;
        sorted &= i == 0 || to[i - 1] < position;
    }
    return PyBool_FromLong(sorted);
}

/* apart(positions, count, to, size...): the rows of coordinates of positions in a box of these sizes, of which none is 0. */
static PyObject *apart(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    int64_t a[3 + DEEPEST];
    const int depth = (int)given - 3;
    if (given < 3 || depth > DEEPEST) {
        PyErr_SetString(PyExc_TypeError, "takes 3 integers, and sizes");
        return NULL;
    }
    if (!numbers(args, given, (int)given, a))
        return NULL;
    const int64_t *from = pointer(a[0]);
    int64_t *to = pointer(a[2]);
    for (int64_t i = 0; i < a[1]; i++) {
        int64_t position = from[i];
        for (int d = depth - 1; d >= 0; d--) {
            to[i * depth + d] = position % a[3 + d];
            position /= a[3 + d];
        }
    }
    Py_RETURN_NONE;
}

/* labelled(labels, wide, count, kinds, order, sizes): the rows with label 0, then those with label 1 …, in their order, and how many
   each label has. Returns whether all labels are below `kinds`. */
static PyObject *labelled(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    int64_t a[6], from = 0;
    if (!numbers(args, given, 6, a))
        return NULL;
    const Ints labels = {pointer(a[0]), a[1] != 0};
    const int64_t count = a[2], kinds = a[3];
    int64_t *order = pointer(a[4]), *sizes = pointer(a[5]);
    memset(sizes, 0, kinds * sizeof *sizes);
    for (int64_t i = 0; i < count; i++) {
        const int64_t label = get(labels, i);
        if (label < 0 || label >= kinds)
            Py_RETURN_FALSE;
        sizes[label]++;
    }
    int64_t *next = malloc((kinds + 1) * sizeof *next);
    if (!next)
        return PyErr_NoMemory();
    for (int64_t k = 0; k < kinds; k++) {
        next[k] = from;
        from += sizes[k];
    }
    for (int64_t i = 0; i < count; i++)
        order[next[get(labels, i)]++] = i;
    free(next);
    Py_RETURN_TRUE;
}

#define METHOD(name, text) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, text}
static PyMethodDef methods[] = {
    METHOD(extent, "The number of values and of columns."), METHOD(place, "Places of values in a box."),
    METHOD(spread, "Writes values to their places."), METHOD(chosen, "The splits of chosen rows."),
    METHOD(members, "The positions of the values of chosen rows."), METHOD(coordinates, "Rows and columns of values."),
    METHOD(add, "Adds rows by id."), METHOD(largest, "The largest of rows by id."),
    METHOD(smallest, "The smallest of rows by id."), METHOD(count, "Counts numbers."),
    METHOD(rising, "Whether ids are sorted."), METHOD(filled, "Fills empty rows."), METHOD(distinct, "Distinct numbers."),
    METHOD(positions, "Positions of coordinates in a box."), METHOD(apart, "Coordinates of positions in a box."),
    METHOD(labelled, "Rows in the order of their labels."), {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_rows", "Rows of different lengths.", -1, methods};

PyMODINIT_FUNC PyInit__rows(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddIntConstant(made, "LAYOUT", 1) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
