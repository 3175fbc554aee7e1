/* Includes the file WIDTHS_OF once for each width of vectors that a processor of this kind may have (see _lanes.h), and says which
   of its functions this processor runs. With OF_DOUBLES, vectors have half as many numbers, and functions have other names. */
#include "_threads.h"

#undef PER_VECTOR
#undef NAME_OF
#ifdef OF_DOUBLES
#define PER_VECTOR(floats) (floats / 2)
#define NAME_OF(name, width) name##_##width##_double
#else
#define PER_VECTOR(floats) floats
#define NAME_OF(name, width) name##_##width
#endif

#if defined(__x86_64__)
#define LANES PER_VECTOR(16)
#define NAME(name) NAME_OF(name, 512)
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma")))
#include WIDTHS_OF
#define LANES PER_VECTOR(8)
#define NAME(name) NAME_OF(name, 256)
#define TARGET __attribute__((target("avx2,fma")))
#include WIDTHS_OF
#else
#define LANES PER_VECTOR(4)
#define NAME(name) NAME_OF(name, any)
#define TARGET
#include WIDTHS_OF
#endif
#undef WIDTHS_OF

#ifndef HAS_WIDTH
#define HAS_WIDTH
#if defined(__x86_64__)
#define OF_WIDTH(name) (has_wide_vectors() ? name##_512 : name##_256)
#define DOUBLE_OF_WIDTH(name) (has_wide_vectors() ? name##_512_double : name##_256_double)
#else
#define OF_WIDTH(name) name##_any
#define DOUBLE_OF_WIDTH(name) name##_any_double
#endif

/* Whether this processor has one of the widths; if not, there is an ImportError. */
static int has_width(void)
{
#if defined(__x86_64__)
    if (!has_wide_vectors() && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) {
        PyErr_SetString(PyExc_ImportError, "these kernels need a processor with AVX2 and FMA");
        return 0;
    }
#endif
    return 1;
}
#endif
