/* Lists of byte strings: fingerprints, lengths, numbers, and runs of words joined.

   This is an accelerator of `hashing.py` and of the kernels of ops on strings, which do the same with numpy and Python where this
   file is not compiled. The lock of the interpreter is kept: the strings are its objects. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* -- FarmHash's Fingerprint64 (little-endian machines) ------------------------------------------------------------------------- */
static const uint64_t K0 = 0xC3A5C85C97CB3127u, K1 = 0xB492B66FBE98F273u, K2 = 0x9AE16A3B2F90404Fu;

static inline uint64_t word(const char *s)
{
    uint64_t w;
    memcpy(&w, s, 8);
    return w;
}

static inline uint64_t half(const char *s)
{
    uint32_t w;
    memcpy(&w, s, 4);
    return w;
}

static inline uint64_t rotate(uint64_t x, int n)
{
    return x >> n | x << (64 - n);
}

static inline uint64_t shift_mix(uint64_t x)
{
    return x ^ x >> 47;
}

static inline uint64_t mix(uint64_t u, uint64_t v, uint64_t mul)
{
    const uint64_t a = shift_mix((u ^ v) * mul);
    return shift_mix((v ^ a) * mul) * mul;
}

static uint64_t of_16(const char *s, uint64_t n)
{
    const uint64_t mul = K2 + n * 2;
    if (n >= 8) {
        const uint64_t a = word(s) + K2, b = word(s + n - 8);
        return mix(rotate(b, 37) * mul + a, (rotate(a, 25) + b) * mul, mul);
    }
    if (n >= 4)
        return mix(n + (half(s) << 3), half(s + n - 4), mul);
    if (!n)
        return K2;
    const uint64_t y = (uint8_t)s[0] + ((uint64_t)(uint8_t)s[n >> 1] << 8), z = n + ((uint64_t)(uint8_t)s[n - 1] << 2);
    return shift_mix(y * K2 ^ z * K0) * K2;
}

static uint64_t of_32(const char *s, uint64_t n)
{
    const uint64_t mul = K2 + n * 2, a = word(s) * K1, b = word(s + 8), c = word(s + n - 8) * mul, d = word(s + n - 16) * K2;
    return mix(rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + K2, 18) + c, mul);
}

static uint64_t of_64(const char *s, uint64_t n)
{
    const uint64_t mul = K2 + n * 2, a = word(s) * K2, b = word(s + 8), c = word(s + n - 8) * mul, d = word(s + n - 16) * K2;
    const uint64_t y = rotate(a + b, 43) + rotate(c, 30) + d, z = mix(y, a + rotate(b + K2, 18) + c, mul);
    const uint64_t e = word(s + 16) * mul, f = word(s + 24), g = (y + word(s + n - 32)) * mul, h = (z + word(s + n - 24)) * mul;
    return mix(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, mul);
}

typedef struct { uint64_t x, y, z, v0, v1, w0, w1; } State;

static inline void weak(const char *s, uint64_t a, uint64_t b, uint64_t *first, uint64_t *second)
{
    const uint64_t last = word(s + 24);
    a += word(s);
    b = rotate(b + a + last, 21);
    const uint64_t c = a;
    a += word(s + 8) + word(s + 16);
    *first = a + last;
    *second = b + rotate(a, 44) + c;
}

static inline void take(State *t, const char *s, uint64_t mul, uint64_t times)
{
    uint64_t x = rotate(t->x + t->y + t->v0 + word(s + 8), 37) * mul;
    uint64_t y = rotate(t->y + t->v1 + word(s + 48), 42) * mul;
    x ^= t->w1 * times;
    y += t->v0 * times + word(s + 40);
    const uint64_t z = rotate(t->z + t->w0, 33) * mul, v1 = t->v1, w1 = t->w1, w0 = t->w0;
    weak(s, v1 * mul, x + w0, &t->v0, &t->v1);
    weak(s + 32, z + w1, y + word(s + 16), &t->w0, &t->w1);
    t->x = z;
    t->y = y;
    t->z = x;
}

static uint64_t fingerprint(const char *s, uint64_t n)
{
    if (n <= 16)
        return of_16(s, n);
    if (n <= 32)
        return of_32(s, n);
    if (n <= 64)
        return of_64(s, n);
    const uint64_t seed = 81, y = seed * K1 + 113;
    State t = {seed * K2 + word(s), y, shift_mix(y * K2 + 113) * K2, 0, 0, 0, 0};
    for (const char *at = s, *last = s + (n - 1) / 64 * 64; at < last; at += 64)
        take(&t, at, K1, 1);
    const uint64_t mul = K1 + ((t.z & 0xFF) << 1);
    t.w0 += (n - 1) & 63;
    t.v0 += t.w0;
    t.w0 += t.v0;
    take(&t, s + n - 64, mul, 9);
    return mix(mix(t.v0, t.w0, mul) + shift_mix(t.y) * K0 + t.z, mix(t.v1, t.w1, mul) + t.x, mul);
}

