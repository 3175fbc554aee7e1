"""The cell of an LSTM on a GPU, in Triton: what is left of a time step beside its product is one kernel.

As separate ops, a step of a layer is seven kernels forward and six backward, each of which takes as long as its launch. Here
it is a product and one kernel in either direction. Arithmetic is in float32 whatever the type of the arrays.
"""
from __future__ import annotations

import functools
from typing import Any

import torch

from penstock._src.base import tracing
from penstock._src.kernels.triton_nn import TYPES, available

_TILE = 256                        # elements of a tile: a small layer still fills many multiprocessors


def fits(*tensors: torch.Tensor) -> bool:
    """Whether the kernels take these tensors."""
    return tensors[0].is_cuda and not tracing.lowering() and available() and \
        all(t.dtype is tensors[0].dtype and t.dtype in TYPES for t in tensors)


@functools.cache
def _kernels() -> Any:
    """The kernels: Triton is loaded at first use."""
    import triton
    import triton.language as tl

    @triton.jit
    def tanh(x):
        size = tl.abs(x)
        e = tl.exp(-2.0 * size)
        far = (1.0 - e) / (1.0 + e)
        s = x * x                                     # near zero the difference above loses digits
        near = size * (1.0 + s * (-0.33333333 + s * (0.13333333 + s * (-0.053968254 + s * 0.021869488))))
        t = tl.where(size < 0.2, near, far)
        return tl.where(x < 0, -t, t)

    @triton.jit
    def lstm(x, product, before, gates, c, co, h, count, U, I: tl.constexpr, C: tl.constexpr, F: tl.constexpr, O: tl.constexpr,
             CLIP: tl.constexpr, B: tl.constexpr):
        at = tl.program_id(0) * B + tl.arange(0, B)
        ok = at < count
        g = (at // U) * 4 * U + at % U
        gi = tl.load(x + g + I * U, mask=ok, other=0.0).to(tl.float32) + tl.load(product + g + I * U, mask=ok, other=0.0)
        gc = tl.load(x + g + C * U, mask=ok, other=0.0).to(tl.float32) + tl.load(product + g + C * U, mask=ok, other=0.0)
        gf = tl.load(x + g + F * U, mask=ok, other=0.0).to(tl.float32) + tl.load(product + g + F * U, mask=ok, other=0.0)
        go = tl.load(x + g + O * U, mask=ok, other=0.0).to(tl.float32) + tl.load(product + g + O * U, mask=ok, other=0.0)
        i, f, o = tl.sigmoid(gi), tl.sigmoid(gf), tl.sigmoid(go)
        ci = tanh(gc)
        new = ci * i + tl.load(before + at, mask=ok, other=0.0).to(tl.float32) * f
        if CLIP > 0:
            new = tl.minimum(tl.maximum(new, -CLIP), CLIP)
        out = tanh(new)
        tl.store(gates + g + I * U, i, mask=ok)
        tl.store(gates + g + C * U, ci, mask=ok)
        tl.store(gates + g + F * U, f, mask=ok)
        tl.store(gates + g + O * U, o, mask=ok)
        tl.store(c + at, new, mask=ok)
        tl.store(co + at, out, mask=ok)
        tl.store(h + at, o * out, mask=ok)

    @triton.jit
    def lstm_back(dh, more_dh, dc, more_dc, gates, before, co, dgates, count, U, I: tl.constexpr, C: tl.constexpr,
                  F: tl.constexpr, O: tl.constexpr, B: tl.constexpr):
        at = tl.program_id(0) * B + tl.arange(0, B)
        ok = at < count
        g = (at // U) * 4 * U + at % U
        i = tl.load(gates + g + I * U, mask=ok, other=0.0).to(tl.float32)
        ci = tl.load(gates + g + C * U, mask=ok, other=0.0).to(tl.float32)
        f = tl.load(gates + g + F * U, mask=ok, other=0.0).to(tl.float32)
        o = tl.load(gates + g + O * U, mask=ok, other=0.0).to(tl.float32)
        out = tl.load(co + at, mask=ok, other=0.0).to(tl.float32)
        d = tl.load(dh + at, mask=ok, other=0.0).to(tl.float32) + tl.load(more_dh + at, mask=ok, other=0.0)
        carry = tl.load(dc + at, mask=ok, other=0.0).to(tl.float32) + tl.load(more_dc + at, mask=ok, other=0.0)
        carry += (1.0 - out * out) * d * o
        tl.store(dgates + g + I * U, i * (1.0 - i) * carry * ci, mask=ok)
        tl.store(dgates + g + C * U, (1.0 - ci * ci) * carry * i, mask=ok)
        tl.store(dgates + g + F * U, f * (1.0 - f) * carry * tl.load(before + at, mask=ok, other=0.0).to(tl.float32), mask=ok)
        tl.store(dgates + g + O * U, o * (1.0 - o) * d * out, mask=ok)
        tl.store(dc + at, carry * f, mask=ok)
    return lstm, lstm_back


def forward(steps: int, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, weights: torch.Tensor, layout: tuple[int, ...],
            clip: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Outputs, activated gates, carries and activated carries of all steps, from the input products x; zero from `steps` on.

    `layout`: where the input, cell, forget and output gates are.
    """
    make = torch.empty if steps == x.shape[0] else torch.zeros
    gates = make(x.shape, dtype=x.dtype, device=x.device)
    all_c, all_co, all_h = (make((*x.shape[:2], c.shape[1]), dtype=x.dtype, device=x.device) for _ in range(3))
    x, h, c, weights = x.contiguous(), h.contiguous(), c.contiguous(), weights.contiguous()
    product = torch.empty(x.shape[1:], dtype=x.dtype, device=x.device)
    kernel, count = _kernels()[0], c.numel()
    for t in range(steps if count else 0):
        torch.mm(h, weights, out=product)
        kernel[(-(-count // _TILE),)](x[t], product, c, gates[t], all_c[t], all_co[t], all_h[t], count, c.shape[1], *layout,
                                      float(clip), _TILE, num_warps=4)
        h, c = all_h[t], all_c[t]
    return all_h, gates, all_c, all_co


def backward(steps: int, gates: torch.Tensor, all_c: torch.Tensor, all_co: torch.Tensor, c: torch.Tensor,
             weights: torch.Tensor, h_grad: torch.Tensor, c_grad: torch.Tensor,
             layout: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of the input products, and of the first output and carry."""
    dgates = (torch.empty if steps == gates.shape[0] else torch.zeros)(gates.shape, dtype=gates.dtype, device=gates.device)
    dc, dh, back = torch.zeros_like(c), torch.zeros_like(c), weights.t().contiguous()
    gates, all_c, all_co, c, h_grad, c_grad = (t.contiguous() for t in (gates, all_c, all_co, c, h_grad, c_grad))
    kernel, count = _kernels()[1], c.numel()
    for t in reversed(range(steps if count else 0)):
        kernel[(-(-count // _TILE),)](dh, h_grad[t], dc, c_grad[t], gates[t], all_c[t - 1] if t else c, all_co[t], dgates[t],
                                      count, c.shape[1], *layout, _TILE, num_warps=4)
        torch.mm(dgates[t], back, out=dh)
    return dgates, dh, dc
