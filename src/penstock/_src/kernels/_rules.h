/* The rules of optimizers (float32 and float64): what becomes of the elements of a variable and of its slots by a gradient, written once and
   compiled for each kind of processor (_rules_lanes.h). _updates.c runs them on dense variables, _keyed.c on the rows of keys;
   the rules in ops/nn/training.py are the definition, and say which rule here does the same, with which numbers. */
#ifndef PENSTOCK_RULES_H
#define PENSTOCK_RULES_H
#include "_threads.h"
#include <math.h>

typedef void (*Rule)(int64_t count, const double *n, void *var, void *s0, void *s1, void *s2, const void *grad);

typedef void (*AddRow)(int64_t, void *restrict, const void *restrict);
typedef struct { const Rule *rules; AddRow add_row; } Lanes;           /* for one type of elements */
typedef struct { Lanes floats, doubles; } Processor;

#define TOWARDS(average, value, share) average += ((value) - average) * (share)
#define SIGN(x) ((x) > 0.f ? 1.f : (x) < 0.f ? -1.f : (x))
#define SHRUNK(x, by) (MATH(fabs)(x) > (by) || (x) != (x) ? (x) - MATH(copysign)(by, x) : 0.f)
#define POWER(x) MATH(pow)(x, n4)
#define NOT_LESS(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define LEADER(ROOT)                                                                                                       \
    do {                                                                                                                  \
        const REAL sum = a + q, now = ROOT(sum), before = ROOT(a);                                                       \
        b += g + 2.f * n3 * v - (now - before) / n0 * v;                                                                  \
        const REAL sign = b > 0.f ? n1 : -n1, size = b > 0.f ? b : -b;                                                   \
        v = size > n1 || b != b ? (sign - b) / (now / n0 + 2.f * n2) : 0.f;                                               \
        a = sum;                                                                                                          \
    } while (0)

/* Rules: the number of slots, whether rows without a gradient stay as they are, and what becomes of an element v of the variable
   and a, b, c of its slots, with a gradient g, its square q, and numbers n0 to n6. */
