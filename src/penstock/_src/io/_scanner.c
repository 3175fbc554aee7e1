/* Scans tf.Example and tf.SequenceExample messages, and CSV: the values of some features or fields, many rows at a time.

   This is an accelerator: `examples.py` works without it. It knows the form in which serializers write messages and
   nothing else. A row in any other form (fields out of order, a feature twice, another kind of values, broken bytes) is
   left to protobuf, whose word is final. So there are no messages for users here, only FINE, IRREGULAR and NO_MEMORY.

   Every length is checked against what is left of the row before anything is read or allocated by it. What is allocated
   is at most a small multiple of the bytes of the rows. The rows are kept alive, and large batches are scanned without
   the interpreter's lock, by several threads if they are regular; Python objects are made afterwards. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>
#ifndef _WIN32
#include <pthread.h>
#endif

enum { BYTES = 0x0A, FLOAT = 0x12, INT64 = 0x1A };          /* the tags of the kinds of values in a Feature */
enum { FINE, IRREGULAR, NO_MEMORY };
enum { MISSING = -1 };                                      /* the count of a row that has no such feature */
enum { GUESSES = 64, UNLOCK = 1 << 18 };                    /* entries that are foreseen; bytes worth an unlocking */
enum { SHARE = 1 << 21, MOST_THREADS = 8 };                 /* bytes worth a thread */
static const uint64_t LONGEST = 0x7FFFFFFF;                 /* of a field, in protobuf */

typedef struct { const uint8_t *at, *end; } Span;

/* The rows of a list, kept alive in a tuple. */
typedef struct { PyObject *tuple; Span *spans; Py_ssize_t count; size_t bytes; } Rows;

/* -- memory ------------------------------------------------------------------------------------------------------- */
typedef struct { char *data; size_t size, room; int lent; } Buffer;     /* lent: a part of somebody else's, which cannot grow */

static int reserve(Buffer *buffer, size_t more)
{
    if (buffer->room - buffer->size >= more)
        return FINE;
    if (buffer->lent)
        return IRREGULAR;
    size_t room = buffer->size + more;
    room += room / 2 + 64;
    char *data = PyMem_RawRealloc(buffer->data, room);
    if (data == NULL)
        return NO_MEMORY;
    buffer->data = data;
    buffer->room = room;
    return FINE;
}

/* Memory of ours as a Python object that numpy can look into. */
typedef struct { PyObject_HEAD char *data; Py_ssize_t size; } Block;

static int block_buffer(PyObject *self, Py_buffer *view, int flags)
{
    return PyBuffer_FillInfo(view, self, ((Block *)self)->data, ((Block *)self)->size, 0, flags);
}

static void block_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyMem_RawFree(((Block *)self)->data);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot block_slots[] = {
    {Py_tp_dealloc, block_free}, {Py_bf_getbuffer, block_buffer}, {Py_tp_doc, "Bytes that a scan has written."}, {0, NULL}};
static PyType_Spec block_spec = {"penstock.io._scanner.Block", sizeof(Block), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, block_slots};
static PyObject *block_type;

static PyObject *as_block(Buffer *buffer)
{
    Block *made = PyObject_New(Block, (PyTypeObject *)block_type);
    if (made == NULL)
        return NULL;
    made->data = buffer->data;
    made->size = (Py_ssize_t)buffer->size;
    *buffer = (Buffer){0};
    return (PyObject *)made;
}

/* -- what is asked for -------------------------------------------------------------------------------------------- */
typedef struct { Span key; int kind; Py_ssize_t size; } Column;     /* size: values in every row, -1 for any number */

typedef struct {
    PyObject *keys;                     /* keeps the bytes of the keys alive */
    Py_ssize_t count;
    Column *columns;
    size_t mask;
    int32_t *table;                     /* columns by the hash of their keys; -1 is free */
} Wanted;

static size_t hashed(Span key)
{
    uint64_t h = 14695981039346656037u;
    for (const uint8_t *p = key.at; p < key.end; p++)
        h = (h ^ *p) * 1099511628211u;
    return (size_t)(h ^ h >> 32);
}

static int same(Span a, Span b)
{
    return a.end - a.at == b.end - b.at && memcmp(a.at, b.at, (size_t)(a.end - a.at)) == 0;
}

static int32_t lookup(const Wanted *wanted, Span key)
{
    for (size_t i = hashed(key) & wanted->mask;; i = (i + 1) & wanted->mask) {
        int32_t column = wanted->table[i];
        if (column < 0 || same(wanted->columns[column].key, key))
            return column;
    }
}

static void wanted_drop(Wanted *wanted)
{
    Py_DECREF(wanted->keys);
    PyMem_Free(wanted->columns);
    PyMem_Free(wanted->table);
    PyMem_Free(wanted);
}

static void wanted_free(PyObject *capsule)
{
    wanted_drop(PyCapsule_GetPointer(capsule, "penstock.wanted"));
}

