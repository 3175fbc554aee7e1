"""Samples of the recurrent cells that are single ops."""
import numpy as np

from tests.registry.sample import f, sample

_B, _I, _N = 2, 3, 4
_CELL = [f(_B, _I), f(_B, _N), f(_B, _N), f(_I + _N, 4 * _N, low=-0.5, high=0.5), f(_N), f(_N), f(_N), f(4 * _N)]


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _lstm(x, cs, h, w, wci, wcf, wco, b, order=(0, 1, 2, 3), forget_bias=1.0, clip=3.0, peephole=False):
    gates = np.split(np.concatenate([x, h], 1) @ w + b, 4, 1)
    gi, gc, gf, go = (gates[k] for k in order)
    p = float(peephole)
    i, ci, fg = _sigmoid(gi + p * wci * cs), np.tanh(gc), _sigmoid(gf + forget_bias + p * wcf * cs)
    cs = ci * i + cs * fg
    cs = np.clip(cs, -clip, clip) if clip > 0 else cs
    o = _sigmoid(go + p * wco * cs)
    return i, cs, fg, o, ci, np.tanh(cs), o * np.tanh(cs)


def _over_time(n, x, cs, h, *rest, **kwargs):
    steps = []
    for t in range(n):
        steps.append(_lstm(x[t], cs, h, *rest, **kwargs))
        cs, h = steps[-1][1], steps[-1][6]
    return [np.stack(s).astype(np.float32) for s in zip(*steps, strict=True)]


_STATE = [1, 6]            # cs and h: the others have no gradient
sample("LSTMBlockCell", *_CELL, expect=_lstm, through=_STATE)
sample("LSTMBlockCell", *_CELL, use_peephole=True, cell_clip=0.0, forget_bias=0.5, through=_STATE,
       expect=lambda *a: _lstm(*a, forget_bias=0.5, clip=0.0, peephole=True))
sample("BlockLSTM", np.int64(3), f(3, _B, _I), *_CELL[1:], expect=_over_time, through=_STATE)
sample("BlockLSTMV2", np.int64(3), f(3, _B, _I), *_CELL[1:], use_peephole=True, through=_STATE,
       expect=lambda *a: _over_time(*a, order=(0, 2, 1, 3), forget_bias=0.0, clip=0.0, peephole=True))


def _gru(x, h, w_ru, w_c, b_ru, b_c):
    r, u = np.split(_sigmoid(np.concatenate([x, h], 1) @ w_ru + b_ru), 2, 1)
    c = np.tanh(np.concatenate([x, h * r], 1) @ w_c + b_c)
    return r, u, c, u * h + (1 - u) * c


sample("GRUBlockCell", f(_B, _I), f(_B, _N), f(_I + _N, 2 * _N), f(_I + _N, _N), f(2 * _N), f(_N), expect=_gru, through=[3])
_state = _lstm(*_CELL, clip=0.0)
sample("LSTMBlockCellGrad", *_CELL, *[s.astype(np.float32) for s in _state[:6]], f(_B, _N), f(_B, _N), use_peephole=False,
       grad=False)
_x = f(3, _B, _I)
_states = _over_time(3, _x, *_CELL[1:], clip=0.0)
for _name in ("BlockLSTMGrad", "BlockLSTMGradV2"):
    sample(_name, np.int64(3), _x, *_CELL[1:], *_states, f(3, _B, _N), f(3, _B, _N), use_peephole=True, grad=False)
_g = [f(_B, _I), f(_B, _N), f(_I + _N, 2 * _N), f(_I + _N, _N), f(2 * _N), f(_N)]
sample("GRUBlockCellGrad", *_g, *[s.astype(np.float32) for s in _gru(*_g)[:3]], f(_B, _N), grad=False)
