"""Functions that are integrals: Dawson's, exponential, Fresnel's, and Spence's (the dilogarithm of 1 - x).

Each is computed in double precision for all elements at once: by a power series where its terms shrink, by a continued fraction
or an asymptotic series elsewhere. ATen has none of them.
"""
from __future__ import annotations

import math
from collections.abc import Callable

import torch

from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.ops.math.elementwise import cos, exp, log, sin, unary
from penstock._src.ops.registry import OpDef, get

_EULER = 0.57721566490153286061


def _declare(name: str, function: Callable, public: str, doc: str) -> OpDef:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        return function(x.to(torch.float64)).to(x.dtype)
    return unary(name, kernel, "float", f"math.special.{public}", doc=doc)


def _sum(first: torch.Tensor, ratio: Callable[[int], torch.Tensor | float], terms: int) -> torch.Tensor:
    """first + first * ratio(1) + first * ratio(1) * ratio(2) + ..."""
    total = term = first
    for k in range(1, terms):
        term = term * ratio(k)
        total = total + term
    return total


# -- Dawson's integral --------------------------------------------------------------------------------------------------
def _dawsn(x: torch.Tensor) -> torch.Tensor:
    """Near zero by its series; else by Rybicki's sum of Gaussians at odd multiples of a step, around x."""
    near = x.abs() < 0.2
    small = torch.where(near, x, 0.0)
    series = _sum(small, lambda k: -2 * small * small / (2 * k + 1), 12)
    step = 0.2
    large = torch.where(near | ~torch.isfinite(x), 1.0, x)
    middle = 2 * torch.round(large / (2 * step))
    odd = torch.arange(-41, 42, 2, dtype=torch.float64, device=x.device)
    offset = (large - middle * step).unsqueeze(-1)
    sums = (torch.exp(-(offset - odd * step) ** 2) / (middle.unsqueeze(-1) + odd)).sum(-1) / math.sqrt(math.pi)
    tails = torch.where(torch.isinf(x), 0.0, x)                       # NaN stays NaN
    return torch.where(near, series, torch.where(torch.isfinite(x), sums, tails))


# -- the exponential integral -------------------------------------------------------------------------------------------
def _expint(x: torch.Tensor) -> torch.Tensor:
    """Up to 40 by its series, beyond by the asymptotic one. NaN below zero, as in TensorFlow."""
    mid = torch.where((x > 0) & (x < 40), x, 1.0)
    series = _EULER + torch.log(mid) + _powers(mid)
    far = x.clamp(min=40)
    terms = torch.cumprod(torch.stack([torch.ones_like(far), *(k / far for k in range(1, 36))]), 0).sum(0)
    out = torch.where(x < 40, series, torch.exp(far) / far * terms)
    return torch.where(x == 0, -torch.inf, torch.where(x > 0, out, torch.nan))


def _powers(x: torch.Tensor) -> torch.Tensor:
    """The sum of x**k / (k k!)."""
    total, term = torch.zeros_like(x), torch.ones_like(x)
    for k in range(1, 160):
        term = term * x / k
        total = total + term / k
    return total


# -- Fresnel's integrals ------------------------------------------------------------------------------------------------
def _fresnel(x: torch.Tensor) -> torch.Tensor:
    """C(x) + i S(x): a series up to 1.5, the continued fraction of the complementary error function beyond."""
    size = x.abs()
    near = size < 1.5
    small = torch.where(near, size, 0.0)
    turn = 0.5j * math.pi * (small * small).to(torch.complex128)
    power = total = small.to(torch.complex128)
    for k in range(1, 40):
        power = power * turn / k
        total = total + power / (2 * k + 1)
    far = torch.where(near | ~torch.isfinite(size), 1.5, size).clamp(max=1e7)
    z = (1 - 1j) * (math.sqrt(math.pi) / 2) * far.to(torch.complex128)
    inner = z
    for k in range(300, 0, -1):
        inner = z + k / 2 / inner
    erfc = torch.exp(-z * z) / math.sqrt(math.pi) / inner
    beyond = (0.5 + 0.5j) * (1 - erfc)
    out = torch.where(near, total, torch.where(torch.isfinite(size), beyond, 0.5 + 0.5j))
    return torch.where(torch.isnan(x), torch.complex(x, x), out * torch.sign(x))


# -- Spence's function --------------------------------------------------------------------------------------------------
def _spence(x: torch.Tensor) -> torch.Tensor:
    """The dilogarithm of 1 - x, by its series at an argument of at most a half."""
    inverted = x > 1.5
    y = torch.where(inverted, 1 / x, x)
    reflected = y < 0.5
    w = torch.where(reflected, y, 1 - y)
    series = torch.zeros_like(w)
    for k in range(60, 0, -1):
        series = (series + 1.0 / (k * k)) * w
    out = torch.where(reflected, math.pi ** 2 / 6 - torch.xlogy(torch.log1p(-y), y) - series, series)
    out = torch.where(inverted, -0.5 * torch.log(x) ** 2 - out, out)
    return torch.where(x < 0, torch.nan, out)


dawsn = _declare("Dawsn", _dawsn, "dawsn", "Dawson's integral: exp(-x**2) times the integral of exp(t**2) from 0 to x.")
expint = _declare("Expint", _expint, "expint", "The exponential integral: that of exp(t) / t up to x, as a principal value.")
fresnel_cos = _declare("FresnelCos", lambda x: _fresnel(x).real, "fresnel_cos",
                       "Fresnel's cosine integral: that of cos(pi t**2 / 2) from 0 to x.")
fresnel_sin = _declare("FresnelSin", lambda x: _fresnel(x).imag, "fresnel_sin",
                       "Fresnel's sine integral: that of sin(pi t**2 / 2) from 0 to x.")
spence = _declare("Spence", _spence, "spence", "Spence's integral: that of log(t) / (1 - t) from 1 to x.")


def _quarter_turns(x: Tensor) -> Tensor:
    return convert(math.pi / 2, x.dtype.base_dtype) * x * x


dawsn.gradient(lambda op, grad: grad * (convert(1, grad.dtype.base_dtype) - convert(2, grad.dtype.base_dtype) * op.inputs[0]
                                        * op.outputs[0]))
expint.gradient(lambda op, grad: grad * exp(op.inputs[0]) / op.inputs[0])
fresnel_cos.gradient(lambda op, grad: grad * cos(_quarter_turns(op.inputs[0])))
fresnel_sin.gradient(lambda op, grad: grad * sin(_quarter_turns(op.inputs[0])))


@spence.gradient
def _spence_gradient(op, grad):
    x, one = op.inputs[0], convert(1, op.inputs[0].dtype.base_dtype)
    at_one = get("Equal")(x, one)
    apart = get("SelectV2")(at_one, one + one, x)
    return grad * get("SelectV2")(at_one, -one, log(apart) / (one - apart))
