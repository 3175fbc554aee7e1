/* Several operations on each element of arrays of one shape, and sums and maxima of their rows, in one pass, on the CPU: on
   floats, or on doubles.

   This is an accelerator: `pointwise.py` writes the instructions and checks them, and without this file the operations run one by
   one. A block of the arrays that fits the first cache goes through all instructions before the next one does, so what is
   only used in between is never written to memory, and calling costs once what it costs for one operation.

   A plan is a sequence of 32-bit numbers: a header, how many elements each tensor has, the operands (columns of tensors), the
   instructions, and the bits of the numbers that they use. No interpreter's lock is held while it runs.

   What is one number for a row, or for all, is a vector that holds it in all lanes: an instruction reads the same one again for
   all columns of a row. Results of instructions on such operands alone, and of those that reduce rows, are such vectors, too.

   `add_scaled` is one operation on short arrays that does hold it. */
#include "_threads.h"

enum { LAYOUT = 5 };                                  /* of plans and regions: host_threads.py has the same number */
enum { ROOM = 1024, SLOTS = 96, MOST = 1 << 18 };     /* elements of a block; slots; elements that add_scaled takes */
enum { SHORT = 32, FULL = 16, MOST_ROOMS = 48 };      /* short rows; vectors that are full; blocks in a thread's memory */

/* Every instruction, and what it makes of its operands a, b and c (vectors; see _fused_lanes.h). A comparison is 1 or 0. */
#define INSTRUCTIONS(EACH)                                                        \
    EACH(ADD, a + b)                                                              \
    EACH(SUB, a - b)                                                              \
    EACH(MUL, a * b)                                                              \
    EACH(DIV, a / b)                                                              \
    EACH(NEG, -a)                                                                 \
    EACH(SQUARE, a * a)                                                           \
    EACH(COPY, a)                                                                 \
    EACH(ADD_PRODUCT, a + b * c)                                                  \
    EACH(SIGMOID, NAME(sigmoid)(a))                                               \
    EACH(TANH, NAME(hyperbolic_tangent)(a))                                       \
    EACH(SIGMOID_GRAD, b * (1.f - a) * a)                                         \
    EACH(TANH_GRAD, b * (1.f - a * a))                                            \
    EACH(EXP, NAME(exponential)(a))                                               \
    EACH(ERF, NAME(error_function)(a))                                            \
    EACH(ERFC, NAME(error_function_complement)(a))                                \
    EACH(LOG, NAME(logarithm)(a))                                                 \
    EACH(LOG1P, NAME(logarithm_of_one_plus)(a))                                   \
    EACH(SQRT, NAME(square_root)(a))                                              \
    EACH(RSQRT, 1.f / NAME(square_root)(a))                                       \
    EACH(RECIPROCAL, 1.f / a)                                                     \
    EACH(ABS, NAME(absolute)(a))                                                  \
    EACH(MAXIMUM, PICK((a > b) | (a != a), a, b))                                 \
    EACH(MINIMUM, PICK((a < b) | (a != a), a, b))                                 \
    EACH(RELU, PICK((a > 0.f) | (a != a), a, (Floats){}))                         \
    EACH(RELU_GRAD, PICK(b <= 0.f, (Floats){}, a))                                \
    EACH(SQUARED_DIFFERENCE, (a - b) * (a - b))                                   \
    EACH(GREATER, PICK(a > b, (Floats){} + 1.f, (Floats){}))                      \
    EACH(GREATER_EQUAL, PICK(a >= b, (Floats){} + 1.f, (Floats){}))               \
    EACH(LESS, PICK(a < b, (Floats){} + 1.f, (Floats){}))                         \
    EACH(LESS_EQUAL, PICK(a <= b, (Floats){} + 1.f, (Floats){}))                  \
    EACH(SELECT, PICK(a != 0.f, b, c))                                            \
    EACH(EQUAL, PICK(a == b, (Floats){} + 1.f, (Floats){}))                       \
    EACH(NOT_EQUAL, PICK(a != b, (Floats){} + 1.f, (Floats){}))                   \
    EACH(AND, PICK((a != 0.f) & (b != 0.f), (Floats){} + 1.f, (Floats){}))        \
    EACH(OR, PICK((a != 0.f) | (b != 0.f), (Floats){} + 1.f, (Floats){}))         \
    EACH(NOT, PICK(a == 0.f, (Floats){} + 1.f, (Floats){}))                       \
    EACH(SIGN, PICK(a > 0.f, (Floats){} + 1.f, PICK(a < 0.f, (Floats){} - 1.f, a))) \
    EACH(EXPM1, NAME(exponential_minus_one)(a))                                   \
    EACH(SINE, NAME(sine)(a, 0))                                                  \
    EACH(COSINE, NAME(sine)(a, 1))                                                \
    EACH(ROUND_DOWN, NAME(rounded_down)(a))                                       \
    EACH(ROUND_UP, -NAME(rounded_down)(-a))                                       \
    EACH(ROUND_EVEN, NAME(rounded)(a))

