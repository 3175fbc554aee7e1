"""Arithmetic of uint16, uint32 and uint64, which ATen stores but mostly does not compute with.

The bits are read as signed integers of the same width. Sums, products and bit operations come out the same
either way (`wrapping`); for order, flipping the top bit turns unsigned order into signed order (`ordered`); division
is put together from signed division (`divide`, `remainder`). Everything runs in ATen, on any device.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

TYPES = "uint16 uint32 uint64"
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
_UNSIGNED = {s: u for u, s in _SIGNED.items()}


def is_wide(x: Any) -> bool:
    """Whether `x` is a tensor of an unsigned type with little support in ATen."""
    return isinstance(x, torch.Tensor) and x.dtype in _SIGNED


def signed(x: torch.Tensor) -> torch.Tensor:
    """The same bits as signed integers."""
    return x.view(_SIGNED[x.dtype])


def unsigned(x: torch.Tensor) -> torch.Tensor:
    """The same bits as unsigned integers."""
    return x.view(_UNSIGNED[x.dtype])


def flip(x: torch.Tensor) -> torch.Tensor:
    """Unsigned integers as signed ones in the same order; and signed ones back."""
    if x.dtype in _SIGNED:
        x = signed(x)
        return x ^ torch.iinfo(x.dtype).min
    return unsigned(x ^ torch.iinfo(x.dtype).min)


def _each(f: Callable, value: Any) -> Any:
    """`f` on the wide tensors of an argument (or of a list of them)."""
    if is_wide(value):
        return f(value)
    return [_each(f, v) for v in value] if isinstance(value, list) else value


def _adapter(into: Callable, back: Callable) -> Callable:
    def adapt(fn: Callable) -> Callable:
        @functools.wraps(fn)
        def kernel(*args: Any, **kwargs: Any) -> Any:
            wanted = _SIGNED[_first(args)]
            out = fn(*[_each(into, a) for a in args], **kwargs)

            def restore(x: Any) -> Any:
                return back(x) if isinstance(x, torch.Tensor) and x.dtype is wanted else x
            return tuple(map(restore, out)) if isinstance(out, tuple) else restore(out)
        return kernel
    return adapt


def _first(args: tuple) -> torch.dtype:
    for a in args:
        for x in a if isinstance(a, list) else (a,):
            if is_wide(x):
                return x.dtype
    raise TypeError("no unsigned argument")


wrapping = _adapter(signed, unsigned)
ordered = _adapter(flip, flip)


def _quotient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x / y of unsigned 64-bit integers, given and returned as the signed view of their bits."""
    top = torch.iinfo(torch.int64).min
    half = (x >> 1) & torch.iinfo(torch.int64).max
    big = y < 0                                               # y >= 2**63: the quotient is 0 or 1
    safe = torch.where(big, torch.ones_like(y), y)
    q = torch.div(half, safe, rounding_mode="floor") << 1
    q = q + ((x - q * safe) ^ top >= safe ^ top).to(torch.int64)
    return torch.where(big, (x ^ top >= y ^ top).to(torch.int64), q)


def divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x / y rounded down; y must not hold zeros."""
    if x.dtype is torch.uint64:
        return _quotient(*torch.broadcast_tensors(signed(x), signed(y))).view(torch.uint64)
    return torch.div(x.to(torch.int64), y.to(torch.int64), rounding_mode="floor").to(x.dtype)


def remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x modulo y; y must not hold zeros."""
    if x.dtype is torch.uint64:
        a, b = torch.broadcast_tensors(signed(x), signed(y))
        return (a - _quotient(a, b) * b).view(torch.uint64)
    return torch.remainder(x.to(torch.int64), y.to(torch.int64)).to(x.dtype)
