"""Whole recurrent cells as single ops: LSTMBlockCell, BlockLSTM (a cell over time) and GRUBlockCell.

The weights of an LSTM hold its four gates side by side: input, cell, forget, output (icfo); in V2 the middle two are
swapped. The kernels loop over time steps only.
"""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import errors, tracing
from penstock._src.base.static_shape import rank_is, show
from penstock._src.kernels import products, triton_rnn
from penstock._src.kernels import recurrent as kernels
from penstock._src.ops.registry import get, op

_T = "T: type in {half float32}"
_CELL = "x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T"
_STATE = "i: T, cs: T, f: T, o: T, ci: T, co: T, h: T"
_BLOCK_GRADS = "x_grad: T, cs_prev_grad: T, h_prev_grad: T, w_grad: T, wci_grad: T, wcf_grad: T, wco_grad: T, b_grad: T"
lstm_cell = op("LSTMBlockCell", f"{_CELL} -> {_STATE}",
               f"forget_bias: float = 1.0, cell_clip: float = 3.0, use_peephole: bool = False, {_T}")
lstm_cell_grad = op("LSTMBlockCellGrad", f"{_CELL}, i: T, cs: T, f: T, o: T, ci: T, co: T, cs_grad: T, h_grad: T -> "
                    "cs_prev_grad: T, dicfo: T, wci_grad: T, wcf_grad: T, wco_grad: T", f"use_peephole: bool, {_T}")
block = op("BlockLSTM", f"seq_len_max: int64, {_CELL} -> {_STATE}",
           f"forget_bias: float = 1.0, cell_clip: float = 3.0, use_peephole: bool = False, {_T}")
block_v2 = op("BlockLSTMV2", f"seq_len_max: int64, {_CELL} -> {_STATE}",
              f"cell_clip: float = 0.0, use_peephole: bool = False, {_T}")
block_grad, block_grad_v2 = (
    op(n, f"seq_len_max: int64, {_CELL}, {_STATE}, cs_grad: T, h_grad: T -> {_BLOCK_GRADS}", f"use_peephole: bool, {_T}")
    for n in ("BlockLSTMGrad", "BlockLSTMGradV2"))
gru_cell = op("GRUBlockCell", "x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T -> r: T, u: T, c: T, h: T",
              "T: type in {float32}")
gru_cell_grad = op("GRUBlockCellGrad", "x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T, r: T, u: T, c: T, d_h: T -> "
                   "d_x: T, d_h_prev: T, d_c_bar: T, d_r_bar_u_bar: T", "T: type in {float32}")
ICFO, IFCO = (0, 1, 2, 3), (0, 2, 1, 3)        # where the input, cell, forget and output gates are


# -- shapes -----------------------------------------------------------------------------------------------------------
@lstm_cell.shape
def _lstm_cell_shape(x, cs_prev, h_prev, w, wci, wcf, wco, b):
    batch, cell = rank_is(x, 2)[0], rank_is(cs_prev, 2)[1]
    return [(batch, cell)] * 7


@lstm_cell_grad.shape
def _lstm_cell_grad_shape(x, cs_prev, h_prev, w, wci, wcf, wco, b, *state):
    batch, cell = rank_is(x, 2)[0], rank_is(cs_prev, 2)[1]
    return [(batch, cell), (batch, None if cell is None else 4 * cell), wci, wcf, wco]


@block.shape
@block_v2.shape
def _block_shape(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b):
    time, batch, _ = rank_is(x, 3)
    return [(time, batch, rank_is(cs_prev, 2)[1])] * 7


@block_grad.shape
@block_grad_v2.shape
def _block_grad_shape(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, *state):
    return [x, cs_prev, h_prev, w, wci, wcf, wco, b]


@gru_cell.shape
def _gru_cell_shape(x, h_prev, w_ru, w_c, b_ru, b_c):
    return [h_prev] * 4