/* Instructions that make one number of the columns of a row; the blocks of their plans have whole rows. */
#define REDUCTIONS(EACH) EACH(ROW_SUM, ) EACH(ROW_MAXIMUM, )

enum { SAME = -1, PER_ROW = -2 };                     /* strides of operands that are one number for all, or one for each row */
#define NUMBER(kind, result) kind,
enum { INSTRUCTIONS(NUMBER) REDUCTIONS(NUMBER) KINDS };
#undef NUMBER

/* Further instructions of regions, on elements that need not be floats. */
#define TYPED(EACH)                                                               \
    EACH(CONVERT) EACH(IS_NAN) EACH(IS_INF) EACH(IS_FINITE) EACH(POWER)           \
    EACH(FLOOR_DIV) EACH(FLOOR_MOD) EACH(TRUNCATE_DIV) EACH(TRUNCATE_MOD)
#define NUMBER(kind) kind,
enum { BEFORE_TYPED = KINDS - 1, TYPED(NUMBER) ALL_KINDS };
#undef NUMBER
enum { FLOAT, TRUTH, INT32, INT64, DOUBLE };          /* of elements */
static const int SIZES[] = {4, 1, 4, 8, 8};           /* of elements of each kind */

/* Row r of an operand begins at offset + r / every % times * jump + r % period * stride. Blocks have `down` rows at most. Where that
   divides `every` and `period`, the rows of a block follow each other; elsewhere they are copied. */
/* `real` is the kind of all tensors that are not boolean, of the numbers, and of what is computed. */
typedef struct { int32_t values, results, rows, columns, operands, rooms, narrow, numbers, instructions, work, down, whole, real; } Header;
typedef struct { int32_t tensor, offset, stride, period, every, times, jump; } Operand;
typedef struct { int32_t kind, to, from[3]; } Instruction;
typedef struct {
    const Header *header;
    const Operand *operands;
    const Instruction *instructions;
    const void *numbers;
    const int32_t *truths;                /* of each tensor: whether it is boolean */
    void *bases[SLOTS];                   /* where the tensors begin */
    int64_t down, across;                 /* rows and columns of a block */
    int64_t room;                         /* elements of a block */
    int filled;                           /* boolean operands, which become numbers, and rows that are repeated or copied */
    int spread;                           /* operands of one number for all or for each row */
    int flat;                             /* whether the rows of a block are one */
} Job;
typedef struct { int32_t buffer, offset; } Place;                /* of regions: see _regions.h */
typedef struct { Place to, from; int32_t greatest, kind, outer, middle, inner, scale[2]; } Reduce;      /* the scale is a double */
enum { AXES = 4 };                                                /* of operands that need not be contiguous */
typedef struct { Place to, from[3]; int32_t what, kind, to_kind, dims[AXES], strides[3][AXES]; } Each;

/* Whether the rows of a block of an operand do not follow each other. */
static inline int is_scattered(const Header *h, const Operand *o)
{
    return o->stride >= 0 && ((o->every < h->rows && o->every % h->down) || (o->stride && o->period < h->rows && o->period % h->down));
}

#define WIDTHS_OF "_fused_lanes.h"
#include "_widths.h"
#define OF_DOUBLES
#define WIDTHS_OF "_fused_lanes.h"
#include "_widths.h"
#undef OF_DOUBLES
typedef void AddScaled(void *to, const void *a, const void *b, double scale, int64_t count);
static Item do_block_here, do_double_block_here;
static AddScaled *add_scaled_here, *add_scaled_double_here;

/* Elements of a block: of doubles it has half as many, in as much memory. */
static inline int64_t room_of(const Header *h)
{
    return h->real == DOUBLE ? ROOM / 2 : ROOM;
}

/* Whether a block's rows are to be one row, in which what is the same for all columns, or for all rows, is repeated: rows that
   are short, or end within a vector, cost more than that. */
