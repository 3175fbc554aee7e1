/* Several float32 operations on each element of arrays of one shape, in one pass over them, on the CPU.

   This is an accelerator: `pointwise.py` writes the instructions and checks them, and without this file the operations run one by
   one. A block of the arrays that fits the first cache goes through all instructions before the next one does, so what is
   only used in between is never written to memory, and calling costs once what it costs for one operation.

   A plan is a sequence of 32-bit numbers: a header, how many elements each tensor has, the operands (columns of tensors), the
   instructions, and the bits of the numbers that they use. No interpreter's lock is held while it runs. */
#include "_threads.h"
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, ROOM = 1024, SLOTS = 96 };           /* ROOM: elements of a block */
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef float Unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
#define PICK(mask, yes, no) ((Floats)(((mask) & (Ints)(yes)) | (~(mask) & (Ints)(no))))

enum { ADD, SUB, MUL, DIV, NEG, SQUARE, COPY, ADD_PRODUCT, SIGMOID, TANH, SIGMOID_GRAD, TANH_GRAD, KINDS };

typedef struct { int32_t values, results, rows, columns, operands, rooms, numbers, instructions, work; } Header;
typedef struct { int32_t tensor, offset, stride; } Operand;
typedef struct { int32_t kind, to, from[3]; } Instruction;
typedef struct {
    const Header *header;
    const Operand *operands;
    const Instruction *instructions;
    const float *numbers;
    float *bases[SLOTS];                  /* where the tensors begin */
    int64_t down, across;                 /* rows and columns of a block */
} Job;
typedef struct { float *at; int64_t stride; } Slot;

/* 2^n and p, so that exp(x) = 2^n (1 + p), for x where neither is infinite. NaN gives NaN. */
INLINE void split_exp(Floats x, Floats *scale, Floats *p)
{
    const Floats magic = (Floats){} + 12582912.f;       /* 1.5 * 2^23: adding it rounds */
    const Floats shifted = x * 1.44269504f + magic;
    const Floats n = shifted - magic;
    const Floats r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    Floats q = r * 1.38938364e-3f + 8.36315556e-3f;
    q = q * r + 4.16669432e-2f;
    q = q * r + 1.66665772e-1f;
    q = q * r + 4.99999994e-1f;
    *p = q * r * r + r;
    *scale = (Floats)(((Ints)shifted << 23) + 0x3f800000);
}

INLINE Floats clamp(Floats x, float limit)
{
    x = PICK(x > limit, (Floats){} + limit, x);
    return PICK(x < -limit, (Floats){} - limit, x);
}

INLINE Floats sigmoid(Floats x)
{
    Floats scale, p;
    split_exp(-clamp(x, 87.f), &scale, &p);
    return 1.f / (1.f + (scale * p + scale));
}

/* With m = exp(2x) - 1, which is exact near 0: m / (m + 2). */
INLINE Floats hyperbolic_tangent(Floats x)
{
    Floats scale, p;
    split_exp(clamp(x, 10.f) * 2.f, &scale, &p);
    const Floats m = scale * p + (scale - 1.f);
    return m / (m + 2.f);
}

INLINE Floats load(const float *from, int64_t count)
{
    Floats x = {};
    if (count >= LANES)
        return *(const Unaligned *)from;
    memcpy(&x, from, count * sizeof(float));
    return x;
}

INLINE void store(float *to, Floats x, int64_t count)
{
    if (count >= LANES)
        *(Unaligned *)to = x;
    else
        memcpy(to, &x, count * sizeof(float));
}

#define EACH(kind, result)                                                                                    \
    case kind:                                                                                                \
        for (int64_t row = 0; row < down; row++) {                                                            \
            const float *from0 = s0.at + row * s0.stride, *from1 = s1.at + row * s1.stride, *from2 = s2.at + row * s2.stride; \
            float *into = to.at + row * to.stride;                                                            \
            int64_t i = 0;                                                                                    \
            for (; i + LANES <= across; i += LANES) {                                                         \
                const Floats a = load(from0 + i, LANES), b = load(from1 + i, LANES), c = load(from2 + i, LANES); \
                (void)b, (void)c;                                                                             \
                store(into + i, result, LANES);                                                               \
            }                                                                                                 \
            if (i < across) {                                                                                 \
                const Floats a = load(from0 + i, across - i), b = load(from1 + i, across - i), c = load(from2 + i, across - i); \
                (void)b, (void)c;                                                                             \
                store(into + i, result, across - i);                                                          \
            }                                                                                                 \
        }                                                                                                     \
        break;

INLINE void do_one(int32_t kind, Slot to, Slot s0, Slot s1, Slot s2, int64_t down, int64_t across)
{
    switch (kind) {
        EACH(ADD, a + b)
        EACH(SUB, a - b)
        EACH(MUL, a * b)
        EACH(DIV, a / b)
        EACH(NEG, -a)
        EACH(SQUARE, a * a)
        EACH(COPY, a)
        EACH(ADD_PRODUCT, a + b * c)
        EACH(SIGMOID, sigmoid(a))
        EACH(TANH, hyperbolic_tangent(a))
        EACH(SIGMOID_GRAD, b * (1.f - a) * a)
        EACH(TANH_GRAD, b * (1.f - a * a))
    }
}