static PyObject *prepare(PyObject *module, PyObject *arg)
{
    PyObject *given = PySequence_Tuple(arg);
    if (given == NULL)
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(given);
    size_t slots = 8;
    while (slots < 2 * (size_t)count)
        slots *= 2;
    Wanted *wanted = PyMem_Calloc(1, sizeof(Wanted));
    if (wanted == NULL) {
        Py_DECREF(given);
        return PyErr_NoMemory();
    }
    wanted->keys = given;
    wanted->count = count;
    wanted->mask = slots - 1;
    wanted->columns = PyMem_Calloc((size_t)count + 1, sizeof(Column));
    wanted->table = PyMem_Malloc(slots * sizeof(int32_t));
    PyObject *capsule = PyCapsule_New(wanted, "penstock.wanted", wanted_free);
    if (capsule == NULL) {
        wanted_drop(wanted);
        return NULL;
    }
    if (wanted->columns == NULL || wanted->table == NULL || count > INT32_MAX / 2) {
        Py_DECREF(capsule);
        return PyErr_NoMemory();
    }
    memset(wanted->table, 0xFF, slots * sizeof(int32_t));
    for (Py_ssize_t i = 0; i < count; i++) {
        Column *column = &wanted->columns[i];
        const char *key;
        Py_ssize_t length;
        if (!PyTuple_Check(PyTuple_GET_ITEM(given, i)) ||
            !PyArg_ParseTuple(PyTuple_GET_ITEM(given, i), "y#in", &key, &length, &column->kind, &column->size)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "columns are tuples of a key, a kind and a size");
            Py_DECREF(capsule);
            return NULL;
        }
        column->key = (Span){(const uint8_t *)key, (const uint8_t *)key + length};
        size_t slot = hashed(column->key) & wanted->mask;
        while (wanted->table[slot] >= 0)
            slot = (slot + 1) & wanted->mask;
        wanted->table[slot] = (int32_t)i;
    }
    return capsule;
}

/* -- the wire format ---------------------------------------------------------------------------------------------- */
static const uint8_t *varint(const uint8_t *p, const uint8_t *end, uint64_t *value)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 70 && p < end; shift += 7) {
        uint8_t byte = *p++;
        if (shift == 63 && byte > 1)
            return NULL;
        v |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = v;
            return p;
        }
    }
    return NULL;
}

/* A length and what it is the length of; `p` is behind the tag. */
static const uint8_t *field(const uint8_t *p, const uint8_t *end, Span *inside)
{
    uint64_t length;
    if (p < end && *p < 0x80)
        length = *p++;
    else if ((p = varint(p, end, &length)) == NULL)
        return NULL;
    if (length > LONGEST || length > (uint64_t)(end - p))
        return NULL;
    inside->at = p;
    inside->end = p + length;
    return inside->end;
}

static int whole_field(const uint8_t *p, const uint8_t *end, uint8_t tag, Span *inside)
{
    return p < end && *p == tag && field(p + 1, end, inside) == end ? FINE : IRREGULAR;
}

/* One entry of a map: its key and its value, in this order; 0x0A is the tag of the entry. */
static const uint8_t *map_entry(const uint8_t *p, const uint8_t *end, Span *key, Span *value)
{
    Span entry;
    if (*p != 0x0A || (p = field(p + 1, end, &entry)) == NULL || entry.at == entry.end || *entry.at != 0x0A)
        return NULL;
    const uint8_t *rest = field(entry.at + 1, entry.end, key);
    return rest != NULL && whole_field(rest, entry.end, 0x12, value) == FINE ? p : NULL;
}

/* -- values ------------------------------------------------------------------------------------------------------- */
static int add_packed_ints(Span packed, Buffer *out)
{
    int state = reserve(out, 8 * (size_t)(packed.end - packed.at));
    if (state != FINE)
        return state;
    uint64_t *to = (uint64_t *)(out->data + out->size);
    for (const uint8_t *p = packed.at; p < packed.end; to++) {
        if (*p < 0x80)
            *to = *p++;
        else if ((p = varint(p, packed.end, to)) == NULL)
            return IRREGULAR;
    }
    out->size = (size_t)((char *)to - out->data);
    return FINE;
}

static int add_packed_floats(Span packed, Buffer *out)
{
    size_t size = (size_t)(packed.end - packed.at);
    if (size % 4)
        return IRREGULAR;
    int state = reserve(out, size);
    if (state != FINE)
        return state;
    memcpy(out->data + out->size, packed.at, size);
    out->size += size;
    return FINE;
}

static int add_list(const uint8_t *p, const uint8_t *end, int kind, Buffer *out)
{
    while (p < end) {
        uint8_t tag = *p++;
        Span inside;
        int state = FINE;
        if (tag == 0x0A) {
            if ((p = field(p, end, &inside)) == NULL)
                return IRREGULAR;
            if (kind == INT64)
                state = add_packed_ints(inside, out);
            else if (kind == FLOAT)
                state = add_packed_floats(inside, out);
            else if ((state = reserve(out, sizeof(Span))) == FINE) {
                memcpy(out->data + out->size, &inside, sizeof(Span));
                out->size += sizeof(Span);
            }
        } else if (tag == 0x0D && kind == FLOAT && end - p >= 4) {
            state = add_packed_floats((Span){p, p + 4}, out);
            p += 4;
        } else if (tag == 0x08 && kind == INT64) {
            uint64_t value;
            const uint8_t *from = p;
            if ((p = varint(p, end, &value)) == NULL)
                return IRREGULAR;
            state = add_packed_ints((Span){from, p}, out);
        } else
            return IRREGULAR;
        if (state != FINE)
            return state;
    }
    return FINE;
}

static size_t width_of(int kind)
{
    return kind == FLOAT ? 4 : kind == INT64 ? 8 : sizeof(Span);
}

/* The values of a Feature; `count` stays as it is if it has no kind. */
static int add_feature(Span feature, int kind, Buffer *out, int64_t *count)
{
    Span list;
    if (feature.at == feature.end)
        return FINE;
    if (whole_field(feature.at, feature.end, (uint8_t)kind, &list) != FINE)
        return IRREGULAR;
    size_t before = out->size;
    int state = add_list(list.at, list.end, kind, out);
    *count = (int64_t)((out->size - before) / width_of(kind));
    return state;
}

