"""Rows by index on a GPU: reading them, with zeros for an index that is not a row, and adding them up, without those of such an
index.

The host does not look at indices on a GPU. ATen's kernels are undefined for bad ones, so these would have to be replaced
before, and their rows masked behind, in passes over all of the rows; and its gather takes ten times as long as the memory if
rows are short. Here a thread moves one piece of a row, of up to 16 bytes.
"""
from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import torch

from penstock._src.base import tracing
from penstock._src.kernels import nvrtc

_THREADS = 256
_MOST = 1 << 31                          # pieces of an array
_INDICES = {torch.int32: "int", torch.int64: "long long"}
_ADDED = {torch.float32: "float", torch.float64: "double"}
_HEAD = """
typedef unsigned int u32; typedef unsigned long long u64; typedef long long i64;
template <int N> struct alignas(N) Piece { unsigned char x[N]; };
#ifdef HOST
#define atomicAdd(to, value) (*(to) += (value))
#endif
"""


def gather(table: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor | None:
    """Slices of a table along an axis; None where there is no such kernel."""
    if not _takes(table, indices) or not table.is_contiguous():
        return None
    outer, size, inner = math.prod(table.shape[:axis]), table.shape[axis], math.prod(table.shape[axis + 1:])
    out = torch.empty((*table.shape[:axis], *indices.shape, *table.shape[axis + 1:]), dtype=table.dtype, device=table.device)
    width = inner * table.element_size()
    piece = next(n for n in (16, 8, 4, 2, 1) if width % n == 0 and table.data_ptr() % n == 0)
    total = outer * indices.numel() * width // piece
    launch = _launch(gather_source(piece, indices.dtype), "gather", table.device) if total < _MOST else None
    if launch is None:
        return None
    if total:
        given = [out, table, indices.contiguous(), *_numbers([total, indices.numel(), width // piece, size])]
        launch("gather", (-(-total // _THREADS), 1, 1), (_THREADS, 1, 1), given)
    return out


def add(out: torch.Tensor, rows: torch.Tensor, indices: torch.Tensor) -> bool:
    """Adds rows to those of `out` that the indices name; False where there is no such kernel."""
    kind = rows.dtype
    if not _takes(rows, indices) or kind not in _ADDED or out.dtype is not kind or not out.is_contiguous() or \
            rows.numel() >= _MOST or torch.are_deterministic_algorithms_enabled():
        return False
    launch = _launch(add_source(kind, indices.dtype), "add", rows.device)
    if launch is None:
        return False
    if rows.numel():
        inner = rows.numel() // indices.numel()
        launch("add", (-(-rows.numel() // _THREADS), 1, 1), (_THREADS, 1, 1),
               [out, rows.contiguous(), indices.contiguous(), *_numbers([rows.numel(), inner, len(out)])])
    return True


def sums(rows: torch.Tensor, indices: torch.Tensor, count: int) -> torch.Tensor | None:
    """The sums [count, ...] of the rows of each index; None where there is no such kernel."""
    if not rows.is_cuda:
        return None
    out = torch.zeros((count, *rows.shape[indices.dim():]), dtype=rows.dtype, device=rows.device)
    return out if add(out, rows, indices) else None


def _takes(rows: torch.Tensor, indices: torch.Tensor) -> bool:
    return rows.is_cuda and indices.device == rows.device and indices.dtype in _INDICES and not tracing.lowering() and \
        not torch._C._functorch.is_functorch_wrapped_tensor(rows) and \
        not torch._C._functorch.is_functorch_wrapped_tensor(indices)


def _launch(source: str, name: str, device: torch.device) -> Callable | None:
    return nvrtc.kernel(source, (name,)).loaded(device)


def _numbers(values: list[int]) -> list[ctypes.c_longlong]:
    return [ctypes.c_longlong(v) for v in values]


def gather_source(piece: int, index: torch.dtype) -> str:
    """The kernel for a table [outer, size, inner] of pieces, and indices [count]."""
    return _HEAD + f"""
extern "C" __global__ void gather(Piece<{piece}> *out, const Piece<{piece}> *table, const {_INDICES[index]} *indices,
                                  i64 total, i64 count, i64 inner, i64 size) {{
    u32 at = blockIdx.x * {_THREADS}u + threadIdx.x;
    if (at >= total) return;
    u32 row = at / (u32)inner, here = at - row * (u32)inner, outer = row / (u32)count;
    i64 from = indices[row - outer * (u32)count];
    out[at] = (u64)from < (u64)size ? table[((i64)outer * size + from) * inner + here] : Piece<{piece}>{{}};
}}"""


def add_source(kind: torch.dtype, index: torch.dtype) -> str:
    """The kernel for rows of `inner` numbers."""
    return _HEAD + f"""
extern "C" __global__ void add({_ADDED[kind]} *out, const {_ADDED[kind]} *rows, const {_INDICES[index]} *indices,
                               i64 total, i64 inner, i64 size) {{
    u32 at = blockIdx.x * {_THREADS}u + threadIdx.x;
    if (at >= total) return;
    u32 row = at / (u32)inner;
    i64 to = indices[row];
    if ((u64)to < (u64)size) atomicAdd(out + to * inner + (at - row * (u32)inner), rows[at]);
}}"""
