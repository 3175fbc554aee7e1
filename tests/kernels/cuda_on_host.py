"""CUDA sources as C++, which run one thread after the other."""
import ctypes
import hashlib
import subprocess

SHIM = """
#include <cmath>
#include <cstdint>
#include <cstring>
#define HOST
#define __device__
#define __forceinline__ inline
#define __global__
#define __grid_constant__
#define __shared__ static
#define __syncthreads()
#define __shfl_xor_sync(mask, v, o) (v)
static float __uint_as_float(unsigned int b) { float f; memcpy(&f, &b, 4); return f; }
static unsigned int __float_as_uint(float f) { unsigned int b; memcpy(&b, &f, 4); return b; }
static float rsqrtf(float v) { return 1.f / sqrtf(v); }
struct { unsigned int x, y, z; } blockIdx, threadIdx;
"""


def compiled(text, folder):
    """The library of a source, which has functions for the host at its end."""
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    (folder / f"{name}.cpp").write_text(SHIM + text)
    subprocess.run(["g++", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-w", "-o", folder / f"{name}.so",
                    folder / f"{name}.cpp"], check=True)
    return ctypes.CDLL(str(folder / f"{name}.so"))