/* -- rows --------------------------------------------------------------------------------------------------------- */
typedef struct { Span key; int32_t column; } Guess;

/* The columns of a scan while it goes on. */
typedef struct {
    const Wanted *wanted;
    Buffer *values;                     /* per column */
    size_t *kept;                       /* per column: the size of its values after the last good row */
    int64_t *counts;                    /* per column: one for each row, MISSING without the feature */
    Buffer *steps;                      /* per column, for sequences: how many values each step has */
    Py_ssize_t rows, row;               /* all rows, and good rows so far */
    Guess guesses[GUESSES];             /* what the entries of the row before were: the next one is often alike */
} Scan;

static void scan_free(Scan *scan)
{
    for (Py_ssize_t i = 0; i < scan->wanted->count; i++) {
        if (scan->values != NULL && !scan->values[i].lent)
            PyMem_RawFree(scan->values[i].data);
        if (scan->steps != NULL)
            PyMem_RawFree(scan->steps[i].data);
    }
    PyMem_RawFree(scan->values);
    PyMem_RawFree(scan->steps);
    PyMem_RawFree(scan->kept);
    PyMem_RawFree(scan->counts);
}

static int scan_begin(Scan *scan, const Wanted *wanted, Py_ssize_t rows, size_t bytes, int sequences)
{
    size_t n = (size_t)wanted->count + 1, each = (size_t)rows + 1;
    *scan = (Scan){.wanted = wanted, .rows = rows};
    scan->values = PyMem_RawCalloc(n, sizeof(Buffer));
    scan->kept = PyMem_RawCalloc(n, sizeof(size_t));
    scan->counts = each > PY_SSIZE_T_MAX / 8 / n ? NULL : PyMem_RawMalloc(n * each * sizeof(int64_t));
    scan->steps = sequences ? PyMem_RawCalloc(n, sizeof(Buffer)) : NULL;
    if (scan->values == NULL || scan->kept == NULL || scan->counts == NULL || (sequences && scan->steps == NULL))
        return NO_MEMORY;
    for (Py_ssize_t i = 0; i < wanted->count; i++) {
        const Column *column = &wanted->columns[i];
        size_t width = width_of(column->kind);
        size_t size = column->size < 0 ? 1 : (size_t)column->size;
        if (size <= bytes && each * size <= bytes && reserve(&scan->values[i], each * size * width) != FINE)
            return NO_MEMORY;
    }
    return FINE;
}

static int32_t find(Scan *scan, size_t entry, Span key)
{
    if (entry >= GUESSES)
        return lookup(scan->wanted, key);
    Guess *guess = &scan->guesses[entry];
    if (guess->key.at == NULL || !same(guess->key, key))
        *guess = (Guess){key, lookup(scan->wanted, key)};
    return guess->column;
}

static int64_t *count_of(Scan *scan, Py_ssize_t column)
{
    return &scan->counts[column * scan->rows + scan->row];
}

/* A map of features. */
static int scan_features(Scan *scan, Span map)
{
    size_t entry = 0;
    for (const uint8_t *p = map.at; p < map.end; entry++) {
        Span key, feature;
        if ((p = map_entry(p, map.end, &key, &feature)) == NULL)
            return IRREGULAR;
        int32_t column = find(scan, entry, key);
        if (column < 0)
            continue;
        int64_t *count = count_of(scan, column);
        if (*count != MISSING)
            return IRREGULAR;
        int state = add_feature(feature, scan->wanted->columns[column].kind, &scan->values[column], count);
        if (state != FINE)
            return state;
    }
    return FINE;
}

/* A map of feature lists: steps, each of which has values. */
static int scan_lists(Scan *scan, Span map)
{
    size_t entry = 0;
    for (const uint8_t *p = map.at; p < map.end; entry++) {
        Span key, list;
        if ((p = map_entry(p, map.end, &key, &list)) == NULL)
            return IRREGULAR;
        int32_t column = find(scan, entry, key);
        if (column < 0)
            continue;
        if (*count_of(scan, column) != MISSING)
            return IRREGULAR;
        Buffer *steps = &scan->steps[column];
        int64_t length = 0;
        for (const uint8_t *q = list.at; q < list.end; length++) {
            Span feature;
            int64_t count = MISSING;
            if (*q != 0x0A || (q = field(q + 1, list.end, &feature)) == NULL)
                return IRREGULAR;
            int state = add_feature(feature, scan->wanted->columns[column].kind, &scan->values[column], &count);
            if (state != FINE)
                return state;
            if (count == MISSING)
                return IRREGULAR;
            if (reserve(steps, sizeof(count)) != FINE)
                return NO_MEMORY;
            memcpy(steps->data + steps->size, &count, sizeof(count));
            steps->size += sizeof(count);
        }
        *count_of(scan, column) = length;
    }
    return FINE;
}

static void row_begin(Scan *scan)
{
    for (Py_ssize_t i = 0; i < scan->wanted->count; i++)
        *count_of(scan, i) = MISSING;
}

static void row_keep(Scan *scan)
{
    for (Py_ssize_t i = 0; i < scan->wanted->count; i++)
        scan->kept[i] = scan->values[i].size;
    scan->row++;
}

static void row_drop(Scan *scan)
{
    for (Py_ssize_t i = 0; i < scan->wanted->count; i++)
        scan->values[i].size = scan->kept[i];
}

