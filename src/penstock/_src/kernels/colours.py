"""Saturation, hue and contrast of images on the CPU: `_colours.c`, compiled when penstock is installed with a compiler.

Without it, `takes` returns False, and ops/image/color.py uses torch.
"""
from __future__ import annotations

import functools

import torch

from penstock._src.base import tracing
from penstock._src.kernels.host_threads import compiled

_kernels = functools.partial(compiled, "_colours")
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor       # under vmap it has no memory


def takes(images: torch.Tensor, factor: torch.Tensor) -> bool:
    """Whether the kernels change these images."""
    return images.dtype is torch.float32 and images.is_cpu and images.numel() > 0 and _kernels() is not None and \
        not tracing.lowering() and not _is_wrapped(images) and not _is_wrapped(factor)


def saturate(images: torch.Tensor, scale: float) -> torch.Tensor:
    """The saturation of [..., 3] pixels times `scale`, which is not negative."""
    images = images.contiguous()
    out = torch.empty_like(images)
    _kernels().saturate(images.data_ptr(), out.data_ptr(), images.numel() // 3, scale)
    return out


def turn(images: torch.Tensor, delta: float) -> torch.Tensor:
    """The hue of [..., 3] pixels plus `delta` turns."""
    images = images.contiguous()
    out = torch.empty_like(images)
    _kernels().turn(images.data_ptr(), out.data_ptr(), images.numel() // 3, delta)
    return out


def contrast(images: torch.Tensor, factor: float) -> torch.Tensor:
    """The distance of [..., height, width, channels] images to their mean in each channel, times `factor`."""
    images = images.contiguous()
    out = torch.empty_like(images)
    height, width, channels = images.shape[-3:]
    _kernels().contrast(images.data_ptr(), out.data_ptr(), images.numel() // (height * width * channels), height * width,
                        channels, factor)
    return out
