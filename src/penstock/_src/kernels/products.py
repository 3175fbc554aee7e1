"""Products of matrices on the CPU: MKL's kernels, oneDNN's, or those of `_matrices.c`, whichever are fastest.

MKL has its best kernels for Intel's processors only. On AMD's, oneDNN multiplies large float32 matrices by another one up to a
quarter faster, and few rows by a large matrix, which no cache holds, up to twice as fast; it adds a bias on the way. With small
matrices it is slower. It copies a transposed first matrix, which pays off if the other one is much wider. If the result has few
columns, MKL's kernels for AMD's processors are several times faster with the factors and the result transposed.

MKL does not use the AVX-512 of AMD's processors. There oneDNN is twice as fast, from smaller matrices on, and `_matrices.c` is
with matrices that are smaller still or transposed, and with batches of them. There, a large second matrix that stays the same
for many products is packed once: oneDNN need not bring it into its order in each product, which takes up to a quarter of the
time.

Without instructions for float16, ATen multiplies such matrices number by number. In float32, with conversions before and after,
that takes a tenth of the time or less.
"""
from __future__ import annotations

import contextlib
import functools
import platform
import weakref
from typing import Any

import torch

from penstock._src.base import tracing
from penstock._src.kernels.host_threads import compiled

_LARGE = 1 << 24             # products of numbers in a product of matrices
_LARGE_512 = 1 << 21         # the same with AVX-512
_TALL = 128                  # rows of the first one
_FEW = 4                     # rows of the first one, if the second one has
_HUGE = 1 << 19              # as many numbers
_WIDER = 8                   # times its rows that the result has columns, if the first one is transposed
_NARROW = 16                 # columns below which a result is computed transposed, if there are more than one,
_WORTH = 1 << 14             # and if the first matrix has as many numbers
_OWN = 1 << 19               # products of numbers from which the compiled kernel is worth its call,
_OWN_EACH = 1 << 13          # and those in each product of a batch
_WORTH_FLOAT32 = 1 << 12     # products of float16 numbers from which the conversions are worth it
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor       # by vmap: these kernels have no rules for that
_kernels = functools.partial(compiled, "_matrices")


@functools.cache
def _prefers_onednn() -> bool:
    """Returns whether MKL has no kernels tuned for this processor."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as f:
        return torch.backends.mkldnn.is_available() and any("AuthenticAMD" in line for line in f if "vendor_id" in line)
    return False


@functools.cache
def _has_wide_vectors() -> bool:
    """Returns whether vectors of oneDNN and of the compiled kernel are twice as wide as MKL's on AMD's processors."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512"


def _is_large(rows: int, inner: int, columns: int) -> bool:
    """Whether oneDNN may be faster for a product of such matrices."""
    if _has_wide_vectors():
        return rows >= _FEW and rows * inner * columns >= _LARGE_512
    return rows >= _TALL and rows * inner * columns >= _LARGE or rows >= _FEW and inner * columns >= _HUGE


def _is_narrow(rows: int, inner: int, columns: int) -> bool:
    """Whether a product of such matrices may be faster transposed."""
    return 1 < columns < _NARROW <= rows and rows * inner >= _WORTH


def _is_own(rows: int, inner: int, columns: int) -> bool:
    """Whether the compiled kernel may be faster for a product of such matrices."""
    return _has_wide_vectors() and rows >= _FEW and columns > 1 and rows * inner * columns >= _OWN


def is_plain(rows: int, inner: int, columns: int) -> bool:
    """Whether MKL's kernel is best for a product of such matrices, on every processor."""
    return not (_is_large(rows, inner, columns) or _is_narrow(rows, inner, columns) or _is_own(rows, inner, columns))


def _is_ordinary(*matrices: torch.Tensor) -> bool:
    """Whether kernels for float32 take these matrices on this processor."""
    return _prefers_onednn() and all(m.dtype is torch.float32 and m.is_cpu and (type(m) is torch.Tensor or tracing.recording())
                                     and not _is_wrapped(m) for m in matrices)


@functools.cache
def _multiplies_float16() -> bool:
    """Whether this processor has kernels for products of float16."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return True                                                     # not measured
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_fp16_supported()


def in_float32(x: torch.Tensor) -> bool:
    """Whether products of tensors like x are faster in float32."""
    return x.dtype is torch.float16 and x.is_cpu and not _multiplies_float16()


class PackedMatrix:
    """The second matrix of products, in oneDNN's order, which depends neither on the first one nor on the number of threads."""

    __slots__ = ("__weakref__", "ndim", "shape", "tensor")

    def __init__(self, b: torch.Tensor):
        self.tensor = torch.ops.mkldnn._reorder_linear_weight(b.t(), None)      # opaque to other kernels
        self.ndim, self.shape = 2, b.shape