/* All rows; the numbers of those that are irregular go to `left`. */
static int scan_rows(Scan *scan, const Span *rows, Buffer *left)
{
    for (int64_t i = 0; i < scan->rows; i++) {
        Span row = rows[i], map;
        row_begin(scan);
        int state = row.at == row.end ? FINE : whole_field(row.at, row.end, 0x0A, &map);
        if (state == FINE && row.at < row.end)
            state = scan_features(scan, map);
        if (state == NO_MEMORY)
            return state;
        if (state == FINE)
            row_keep(scan);
        else {
            row_drop(scan);
            if (reserve(left, sizeof(i)) != FINE)
                return NO_MEMORY;
            memcpy(left->data + left->size, &i, sizeof(i));
            left->size += sizeof(i);
        }
    }
    return FINE;
}

#ifndef _WIN32
/* -- rows by several threads -------------------------------------------------------------------------------------- */
typedef struct { Scan scan; const Span *rows; Buffer left; int state; pthread_t thread; int started; } Part;

static void *part_run(void *given)
{
    Part *part = given;
    part->state = scan_rows(&part->scan, part->rows, &part->left);
    return NULL;
}

static int is_full(const Scan *scan, Py_ssize_t column);

/* Columns of floats whose size is known are written to their place in the whole at once; the others are put together later. */
static int is_placed(const Column *column)
{
    return column->kind == FLOAT && column->size > 0;
}

static int part_begin(Part *part, Scan *whole, const Span *rows, Py_ssize_t from, Py_ssize_t to)
{
    size_t bytes = 0;
    for (Py_ssize_t i = from; i < to; i++)
        bytes += (size_t)(rows[i].end - rows[i].at);
    part->rows = rows + from;
    int state = scan_begin(&part->scan, whole->wanted, to - from, bytes, 0);
    for (Py_ssize_t i = 0; state == FINE && i < whole->wanted->count; i++) {
        const Column *column = &whole->wanted->columns[i];
        if (!is_placed(column))
            continue;
        size_t width = (size_t)column->size * sizeof(float);
        if (whole->values[i].room < width * (size_t)whole->rows)
            return IRREGULAR;
        PyMem_RawFree(part->scan.values[i].data);
        part->scan.values[i] = (Buffer){whole->values[i].data + width * (size_t)from, 0, width * (size_t)(to - from), 1};
    }
    return state;
}

/* What the parts have found, in `whole`; only if all rows were regular and all placed columns are full. */
static int parts_join(Scan *whole, Part *parts, int count)
{
    for (int k = 0; k < count; k++) {
        if (parts[k].state != FINE || parts[k].left.size)
            return parts[k].state == NO_MEMORY ? NO_MEMORY : IRREGULAR;
        for (Py_ssize_t i = 0; i < whole->wanted->count; i++)
            if (is_placed(&whole->wanted->columns[i]) && !is_full(&parts[k].scan, i))
                return IRREGULAR;
    }
    for (int k = 0; k < count; k++) {
        Scan *part = &parts[k].scan;
        for (Py_ssize_t i = 0; i < whole->wanted->count; i++) {
            Buffer *from = &part->values[i], *to = &whole->values[i];
            memcpy(&whole->counts[i * whole->rows + whole->row], &part->counts[i * part->rows],
                   (size_t)part->rows * sizeof(int64_t));
            if (!from->lent) {
                if (reserve(to, from->size) != FINE)
                    return NO_MEMORY;
                if (from->size)
                    memcpy(to->data + to->size, from->data, from->size);
            }
            to->size += from->size;
        }
        whole->row += part->rows;
    }
    return FINE;
}

/* All rows, if they are regular. Otherwise IRREGULAR, and `whole` is as it was. */
static int scan_rows_together(Scan *whole, const Span *rows, int threads)
{
    Part *parts = PyMem_RawCalloc((size_t)threads, sizeof(Part));
    int state = parts == NULL ? NO_MEMORY : FINE, made = 0;
    for (; state == FINE && made < threads; made++)
        state = part_begin(&parts[made], whole, rows, whole->rows * made / threads, whole->rows * (made + 1) / threads);
    if (state == FINE) {
        for (int k = 1; k < threads; k++)
            parts[k].started = pthread_create(&parts[k].thread, NULL, part_run, &parts[k]) == 0;
        for (int k = 0; k < threads; k++)
            if (!parts[k].started)
                part_run(&parts[k]);
        for (int k = 1; k < threads; k++)
            if (parts[k].started)
                pthread_join(parts[k].thread, NULL);
        state = parts_join(whole, parts, threads);
    }
    for (int k = 0; k < made; k++) {
        scan_free(&parts[k].scan);
        PyMem_RawFree(parts[k].left.data);
    }
    PyMem_RawFree(parts);
    if (state == IRREGULAR) {
        whole->row = 0;
        for (Py_ssize_t i = 0; i < whole->wanted->count; i++)
            whole->values[i].size = 0;
    }
    return state;
}
#endif

/* All rows, by as many threads as they are worth and as there may be. */
static int scan_all(Scan *scan, const Rows *rows, Buffer *left, int threads)
{
#ifndef _WIN32
    if ((size_t)threads > rows->bytes / SHARE)
        threads = (int)(rows->bytes / SHARE);
    if (threads > MOST_THREADS)
        threads = MOST_THREADS;
    if (threads > rows->count)
        threads = (int)rows->count;
    if (threads > 1) {
        int state = scan_rows_together(scan, rows->spans, threads);
        if (state != IRREGULAR)
            return state;
    }
#endif
    return scan_rows(scan, rows->spans, left);
}

