/* The rules of _rules.h on elements of one type, for each kind of processor: REAL is the type, MATH says what its functions of
   math.h are called, and OF what its functions here are called. */
#if defined(__x86_64__)
#define NAME(name) OF(name##_512)
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma,prefer-vector-width=512")))
#include "_rules_lanes.h"
#define NAME(name) OF(name##_256)
#define TARGET __attribute__((target("avx2,fma")))
#include "_rules_lanes.h"
#endif
#define NAME(name) OF(name##_any)
#define TARGET
#include "_rules_lanes.h"

static Lanes OF(choose)(void)
{
#if defined(__x86_64__)
    if (has_wide_vectors())
        return (Lanes){OF(rules_512), OF(add_row_512)};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (Lanes){OF(rules_256), OF(add_row_256)};
#endif
    return (Lanes){OF(rules_any), OF(add_row_any)};
}
#undef REAL
#undef MATH
#undef OF
