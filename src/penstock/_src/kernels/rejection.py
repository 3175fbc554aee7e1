"""Gamma and Poisson random numbers from Philox, by rejection: all outputs at once, each with its own stream.

Every output has 256 counters set aside. The outputs that were not accepted go into the next turn together, so that the
loops here run as often as the unluckiest output needs, not once per output. The orders in which words are used are
TensorFlow's, so that the numbers are, too.
"""
from __future__ import annotations

import torch

from penstock._src.kernels import philox


class Rows:
    """One stream per output: pairs of uniform or normal doubles, the second of each pair given first."""

    def __init__(self, gen: philox.Philox, count: int, device: torch.device | str = "cpu"):
        self._gen = gen
        self._next = torch.arange(count, device=device) * philox.RESERVED
        self._kept = {kind: torch.zeros(count, 2, dtype=torch.float64, device=device) for kind in ("u", "n")}
        self._left = {kind: torch.zeros(count, dtype=torch.int64, device=device) for kind in ("u", "n")}

    def uniform(self, rows: torch.Tensor) -> torch.Tensor:
        """The next uniform double of each of these rows."""
        return self._take("u", rows)

    def normal(self, rows: torch.Tensor) -> torch.Tensor:
        """The next standard normal double of each of these rows."""
        return self._take("n", rows)

    def _take(self, kind: str, rows: torch.Tensor) -> torch.Tensor:
        kept, left = self._kept[kind], self._left[kind]
        empty = rows[left[rows] == 0]
        if empty.numel():
            words = self._gen.at(self._next[empty])
            kept[empty] = (philox.box_muller_64(words) if kind == "n"
                           else philox.unit_float64(words[:, 0::2], words[:, 1::2]))
            left[empty] = 2
            self._next[empty] += 1
        left[rows] -= 1
        return kept[rows, left[rows]]


def gamma(gen: philox.Philox, alpha: torch.Tensor, samples: int) -> torch.Tensor:
    """Gamma(alpha, 1) doubles for finite alpha > 0, [samples, len(alpha)]: Marsaglia and Tsang's method."""
    alpha = alpha.double().repeat_interleave(samples)
    out = torch.zeros_like(alpha)
    rows = Rows(gen, alpha.numel(), alpha.device)
    one = (alpha == 1.0).nonzero().flatten()
    if one.numel():
        out[one] = -torch.log(1.0 - rows.uniform(one))
    d = torch.where(alpha < 1, alpha + 2.0 / 3, alpha - 1.0 / 3)
    c = 1.0 / 3 / torch.sqrt(d)
    active = (alpha != 1.0).nonzero().flatten()
    while active.numel():
        x = rows.normal(active)
        v = 1 + c[active] * x
        fits = v > 0
        at, x, v = active[fits], x[fits], v[fits] ** 3
        u = rows.uniform(at)
        accept = (u < 1 - 0.0331 * x ** 4) | (torch.log(u) < 0.5 * x * x + d[at] * (1 - v + torch.log(v)))
        out[at[accept]] = d[at[accept]] * v[accept]
        keep = torch.ones_like(active, dtype=torch.bool)
        keep[fits.nonzero().flatten()[accept]] = False
        active = active[keep]
    small = (alpha < 1).nonzero().flatten()
    if small.numel():
        out[small] *= rows.uniform(small) ** (1 / alpha[small])
    return out.reshape(-1, samples).T


def poisson(gen: philox.Philox, rate: torch.Tensor, samples: int, highest: float) -> torch.Tensor:
    """Poisson(rate) counts as doubles, for finite rates, [samples, len(rate)]; those above `highest` are drawn again."""
    rate = rate.double().repeat_interleave(samples)
    out = torch.zeros_like(rate)
    rows = Rows(gen, rate.numel(), rate.device)
    _knuth(rows, rate, out, highest)
    _hormann(rows, rate, out, highest)
    return out.reshape(-1, samples).T


def _knuth(rows: Rows, rate: torch.Tensor, out: torch.Tensor, highest: float) -> None:
    """Rates below 10: how many uniforms can be multiplied before the product falls to exp(-rate)."""
    active = (rate < 10).nonzero().flatten()
    stop = torch.exp(-rate)
    product, turn = torch.ones_like(rate), 0.0
    while active.numel() and turn <= highest:
        product[active] *= rows.uniform(active)
        done = product[active] <= stop[active]
        out[active[done]] = turn
        active = active[~done]
        turn += 1


def _hormann(rows: Rows, rate: torch.Tensor, out: torch.Tensor, highest: float) -> None:
    """Rates of 10 and above: transformed rejection (Hormann, "The transformed rejection method", 1993)."""
    active = (rate >= 10).nonzero().flatten()
    b = 0.931 + 2.53 * torch.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    while active.numel():
        u = rows.uniform(active) - 0.5
        v = rows.uniform(active)
        r, ai, bi = rate[active], a[active], b[active]
        shifted = 0.5 - u.abs()
        k = torch.floor((2 * ai / shifted + bi) * u + r + 0.43)
        quick = (shifted >= 0.07) & (v <= 0.9277 - 3.6224 / (bi - 2))
        refuse = (k < 0) | (shifted < 0.013) & (v > shifted)
        score = torch.log(v * inverse_alpha[active] / (ai / (shifted * shifted) + bi))
        exact = ~refuse & (score <= -r + k * torch.log(r) - torch.lgamma(k + 1))
        accept = (quick | exact) & (k <= highest)
        out[active[accept]] = k[accept]
        active = active[~accept]