INLINE void do_block(const Job *job, int64_t number)
{
    const Header *h = job->header;
    float rooms[(h->rooms + h->numbers) * ROOM + 1] __attribute__((aligned(64)));
    Slot slots[SLOTS];
    const int64_t wide = (h->columns + job->across - 1) / job->across;
    const int64_t row = number / wide * job->down, column = number % wide * job->across;
    const int64_t down = h->rows - row < job->down ? h->rows - row : job->down;
    const int64_t across = h->columns - column < job->across ? h->columns - column : job->across;
    int slot = 0;
    for (int i = 0; i < h->operands; i++) {
        const Operand *o = job->operands + i;
        slots[slot++] = (Slot){job->bases[o->tensor] + o->offset + row * o->stride + column, o->stride};
    }
    for (int i = 0; i < h->rooms; i++)
        slots[slot++] = (Slot){rooms + i * ROOM, across};
    for (int i = 0; i < h->numbers; i++) {
        float *at = rooms + (h->rooms + i) * ROOM;
        for (int64_t c = 0; c < across; c++)
            at[c] = job->numbers[i];
        slots[slot++] = (Slot){at, 0};
    }
    for (int i = 0; i < h->instructions; i++) {
        const Instruction *n = job->instructions + i;
        do_one(n->kind, slots[n->to], slots[n->from[0]], slots[n->from[1]], slots[n->from[2]], down, across);
    }
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma"))) static void do_block_512(const void *job, int64_t number) { do_block(job, number); }
__attribute__((target("avx2,fma"))) static void do_block_256(const void *job, int64_t number) { do_block(job, number); }
#else
static void do_block_any(const void *job, int64_t number) { do_block(job, number); }
#endif
static Item do_block_here;

/* -- as Python calls it ------------------------------------------------------------------------------------------- */
static PyObject *float32, *name_dtype, *name_numel, *name_is_contiguous, *name_data_ptr;

/* The address of a tensor; NULL, without an exception, if it is not what the plan was made for. */
static float *address(PyObject *tensor, int32_t elements)
{
    PyObject *dtype = PyObject_GetAttr(tensor, name_dtype);
    Py_XDECREF(dtype);                    /* torch holds its types */
    if (dtype != float32)
        return NULL;
    PyObject *contiguous = PyObject_CallMethodNoArgs(tensor, name_is_contiguous);
    Py_XDECREF(contiguous);
    if (contiguous != Py_True)
        return NULL;
    PyObject *numel = PyObject_CallMethodNoArgs(tensor, name_numel);
    if (numel == NULL)
        return NULL;
    const long long count = PyLong_AsLongLong(numel);
    Py_DECREF(numel);
    if (count != elements)
        return NULL;
    PyObject *pointer = PyObject_CallMethodNoArgs(tensor, name_data_ptr);
    if (pointer == NULL)
        return NULL;
    const unsigned long long at = PyLong_AsUnsignedLongLong(pointer);
    Py_DECREF(pointer);
    return at == (unsigned long long)-1 ? NULL : (float *)(uintptr_t)at;
}

/* run(plan, values, results): True, or False if a tensor is not what the plan was made for. */
static PyObject *run(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyBytes_Check(args[0]) || !PyList_Check(args[1]) || !PyList_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "run(plan: bytes, values: list, results: list)");
        return NULL;
    }
    Job job;
    const Header *h = job.header = (const Header *)PyBytes_AS_STRING(args[0]);
    const int32_t *sizes = (const int32_t *)(h + 1);
    job.operands = (const Operand *)(sizes + h->values + h->results);
    job.instructions = (const Instruction *)(job.operands + h->operands);
    job.numbers = (const float *)(job.instructions + h->instructions);
    if (PyList_GET_SIZE(args[1]) != h->values || PyList_GET_SIZE(args[2]) != h->results)
        Py_RETURN_FALSE;
    for (int i = 0; i < h->values + h->results; i++) {
        job.bases[i] = address(i < h->values ? PyList_GET_ITEM(args[1], i) : PyList_GET_ITEM(args[2], i - h->values), sizes[i]);
        if (job.bases[i] == NULL) {
            if (PyErr_Occurred())
                return NULL;
            Py_RETURN_FALSE;
        }
    }
    job.across = h->columns < ROOM ? h->columns : ROOM;
    job.down = h->columns < ROOM ? ROOM / h->columns : 1;
    const int64_t blocks = ((h->rows + job.down - 1) / job.down) * ((h->columns + job.across - 1) / job.across);
    Py_BEGIN_ALLOW_THREADS
    share(do_block_here, &job, blocks, (int64_t)h->rows * h->columns * h->work);
    Py_END_ALLOW_THREADS
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, "Runs a plan on tensors."},
    {"use_threads", use_threads, METH_O, "Takes the address of GOMP_parallel."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_pointwise", "Operations on single elements, several in one pass.", -1, methods};

PyMODINIT_FUNC PyInit__pointwise(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw"))
        do_block_here = do_block_512;
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        do_block_here = do_block_256;
    else {
        PyErr_SetString(PyExc_ImportError, "penstock.kernels._pointwise needs a processor with AVX2 and FMA");
        return NULL;
    }
#else
    do_block_here = do_block_any;
#endif
    PyObject *torch = PyImport_ImportModule("torch");
    float32 = torch == NULL ? NULL : PyObject_GetAttrString(torch, "float32");
    Py_XDECREF(torch);
    name_dtype = PyUnicode_InternFromString("dtype");
    name_numel = PyUnicode_InternFromString("numel");
    name_is_contiguous = PyUnicode_InternFromString("is_contiguous");
    name_data_ptr = PyUnicode_InternFromString("data_ptr");
    if (float32 == NULL || name_dtype == NULL || name_numel == NULL || name_is_contiguous == NULL || name_data_ptr == NULL)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    for (int kind = 0; made != NULL && kind < KINDS; kind++) {
        static const char *const names[KINDS] = {"ADD", "SUB", "MUL", "DIV", "NEG", "SQUARE", "COPY", "ADD_PRODUCT", "SIGMOID", "TANH",
                                                 "SIGMOID_GRAD", "TANH_GRAD"};
        if (PyModule_AddIntConstant(made, names[kind], kind) < 0) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}