@gru_cell_grad.shape
def _gru_cell_grad_shape(x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h):
    batch, cell = rank_is(h_prev, 2)
    return [x, h_prev, h_prev, (batch, None if cell is None else 2 * cell)]


# -- LSTM ---------------------------------------------------------------------------------------------------------------
def _check(ok: bool, text: str) -> None:
    if not ok:
        raise errors.invalid(text)


def _check_cell(x: Any, cs_prev: Any, h_prev: Any, w: Any, b: Any, peepholes: tuple) -> None:
    _check(x.ndim == 2 and cs_prev.ndim == 2, "x and cs_prev must be 2D")
    batch, n = cs_prev.shape
    _check(x.shape[0] == batch, f"x.dims(0) != batch_size: {x.shape[0]} vs. {batch}")
    _check(tuple(h_prev.shape) == (batch, n), f"h_prev has shape {show(tuple(h_prev.shape))}, expected {show((batch, n))}")
    _check(tuple(w.shape) == (x.shape[1] + n, 4 * n),
           f"w has shape {show(tuple(w.shape))}, expected {show((x.shape[1] + n, 4 * n))}")
    _check(tuple(b.shape) == (4 * n,), f"b has shape {show(tuple(b.shape))}, expected {show((4 * n,))}")
    for p in peepholes:
        _check(tuple(p.shape) == (n,), f"peephole weights have shape {show(tuple(p.shape))}, expected {show((n,))}")


def _step(x: Any, cs_prev: Any, h_prev: Any, w: Any, peepholes: tuple, b: Any, layout: tuple, forget_bias: float,
          cell_clip: float, use_peephole: bool) -> tuple:
    """One step of a cell: i, cs, f, o, ci, co, h."""
    gates = torch.addmm(b, torch.cat([x, h_prev], 1), w).chunk(4, 1)
    gi, gc, gf, go = (gates[k] for k in layout)
    wci, wcf, wco = peepholes
    gf = gf + forget_bias
    if use_peephole:
        gi, gf = gi + wci * cs_prev, gf + wcf * cs_prev
    i, ci, f = torch.sigmoid(gi), torch.tanh(gc), torch.sigmoid(gf)
    cs = ci * i + cs_prev * f
    if cell_clip > 0:
        cs = cs.clamp(-cell_clip, cell_clip)
    o = torch.sigmoid(go + wco * cs if use_peephole else go)
    co = torch.tanh(cs)
    return i, cs, f, o, ci, co, o * co


def _step_back(cs_prev: Any, peepholes: tuple, state: tuple, cs_grad: Any, h_grad: Any, layout: tuple,
               use_peephole: bool) -> tuple:
    """The gradient of one step: of cs_prev, of the gates, and of the peephole weights."""
    i, cs, f, o, ci, co = state
    wci, wcf, wco = peepholes
    do = o * (1 - o) * h_grad * co
    dcs = (1 - co * co) * h_grad * o + cs_grad
    if use_peephole:
        dcs = dcs + do * wco
    dci, df, di = (1 - ci * ci) * dcs * i, f * (1 - f) * dcs * cs_prev, i * (1 - i) * dcs * ci
    back = dcs * f
    if use_peephole:
        back = back + di * wci + df * wcf
        weights = [(di * cs_prev).sum(0), (df * cs_prev).sum(0), (do * cs).sum(0)]
    else:
        weights = [torch.zeros_like(p) for p in peepholes]
    gates = dict(zip(layout, (di, dci, df, do), strict=True))
    return back, torch.cat([gates[i] for i in range(4)], 1), tuple(weights)


@lstm_cell.kernel
def _lstm_cell_kernel(x, cs_prev, h_prev, w, wci, wcf, wco, b, *, forget_bias, cell_clip, use_peephole):
    _check_cell(x, cs_prev, h_prev, w, b, (wci, wcf, wco) if use_peephole else ())
    for name, t in (("cs_prev", cs_prev), ("h_prev", h_prev), ("w", w), ("wci", wci), ("wcf", wcf), ("wco", wco), ("b", b)):
        _check(bool(t.numel()), f"{name}_tensor is empty, has shape: {show(tuple(t.shape))}.")
    return _step(x, cs_prev, h_prev, w, (wci, wcf, wco), b, ICFO, forget_bias, cell_clip, use_peephole)