static int is_flat(const Job *job)
{
    const Header *h = job->header;
    int repeated = 0;
    if (h->rows == 1 || h->columns > room_of(h) || (h->columns >= 4 * FULL && h->columns % FULL == 0))
        return 0;
    if ((h->whole || h->narrow) && h->columns > 8 * FULL)      /* what is computed once for a row would be for each column */
        return 0;
    for (int i = 0; i < h->operands; i++) {
        const Operand *o = job->operands + i;
        if (is_scattered(h, o))
            continue;
        if ((o->stride > 0 && o->stride != h->columns) || (o->stride == 0 && o->tensor >= h->values))
            return 0;
        repeated += o->stride == 0;
    }
    return h->rooms + h->narrow + job->filled + job->spread + repeated <= MOST_ROOMS;
}

/* Runs a plan on the tensors whose addresses the job has. */
static void run_plan(Job *job, const void *plan)
{
    const Header *h = job->header = plan;
    const int32_t *sizes = (const int32_t *)(h + 1);
    job->truths = sizes + h->values + h->results;
    job->operands = (const Operand *)(job->truths + h->values + h->results);
    job->instructions = (const Instruction *)(job->operands + h->operands);
    job->numbers = (const void *)(job->instructions + h->instructions);
    job->spread = job->filled = 0;
    for (int i = 0; i < h->operands; i++) {
        job->spread += job->operands[i].stride < 0;
        job->filled += job->truths[job->operands[i].tensor] || is_scattered(h, job->operands + i);
    }
    job->across = h->columns < room_of(h) || h->whole ? h->columns : room_of(h);
    job->down = h->down;
    job->room = (job->across * job->down + 15) / 16 * 16;
    job->flat = is_flat(job);
    if (job->flat) {
        job->room += FULL;
        for (int i = 0; i < h->operands; i++)
            job->filled += job->operands[i].stride == 0 && !job->truths[job->operands[i].tensor] && !is_scattered(h, job->operands + i);
    }
    const int64_t blocks = ((h->rows + job->down - 1) / job->down) * ((h->columns + job->across - 1) / job->across);
    share(h->real == DOUBLE ? do_double_block_here : do_block_here, job, blocks, (int64_t)h->rows * h->columns * h->work);
}

/* -- as Python calls it ------------------------------------------------------------------------------------------- */
static PyObject *types[5];                            /* of torch, by the kinds of elements */
static PyObject *name_dtype, *name_is_cpu, *name_numel, *name_is_contiguous, *name_contiguous, *name_data_ptr;

/* The address of a tensor; NULL, without an exception, if it is not what the plan was made for. */
static void *address(PyObject *tensor, int32_t elements, PyObject *type)
{
    PyObject *dtype = PyObject_GetAttr(tensor, name_dtype);
    Py_XDECREF(dtype);                    /* torch holds its types */
    if (dtype != type)
        return NULL;
    PyObject *on_host = PyObject_GetAttr(tensor, name_is_cpu);
    Py_XDECREF(on_host);
    if (on_host != Py_True)
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
    return at == (unsigned long long)-1 ? NULL : (void *)(uintptr_t)at;
}

/* A new reference to a tensor, or to a copy whose elements lie in order. */
static PyObject *in_order(PyObject *tensor)
{
    PyObject *contiguous = PyObject_CallMethodNoArgs(tensor, name_is_contiguous);
    Py_XDECREF(contiguous);
    if (contiguous == NULL)
        return NULL;
    return contiguous == Py_True ? Py_NewRef(tensor) : PyObject_CallMethodNoArgs(tensor, name_contiguous);
}

#include "_regions.h"

/* run(plan, values, results): True, or False if a tensor is not what the plan was made for. */
static PyObject *run(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyBytes_Check(args[0]) || !PyList_Check(args[1]) || !PyList_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "run(plan: bytes, values: list, results: list)");
        return NULL;
    }
    Job job;
    const Header *h = (const Header *)PyBytes_AS_STRING(args[0]);
    const int32_t *sizes = (const int32_t *)(h + 1), *truths = sizes + h->values + h->results;
    if (PyList_GET_SIZE(args[1]) != h->values || PyList_GET_SIZE(args[2]) != h->results)
        Py_RETURN_FALSE;
    for (int i = 0; i < h->values + h->results; i++) {
        job.bases[i] = address(i < h->values ? PyList_GET_ITEM(args[1], i) : PyList_GET_ITEM(args[2], i - h->values), sizes[i],
                               types[truths[i] ? TRUTH : h->real]);
        if (job.bases[i] == NULL) {
            if (PyErr_Occurred())
                return NULL;
            Py_RETURN_FALSE;
        }
    }
    Py_BEGIN_ALLOW_THREADS
    run_plan(&job, h);
    Py_END_ALLOW_THREADS
    Py_RETURN_TRUE;
}

