"""Pooling of images on the CPU with custom kernels: `_pools.c`, compiled when penstock is installed with a compiler.

Without it `takes` returns False, and ATen's kernels are used. Images are [batch, *space, channels], up to three axes in space.
The place of a maximum is its number in its window, row by row, in one byte; `NOWHERE` where a ReLU made it zero, so that no
gradient flows back.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch

from penstock._src.kernels.host_threads import compiled

NOWHERE = 255
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor       # under vmap it has no memory
_kernels = functools.partial(compiled, "_pools")


def available() -> bool:
    """Whether there are such kernels."""
    return _kernels() is not None


def takes(x: torch.Tensor, window: Sequence[int]) -> bool:
    """Whether the kernels pool x, or a gradient of such a shape."""
    return x.dtype is torch.float32 and x.is_cpu and x.is_contiguous() and math.prod(window) < NOWHERE and available()


def takes_windows(*tensors: torch.Tensor) -> bool:
    """Whether `add_windows` takes what is computed from the tensors."""
    return all(type(x) is torch.Tensor and x.dtype is torch.float32 and x.is_cpu and not _is_wrapped(x) for x in tensors) and \
        available()


def _geometry(batch: int, channels: int, size: Sequence[int], output: Sequence[int], window: Sequence[int],
              stride: Sequence[int], before: Sequence[int]) -> tuple:
    """The parameters of all kernels: three axes of space, of which the first have one element each where there are fewer."""
    missing = 3 - len(window)
    ones, zeros = (1,) * missing, (0,) * missing
    return batch, channels, (*ones, *size), (*ones, *output), (*ones, *window), (*ones, *stride), (*zeros, *before)


def max_pool(x: torch.Tensor, window: Sequence[int], stride: Sequence[int], before: Sequence[int], output: Sequence[int],
             relu: bool = False, places: bool = False) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The maxima (after a ReLU, if requested), and their places if requested.

    `before` is the padding before the first element of each axis, `output` how many windows there are along it.
    """
    out = x.new_empty((x.shape[0], *output, x.shape[-1]))
    found = torch.empty(out.shape, dtype=torch.uint8) if places else None
    _kernels().max_pool(x.data_ptr(), out.data_ptr(), 0 if found is None else found.data_ptr(), 0,
                        *_geometry(x.shape[0], x.shape[-1], x.shape[1:-1], output, window, stride, before), relu)
    return out, found


def max_pool_grad(grad: torch.Tensor, places: torch.Tensor, size: Sequence[int], window: Sequence[int], stride: Sequence[int],
                  before: Sequence[int], sums: bool = False) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The gradient for images of the sizes `size`, and its sum in each channel if requested."""
    grad = grad.contiguous()
    batch, *output, channels = grad.shape
    out = grad.new_empty((batch, *size, channels))
    parts = grad.new_empty((batch * math.prod(output[:-1]), channels)) if sums else None
    _kernels().max_pool_grad(grad.data_ptr(), out.data_ptr(), places.data_ptr(), 0 if parts is None else parts.data_ptr(),
                             *_geometry(batch, channels, size, output, window, stride, before), False)
    return out, None if parts is None else parts.sum(0)


def mean_pool(x: torch.Tensor, window: Sequence[int], stride: Sequence[int], before: Sequence[int],
              output: Sequence[int]) -> torch.Tensor:
    """The means over the part of each window inside the image."""
    out = x.new_empty((x.shape[0], *output, x.shape[-1]))
    _kernels().mean_pool(x.data_ptr(), out.data_ptr(), 0, 0,
                         *_geometry(x.shape[0], x.shape[-1], x.shape[1:-1], output, window, stride, before), False)
    return out


def mean_pool_grad(grad: torch.Tensor, size: Sequence[int], window: Sequence[int], stride: Sequence[int],
                   before: Sequence[int]) -> torch.Tensor:
    """The gradient for images of the sizes `size`."""
    batch, *output, channels = grad.shape
    out = grad.new_empty((batch, *size, channels))
    _kernels().mean_pool_grad(grad.data_ptr(), out.data_ptr(), 0, 0,
                              *_geometry(batch, channels, size, output, window, stride, before), False)
    return out


def add_windows(columns: torch.Tensor, out: torch.Tensor, window: Sequence[int], stride: Sequence[int], before: Sequence[int],
                output: Sequence[int]) -> None:
    """Writes images [batch, *space, channels]: sums of overlapping windows, which are rows of `columns`, [*window, channels]
    each. Both are contiguous float32 tensors on the host."""
    _kernels().add_windows(columns.data_ptr(), out.data_ptr(), 0, 0,
                           *_geometry(out.shape[0], out.shape[-1], out.shape[1:-1], output, window, stride, before), False)
