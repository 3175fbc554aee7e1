/* Includes the file WIDTHS_OF once for each width of vectors that a processor of this kind may have (see _lanes.h), and says which
   of its functions this processor runs. */
#include "_threads.h"

#if defined(__x86_64__)
#define LANES 16
#define NAME(name) name##_512
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma")))
#include WIDTHS_OF
#define LANES 8
#define NAME(name) name##_256
#define TARGET __attribute__((target("avx2,fma")))
#include WIDTHS_OF
#define OF_WIDTH(name) (has_wide_vectors() ? name##_512 : name##_256)
#else
#define LANES 4
#define NAME(name) name##_any
#define TARGET
#include WIDTHS_OF
#define OF_WIDTH(name) name##_any
#endif
#undef WIDTHS_OF

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