/* add_scaled(to, value, other, scale): to = value + scale * other, for few enough elements that the interpreter's lock is worth
   keeping. True, or False if a tensor does not fit. */
static PyObject *add_scaled(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "add_scaled(to, value, other, scale)");
        return NULL;
    }
    const double scale = PyFloat_AsDouble(args[3]);
    PyObject *numel = PyErr_Occurred() ? NULL : PyObject_CallMethodNoArgs(args[0], name_numel);
    if (numel == NULL)
        return NULL;
    const long long elements = PyLong_AsLongLong(numel);
    Py_DECREF(numel);
    PyObject *dtype = PyObject_GetAttr(args[0], name_dtype);
    Py_XDECREF(dtype);                    /* torch holds its types */
    const int kind = dtype == types[DOUBLE] ? DOUBLE : FLOAT;
    void *tensors[3];
    for (int i = 0; i < 3; i++) {
        tensors[i] = elements > MOST ? NULL : address(args[i], (int32_t)elements, types[kind]);
        if (tensors[i] == NULL) {
            if (PyErr_Occurred())
                return NULL;
            Py_RETURN_FALSE;
        }
    }
    (kind == DOUBLE ? add_scaled_double_here : add_scaled_here)(tensors[0], tensors[1], tensors[2], scale, elements);
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, "Runs a plan on tensors."},
    {"add_scaled", (PyCFunction)(void (*)(void))add_scaled, METH_FASTCALL, "Adds a tensor times a number, keeping the interpreter's lock."},
    {"run_region", (PyCFunction)(void (*)(void))run_region, METH_FASTCALL, "Runs a region on tensors."},
    {"use_products", (PyCFunction)(void (*)(void))use_products, METH_FASTCALL, "Takes the addresses of sgemm and dgemm."},
    {"use_threads", use_threads, METH_O, "Takes the address of GOMP_parallel."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_fused", "Operations on single elements, several in one pass.", -1, methods};

PyMODINIT_FUNC PyInit__fused(void)
{
    if (!has_width())
        return NULL;
    do_block_here = OF_WIDTH(do_block);
    do_double_block_here = DOUBLE_OF_WIDTH(do_block);
    add_scaled_here = OF_WIDTH(add_scaled);
    add_scaled_double_here = DOUBLE_OF_WIDTH(add_scaled);
    reduce_here = OF_WIDTH(reduce_middle);
    reduce_double_here = DOUBLE_OF_WIDTH(reduce_middle);
    each_here = OF_WIDTH(do_each);
    if (pthread_key_create(&room_of_thread, free) != 0)
        return PyErr_NoMemory();
    PyObject *torch = PyImport_ImportModule("torch");
    static const char *const type_names[] = {"float32", "bool", "int32", "int64", "float64"};
    for (int kind = FLOAT; kind <= DOUBLE; kind++) {
        types[kind] = torch == NULL ? NULL : PyObject_GetAttrString(torch, type_names[kind]);
        if (types[kind] == NULL)
            return NULL;
    }
    Py_DECREF(torch);
    name_dtype = PyUnicode_InternFromString("dtype");
    name_is_cpu = PyUnicode_InternFromString("is_cpu");
    name_numel = PyUnicode_InternFromString("numel");
    name_is_contiguous = PyUnicode_InternFromString("is_contiguous");
    name_data_ptr = PyUnicode_InternFromString("data_ptr");
    name_contiguous = PyUnicode_InternFromString("contiguous");
    if (name_dtype == NULL || name_is_cpu == NULL || name_numel == NULL || name_is_contiguous == NULL ||
        name_contiguous == NULL || name_data_ptr == NULL)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && PyModule_AddIntConstant(made, "LAYOUT", LAYOUT) < 0)
        return NULL;
    for (int kind = 0; made != NULL && kind < ALL_KINDS; kind++) {
#define TEXT(kind, ...) #kind,
        static const char *const names[ALL_KINDS] = {INSTRUCTIONS(TEXT) REDUCTIONS(TEXT) TYPED(TEXT)};
#undef TEXT
        if (PyModule_AddIntConstant(made, names[kind], kind) < 0) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}
