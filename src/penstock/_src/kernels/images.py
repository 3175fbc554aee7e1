"""Batch normalization of images on the CPU with custom kernels: `_images.c`, compiled when penstock is installed
with a compiler.

Without it `normalizes` returns False, and ATen's kernels are used.
"""
from __future__ import annotations

import functools

import torch

from penstock._src.kernels.host_threads import compiled

_IN_CACHE = 1 << 13              # numbers that stay in the first cache while they are read twice
_kernels = functools.partial(compiled, "_images")


def available() -> bool:
    """Whether there are such kernels."""
    return _kernels() is not None


def normalizes(x: torch.Tensor, scale: torch.Tensor) -> bool:
    """Whether the kernels normalize x, whose last axis is the channels, by its own statistics."""
    return x.dtype is torch.float32 and scale.dtype is torch.float32 and x.is_cpu and x.is_contiguous() and available()


def batch_norm(x: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor, epsilon: float,
               relu: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The normalized x (after a ReLU, if requested), and the mean and the biased variance of its channels."""
    channels = x.shape[-1]
    rows, block = x.numel() // channels, max(1, _IN_CACHE // channels)
    y, room = torch.empty_like(x), torch.empty((4 + 2 * -(-rows // block), channels))
    scale, offset = scale.contiguous(), offset.contiguous()
    _kernels().batch_norm(x.data_ptr(), y.data_ptr(), scale.data_ptr(), offset.data_ptr(), room.data_ptr(), rows, channels,
                          block, epsilon, relu)
    return y, room[0].clone(), room[1].clone()


def batch_norm_grad(grad: torch.Tensor, x: torch.Tensor, scale: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor,
                    epsilon: float, after: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients for x, the scale and the offset; `grad` is that of what a ReLU left of the result, if that is `after`."""
    channels = x.shape[-1]
    rows, block = x.numel() // channels, max(1, _IN_CACHE // channels)
    to, room = torch.empty_like(x), torch.empty((5 + 2 * -(-rows // block), channels))
    grad, scale, mean, variance = grad.contiguous(), scale.contiguous(), mean.contiguous(), variance.contiguous()
    after = None if after is None else after.contiguous()
    _kernels().batch_norm_grad(grad.data_ptr(), 0 if after is None else after.data_ptr(), x.data_ptr(), scale.data_ptr(),
                               mean.data_ptr(), variance.data_ptr(), to.data_ptr(), room.data_ptr(), rows, channels, block,
                               epsilon)
    return to, room[0].clone(), room[1].clone()
