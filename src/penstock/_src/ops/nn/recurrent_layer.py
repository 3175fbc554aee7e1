"""A recurrent layer over all time steps as one op: simple recurrence, or a GRU whose reset gate comes after the product.

The input products are computed before, for all steps at once; the op computes the part that depends on the states. On the CPU
the kernels are in C (`kernels/recurrent.py`), on a GPU in Triton (`kernels/triton_rnn.py`); elsewhere, and for other types,
they are a loop over time steps.

TensorFlow has no such op. In messages the op is a call of the function that `written_as` names, which computes the same in a
loop (`models/keras/layers/fused_recurrent.py`), so that graphs and SavedModels can be read elsewhere.
"""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base.static_shape import rank_is, show
from penstock._src.kernels import recurrent as kernels
from penstock._src.kernels import triton_rnn
from penstock._src.ops.registry import internal

KINDS = {"simple": kernels.SIMPLE, "gru": kernels.GRU}
_ATTRS = ("kind: string, activation: string, gate_activation: string, written_as: string, "
          "T: type in {float32 float64 half bfloat16}")
layer = internal("_RecurrentLayer", "x: T, h0: T, weights: T, bias: T, mask: bool -> h: T, gates: T, extra: T", _ATTRS)
layer_grad = internal("_RecurrentLayerGrad", "h0: T, weights: T, bias: T, mask: bool, h: T, gates: T, extra: T, h_grad: T -> "
                      "x_grad: T, h0_grad: T, weights_grad: T, bias_grad: T", _ATTRS.replace("written_as: string, ", ""))


@layer.shape
def _layer_shape(x, h0, weights, bias, mask, *, kind):
    steps, batch, _ = rank_is(x, 3)
    units = rank_is(h0, 2)[1]
    return [(steps, batch, units), x if kind == "gru" else (0,), (steps, batch, units) if kind == "gru" else (0,)]


@layer_grad.shape
def _layer_grad_shape(h0, weights, bias, mask, h, gates, extra, h_grad, *, kind):
    steps, batch, units = rank_is(h, 3)
    return [(steps, batch, None if units is None else units * kernels.GATES[KINDS[kind]]), h0, weights, bias]


def _described(kind: str, activation: str, gate_activation: str, x: Any, h0: Any, weights: Any, bias: Any, mask: Any) -> Any:
    """The layer, after a check of all shapes."""
    found = kernels.Layer(KINDS[kind], activation, gate_activation)
    wide = h0.shape[1] * kernels.GATES[found.kind] if h0.ndim == 2 else -1
    for name, t, wanted in (("x", x, (*x.shape[:1], *h0.shape[:1], wide)), ("weights", weights, (h0.shape[-1], wide)),
                            ("bias", bias, (wide if kind == "gru" else 0,)),
                            ("mask", mask, (0,) if mask.shape == (0,) else tuple(x.shape[:2]))):
        if tuple(t.shape) != wanted:
            raise errors.invalid(f"{name} of a recurrent layer has shape {show(tuple(t.shape))}, expected {show(wanted)}")
    return found


@layer.kernel
def _layer_kernel(x, h0, weights, bias, mask, *, kind, activation, gate_activation):
    described = _described(kind, activation, gate_activation, x, h0, weights, bias, mask)
    none = x.new_zeros(0)
    mask = None if mask.shape == (0,) else mask
    if kernels.fits(x, h0, weights, bias):
        h, gates, _, extra = kernels.forward(described, x.shape[0], x, h0, None, weights, bias if kind == "gru" else None, mask)
        return h, gates if kind == "gru" else none, none if extra is None else extra
    if triton_rnn.fits(x, h0, weights, bias):
        return triton_rnn.layer_forward(described, x, h0, weights, bias, mask)
    steps = []
    for t in range(x.shape[0]):
        new, gates, extra = _step(described, x[t], h0, weights, bias)
        h0 = new if mask is None else torch.where(mask[t][:, None], new, h0)
        steps.append((h0, gates, extra))
    if not steps:
        return x.new_zeros(0, *h0.shape), torch.zeros_like(x) if kind == "gru" else none, x.new_zeros(0, *h0.shape)
    h, gates, extra = (torch.stack(part) for part in zip(*steps, strict=True))
    return (h, gates, extra) if kind == "gru" else (h, none, none)


_FUNCTIONS = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "linear": lambda x: x,
              "hard_sigmoid": lambda x: torch.clamp(x * 0.2 + 0.5, 0, 1)}
