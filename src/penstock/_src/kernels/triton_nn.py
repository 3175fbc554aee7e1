"""Triton kernels for pooling, with less memory traffic than ATen's.

ATen's max pool writes an index of eight bytes for each maximum, and its gradient scatters with atomic additions. Here the
place of each window's first maximum is a byte, written only if the gradient is requested too, and the gradient gathers.

All arrays are NHWC and contiguous. Triton comes with PyTorch's builds for CUDA; `available` tells whether it is installed.
"""
from __future__ import annotations

import functools
from typing import Any

import torch

TYPES = frozenset((torch.float32, torch.float16, torch.bfloat16))
_TILE = 1024                       # elements of a tile


@functools.cache
def available() -> bool:
    """Whether Triton is installed."""
    import importlib.util
    return importlib.util.find_spec("triton") is not None


@functools.cache
def _kernels() -> Any:
    """The kernels: Triton is loaded at first use. Each works on a tile of R places by B channels."""
    import triton
    import triton.language as tl

    @triton.jit
    def max_forward(x, y, where, places, H, W, C, OH, OW, PT, PL, K: tl.constexpr, L: tl.constexpr, S: tl.constexpr,
                    T: tl.constexpr, R: tl.constexpr, B: tl.constexpr, WIDE: tl.constexpr, VALUES: tl.constexpr,
                    PLACES: tl.constexpr):
        at = tl.program_id(0) * R + tl.arange(0, R)
        at = at.to(tl.int64) if WIDE else at
        c = (tl.program_id(1) * B + tl.arange(0, B))[None, :]
        ok = at < places
        ow, rest = at % OW, at // OW
        oh, n = rest % OH, rest // OH
        best = tl.full((R, B), float("-inf"), tl.float32)
        place = tl.full((R, B), 255, tl.int32)
        for i in tl.static_range(K):
            for j in tl.static_range(L):
                h, w = oh * S - PT + i, ow * T - PL + j
                here = (ok & (h >= 0) & (h < H) & (w >= 0) & (w < W))[:, None] & (c < C)
                v = tl.load(x + ((n * H + h) * W + w)[:, None] * C + c, mask=here, other=float("-inf")).to(tl.float32)
                better = here & ((v > best) | ((v != v) & (best == best)) | (place == 255))
                best = tl.where(better, v, best)
                place = tl.where(better, i * L + j, place)
        to = at[:, None] * C + c
        keep = ok[:, None] & (c < C)
        if PLACES:
            tl.store(where + to, place.to(tl.uint8), mask=keep)
        if VALUES:
            tl.store(y + to, best, mask=keep)

    @triton.jit
    def max_backward(where, dy, dx, places, H, W, C, OH, OW, PT, PL, K: tl.constexpr, L: tl.constexpr, S: tl.constexpr,
                     T: tl.constexpr, R: tl.constexpr, B: tl.constexpr, WIDE: tl.constexpr):
        at = tl.program_id(0) * R + tl.arange(0, R)
        at = at.to(tl.int64) if WIDE else at
        c = (tl.program_id(1) * B + tl.arange(0, B))[None, :]
        ok = at < places
        w, rest = at % W, at // W
        h, n = rest % H, rest // H
        total = tl.zeros((R, B), tl.float32)
        for i in tl.static_range((K + S - 1) // S):
            for j in tl.static_range((L + T - 1) // T):
                oh, ow = (h + PT) // S - i, (w + PL) // T - j
                di, dj = h + PT - oh * S, w + PL - ow * T
                here = ok & (oh >= 0) & (oh < OH) & (ow >= 0) & (ow < OW) & (di < K) & (dj < L)
                mask = here[:, None] & (c < C)
                source = ((n * OH + oh) * OW + ow)[:, None] * C + c
                hit = mask & (tl.load(where + source, mask=mask, other=255).to(tl.int32) == (di * L + dj)[:, None])
                total += tl.load(dy + source, mask=hit, other=0.0).to(tl.float32)
        tl.store(dx + at[:, None] * C + c, total, mask=ok[:, None] & (c < C))

    return max_forward, max_backward


def _tiles(x: torch.Tensor) -> tuple[tuple[int, int], tuple[int, int, bool]]:
    """The grid for an NHWC array, and the tile: rows, channels, whether offsets need 64 bits."""
    c = x.shape[-1]
    b = min(128, 1 << max(c - 1, 1).bit_length())
    r = max(_TILE // b, 1)
    places = x.numel() // max(c, 1)
    return (-(-places // r), -(-c // b)), (r, b, x.numel() >= 1 << 31)


def max_pool(x: torch.Tensor, window: list[int], stride: list[int], pad: list[int], out: tuple[int, ...]) -> torch.Tensor:
    """The maxima of windows of an NHWC array; `pad` is the padding before the first row and column."""
    y = x.new_empty((x.shape[0], *out, x.shape[3]))
    _pool(x, y, y, window, stride, pad, True, False)
    return y


def max_pool_with_places(x: torch.Tensor, window: list[int], stride: list[int], pad: list[int],
                         out: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """The maxima, and where in its window each first occurs, as bytes."""
    y = x.new_empty((x.shape[0], *out, x.shape[3]))
    where = torch.empty(y.shape, dtype=torch.uint8, device=x.device)
    _pool(x, y, where, window, stride, pad, True, True)
    return y, where


def _pool(x: torch.Tensor, y: torch.Tensor, where: torch.Tensor, window: list[int], stride: list[int], pad: list[int],
          values: bool, places: bool) -> None:
    grid, (r, b, _) = _tiles(y)
    wide = max(x.numel(), y.numel()) >= 1 << 31
    _kernels()[0][grid](x, y, where, y.numel() // y.shape[3], *x.shape[1:], *y.shape[1:3], *pad, *window, *stride, r, b,
                        wide, values, places)


def max_pool_grad(x: torch.Tensor, grad: torch.Tensor, window: list[int], stride: list[int], pad: list[int],
                  where: torch.Tensor | None = None) -> torch.Tensor:
    """The gradient of max_pool: it goes to the first maximum of each window. `where` has their places, if they are known."""
    if where is None:
        where = torch.empty(grad.shape, dtype=torch.uint8, device=x.device)
        _pool(x, where, where, window, stride, pad, False, True)
    dx = torch.empty_like(x)
    grid, tile = _tiles(x)
    _kernels()[1][grid](where, grad, dx, x.numel() // x.shape[3], *x.shape[1:], *grad.shape[1:3], *pad, *window, *stride, *tile)
    return dx
