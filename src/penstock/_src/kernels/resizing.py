"""Images resized by weighted sums of neighbours with a custom kernel: `_resize.c`, compiled when penstock is installed with a
compiler.

Bytes are read as they are: neither a copy of the image in float32 nor one with another order of axes is made.
"""
from __future__ import annotations

import functools

import torch

from penstock._src.kernels.host_threads import compiled

_kernels = functools.partial(compiled, "_resize")
_MOST = 1 << 31                  # numbers in a row of the image
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor       # by vmap
Taps = tuple[torch.Tensor, torch.Tensor]          # indices and weights, both [n_out, taps]


def fits(images: torch.Tensor) -> bool:
    """Whether the kernel resizes these images [batch, height, width, channels]."""
    return images.is_cpu and images.dtype in (torch.uint8, torch.float32) and images.numel() > 0 and \
        images.shape[2] * images.shape[3] < _MOST and not _is_wrapped(images) and _kernels() is not None


def resize(images: torch.Tensor, rows: Taps, columns: Taps) -> torch.Tensor:
    """The weighted sums, of float32: those of rows first, then of columns."""
    images = images.contiguous()
    batch, height, width, channels = images.shape
    out = torch.empty(batch, len(rows[0]), len(columns[0]), channels)
    kept = [t.contiguous() for t in (rows[0], columns[0], rows[1], columns[1])]
    _kernels().resize(images.data_ptr(), *(t.data_ptr() for t in kept), out.data_ptr(), images.dtype is torch.uint8, batch,
                      height, width, channels, *out.shape[1:3], rows[0].shape[1])
    return out