static int scan_sequence_rows(Scan *context, Scan *lists, const Span *rows)
{
    for (Py_ssize_t i = 0; i < context->rows; i++) {
        const uint8_t *p = rows[i].at, *end = rows[i].end;
        Span map;
        int state = FINE;
        row_begin(context);
        row_begin(lists);
        if (p < end && *p == 0x0A) {
            if ((p = field(p + 1, end, &map)) == NULL)
                return IRREGULAR;
            state = scan_features(context, map);
        }
        if (state == FINE && p < end) {
            if (whole_field(p, end, 0x12, &map) != FINE)
                return IRREGULAR;
            state = scan_lists(lists, map);
        }
        if (state != FINE)
            return state;
        row_keep(context);
        row_keep(lists);
    }
    return FINE;
}

/* -- Python ------------------------------------------------------------------------------------------------------- */
/* An array of byte strings: `make` gives an array of objects of a size. */
static PyObject *as_strings(const Buffer *spans, PyObject *make)
{
    Py_ssize_t count = (Py_ssize_t)(spans->size / sizeof(Span));
    Py_buffer view;
    PyObject *array = PyObject_CallFunction(make, "n", count);
    if (array == NULL || PyObject_GetBuffer(array, &view, PyBUF_CONTIG | PyBUF_FORMAT) < 0) {
        Py_XDECREF(array);
        return NULL;
    }
    int fine = view.format != NULL && strcmp(view.format, "O") == 0 && view.len == count * (Py_ssize_t)sizeof(PyObject *);
    if (!fine)
        PyErr_SetString(PyExc_TypeError, "strings need an array of objects");
    PyObject **slots = view.buf;
    for (Py_ssize_t i = 0; fine && i < count; i++) {
        Span span;
        memcpy(&span, spans->data + (size_t)i * sizeof(Span), sizeof(Span));
        PyObject *item = PyBytes_FromStringAndSize((const char *)span.at, span.end - span.at);
        if (item == NULL)
            fine = 0;
        else
            Py_XSETREF(slots[i], item);
    }
    PyBuffer_Release(&view);
    if (!fine)
        Py_CLEAR(array);
    return array;
}

static PyObject *counts_block(Scan *scan, Py_ssize_t column)
{
    Buffer copy = {0};
    size_t size = (size_t)scan->row * sizeof(int64_t);
    if (reserve(&copy, size + 1) != FINE)
        return PyErr_NoMemory();
    memcpy(copy.data, &scan->counts[column * scan->rows], size);
    copy.size = size;
    return as_block(&copy);
}

/* Whether all rows have as many values as the column says. */
static int is_full(const Scan *scan, Py_ssize_t column)
{
    Py_ssize_t size = scan->wanted->columns[column].size;
    const int64_t *counts = &scan->counts[column * scan->rows];
    for (Py_ssize_t i = 0; i < scan->row; i++)
        if (counts[i] != size)
            return 0;
    return size >= 0;
}

/* Per column a tuple: counts (None if every row has the column's size), values; for sequences steps per row between. */
static PyObject *scan_values(Scan *scan, PyObject *make)
{
    PyObject *all = PyList_New(scan->wanted->count);
    for (Py_ssize_t i = 0; all != NULL && i < scan->wanted->count; i++) {
        Buffer *values = &scan->values[i];
        PyObject *counts = scan->steps == NULL && is_full(scan, i) ? Py_NewRef(Py_None) : counts_block(scan, i);
        PyObject *flat = counts == NULL ? NULL :
            scan->wanted->columns[i].kind == BYTES ? as_strings(values, make) : as_block(values);
        PyObject *steps = flat == NULL || scan->steps == NULL ? NULL : as_block(&scan->steps[i]);
        PyObject *made = flat == NULL || (scan->steps != NULL && steps == NULL) ? NULL :
            steps == NULL ? PyTuple_Pack(2, counts, flat) : PyTuple_Pack(3, counts, steps, flat);
        Py_XDECREF(counts);
        Py_XDECREF(flat);
        Py_XDECREF(steps);
        if (made == NULL)
            Py_CLEAR(all);
        else
            PyList_SET_ITEM(all, i, made);
    }
    return all;
}

static int rows_take(PyObject *given, Rows *rows)
{
    *rows = (Rows){PySequence_Tuple(given), NULL, 0, 0};
    if (rows->tuple == NULL)
        return 0;
    rows->count = PyTuple_GET_SIZE(rows->tuple);
    rows->spans = PyMem_Malloc(((size_t)rows->count + 1) * sizeof(Span));
    if (rows->spans == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t i = 0; i < rows->count; i++) {
        PyObject *row = PyTuple_GET_ITEM(rows->tuple, i);
        if (!PyBytes_Check(row)) {
            PyErr_Format(PyExc_TypeError, "row %zd is not bytes", i);
            return 0;
        }
        const uint8_t *at = (const uint8_t *)PyBytes_AS_STRING(row);
        rows->spans[i] = (Span){at, at + PyBytes_GET_SIZE(row)};
        rows->bytes += (size_t)PyBytes_GET_SIZE(row);
    }
    return 1;
}

static void rows_free(Rows *rows)
{
    Py_XDECREF(rows->tuple);
    PyMem_Free(rows->spans);
}