_SLOPES = {"tanh": lambda y: 1 - y * y, "sigmoid": lambda y: y * (1 - y), "relu": lambda y: (y > 0).to(y.dtype),
           "linear": torch.ones_like, "hard_sigmoid": lambda y: ((y > 0) & (y < 1)).to(y.dtype) * 0.2}


def _step(described: kernels.Layer, x: Any, h: Any, weights: Any, bias: Any) -> tuple:
    """One step: the output, the activated gates, and the recurrent part of the candidate."""
    act, gate = _FUNCTIONS[described.activation], _FUNCTIONS[described.gate_activation]
    if described.kind == kernels.SIMPLE:
        new = act(torch.addmm(x, h, weights))
        return new, new, new
    n = h.shape[1]
    inner = torch.addmm(bias, h, weights)
    z, reset = gate(x[:, :2 * n] + inner[:, :2 * n]).chunk(2, 1)
    candidate = act(x[:, 2 * n:] + reset * inner[:, 2 * n:])
    return candidate + z * (h - candidate), torch.cat([z, reset, candidate], 1), inner[:, 2 * n:]


def _step_back(described: kernels.Layer, before: Any, h: Any, gates: Any, recurrent: Any, dh: Any) -> tuple:
    """The gradients of one step's gates, of their recurrent part, and the part of the state's that is no product."""
    act, gate = _SLOPES[described.activation], _SLOPES[described.gate_activation]
    if described.kind == kernels.SIMPLE:
        dx = dh * act(h)
        return dx, dx, torch.zeros_like(dh)
    z, reset, candidate = gates.chunk(3, 1)
    dz = dh * (before - candidate) * gate(z)
    dcandidate = dh * (1 - z) * act(candidate)
    dreset = dcandidate * recurrent * gate(reset)
    return torch.cat([dz, dreset, dcandidate], 1), torch.cat([dz, dreset, dcandidate * reset], 1), dh * z


def _back(described: kernels.Layer, h0: Any, weights: Any, mask: Any, h: Any, gates: Any, extra: Any, h_grad: Any) -> tuple:
    """The gradients of the input products, of the recurrent products, and of the first state."""
    units, back = h0.shape[1], weights.t()
    if kernels.fits(h0, weights, h, gates, extra, h_grad):
        dx, dh, _, dinner = kernels.backward(described, h.shape[0], (h, gates, None, extra), h0, None, weights, h_grad, None,
                                             mask)
        return dx, dx if dinner is None else torch.cat([dx[..., :2 * units], dinner], 2), dh
    if triton_rnn.fits(h0, weights, h, gates, extra, h_grad):
        return triton_rnn.layer_backward(described, h0, weights, mask, h, gates, extra, h_grad)
    dh, all_dx, all_inner = torch.zeros_like(h0), [], []
    gru = described.kind == kernels.GRU
    for t in reversed(range(h.shape[0])):
        dh = dh + h_grad[t]
        gate, recurrent = (gates[t], extra[t]) if gru else (None, None)
        dx, inner, rest = _step_back(described, h[t - 1] if t else h0, h[t], gate, recurrent, dh)
        if mask is not None:
            keep = mask[t][:, None]
            dx, inner, rest = torch.where(keep, dx, 0), torch.where(keep, inner, 0), torch.where(keep, rest, dh)
        dh = torch.addmm(rest, inner, back)
        all_dx.append(dx)
        all_inner.append(inner)
    if not all_dx:
        none = h0.new_zeros(0, h0.shape[0], weights.shape[1])
        return none, none, dh
    return torch.stack(all_dx[::-1]), torch.stack(all_inner[::-1]), dh


@layer_grad.kernel
def _layer_grad_kernel(h0, weights, bias, mask, h, gates, extra, h_grad, *, kind, activation, gate_activation):
    described = kernels.Layer(KINDS[kind], activation, gate_activation)
    mask = None if mask.shape == (0,) else mask
    dx, inner, dh0 = _back(described, h0, weights, mask, h, gates, extra, h_grad)
    before = torch.cat([h0[None], h[:-1]]).reshape(-1, h0.shape[1]) if h.shape[0] else h.new_zeros(0, h0.shape[1])
    flat = inner.reshape(-1, inner.shape[-1])
    return dx, dh0, before.t() @ flat, flat.sum(0) if kind == "gru" else torch.zeros_like(bias)


@layer.gradient
def _layer_gradient(op, *grads):
    attrs = {name: op.attrs[name] for name in ("kind", "activation", "gate_activation")}
    return *layer_grad(*op.inputs[1:], *op.outputs, grads[0], **attrs), None