_packed: dict[tuple[int, bool], tuple[weakref.ref, int, weakref.ref]] = {}      # (matrix, its version, packed)


def packs(inner: int, columns: int, dtype: torch.dtype | None) -> bool:
    """Whether a second matrix that stays the same should be packed."""
    return dtype is torch.float32 and _prefers_onednn() and _has_wide_vectors() and inner * columns >= _HUGE


def packed(b: torch.Tensor, transposed: bool) -> PackedMatrix:
    """The matrix, or its transpose, packed. Steps that have it packed at the same time share it."""
    key = id(b), transposed
    known = _packed.get(key)
    if known is not None and known[0]() is b and known[1] == b._version:
        found = known[2]()
        if found is not None:
            return found
    found = PackedMatrix(b.t() if transposed else b)
    _packed[key] = weakref.ref(b), b._version, weakref.ref(found, lambda gone: _forget(key, gone))
    return found


def _forget(key: tuple[int, bool], gone: weakref.ref) -> None:
    if key in _packed and _packed[key][2] is gone:
        del _packed[key]


def product(a: torch.Tensor, b: torch.Tensor | PackedMatrix, bias: torch.Tensor | None = None) -> torch.Tensor:
    """a b, plus a bias for each row if any."""
    if isinstance(b, PackedMatrix):
        return torch.ops.mkldnn._linear_pointwise(a.contiguous(), b.tensor, bias, "none", [], "")
    sizes = a.shape[0], a.shape[1], b.shape[1]
    if not is_plain(*sizes) and b.shape[0] == sizes[1] and (bias is None or bias.shape == sizes[2:]) and _is_ordinary(a, b):
        if _is_large(*sizes) and (a.is_contiguous() or sizes[2] >= _WIDER * sizes[0] and not _has_wide_vectors()):
            return torch.ops.mkldnn._linear_pointwise(a.contiguous(), b.t(), bias, "none", [], "")
        if _is_narrow(*sizes):
            out = torch.mm(b.t(), a.t()).t().contiguous()
            return out if bias is None else out + bias
        if _is_own(*sizes) and _kernels() is not None:
            return _computed(torch.empty(sizes[0], sizes[2]), a, b, bias)
    if in_float32(a) and sizes[0] * sizes[1] * sizes[2] >= _WORTH_FLOAT32:
        return product(a.float(), b.float(), None if bias is None else bias.float()).half()
    return torch.mm(a, b) if bias is None else torch.addmm(bias, a, b)


def add_product(to: torch.Tensor, a: torch.Tensor, b: torch.Tensor, alpha: float = 1.0) -> None:
    """Adds alpha a b to a matrix, in place."""
    sizes = a.shape[0], a.shape[1], b.shape[1]
    if _is_own(*sizes) and not _is_narrow(*sizes) and b.shape[0] == sizes[1] and to.shape == (sizes[0], sizes[2]) and \
            to.is_contiguous() and _is_ordinary(a, b, to) and _kernels() is not None:
        _computed(to, a, b, None, alpha, adds=True)
    elif in_float32(to):
        to.add_(product(a, b), alpha=alpha)
    else:
        to.addmm_(a, b, alpha=alpha)


def batched(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The products of two batches of matrices."""
    batch, rows, inner = a.shape
    each = rows * inner * b.shape[2]
    if each >= _OWN_EACH and batch * each >= _OWN and rows >= _FEW and b.shape[2] > 1 and _has_wide_vectors() and \
            b.shape[:2] == (batch, inner) and _is_ordinary(a, b) and _kernels() is not None:
        return _computed(torch.empty(batch, rows, b.shape[2]), a, b)
    if in_float32(a) and batch * each >= _WORTH_FLOAT32:
        return batched(a.float(), b.float()).half()
    return torch.bmm(a, b)


def fastest_sgemm(library: int) -> int:
    """The address of the fastest function like BLAS's sgemm, for kernels that multiply; that of the library's is given."""
    own = _kernels() if _has_wide_vectors() and _prefers_onednn() else None
    return library if own is None else own.beside_sgemm(library)


def _computed(to: torch.Tensor, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None, alpha: float = 1.0,
              adds: bool = False) -> torch.Tensor:
    """What the compiled kernel writes: alpha a b, plus a bias for each row, or plus what was there."""
    a, b, bias = a.resolve_neg(), b.resolve_neg(), bias if bias is None else bias.contiguous()
    batch: tuple[Any, ...] = () if a.ndim == 3 else (0,)
    numbers = (len(a) if a.ndim == 3 else 1, a.shape[-2], a.shape[-1], b.shape[-1], *batch, *a.stride(), *batch, *b.stride(),
               int(adds))
    _kernels().run(numbers, alpha, (a.data_ptr(), b.data_ptr(), 0 if bias is None else bias.data_ptr(), to.data_ptr()))
    return to