static PyObject *scan(PyObject *module, PyObject *args)
{
    PyObject *capsule, *given, *make, *out = NULL;
    Wanted *wanted;
    Rows rows;
    int threads;
    if (!PyArg_ParseTuple(args, "OOOi:scan", &capsule, &given, &make, &threads) ||
        (wanted = PyCapsule_GetPointer(capsule, "penstock.wanted")) == NULL)
        return NULL;
    if (!rows_take(given, &rows)) {
        rows_free(&rows);
        return NULL;
    }
    Scan state;
    Buffer left = {0};
    int result = scan_begin(&state, wanted, rows.count, rows.bytes, 0);
    if (result == FINE) {
        PyThreadState *thread = rows.bytes >= UNLOCK ? PyEval_SaveThread() : NULL;
        result = scan_all(&state, &rows, &left, threads);
        if (thread != NULL)
            PyEval_RestoreThread(thread);
    }
    PyObject *values = result == FINE ? scan_values(&state, make) : result == NO_MEMORY ? PyErr_NoMemory() : NULL;
    if (values != NULL) {
        PyObject *rest = as_block(&left);
        out = rest == NULL ? NULL : PyTuple_Pack(2, values, rest);
        Py_XDECREF(rest);
        Py_DECREF(values);
    }
    PyMem_RawFree(left.data);
    scan_free(&state);
    rows_free(&rows);
    return out;
}

static PyObject *scan_sequences(PyObject *module, PyObject *args)
{
    PyObject *capsules[2], *given, *make, *out = NULL;
    Wanted *wanted[2];
    Rows rows;
    if (!PyArg_ParseTuple(args, "OOOO:scan_sequences", &capsules[0], &capsules[1], &given, &make))
        return NULL;
    for (int i = 0; i < 2; i++)
        if ((wanted[i] = PyCapsule_GetPointer(capsules[i], "penstock.wanted")) == NULL)
            return NULL;
    if (!rows_take(given, &rows)) {
        rows_free(&rows);
        return NULL;
    }
    Scan context, lists = {.wanted = wanted[1]};
    int result = scan_begin(&context, wanted[0], rows.count, rows.bytes, 0);
    if (result == FINE)
        result = scan_begin(&lists, wanted[1], rows.count, rows.bytes, 1);
    if (result == FINE) {
        PyThreadState *thread = rows.bytes >= UNLOCK ? PyEval_SaveThread() : NULL;
        result = scan_sequence_rows(&context, &lists, rows.spans);
        if (thread != NULL)
            PyEval_RestoreThread(thread);
    }
    if (result == IRREGULAR)
        out = Py_NewRef(Py_None);
    else if (result == NO_MEMORY)
        PyErr_NoMemory();
    else {
        PyObject *first = scan_values(&context, make), *second = first == NULL ? NULL : scan_values(&lists, make);
        out = second == NULL ? NULL : PyTuple_Pack(2, first, second);
        Py_XDECREF(first);
        Py_XDECREF(second);
    }
    scan_free(&context);
    scan_free(&lists);
    rows_free(&rows);
    return out;
}

/* Counts that were given as a buffer: how many there are, their sum and the largest. */
typedef struct { Py_buffer view; const int64_t *each; Py_ssize_t length; int64_t sum, most; } Counts;

static int counts_take(PyObject *given, Counts *counts)
{
    if (PyObject_GetBuffer(given, &counts->view, PyBUF_SIMPLE) < 0)
        return 0;
    counts->each = counts->view.buf;
    counts->length = counts->view.len / (Py_ssize_t)sizeof(int64_t);
    counts->sum = counts->most = 0;
    for (Py_ssize_t i = 0; i < counts->length; i++) {
        int64_t n = counts->each[i];
        if (n > PY_SSIZE_T_MAX / 64 - counts->sum) {
            PyBuffer_Release(&counts->view);
            PyErr_NoMemory();
            return 0;
        }
        counts->sum += n > 0 ? n : 0;
        counts->most = n > counts->most ? n : counts->most;
    }
    return 1;
}

/* Places and a shape as a tuple of blocks; they are freed if that fails. */
static PyObject *places_made(Buffer *places, Buffer *shape)
{
    PyObject *first = as_block(places), *second = first == NULL ? NULL : as_block(shape);
    PyObject *out = second == NULL ? NULL : PyTuple_Pack(2, first, second);
    Py_XDECREF(first);
    Py_XDECREF(second);
    PyMem_RawFree(places->data);
    PyMem_RawFree(shape->data);
    return out;
}

static int places_begin(Buffer *places, Buffer *shape, size_t rank, int64_t count)
{
    places->size = rank * sizeof(int64_t) * (size_t)count;
    shape->size = rank * sizeof(int64_t);
    places->data = PyMem_RawMalloc(places->size + 1);
    shape->data = PyMem_RawMalloc(shape->size);
    if (places->data != NULL && shape->data != NULL)
        return 1;
    PyMem_RawFree(places->data);
    PyMem_RawFree(shape->data);
    PyErr_NoMemory();
    return 0;
}

/* Where the values of lists with some counts are: pairs of a row and a number in it; and the shape [rows, longest]. */
static PyObject *places(PyObject *module, PyObject *arg)
{
    Counts counts;
    Buffer pairs = {0}, shape = {0};
    if (!counts_take(arg, &counts))
        return NULL;
    PyObject *out = NULL;
    if (places_begin(&pairs, &shape, 2, counts.sum)) {
        int64_t *to = (int64_t *)pairs.data, *dims = (int64_t *)shape.data;
        for (Py_ssize_t i = 0; i < counts.length; i++)
            for (int64_t k = 0; k < counts.each[i]; k++) {
                *to++ = i;
                *to++ = k;
            }
        dims[0] = counts.length;
        dims[1] = counts.most;
        out = places_made(&pairs, &shape);
    }
    PyBuffer_Release(&counts.view);
    return out;
}