@lstm_cell_grad.kernel
def _lstm_cell_grad_kernel(x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, co, cs_grad, h_grad, *, use_peephole):
    _check_cell(x, cs_prev, h_prev, w, b, (wci, wcf, wco) if use_peephole else ())
    for t in (i, cs, f, o, ci, co, cs_grad, h_grad):
        _check(t.shape == cs_prev.shape, f"state has shape {show(tuple(t.shape))}, expected {show(tuple(cs_prev.shape))}")
    back, gates, weights = _step_back(cs_prev, (wci, wcf, wco), (i, cs, f, o, ci, co), cs_grad, h_grad, ICFO, use_peephole)
    return back, gates, *weights


def _over_time(seq_len_max: Any, x: Any, cs: Any, h: Any, w: Any, peepholes: tuple, b: Any, layout: tuple,
               forget_bias: float, cell_clip: float, use_peephole: bool) -> tuple:
    _check(x.ndim == 3, f"x must be 3D, got shape {show(tuple(x.shape))}")
    n = int(seq_len_max)
    _check(0 <= n <= x.shape[0], f"seq_len_max must be between 0 and {x.shape[0]}, got {n}")
    _check_cell(x[0] if x.shape[0] else x.new_zeros(x.shape[1:]), cs, h, w, b, peepholes if use_peephole else ())
    if not use_peephole:
        return _plain_over_time(n, x, cs, h, w, b, layout, forget_bias, cell_clip)
    outs = [x.new_zeros(x.shape[0], *cs.shape) for _ in range(7)]
    for t in range(n):
        state = _step(x[t], cs, h, w, peepholes, b, layout, forget_bias, cell_clip, use_peephole)
        for out, value in zip(outs, state, strict=True):
            out[t] = value
        cs, h = state[1], state[6]
    return tuple(outs)


def _plain_over_time(n: int, x: Any, cs: Any, h: Any, w: Any, b: Any, layout: tuple, forget_bias: float,
                     cell_clip: float) -> tuple:
    """Without peepholes: the inputs of all steps are multiplied at once, and each step writes its results in place."""
    steps, batch, size = x.shape
    units = cs.shape[1]
    projected = products.product(x.reshape(-1, size), w[:size], b).view(steps, batch, 4 * units)
    at = [slice(k * units, (k + 1) * units) for k in layout]                # input, cell, forget, output
    if forget_bias:
        projected[..., at[2]] += forget_bias
    if kernels.fits(projected, cs, h):
        layer = kernels.Layer(kernels.LSTM, place=layout, clip=cell_clip)
        all_h, gates, all_cs, all_co = kernels.forward(layer, n, projected, h, cs, w[size:], overwrite=n == steps)
        i, ci, f, o = (gates[..., a] for a in at)
        return i, all_cs, f, o, ci, all_co, all_h
    if triton_rnn.fits(projected, cs, h, w):
        all_h, gates, all_cs, all_co = triton_rnn.forward(n, projected, h, cs, w[size:], layout, cell_clip)
        i, ci, f, o = (gates[..., a] for a in at)
        return i, all_cs, f, o, ci, all_co, all_h
    make = torch.empty if n == steps else torch.zeros
    gates = make(steps, batch, 4 * units, dtype=x.dtype, device=x.device)
    states = [make(steps, batch, units, dtype=x.dtype, device=x.device) for _ in range(4)]
    recurrent = w[size:]
    for xt, g, cst, cit, cot, ht, _ in zip(projected, gates, *states, range(n), strict=False):
        torch.addmm(xt, h, recurrent, out=g)
        torch.tanh(g[:, at[1]], out=cit)
        g.sigmoid_()
        torch.mul(cit, g[:, at[0]], out=cst).addcmul_(cs, g[:, at[2]])
        if cell_clip > 0:
            cst.clamp_(-cell_clip, cell_clip)
        torch.tanh(cst, out=cot)
        torch.mul(cot, g[:, at[3]], out=ht)
        cs, h = cst, ht
    all_cs, all_ci, all_co, all_h = states
    return gates[..., at[0]], all_cs, gates[..., at[2]], gates[..., at[3]], all_ci, all_co, all_h


