"""Recurrent layers over all time steps in one call: `_recurrent.c`, compiled when penstock is installed with a compiler.

`fits` tells whether the compiled kernels support some tensors; otherwise ops use torch, step by step.
All sequences are [time, batch, features], float32 and contiguous. The input products are given: a layer computes them for all
steps at once. Per step, row and unit, `forward` saves the values that `backward` reads.
"""
from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from penstock._src.kernels.host_threads import compiled

SIMPLE, LSTM, GRU = range(3)
GATES = {SIMPLE: 1, LSTM: 4, GRU: 3}
ACTIVATIONS = ("tanh", "sigmoid", "relu", "linear", "hard_sigmoid")
_LARGE, _FEW, _MANY = 1 << 17, 8, 32        # weights that do not fit the second cache are read for more rows at a time
_PANEL = 32                                 # columns that weights are filled up to, at most
_kernels = functools.partial(compiled, "_recurrent")
Tensor = torch.Tensor


class Layer(NamedTuple):
    """The kind of a layer. `place`: the positions of the input, cell, forget and output gates of an LSTM."""

    kind: int
    activation: str = "tanh"
    gate_activation: str = "sigmoid"
    place: tuple[int, ...] = (0, 1, 2, 3)
    clip: float = 0.0


def fits(*tensors: Tensor | None) -> bool:
    """Whether the compiled kernels compute layers with these tensors."""
    return _kernels() is not None and all(t is None or t.dtype is torch.float32 and t.is_cpu for t in tensors)


def forward(layer: Layer, steps: int, x: Tensor, h0: Tensor, c0: Tensor | None, weights: Tensor, bias: Tensor | None = None,
            mask: Tensor | None = None, overwrite: bool = False) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """The outputs of all steps, the activated gates, the carries, and what else is kept: an LSTM's activated carries, or the
    recurrent part of a GRU's candidates. Steps from `steps` on are 0. The gates may replace `x`.
    """
    units = h0.shape[1]
    make = torch.empty if steps == x.shape[0] and mask is None else torch.zeros
    h = make(*x.shape[:2], units)
    gates = h if layer.kind == SIMPLE else x if overwrite else make(x.shape)
    c = make(h.shape) if layer.kind == LSTM else None
    extra = make(h.shape) if layer.kind != SIMPLE else None
    _run(layer, False, steps, weights, x=x, h=h, c=c, extra=extra, h0=h0, c0=c0, bias=bias, gates_of=gates, mask=mask)
    return h, gates, c, extra


def backward(layer: Layer, steps: int, kept: tuple[Tensor, Tensor, Tensor | None, Tensor | None], h0: Tensor,
             c0: Tensor | None, weights: Tensor, h_grad: Tensor, c_grad: Tensor | None = None, mask: Tensor | None = None,
             ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Gradients of the input products, of the first states, and of the recurrent part of a GRU's candidates."""
    h, gates, c, extra = kept
    make = torch.empty if steps == h.shape[0] else torch.zeros
    x = make(*h.shape[:2], GATES[layer.kind] * h.shape[2])
    extra_grad = make(h.shape) if layer.kind == GRU else None
    dh, dc = torch.zeros(h0.shape), None if c0 is None else torch.zeros(c0.shape)
    _run(layer, True, steps, weights, x=x, h=h, c=c, extra=extra, h0=h0, c0=c0, gates_of=gates, h_grad=h_grad, c_grad=c_grad,
         extra_grad=extra_grad, dh=dh, dc=dc, mask=mask)
    return x, dh, dc, extra_grad


_FIELDS = ("x", "h", "c", "extra", "h0", "c0", "room", "panels", "bias", "gates_of", "h_grad", "c_grad", "extra_grad", "dh",
           "dc", "mask")


def _run(layer: Layer, back: bool, steps: int, weights: Tensor, **tensors: Tensor | None) -> None:
    batch, units = tensors["h0"].shape                          # type: ignore[union-attr]
    gates = GATES[layer.kind]
    if not batch or not units or not steps:
        return
    results = ("x", "extra_grad", "dh", "dc") if back else ("h", "c", "extra", "gates_of")
    tensors = {k: t if t is None or k in results else t.contiguous() for k, t in tensors.items()}
    weights = weights.contiguous()
    tensors["room"] = torch.empty(batch * gates * units)
    tensors["panels"] = torch.empty((units + _PANEL) * (gates * units + _PANEL))
    numbers = (layer.kind, ACTIVATIONS.index(layer.activation), ACTIVATIONS.index(layer.gate_activation), steps, batch, units,
               gates, _FEW if weights.numel() <= _LARGE else _MANY, *layer.place)
    addresses = tuple(0 if (t := tensors.get(name)) is None else t.data_ptr() for name in _FIELDS)
    _kernels().run(back, weights.data_ptr(), numbers, layer.clip, addresses)