/* The same for sequences: a row, a step, a number in it; counts has one number for each step. */
static PyObject *step_places(PyObject *module, PyObject *args)
{
    PyObject *given_steps, *given_counts, *out = NULL;
    Counts steps, counts;
    Buffer triples = {0}, shape = {0};
    if (!PyArg_ParseTuple(args, "OO:step_places", &given_steps, &given_counts) || !counts_take(given_steps, &steps))
        return NULL;
    if (!counts_take(given_counts, &counts)) {
        PyBuffer_Release(&steps.view);
        return NULL;
    }
    if (steps.sum != counts.length)
        PyErr_SetString(PyExc_ValueError, "there must be a count for each step");
    else if (places_begin(&triples, &shape, 3, counts.sum)) {
        int64_t *to = (int64_t *)triples.data, *dims = (int64_t *)shape.data;
        const int64_t *count = counts.each;
        for (Py_ssize_t i = 0; i < steps.length; i++)
            for (int64_t step = 0; step < steps.each[i]; step++, count++)
                for (int64_t k = 0; k < *count; k++) {
                    *to++ = i;
                    *to++ = step;
                    *to++ = k;
                }
        dims[0] = steps.length;
        dims[1] = steps.most;
        dims[2] = counts.most;
        out = places_made(&triples, &shape);
    }
    PyBuffer_Release(&steps.view);
    PyBuffer_Release(&counts.view);
    return out;
}

/* -- CSV ---------------------------------------------------------------------------------------------------------- */
enum { TEXT, FLOAT32, FLOAT64, INT32, INTEGER64 };

typedef struct { int kind, has_default; Span text; double number; int64_t integer; Buffer values; } Field;

/* A decimal number without an exponent whose digits a double holds exactly; others are left to Python. */
static int read_float(Span field, double *value)
{
    static const double TENS[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const uint8_t *p = field.at;
    int negative = p < field.end && *p == '-', digits = 0, behind = 0, point = 0;
    uint64_t mantissa = 0;
    for (p += negative; p < field.end; p++) {
        if (*p >= '0' && *p <= '9') {
            mantissa = mantissa * 10 + (uint64_t)(*p - '0');
            digits++;
            behind += point;
        } else if (*p == '.' && !point)
            point = 1;
        else
            break;
        if (digits > 15)
            break;
    }
    if (p == field.end && digits > 0) {
        *value = (double)mantissa / TENS[behind];
        *value = negative ? -*value : *value;
        return FINE;
    }
    char text[64], *end;                                    /* the number alone: what follows in the row is no part of it */
    size_t length = (size_t)(field.end - field.at);
    if (length == 0 || length >= sizeof(text))
        return IRREGULAR;
    memcpy(text, field.at, length);
    text[length] = 0;
    *value = PyOS_string_to_double(text, &end, NULL);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return IRREGULAR;
    }
    return end == text + length ? FINE : IRREGULAR;
}

static int read_int(Span field, int64_t most, int64_t *value)
{
    const uint8_t *p = field.at;
    int negative = p < field.end && *p == '-';
    p += negative;
    if (p == field.end || field.end - p > 18)
        return IRREGULAR;
    int64_t v = 0;
    for (; p < field.end; p++) {
        if (*p < '0' || *p > '9')
            return IRREGULAR;
        v = v * 10 + (*p - '0');
    }
    if (v > most)
        return IRREGULAR;
    *value = negative ? -v : v;
    return FINE;
}

static int add_field(Field *column, Span text, Span missing)
{
    int given = text.at < text.end && !same(text, missing), state = FINE;
    if (!given && !column->has_default)
        return IRREGULAR;
    char *to = column->values.data + column->values.size;       /* there is room for all rows */
    if (column->kind == TEXT) {
        memcpy(to, given ? &text : &column->text, sizeof(Span));
        column->values.size += sizeof(Span);
    } else if (column->kind == FLOAT32 || column->kind == FLOAT64) {
        double value = column->number;
        if (given && (state = read_float(text, &value)) != FINE)
            return state;
        float narrow = (float)value;
        memcpy(to, column->kind == FLOAT32 ? (void *)&narrow : (void *)&value, column->kind == FLOAT32 ? 4 : 8);
        column->values.size += column->kind == FLOAT32 ? 4 : 8;
    } else {
        int64_t value = column->integer;
        if (given && (state = read_int(text, column->kind == INT32 ? INT32_MAX : INT64_MAX, &value)) != FINE)
            return state;
        int32_t narrow = (int32_t)value;
        memcpy(to, column->kind == INT32 ? (void *)&narrow : (void *)&value, column->kind == INT32 ? 4 : 8);
        column->values.size += column->kind == INT32 ? 4 : 8;
    }
    return FINE;
}