@block.kernel
def _block_kernel(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, *, forget_bias, cell_clip, use_peephole):
    return _over_time(seq_len_max, x, cs_prev, h_prev, w, (wci, wcf, wco), b, ICFO, forget_bias, cell_clip, use_peephole)


@block_v2.kernel
def _block_v2_kernel(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, *, cell_clip, use_peephole):
    return _over_time(seq_len_max, x, cs_prev, h_prev, w, (wci, wcf, wco), b, IFCO, 0.0, cell_clip, use_peephole)


def _back_in_time(layout: tuple, seq_len_max: Any, x: Any, cs_prev: Any, h_prev: Any, w: Any, peepholes: tuple, b: Any,
                  state: tuple, cs_grad: Any, h_grad: Any, use_peephole: bool) -> tuple:
    n = int(seq_len_max)
    _check(x.ndim == 3 and 0 <= n <= x.shape[0], f"x has shape {show(tuple(x.shape))}, seq_len_max is {n}")
    _check_cell(x[0] if x.shape[0] else x.new_zeros(x.shape[1:]), cs_prev, h_prev, w, b, peepholes if use_peephole else ())
    for t in (*state, cs_grad, h_grad):
        _check(tuple(t.shape) == (x.shape[0], *cs_prev.shape), f"state has shape {show(tuple(t.shape))}")
    if not use_peephole:
        return _plain_back_in_time(layout, n, x, cs_prev, h_prev, w, peepholes, state, cs_grad, h_grad)
    i, cs, f, o, ci, co, h = state
    size = x.shape[2]
    dx, dw, db = torch.zeros_like(x), torch.zeros_like(w), torch.zeros_like(b)
    dp = [torch.zeros_like(p) for p in peepholes]
    dcs, dh = torch.zeros_like(cs_prev), torch.zeros_like(h_prev)
    for t in reversed(range(n)):
        before = (cs[t - 1], h[t - 1]) if t else (cs_prev, h_prev)
        dcs, gates, weights = _step_back(before[0], peepholes, (i[t], cs[t], f[t], o[t], ci[t], co[t]), dcs + cs_grad[t],
                                         dh + h_grad[t], layout, use_peephole)
        both = gates @ w.t()
        dx[t], dh = both[:, :size], both[:, size:]
        dw += torch.cat([x[t], before[1]], 1).t() @ gates
        db += gates.sum(0)
        for total, g in zip(dp, weights, strict=True):
            total += g
    return dx, dcs, dh, dw, *dp, db


