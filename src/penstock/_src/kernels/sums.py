"""Sums over axes with few numbers behind them, as coordinates of points, and over few numbers at the end: `_sums.c`, compiled
when penstock is installed with a compiler. Torch needs two to thirty times as long for these."""
from __future__ import annotations

import functools
import math

import torch

from penstock._src.kernels.host_threads import compiled

_kernels = functools.partial(compiled, "_sums")
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor       # under vmap it has no memory
_BEHIND = 7                  # the most numbers behind the axes: more fill the vectors of torch
_SHORT = 8                   # numbers that are added, where none are behind them
_LONGEST = 512               # numbers that are added one after the other: torch rounds sums of more less
_FEWEST = 2048               # numbers, below which the call is what takes the time
_TYPES = (torch.float32, torch.float64)


def over(x: torch.Tensor, axes: list[int], keep: bool, mean: bool = False) -> torch.Tensor:
    """The sum, or the mean, over some axes, at least one."""
    first, behind = min(axes), max(axes) + 1
    if x.dtype in _TYPES and x.numel() >= _FEWEST and behind - first == len(axes):
        dims, kernels = x.shape, _kernels()
        inner, middle = math.prod(dims[behind:]), math.prod(dims[first:behind])
        if kernels is not None and 0 < inner <= _BEHIND and 0 < middle <= (_LONGEST if inner > 1 else _SHORT) and \
                type(x) is torch.Tensor and x.is_cpu and x.is_contiguous() and not _is_wrapped(x):
            out = torch.empty((*dims[:first], *((1,) * len(axes) if keep else ()), *dims[behind:]), dtype=x.dtype)
            kernels.middle(x.data_ptr(), out.data_ptr(), x.dtype is torch.float64, x.numel() // (middle * inner), middle, inner,
                           1.0 / middle if mean else 1.0)
            return out
    return torch.mean(x, axes, keep) if mean else torch.sum(x, axes, keep, dtype=x.dtype)