/* One record whose fields are what stands between the delimiters; `select` has the numbers of the fields that are wanted. */
static int add_record(Field *columns, Py_ssize_t count, const long *select, Span row, int delim, int quotes, Span missing)
{
    size_t length = (size_t)(row.end - row.at);
    if (!length || memchr(row.at, '\n', length) || memchr(row.at, '\r', length) || (quotes && memchr(row.at, '"', length)))
        return IRREGULAR;
    Py_ssize_t taken = 0;
    const uint8_t *p = row.at;
    for (long number = 0; taken < count || select == NULL; number++) {
        const uint8_t *q = memchr(p, delim, (size_t)(row.end - p));
        if (q == NULL)
            q = row.end;
        if (taken == count)
            return IRREGULAR;
        if (select == NULL || select[taken] == number) {
            int state = add_field(&columns[taken++], (Span){p, q}, missing);
            if (state != FINE)
                return state;
        }
        if (q == row.end)
            break;
        p = q + 1;
    }
    return taken == count ? FINE : IRREGULAR;
}

static int field_begin(Field *column, PyObject *kind, PyObject *given, size_t rows)
{
    static const size_t WIDTHS[] = {sizeof(Span), 4, 8, 4, 8};
    long k = PyLong_AsLong(kind);
    if (k < TEXT || k > INTEGER64) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "there is no such kind of column");
        return 0;
    }
    column->kind = (int)k;
    if (given != Py_None) {
        column->has_default = 1;
        if (k == TEXT) {
            char *at;
            Py_ssize_t size;
            if (PyBytes_AsStringAndSize(given, &at, &size) < 0)
                return 0;
            column->text = (Span){(uint8_t *)at, (uint8_t *)at + size};
        } else if (k == FLOAT32 || k == FLOAT64)
            column->number = PyFloat_AsDouble(given);
        else
            column->integer = PyLong_AsLongLong(given);
        if (PyErr_Occurred())
            return 0;
    }
    if (reserve(&column->values, (rows + 1) * WIDTHS[k]) != FINE) {
        PyErr_NoMemory();
        return 0;
    }
    return 1;
}

static PyObject *fields_made(Field *columns, Py_ssize_t count, PyObject *make)
{
    PyObject *out = PyList_New(count);
    for (Py_ssize_t i = 0; out != NULL && i < count; i++) {
        PyObject *made = columns[i].kind == TEXT ? as_strings(&columns[i].values, make) : as_block(&columns[i].values);
        if (made == NULL)
            Py_CLEAR(out);
        else
            PyList_SET_ITEM(out, i, made);
    }
    return out;
}

static PyObject *csv(PyObject *module, PyObject *args)
{
    PyObject *given, *kinds, *defaults, *selected, *make, *out = NULL;
    const char *na;
    Py_ssize_t na_size;
    int delim, quotes, fine = 1, state = FINE;
    Rows rows;
    if (!PyArg_ParseTuple(args, "Oiiy#O!O!O!O:csv", &given, &delim, &quotes, &na, &na_size, &PyTuple_Type, &kinds, &PyTuple_Type,
                          &defaults, &PyTuple_Type, &selected, &make))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(kinds), picked = PyTuple_GET_SIZE(selected);
    if (PyTuple_GET_SIZE(defaults) != count || (picked && picked != count)) {
        PyErr_SetString(PyExc_ValueError, "columns, defaults and selected fields must be as many");
        return NULL;
    }
    if (!rows_take(given, &rows)) {
        rows_free(&rows);
        return NULL;
    }
    Field *columns = PyMem_Calloc((size_t)count + 1, sizeof(Field));
    long *select = picked ? PyMem_Calloc((size_t)picked, sizeof(long)) : NULL;
    if (columns == NULL || (picked && select == NULL)) {
        PyErr_NoMemory();
        fine = 0;
    }
    for (Py_ssize_t i = 0; fine && i < count; i++)
        fine = field_begin(&columns[i], PyTuple_GET_ITEM(kinds, i), PyTuple_GET_ITEM(defaults, i), (size_t)rows.count);
    for (Py_ssize_t i = 0; fine && i < picked; i++) {
        select[i] = PyLong_AsLong(PyTuple_GET_ITEM(selected, i));
        fine = !PyErr_Occurred();
    }
    Span missing = {(const uint8_t *)na, (const uint8_t *)na + na_size};
    for (Py_ssize_t i = 0; fine && state == FINE && i < rows.count; i++)
        state = add_record(columns, count, select, rows.spans[i], delim, quotes, missing);
    if (fine)
        out = state == FINE ? fields_made(columns, count, make) : Py_NewRef(Py_None);
    for (Py_ssize_t i = 0; columns != NULL && i < count; i++)
        PyMem_RawFree(columns[i].values.data);
    PyMem_Free(columns);
    PyMem_Free(select);
    rows_free(&rows);
    return out;
}

static PyMethodDef methods[] = {
    {"prepare", prepare, METH_O, "prepare(columns): what scans look for; columns are tuples of key, kind, size (-1: any)."},
    {"scan", scan, METH_VARARGS, 
     "scan(wanted, rows, make, threads): values of the columns in the rows that are regular, the other rows."},
    {"scan_sequences", scan_sequences, METH_VARARGS,
     "scan_sequences(context, lists, rows, make): values of the context and of the lists; None if a row is irregular."},
    {"csv", csv, METH_VARARGS,
     "csv(rows, delim, quotes, na, kinds, defaults, select, make): values of columns; None if fields are more than plain."},
    {"places", places, METH_O, "places(counts): where the values of lists are in a sparse tensor, and its shape."},
    {"step_places", step_places, METH_VARARGS, "step_places(steps, counts): the same for lists of steps."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_scanner", "Scans tf.Example and tf.SequenceExample messages, and CSV.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scanner(void)
{
    block_type = PyType_FromSpec(&block_spec);
    return block_type == NULL ? NULL : PyModule_Create(&definition);
}