def _plain_back_in_time(layout: tuple, n: int, x: Any, cs_prev: Any, h_prev: Any, w: Any, peepholes: tuple, state: tuple,
                        cs_grad: Any, h_grad: Any) -> tuple:
    """Without peepholes: everything that does not depend on later steps is computed for all steps at once, and so are the
    products."""
    i, cs, f, o, ci, co, h = state
    steps, batch, size = x.shape
    units = cs.shape[2]
    before_h = torch.cat([h_prev[None], h[:-1]])
    if kernels.fits(x, cs_prev, h_prev, h_grad, cs_grad, *state):
        gates = _joined((i, ci, f, o), layout)
        layer = kernels.Layer(kernels.LSTM, place=layout)
        wide, dh, dcs, _ = kernels.backward(layer, n, (h, gates, cs, co), h_prev, cs_prev, w[size:], h_grad, cs_grad)
        return _weight_gradients(x, before_h, w, wide.view(-1, 4 * units), dcs, dh, peepholes)
    if triton_rnn.fits(x, cs_prev, h_prev, w, h_grad, cs_grad, *state):
        wide, dh, dcs = triton_rnn.backward(n, _joined((i, ci, f, o), layout), cs, co, cs_prev, w[size:], h_grad, cs_grad,
                                            layout)
        return _weight_gradients(x, before_h, w, wide.view(-1, 4 * units), dcs, dh, peepholes)
    before_cs = torch.cat([cs_prev[None], cs[:-1]])
    slopes = x.new_empty(steps, batch, 4, units)                            # of the gates, before what comes from later steps
    for place, slope in zip(layout, (i * (1 - i) * ci, i * (1 - ci * ci), f * (1 - f) * before_cs, o * (1 - o) * co),
                            strict=True):
        slopes[:, :, place] = slope
    through = o * (1 - co * co)
    gates = (torch.empty if n == steps else torch.zeros)(steps, batch, 4, units, dtype=x.dtype, device=x.device)
    back = w[size:].t().contiguous()
    dcs, dh = torch.zeros_like(cs_prev), torch.zeros_like(h_prev)
    flat = gates.view(steps, batch, 4 * units)
    each = [a[:n].unbind() for a in (h_grad, cs_grad, through, slopes[:, :, :3], slopes[:, :, 3], gates[:, :, :3],
                                     gates[:, :, 3], flat, f)]
    for more_dh, more_dcs, out, slope, last_slope, gate, last_gate, all_gates, keep in zip(*map(reversed, each), strict=True):
        dh.add_(more_dh)
        dcs.add_(more_dcs).addcmul_(dh, out)
        torch.mul(dcs[:, None], slope, out=gate)                            # all but the output gate, which is last
        torch.mul(dh, last_slope, out=last_gate)
        torch.mm(all_gates, back, out=dh)
        dcs.mul_(keep)
    return _weight_gradients(x, before_h, w, flat.view(-1, 4 * units), dcs, dh, peepholes)


def _joined(gates: tuple, layout: tuple) -> Any:
    """The input, cell, forget and output gates as one array, without a copy if they are parts of one."""
    if tracing.lowering():
        return torch.cat([gates[layout.index(place)] for place in range(4)], 2)
    first = gates[layout.index(0)]
    steps, batch, units = first.shape
    together = first.as_strided((steps, batch, 4 * units), first.stride(), first.storage_offset()) \
        if first.stride() == (batch * 4 * units, 4 * units, 1) else None
    if together is not None and all(g.data_ptr() == first.data_ptr() + place * units * first.element_size() and
                                    g.stride() == first.stride() for g, place in zip(gates, layout, strict=True)):
        return together
    return torch.cat([gates[layout.index(place)] for place in range(4)], 2)


def _weight_gradients(x: Any, before_h: Any, w: Any, gates: Any, dcs: Any, dh: Any, peepholes: tuple) -> tuple:
    """The results of the gradient op, from the gradients of all gates and of the first states."""
    size = x.shape[2]
    dx = products.product(gates, w[:size].t()).view(x.shape)
    dw = torch.cat([products.product(part.reshape(-1, part.shape[2]).t(), gates) for part in (x, before_h)])
    return dx, dcs, dh, dw, *(torch.zeros_like(p) for p in peepholes), gates.sum(0)


def _block_grad_kernel(layout: tuple) -> Any:
    def kernel(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, co, h, cs_grad, h_grad, *,
               use_peephole):
        return _back_in_time(layout, seq_len_max, x, cs_prev, h_prev, w, (wci, wcf, wco), b, (i, cs, f, o, ci, co, h),
                             cs_grad, h_grad, use_peephole)
    return kernel


block_grad.kernel(_block_grad_kernel(ICFO))
block_grad_v2.kernel(_block_grad_kernel(IFCO))