/* -- the functions --------------------------------------------------------------------------------------------------------------- */
static int is_list_of_bytes(PyObject *list)
{
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "not a list");
        return 0;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++)
        if (!PyBytes_Check(PyList_GET_ITEM(list, i))) {
            PyErr_SetString(PyExc_TypeError, "not a byte string");
            return 0;
        }
    return 1;
}

/* fingerprints(texts, to): the addresses of 64-bit words. */
static PyObject *fingerprints(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    if (given != 2 || !is_list_of_bytes(args[0])) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "fingerprints(texts, to)");
        return NULL;
    }
    uint64_t *to = PyLong_AsVoidPtr(args[1]);
    if (PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[0]); i++) {
        PyObject *text = PyList_GET_ITEM(args[0], i);
        to[i] = fingerprint(PyBytes_AS_STRING(text), (uint64_t)PyBytes_GET_SIZE(text));
    }
    Py_RETURN_NONE;
}

/* A plain decimal number: a sign, up to 18 digits, and a point with up to 18 more. */
static int is_decimal(const char *s, Py_ssize_t n)
{
    Py_ssize_t i = n && (s[0] == '+' || s[0] == '-'), begin = i;
    while (i < n && s[i] >= '0' && s[i] <= '9')
        i++;
    if (i == begin || i - begin > 18)
        return 0;
    if (i == n)
        return 1;
    if (s[i++] != '.')
        return 0;
    begin = i;
    while (i < n && s[i] >= '0' && s[i] <= '9')
        i++;
    return i == n && i > begin && i - begin <= 18;
}

/* decimals(texts, to) -> whether all texts are plain decimal numbers; 64-bit floats. */
static PyObject *decimals(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    if (given != 2 || !is_list_of_bytes(args[0])) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "decimals(texts, to)");
        return NULL;
    }
    double *to = PyLong_AsVoidPtr(args[1]);
    if (PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[0]); i++) {
        PyObject *text = PyList_GET_ITEM(args[0], i);
        if (!is_decimal(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)))
            Py_RETURN_FALSE;
        to[i] = PyOS_string_to_double(PyBytes_AS_STRING(text), NULL, NULL);
        if (to[i] == -1.0 && PyErr_Occurred())
            return NULL;
    }
    Py_RETURN_TRUE;
}

/* `width` strings of a list, with a separator between them. */
static PyObject *run_of(PyObject *words, Py_ssize_t first, Py_ssize_t width, const char *sep, Py_ssize_t sep_size)
{
    Py_ssize_t size = (width - 1) * sep_size;
    for (Py_ssize_t i = first; i < first + width; i++)
        size += PyBytes_GET_SIZE(PyList_GET_ITEM(words, i));
    PyObject *made = PyBytes_FromStringAndSize(NULL, size);
    char *to = made ? PyBytes_AS_STRING(made) : NULL;
    for (Py_ssize_t i = first; made && i < first + width; i++) {
        PyObject *word = PyList_GET_ITEM(words, i);
        if (i > first) {
            memcpy(to, sep, sep_size);
            to += sep_size;
        }
        memcpy(to, PyBytes_AS_STRING(word), PyBytes_GET_SIZE(word));
        to += PyBytes_GET_SIZE(word);
    }
    return made;
}

/* runs(words, splits, rows, widths, separator, ends) -> the runs of each row of words, of one width after the other. `splits` is the
   address of rows + 1 64-bit integers that divide the words, `ends` that of as many, which get the splits of the runs. */
static PyObject *runs(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    if (given != 6 || !is_list_of_bytes(args[0]) || !PyTuple_Check(args[3]) || !PyBytes_Check(args[4])) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "runs(words, splits, rows, widths, separator, ends)");
        return NULL;
    }
    const int64_t *splits = PyLong_AsVoidPtr(args[1]), rows = PyLong_AsLongLong(args[2]);
    int64_t *ends = PyLong_AsVoidPtr(args[5]);
    PyObject *made = PyErr_Occurred() ? NULL : PyList_New(0);
    if (!made)
        return NULL;
    ends[0] = 0;
    for (int64_t row = 0; row < rows; row++) {
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args[3]); k++) {
            const Py_ssize_t width = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[3], k));
            for (int64_t i = splits[row]; width > 0 && i + width <= splits[row + 1]; i++) {
                PyObject *run = run_of(args[0], i, width, PyBytes_AS_STRING(args[4]), PyBytes_GET_SIZE(args[4]));
                const int failed = !run || PyList_Append(made, run);
                Py_XDECREF(run);
                if (failed) {
                    Py_DECREF(made);
                    return NULL;
                }
            }
        }
        ends[row + 1] = PyList_GET_SIZE(made);
    }
    return made;
}

#define METHOD(name, text) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, text}
static PyMethodDef methods[] = {METHOD(fingerprints, "FarmHash's Fingerprint64 of each text."),
                                METHOD(decimals, "Texts as numbers."), METHOD(runs, "Runs of words, joined."),
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_text", "Lists of byte strings.", -1, methods};

PyMODINIT_FUNC PyInit__text(void)
{
    return PyModule_Create(&module);
}
