"""Recurrent layers on a GPU, in Triton: one kernel per time step besides the product.

As separate ops, a step of a layer is seven kernels or more in either direction, each of which takes as long as its launch. Here
it is a product and one kernel. Arithmetic is in float32 whatever the type of the arrays. A step that becomes a graph of ATen
calls has a layer in it as one op of torch (`_ops`): the graph has few nodes, and its other ops are compiled as usual.
"""
from __future__ import annotations

import functools
from typing import Any

import torch

from penstock._src.base import tracing
from penstock._src.kernels.recurrent import ACTIVATIONS, GRU, Layer
from penstock._src.kernels.triton_nn import TYPES, available

_TILE = 256                        # elements of a tile: a small layer still fills many multiprocessors


def fits(*tensors: torch.Tensor) -> bool:
    """Whether the kernels take these tensors."""
    return tensors[0].is_cuda and available() and all(t.dtype is tensors[0].dtype and t.dtype in TYPES for t in tensors)


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
    def activated(x, KIND: tl.constexpr):             # by its place among ACTIVATIONS
        if KIND == 0:
            x = tanh(x)
        elif KIND == 1:
            x = tl.sigmoid(x)
        elif KIND == 2:
            x = tl.where(x < 0, 0.0, x)
        elif KIND == 4:
            x = x * 0.2 + 0.5
            x = tl.where(x < 0, 0.0, tl.where(x > 1, 1.0, x))
        return x

    @triton.jit
    def slope(y, KIND: tl.constexpr):                 # of an activation, from its result
        if KIND == 0:
            y = 1.0 - y * y
        elif KIND == 1:
            y = y * (1.0 - y)
        elif KIND == 2:
            y = tl.where(y > 0, 1.0, 0.0)
        elif KIND == 3:
            y = tl.full(y.shape, 1.0, tl.float32)
        else:
            y = tl.where((y > 0) & (y < 1), 0.2, 0.0)
        return y

    @triton.jit
    def simple(x, product, mask, before, h, count, U, ACT: tl.constexpr, MASKED: tl.constexpr, B: tl.constexpr):
        at = tl.program_id(0) * B + tl.arange(0, B)
        ok = at < count
        new = activated(tl.load(x + at, mask=ok, other=0.0).to(tl.float32) + tl.load(product + at, mask=ok, other=0.0), ACT)
        if MASKED:
            keep = tl.load(mask + at // U, mask=ok, other=0) != 0
            new = tl.where(keep, new, tl.load(before + at, mask=ok, other=0.0).to(tl.float32))
        tl.store(h + at, new, mask=ok)

    @triton.jit
    def simple_back(dh, more_dh, mask, h, dx, count, U, ACT: tl.constexpr, MASKED: tl.constexpr, B: tl.constexpr):
        at = tl.program_id(0) * B + tl.arange(0, B)
        ok = at < count
        d = tl.load(dh + at, mask=ok, other=0.0).to(tl.float32) + tl.load(more_dh + at, mask=ok, other=0.0)
        dn = d * slope(tl.load(h + at, mask=ok, other=0.0).to(tl.float32), ACT)
        rest = tl.zeros((B,), tl.float32)
        if MASKED:
            keep = tl.load(mask + at // U, mask=ok, other=0) != 0
            dn, rest = tl.where(keep, dn, 0.0), tl.where(keep, 0.0, d)
        tl.store(dx + at, dn, mask=ok)
        tl.store(dh + at, rest, mask=ok)

    @triton.jit
    def gru(x, product, bias, mask, before, gates, extra, h, count, U, ACT: tl.constexpr, GATE: tl.constexpr,
            MASKED: tl.constexpr, B: tl.constexpr):
        at = tl.program_id(0) * B + tl.arange(0, B)
        ok = at < count
        u = at % U
        g = (at // U) * 3 * U + u
        hz = tl.load(product + g, mask=ok, other=0.0).to(tl.float32) + tl.load(bias + u, mask=ok, other=0.0)
        hr = tl.load(product + g + U, mask=ok, other=0.0).to(tl.float32) + tl.load(bias + u + U, mask=ok, other=0.0)
        hh = tl.load(product + g + 2 * U, mask=ok, other=0.0).to(tl.float32) + tl.load(bias + u + 2 * U, mask=ok, other=0.0)
        z = activated(tl.load(x + g, mask=ok, other=0.0).to(tl.float32) + hz, GATE)
        r = activated(tl.load(x + g + U, mask=ok, other=0.0).to(tl.float32) + hr, GATE)
        c = activated(tl.load(x + g + 2 * U, mask=ok, other=0.0).to(tl.float32) + r * hh, ACT)
        old = tl.load(before + at, mask=ok, other=0.0).to(tl.float32)
        new = c + z * (old - c)
        if MASKED:
            new = tl.where(tl.load(mask + at // U, mask=ok, other=0) != 0, new, old)
        tl.store(gates + g, z, mask=ok)
        tl.store(gates + g + U, r, mask=ok)
        tl.store(gates + g + 2 * U, c, mask=ok)
        tl.store(extra + at, hh, mask=ok)
        tl.store(h + at, new, mask=ok)

    @triton.jit
    def gru_back(dh, more_dh, mask, before, gates, extra, dx, inner, count, U, ACT: tl.constexpr, GATE: tl.constexpr,
                 MASKED: tl.constexpr, B: tl.constexpr):
        at = tl.program_id(0) * B + tl.arange(0, B)
        ok = at < count
        g = (at // U) * 3 * U + at % U
        d = tl.load(dh + at, mask=ok, other=0.0).to(tl.float32) + tl.load(more_dh + at, mask=ok, other=0.0)
        z = tl.load(gates + g, mask=ok, other=0.0).to(tl.float32)
        r = tl.load(gates + g + U, mask=ok, other=0.0).to(tl.float32)
        c = tl.load(gates + g + 2 * U, mask=ok, other=0.0).to(tl.float32)
        dz = d * (tl.load(before + at, mask=ok, other=0.0).to(tl.float32) - c) * slope(z, GATE)
        dc = d * (1.0 - z) * slope(c, ACT)
        dr = dc * tl.load(extra + at, mask=ok, other=0.0).to(tl.float32) * slope(r, GATE)
        dn, rest = dc * r, d * z
        if MASKED:
            keep = tl.load(mask + at // U, mask=ok, other=0) != 0
            dz, dr, dc, dn = tl.where(keep, dz, 0.0), tl.where(keep, dr, 0.0), tl.where(keep, dc, 0.0), tl.where(keep, dn, 0.0)
            rest = tl.where(keep, rest, d)
        tl.store(dx + g, dz, mask=ok)
        tl.store(dx + g + U, dr, mask=ok)
        tl.store(dx + g + 2 * U, dc, mask=ok)
        tl.store(inner + g, dz, mask=ok)
        tl.store(inner + g + U, dr, mask=ok)
        tl.store(inner + g + 2 * U, dn, mask=ok)
        tl.store(dh + at, rest, mask=ok)

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
    return {"lstm": lstm, "lstm_back": lstm_back, "simple": simple, "simple_back": simple_back, "gru": gru,
            "gru_back": gru_back}


def _launch(name: str, count: int, *arguments: Any) -> None:
    _kernels()[name][(-(-count // _TILE),)](*arguments, _TILE, num_warps=4)


# -- LSTM -----------------------------------------------------------------------------------------------------------------
def forward(steps: int, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, weights: torch.Tensor, layout: tuple[int, ...],
            clip: float) -> tuple[torch.Tensor, ...]:
    """Outputs, activated gates, carries and activated carries of all steps, from the input products x; zero from `steps` on.

    `layout`: where the input, cell, forget and output gates are.
    """
    run = _ops()["lstm"] if tracing.lowering() else _lstm
    return run(steps, x, h, c, weights, list(layout), float(clip))


def _lstm(steps: int, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, weights: torch.Tensor, layout: list[int],
          clip: float) -> tuple[torch.Tensor, ...]:
    make = torch.empty if steps == x.shape[0] else torch.zeros
    gates = make(x.shape, dtype=x.dtype, device=x.device)
    all_c, all_co, all_h = (make((*x.shape[:2], c.shape[1]), dtype=x.dtype, device=x.device) for _ in range(3))
    x, h, c, weights = x.contiguous(), h.contiguous(), c.contiguous(), weights.contiguous()
    product = torch.empty(x.shape[1:], dtype=x.dtype, device=x.device)
    count = c.numel()
    for t in range(steps if count else 0):
        torch.mm(h, weights, out=product)
        _launch("lstm", count, x[t], product, c, gates[t], all_c[t], all_co[t], all_h[t], count, c.shape[1], *layout, clip)
        h, c = all_h[t], all_c[t]
    return all_h, gates, all_c, all_co


def backward(steps: int, gates: torch.Tensor, all_c: torch.Tensor, all_co: torch.Tensor, c: torch.Tensor,
             weights: torch.Tensor, h_grad: torch.Tensor, c_grad: torch.Tensor,
             layout: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    """Gradients of the input products, and of the first output and carry."""
    run = _ops()["lstm_back"] if tracing.lowering() else _lstm_back
    return run(steps, gates, all_c, all_co, c, weights, h_grad, c_grad, list(layout))


def _lstm_back(steps: int, gates: torch.Tensor, all_c: torch.Tensor, all_co: torch.Tensor, c: torch.Tensor,
               weights: torch.Tensor, h_grad: torch.Tensor, c_grad: torch.Tensor,
               layout: list[int]) -> tuple[torch.Tensor, ...]:
    dgates = (torch.empty if steps == gates.shape[0] else torch.zeros)(gates.shape, dtype=gates.dtype, device=gates.device)
    gates, all_c, all_co, c, h_grad, c_grad = (t.contiguous() for t in (gates, all_c, all_co, c, h_grad, c_grad))
    dc, dh, back = torch.zeros_like(c), torch.zeros_like(c), weights.t().contiguous()
    count = c.numel()
    for t in reversed(range(steps if count else 0)):
        _launch("lstm_back", count, dh, h_grad[t], dc, c_grad[t], gates[t], all_c[t - 1] if t else c, all_co[t], dgates[t],
                count, c.shape[1], *layout)
        torch.mm(dgates[t], back, out=dh)
    return dgates, dh, dc


# -- simple recurrence and GRU --------------------------------------------------------------------------------------------
def layer_forward(layer: Layer, x: torch.Tensor, h0: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor,
                  mask: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """The states after all steps; of a GRU also its activated gates, and the recurrent part of its candidates."""
    run = _ops()["layer"] if tracing.lowering() else _layer
    return run(layer.kind, ACTIVATIONS.index(layer.activation), ACTIVATIONS.index(layer.gate_activation), x, h0, weights, bias,
               mask)


def _layer(kind: int, activation: int, gate: int, x: torch.Tensor, h0: torch.Tensor, weights: torch.Tensor,
           bias: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    h, gates, extra = _made(kind, x, h0)
    x, before, weights, bias = x.contiguous(), h0.contiguous(), weights.contiguous(), bias.contiguous()
    keep = x if mask is None else mask.contiguous().view(torch.uint8)
    product = torch.empty(x.shape[1:], dtype=x.dtype, device=x.device)
    count, units = h0.numel(), h0.shape[1]
    for t in range(x.shape[0] if count else 0):
        torch.mm(before, weights, out=product)
        if kind == GRU:
            _launch("gru", count, x[t], product, bias, keep[t], before, gates[t], extra[t], h[t], count, units, activation,
                    gate, mask is not None)
        else:
            _launch("simple", count, x[t], product, keep[t], before, h[t], count, units, activation, mask is not None)
        before = h[t]
    return h, gates, extra


def _made(kind: int, x: torch.Tensor, h0: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Space for the results of a layer."""
    h = x.new_empty((x.shape[0], *h0.shape))
    if kind == GRU:
        return h, x.new_empty(x.shape), x.new_empty(h.shape)
    return h, x.new_empty(0), x.new_empty(0)


def layer_backward(layer: Layer, h0: torch.Tensor, weights: torch.Tensor, mask: torch.Tensor | None, h: torch.Tensor,
                   gates: torch.Tensor, extra: torch.Tensor, h_grad: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The gradients of the input products, of the recurrent products, and of the first state."""
    run = _ops()["layer_back"] if tracing.lowering() else _layer_back
    dx, inner, dh = run(layer.kind, ACTIVATIONS.index(layer.activation), ACTIVATIONS.index(layer.gate_activation), h0, weights,
                        mask, h, gates, extra, h_grad)
    return dx, inner if layer.kind == GRU else dx, dh


def _layer_back(kind: int, activation: int, gate: int, h0: torch.Tensor, weights: torch.Tensor, mask: torch.Tensor | None,
                h: torch.Tensor, gates: torch.Tensor, extra: torch.Tensor,
                h_grad: torch.Tensor) -> tuple[torch.Tensor, ...]:
    dx, inner, dh = _made_back(kind, weights, h0, h)
    dh.zero_()
    h0, h, gates, extra, h_grad, back = (t.contiguous() for t in (h0, h, gates, extra, h_grad, weights.t()))
    keep = h if mask is None else mask.contiguous().view(torch.uint8)
    count, units = h0.numel(), h0.shape[1]
    for t in reversed(range(h.shape[0] if count else 0)):
        if kind == GRU:
            _launch("gru_back", count, dh, h_grad[t], keep[t], h[t - 1] if t else h0, gates[t], extra[t], dx[t], inner[t],
                    count, units, activation, gate, mask is not None)
        else:
            _launch("simple_back", count, dh, h_grad[t], keep[t], h[t], dx[t], count, units, activation, mask is not None)
        dh.addmm_(inner[t] if kind == GRU else dx[t], back)
    return dx, inner, dh


def _made_back(kind: int, weights: torch.Tensor, h0: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Space for the gradients of a layer."""
    dx = h.new_empty((*h.shape[:2], weights.shape[1]))
    return dx, h.new_empty(dx.shape if kind == GRU else 0), h.new_empty(h0.shape)


# -- in a graph of ATen calls ---------------------------------------------------------------------------------------------
@functools.cache
def _ops() -> dict[str, Any]:
    """The layers as ops of torch. Their stand-ins make tensors of the shapes that they return."""
    def op(name: str, run: Any, schema: str, like: Any) -> Any:
        made = torch.library.custom_op(f"penstock::{name}", run, mutates_args=(), schema=schema)
        made.register_fake(like)
        return getattr(torch.ops.penstock, name)

    def lstm_like(steps: int, x: Any, h: Any, c: Any, *rest: Any) -> tuple:
        return x.new_empty((*x.shape[:2], c.shape[1])), x.new_empty(x.shape), *(
            x.new_empty((*x.shape[:2], c.shape[1])) for _ in range(2))

    def lstm_back_like(steps: int, gates: Any, all_c: Any, all_co: Any, c: Any, *rest: Any) -> tuple:
        return gates.new_empty(gates.shape), c.new_empty(c.shape), c.new_empty(c.shape)

    def layer_like(kind: int, activation: int, gate: int, x: Any, h0: Any, *rest: Any) -> tuple:
        return _made(kind, x, h0)

    def layer_back_like(kind: int, activation: int, gate: int, h0: Any, weights: Any, mask: Any, h: Any, *rest: Any) -> tuple:
        return _made_back(kind, weights, h0, h)
    head = "int kind, int activation, int gate, "
    return {
        "lstm": op("lstm", _lstm, "(int steps, Tensor x, Tensor h, Tensor c, Tensor weights, int[] layout, float clip) -> "
                   "(Tensor, Tensor, Tensor, Tensor)", lstm_like),
        "lstm_back": op("lstm_back", _lstm_back, "(int steps, Tensor gates, Tensor all_c, Tensor all_co, Tensor c, "
                        "Tensor weights, Tensor h_grad, Tensor c_grad, int[] layout) -> (Tensor, Tensor, Tensor)",
                        lstm_back_like),
        "layer": op("recurrent_layer", _layer, f"({head}Tensor x, Tensor h0, Tensor weights, Tensor bias, Tensor? mask) -> "
                    "(Tensor, Tensor, Tensor)", layer_like),
        "layer_back": op("recurrent_layer_back", _layer_back, f"({head}Tensor h0, Tensor weights, Tensor? mask, Tensor h, "
                         "Tensor gates, Tensor extra, Tensor h_grad) -> (Tensor, Tensor, Tensor)", layer_back_like)}


tracing.torch_ops.append(_ops)