@lstm_cell.gradient
def _lstm_cell_gradient(op, *grads):
    x, w = op.inputs[0], op.inputs[3]
    cs_prev_grad, gates, wci, wcf, wco = lstm_cell_grad(*op.inputs, *op.outputs[:6], grads[1], grads[6],
                                                        use_peephole=op.attrs["use_peephole"])
    mat_mul = get("MatMul")
    both = mat_mul(gates, w, transpose_b=True)
    size = x.static_dims[1] if x.static_dims is not None and x.static_dims[1] is not None else get("Shape")(x)[1]
    w_grad = mat_mul(get("ConcatV2")([x, op.inputs[2]], 1), gates, transpose_a=True)
    return both[:, :size], cs_prev_grad, both[:, size:], w_grad, wci, wcf, wco, get("Sum")(gates, [0])


block.gradient(lambda op, *grads: _block_gradient(block_grad, op, grads))
block_v2.gradient(lambda op, *grads: _block_gradient(block_grad_v2, op, grads))


def _block_gradient(definition: Any, op: Any, grads: tuple) -> tuple:
    return (None, *definition(*op.inputs, *op.outputs, grads[1], grads[6], use_peephole=op.attrs["use_peephole"]))


# -- GRU ------------------------------------------------------------------------------------------------------------------
def _check_gru(x: Any, h_prev: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any) -> None:
    _check(x.ndim == 2 and h_prev.ndim == 2 and x.shape[0] == h_prev.shape[0],
           f"x and h_prev have shapes {show(tuple(x.shape))} and {show(tuple(h_prev.shape))}")
    rows, n = x.shape[1] + h_prev.shape[1], h_prev.shape[1]
    for t, want, name in ((w_ru, (rows, 2 * n), "w_ru"), (w_c, (rows, n), "w_c"), (b_ru, (2 * n,), "b_ru"), (b_c, (n,), "b_c")):
        _check(tuple(t.shape) == want, f"{name} has shape {show(tuple(t.shape))}, expected {show(want)}")


@gru_cell.kernel
def _gru_cell_kernel(x, h_prev, w_ru, w_c, b_ru, b_c):
    _check_gru(x, h_prev, w_ru, w_c, b_ru, b_c)
    r, u = torch.sigmoid(torch.addmm(b_ru, torch.cat([x, h_prev], 1), w_ru)).chunk(2, 1)
    c = torch.tanh(torch.addmm(b_c, torch.cat([x, h_prev * r], 1), w_c))
    return r, u, c, u * h_prev + (1 - u) * c


@gru_cell_grad.kernel
def _gru_cell_grad_kernel(x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h):
    _check_gru(x, h_prev, w_ru, w_c, b_ru, b_c)
    for t in (r, u, c, d_h):
        _check(t.shape == h_prev.shape, f"state has shape {show(tuple(t.shape))}, expected {show(tuple(h_prev.shape))}")
    size = x.shape[1]
    d_c_bar = d_h * (1 - u) * (1 - c * c)
    d_u_bar = d_h * (h_prev - c) * u * (1 - u)
    to_candidate = d_c_bar @ w_c.t()
    d_x_c, d_hr = to_candidate[:, :size], to_candidate[:, size:]
    d_r_bar = d_hr * h_prev * r * (1 - r)
    gates = torch.cat([d_r_bar, d_u_bar], 1)
    to_gates = gates @ w_ru.t()
    return d_x_c + to_gates[:, :size], to_gates[:, size:] + d_hr * r + d_h * u, d_c_bar, gates


@gru_cell.gradient
def _gru_cell_gradient(op, *grads):
    x, h_prev = op.inputs[0], op.inputs[1]
    d_x, d_h_prev, d_c_bar, gates = gru_cell_grad(*op.inputs, *op.outputs[:3], grads[3])
    mat_mul, concat, total = get("MatMul"), get("ConcatV2"), get("Sum")
    w_ru = mat_mul(concat([x, h_prev], 1), gates, transpose_a=True)
    w_c = mat_mul(concat([x, h_prev * op.outputs[0]], 1), d_c_bar, transpose_a=True)
    return d_x, d_h_prev, w_ru, w_c, total(gates, [0]), total(d_c_bar, [0])
