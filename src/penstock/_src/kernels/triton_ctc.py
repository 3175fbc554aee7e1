"""The recursions of the CTC loss on a GPU, in Triton: one kernel for all time steps, in both directions at once.

ATen's loss reads the lengths of labels and inputs on the host, so a step with it waits for the device and cannot be a CUDA
graph.
"""
from __future__ import annotations

import functools
from typing import Any

import torch

from penstock._src.base import tracing
from penstock._src.kernels.triton_nn import available

_MOST = 8192                       # states of an example: one multiprocessor has all of them


def fits(log_p: torch.Tensor, states: int) -> bool:
    """Whether the kernel takes such log probabilities, for that many states."""
    return log_p.device.type == "cuda" and available() and states <= _MOST and log_p.dtype in (torch.float32, torch.float64)


@functools.cache
def _kernel() -> Any:
    """The kernel: Triton is loaded at first use."""
    import triton
    import triton.language as tl

    @triton.jit
    def log_sum(a, b, c):
        most = tl.maximum(a, tl.maximum(b, c))
        base = tl.where(most == float("-inf"), 0.0, most)
        return tl.log(tl.exp(a - base) + tl.exp(b - base) + tl.exp(c - base)) + base

    @triton.jit
    def recursion(emitted, first, last, stays, skips, lengths, alpha, beta, steps, batch, states, BLOCK: tl.constexpr):
        b = tl.program_id(0)
        s = tl.arange(0, BLOCK)
        here = s < states
        never = float("-inf")
        row, stride = b * states + s, batch * states
        stay = tl.load(stays + row, here, 0) != 0
        if tl.program_id(1) == 0:
            skip = tl.load(skips + row, here, 0) != 0
            tl.store(alpha + row, tl.load(first + row, here, never) + tl.load(emitted + row, here, never), here)
            for t in range(1, steps):
                tl.debug_barrier()                                # what other threads have stored is read below
                before = alpha + (t - 1) * stride + row
                a = tl.load(before, here & stay, never)
                o = tl.load(before - 1, here & (s >= 1), never)
                k = tl.load(before - 2, here & skip, never)
                tl.store(alpha + t * stride + row, log_sum(a, o, k) + tl.load(emitted + t * stride + row, here, never), here)
        else:
            skip = tl.load(skips + row + 2, s + 2 < states, 0) != 0
            end = tl.load(last + row, here, never)
            length = tl.load(lengths + b)
            for back in range(0, steps):
                t = steps - 1 - back
                tl.debug_barrier()
                after, value = beta + (t + 1) * stride + row, emitted + (t + 1) * stride + row
                inner = back > 0
                a = tl.load(after, here & stay & inner, never) + tl.load(value, here & inner, never)
                o = tl.load(after + 1, (s + 1 < states) & inner, never) + tl.load(value + 1, (s + 1 < states) & inner, never)
                k = tl.load(after + 2, skip & inner, never) + tl.load(value + 2, skip & inner, never)
                tl.store(beta + t * stride + row, tl.where(t + 1 == length, end, log_sum(a, o, k)), here)
    return recursion


def _recursions(emitted: torch.Tensor, first: torch.Tensor, last: torch.Tensor, stays: torch.Tensor, skips: torch.Tensor,
                lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    steps, batch, states = emitted.shape
    alpha, beta = torch.empty_like(emitted), torch.empty_like(emitted)
    weights = [w.to(emitted.dtype).expand(batch, states).contiguous() for w in (first, last)]
    masks = [m.expand(batch, states).contiguous().view(torch.uint8) for m in (stays, skips)]
    block = 1 << max(5, (states - 1).bit_length())
    with torch.cuda.device(emitted.device):
        _kernel()[batch, 2](emitted, *weights, *masks, lengths.contiguous(), alpha, beta, steps, batch, states, BLOCK=block,
                            num_warps=min(16, max(1, block // 64)))
    return alpha, beta


@functools.cache
def _op() -> Any:
    """The recursions as an op of torch, which graphs of ATen calls may hold."""
    made = torch.library.custom_op("penstock::ctc", _recursions, mutates_args=(), schema="(Tensor emitted, Tensor first, "
                                   "Tensor last, Tensor stays, Tensor skips, Tensor lengths) -> (Tensor, Tensor)")
    made.register_fake(lambda emitted, *rest: (torch.empty_like(emitted), torch.empty_like(emitted)))
    return torch.ops.penstock.ctc


tracing.torch_ops.append(_op)


def recursions(emitted: torch.Tensor, first: torch.Tensor, last: torch.Tensor, stays: torch.Tensor, skips: torch.Tensor,
               lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Log probabilities of reaching each state, with what is emitted there, and of what follows it: [time, batch, state].

    `emitted` is the log probability of each state's class at each time, -inf where there is no such state; `first` and `last`
    are those of starting and of ending in a state. A state may be kept (`stays`), and reached from the one before the last
    (`skips`).
    """
    return _op()(emitted.contiguous(), first, last, stays, skips, lengths)
