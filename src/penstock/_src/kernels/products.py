"""Products of matrices on the CPU: MKL's kernels, or oneDNN's where these are faster.

MKL has its best kernels for Intel's processors only. On AMD's, oneDNN multiplies large float32 matrices by another one up to a
quarter faster, and few rows by a large matrix, which no cache holds, up to twice as fast; it adds a bias on the way. With small
matrices it is slower. It copies a transposed first matrix, which pays off if the other one is much wider. If the result has few
columns, MKL's kernels for AMD's processors are several times faster with the factors and the result transposed.
"""
from __future__ import annotations

import contextlib
import functools

import torch

_LARGE = 1 << 24             # products of numbers in a product of matrices
_LARGE_512 = 1 << 21         # the same with AVX-512
_TALL = 128                  # rows of the first one
_FEW = 4                     # rows of the first one, if the second one has
_HUGE = 1 << 19              # as many numbers
_WIDER = 8                   # times its rows that the result has columns, if the first one is transposed
_WIDE_512 = 64               # and columns with AVX-512
_NARROW = 16                 # columns below which a result is computed transposed, if there are more than one,
_WORTH = 1 << 14             # and if the first matrix has as many numbers
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor       # by vmap: oneDNN's kernel has no rule for that


@functools.cache
def _prefers_onednn() -> bool:
    """Returns whether MKL has no kernels tuned for this processor."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as f:
        return torch.backends.mkldnn.is_available() and any("AuthenticAMD" in line for line in f if "vendor_id" in line)
    return False


@functools.cache
def _has_wide_vectors() -> bool:
    """Returns whether oneDNN's vectors are twice as wide as MKL's on AMD's processors."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512"


def is_large(rows: int, inner: int, columns: int) -> bool:
    """Whether oneDNN may be faster for a product of such matrices."""
    if _has_wide_vectors():
        return rows >= _FEW and rows * inner * columns >= _LARGE_512
    return rows >= _TALL and rows * inner * columns >= _LARGE or rows >= _FEW and inner * columns >= _HUGE


def is_narrow(rows: int, inner: int, columns: int) -> bool:
    """Whether a product of such matrices may be faster transposed."""
    return 1 < columns < _NARROW <= rows and rows * inner >= _WORTH


def product(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """a b, plus a bias for each row if any."""
    if is_large(a.shape[0], a.shape[1], b.shape[1]) and type(a) is torch.Tensor and a.dtype is torch.float32 and \
            a.is_cpu and (a.is_contiguous() or b.shape[1] >= (_WIDE_512 if _has_wide_vectors() else _WIDER * a.shape[0])) and \
            (bias is None or bias.ndim == 1) and _prefers_onednn() and not _is_wrapped(a) and not _is_wrapped(b):
        return torch.ops.mkldnn._linear_pointwise(a.contiguous(), b.t(), bias, "none", [], "")
    if is_narrow(a.shape[0], a.shape[1], b.shape[1]) and a.is_cpu and a.dtype is torch.float32 and _prefers_onednn():
        out = torch.mm(b.t(), a.t()).t().contiguous()
        return out if bias is None else out + bias
    return torch.mm(a, b) if bias is None else torch.addmm(bias, a, b)
