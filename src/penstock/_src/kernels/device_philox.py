"""The random numbers of kernels/philox.py on a GPU, in one kernel: with ATen, which has no 32-bit product with its upper half,
they would take over a hundred.

A place in a stream is a key and the two halves of a counter, 64 bits each: Python numbers, or int64 tensors where only the
device knows them. A thread computes the four words of a counter.
"""
from __future__ import annotations

import ctypes
from typing import Any

import torch

from penstock._src.base import tracing
from penstock._src.kernels import nvrtc
from penstock._src.kernels.device_source import HEAD, NAMES

Place = tuple[Any, Any, Any]             # key, upper and lower half of the counter
_THREADS = 256
_U64 = (1 << 64) - 1
_ARGUMENTS = "long long count, u64 key, u64 high, u64 low, const i64 *at_key, const i64 *at_high, const i64 *at_low"
_HALVES = {torch.float16: 10, torch.bfloat16: 7}                 # random bits of their numbers

_WORDS = """
typedef unsigned long long u64; typedef long long i64;
struct Words { u32 c[4]; };
__device__ __forceinline__ Words words(u64 i, u64 key, u64 high, u64 low, const i64 *at_key, const i64 *at_high,
                                       const i64 *at_low) {
    if (at_key) key = *at_key;
    if (at_high) high = *at_high;
    if (at_low) low = *at_low;
    low += i; high += low < i;
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    Words w = {{(u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32)}};
    for (int r = 0; r < 10; ++r) {
        u64 a = (u64)w.c[0] * 0xD2511F53u, b = (u64)w.c[2] * 0xCD9E8D57u;
        w = Words{{(u32)(b >> 32) ^ w.c[1] ^ k0, (u32)b, (u32)(a >> 32) ^ w.c[3] ^ k1, (u32)a}};
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    return w;
}
__device__ __forceinline__ float unit(u32 word) { return __uint_as_float((word & 0x7FFFFF) | 0x3F800000) - 1.f; }
"""
_NORMAL = """for (int k = 0; k < 4; k += 2) {
        float one = unit(w.c[k]), radius = sqrtf(-2.f * logf(one < 1e-7f ? 1e-7f : one));
        float angle = (float)((double)unit(w.c[k + 1]) * 6.283185307179586);
        put(v.x[k], sinf(angle) * radius); put(v.x[k + 1], cosf(angle) * radius); }"""


def words(place: Place, count: int, device: torch.device) -> torch.Tensor | None:
    """The words of the next `count` counters, int64 [count, 4]; None where there are no such kernels."""
    made = _filled("words", place, 4 * count, torch.int64, device)
    return None if made is None else made.view(count, 4)


def uniform(place: Place, count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor | None:
    """The next `count` numbers in [0, 1)."""
    return _filled("uniform", place, count, dtype, device)


def normal(place: Place, count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor | None:
    """The next `count` normal numbers."""
    return _filled("normal", place, count, dtype, device)


def _filled(kind: str, place: Place, count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor | None:
    if device.type != "cuda" or tracing.lowering() or dtype not in (torch.int64, torch.float32, *_HALVES):
        return None
    device = torch.device("cuda", torch.cuda.current_device()) if device.index is None else device
    launch = nvrtc.kernel(source(kind, dtype), (kind,)).loaded(device)
    if launch is None:
        return None
    out = torch.empty(count, dtype=dtype, device=device)
    if count:
        values = [ctypes.c_ulonglong(0 if isinstance(p, torch.Tensor) else p & _U64) for p in place]
        known = [p if isinstance(p, torch.Tensor) else ctypes.c_void_p(None) for p in place]
        blocks = -(-count // (4 * _THREADS))
        launch(kind, (blocks, 1, 1), (_THREADS, 1, 1), [out, ctypes.c_longlong(count), *values, *known])
    return out


def source(kind: str, dtype: torch.dtype) -> str:
    """The kernel that fills an array with `words`, or with `uniform` or `normal` numbers of a type."""
    name = "long long" if kind == "words" else NAMES[dtype]
    each = {"words": "for (int k = 0; k < 4; ++k) v.x[k] = w.c[k];", "normal": _NORMAL,
            "uniform": f"for (int k = 0; k < 4; ++k) put(v.x[k], {_unit(dtype)});"}[kind]
    return "\n".join([
        HEAD, _WORDS, f'extern "C" __global__ void {kind}({name} *out, {_ARGUMENTS}) {{',
        f"    long long i = (long long)blockIdx.x * {_THREADS} + threadIdx.x, at = i * 4;",
        "    if (at >= count) return;",
        "    Words w = words((u64)i, key, high, low, at_key, at_high, at_low);",
        f"    Vec<{name}, 4> v;",
        f"    {each}",
        f"    if (at + 4 <= count) *(Vec<{name}, 4> *)(out + at) = v;",
        "    else for (int k = 0; at + k < count; ++k) out[at + k] = v.x[k];",
        "}"])


def _unit(dtype: torch.dtype) -> str:
    """A number in [0, 1) with the random bits that its type has room for."""
    if dtype not in _HALVES:
        return "unit(w.c[k])"
    bits = _HALVES[dtype]
    return f"__uint_as_float(((w.c[k] & {(1 << bits) - 1}u) << {23 - bits}) | 0x3F800000) - 1.f"