#define RULES(EACH)                                                                                                       \
    EACH(DESCEND, 0, 1, v -= n0 * g)                                                                                      \
    EACH(PROXIMAL_DESCEND, 0, 0, v = SHRUNK(v - n0 * g, n1) / n2)                                                         \
    EACH(MOMENTUM, 1, 0, a = a * n1 + g; v -= n0 * a)                                                                     \
    EACH(MOMENTUM_NESTEROV, 1, 0, a = a * n1 + g; v = v - n0 * g - n1 * n0 * a)                                           \
    EACH(KERAS_MOMENTUM, 1, 0, a = a * n1 - n0 * g; v += a)                                                               \
    EACH(KERAS_MOMENTUM_NESTEROV, 1, 0, a = a * n1 - n0 * g; v = v + n1 * a - n0 * g)                                     \
    EACH(ADAM, 2, 0, TOWARDS(a, g, n1); b = b * n2 + q * n3; v -= n0 * a / (MATH(sqrt)(b) + n4))                               \
    EACH(ADAM_NESTEROV, 2, 0, TOWARDS(a, g, n1); b = b * n2 + q * n3; v -= n0 * (a * (1.f - n1) + g * n1) / (MATH(sqrt)(b) + n4)) \
    EACH(ADAM_AMSGRAD, 3, 0, TOWARDS(a, g, n1); b = b * n2 + q * n3; c = NOT_LESS(b, c); v -= n0 * a / (MATH(sqrt)(c) + n4))    \
    EACH(ADAMAX, 2, 0, TOWARDS(a, g, n1); b = NOT_LESS(MATH(fabs)(g), b * n2); v -= n0 * a / (b + n4))                         \
    EACH(NADAM, 2, 0, TOWARDS(a, g, n1); b = b * n2 + q * n3; v -= n0 * (n5 * g + n6 * a) / (MATH(sqrt)(b * n7) + n4))       \
    EACH(ADAGRAD, 1, 1, a += q; v -= n0 * (g / MATH(sqrt)(a)))                                                                 \
    EACH(ADAGRAD_KEPT, 1, 1, v -= n0 * (g / MATH(sqrt)(a)))                                                                    \
    EACH(ADAGRAD_V2, 1, 1, a += q; v -= n0 * g / (MATH(sqrt)(a) + n1))                                                         \
    EACH(ADAGRAD_V2_KEPT, 1, 1, v -= n0 * g / (MATH(sqrt)(a) + n1))                                                            \
    EACH(KERAS_ADAGRAD, 1, 1, a += q; v -= n0 * g / MATH(sqrt)(a + n1))                                                        \
    EACH(PROXIMAL_ADAGRAD, 1, 0, a += q; const REAL rate = n0 / MATH(sqrt)(a);                                                \
         v = SHRUNK(v - rate * g, rate * n1) / (1.f + rate * n2))                                                         \
    EACH(ADAGRAD_DA, 2, 0, a += g; b += q; v = -n0 * SHRUNK(a, n1) / (MATH(sqrt)(b) + n2))                                     \
    EACH(ADAGRAD_DECAY, 2, 0, const REAL less = a * n2; const int due = b < n1;                                          \
         a = due ? (less < n3 ? n3 : less) : a; b += due ? 1.f : 0.f; a += q; v -= n0 * (g / MATH(sqrt)(a)))                   \
    EACH(ADADELTA, 2, 0, a = a * n1 + q * (1.f - n1); const REAL ratio = MATH(sqrt)((b + n2) / (a + n2));                     \
         v -= n0 * ratio * g; b = b * n1 + ratio * ratio * q * (1.f - n1))                                                \
    EACH(RMSPROP, 2, 0, a = a * n1 + q * (1.f - n1); b = b * n2 + n0 * g / MATH(sqrt)(a + n3); v -= b)                         \
    EACH(CENTERED_RMSPROP, 3, 0, TOWARDS(a, g, 1.f - n1); b = b * n1 + q * (1.f - n1);                                    \
         c = c * n2 + n0 * g / MATH(sqrt)(b - a * a + n3); v -= c)                                                             \
    EACH(KERAS_RMSPROP, 1, 0, a = a * n1 + q * (1.f - n1); v -= n0 * g / MATH(sqrt)(a + n3))                                   \
    EACH(KERAS_CENTERED_RMSPROP, 2, 0, TOWARDS(a, g, 1.f - n1); b = b * n1 + q * (1.f - n1);                              \
         v -= n0 * g / MATH(sqrt)(b - a * a + n3))                                                                             \
    EACH(FTRL, 2, 0, LEADER(MATH(sqrt)))                                                                                       \
    EACH(FTRL_POWER, 2, 0, LEADER(POWER))                                                                                 \
    EACH(ADD_SIGN, 1, 0, TOWARDS(a, g, n3); v -= n0 * (n1 + n2 * SIGN(g) * SIGN(a)) * g)                                  \
    EACH(POWER_SIGN, 1, 0, TOWARDS(a, g, n2); v -= n0 * MATH(exp)(n1 * SIGN(g) * SIGN(a)) * g)                                 \
    EACH(LION, 1, 0, const REAL way = a * n1 + g * (1.f - n1); v -= n0 * SIGN(way); a = a * n2 + g * (1.f - n2))

#define NUMBER(rule, slots, still, ...) rule,
enum { RULES(NUMBER) KINDS, NUMBERS = 8, MOST_SLOTS = 3 };
#undef NUMBER
#define TEXT(rule, slots, still, ...) #rule,
static const char *const rule_names[] = {RULES(TEXT)};
#define SLOTS_OF(rule, slots, still, ...) slots,
static const int slots_of[] = {RULES(SLOTS_OF)};

#define REAL float
#define MATH(name) name##f
#define OF(name) name##_floats
#include "_rules_processors.h"
#define REAL double
#define MATH(name) name
#define OF(name) name##_doubles
#include "_rules_processors.h"

static Processor choose_rules(void) { return (Processor){choose_floats(), choose_doubles()}; }

static int numbers_of_rule(PyObject *numbers, double *n)
{
    if (!PyTuple_CheckExact(numbers) || PyTuple_GET_SIZE(numbers) > NUMBERS) {
        PyErr_SetString(PyExc_TypeError, "the numbers of a rule are a tuple of at most eight");
        return 0;
    }
    memset(n, 0, NUMBERS * sizeof *n);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); i++)
        n[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(numbers, i));
    return !PyErr_Occurred();
}
#endif
