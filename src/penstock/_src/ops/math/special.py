"""Special functions: gamma and related functions, the zeta and beta functions, Bessel functions, polynomials.

ATen has most of them. The incomplete beta function and the derivative of the incomplete gamma function by its
parameter are computed here, for all elements at once, by their series and continued fractions in double precision.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.elementwise import exp, sign, unary
from penstock._src.ops.math.math import binary, both, unbroadcast
from penstock._src.ops.registry import OpDef, as_function, get, op

_ROUNDS = 2000           # of a series or continued fraction, at most
_TINY = 1e-300


# -- gamma ------------------------------------------------------------------------------------------------------------
lgamma = unary("Lgamma", torch.lgamma, "float", "math.lgamma", "lgamma", doc="log |gamma(x)|.")


def _digamma(x: torch.Tensor) -> torch.Tensor:
    """Without a value at the pole 0, as at the other poles."""
    return torch.digamma(x).masked_fill_(x == 0, math.nan)


digamma = unary("Digamma", _digamma, "float", "math.digamma", "digamma", doc="The derivative of lgamma.")
lgamma.gradient(lambda op, grad: grad * digamma(op.inputs[0]))
digamma.gradient(lambda op, grad: grad * polygamma(convert(1, grad.dtype.base_dtype), op.inputs[0]))

zeta = binary("Zeta", lambda x, q: _zeta(x, q), "float32 float64", "x: T, q: T -> z: T")
polygamma: OpDef = binary("Polygamma", lambda a, x: _polygamma(a, x), "float32 float64", "a: T, x: T -> z: T")
igamma = binary("Igamma", torch.special.gammainc, "float", "a: T, x: T -> z: T")
igammac = binary("Igammac", torch.special.gammaincc, "float", "a: T, x: T -> z: T")
igamma_grad_a = binary("IgammaGradA", lambda a, x: _igamma_by_a(a, x), "float32 float64", "a: T, x: T -> z: T")
for _op, _name, _doc in ((zeta, "zeta", "The sum of (n + q) ** -x over all n from 0: Hurwitz's zeta function."),
                         (polygamma, "polygamma", "The derivative of order a of digamma(x), for a whole number a."),
                         (igamma, "igamma", "The lower regularized incomplete gamma function of `a` at `x`."),
                         (igammac, "igammac", "The upper regularized incomplete gamma function, 1 - igamma(a, x).")):
    _op.doc = _doc
    export.later(functools.partial(as_function, _op), f"math.{_name}", v1=[_name])


def _zeta(x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return torch.special.zeta(x.to(torch.float64), q.to(torch.float64)).to(x.dtype)


def _polygamma(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """(-1)**(n+1) n! zeta(n+1, x); digamma for n = 0; NaN unless n is an integer >= 0."""
    n, y = (t.to(torch.float64) for t in torch.broadcast_tensors(a, x))
    sign_ = torch.where(torch.remainder(n, 2) == 0, -1.0, 1.0)
    out = sign_ * torch.exp(torch.lgamma(n + 1)) * torch.special.zeta(n + 1, y)
    out = torch.where(n == 0, _digamma(y), out)
    return out.masked_fill((n != torch.floor(n)) | (n < 0), float("nan")).to(a.dtype)


@zeta.gradient
def _zeta_gradient(op, grad):
    x, q = op.inputs
    return None, unbroadcast(-x * zeta(x + convert(1, x.dtype.base_dtype), q) * grad, q, x)


@polygamma.gradient
def _polygamma_gradient(op, grad):
    n, x = op.inputs
    return None, unbroadcast(polygamma(n + convert(1, n.dtype.base_dtype), x) * grad, x, n)


def _igamma_by_x(a: Tensor, x: Tensor) -> Tensor:
    """The derivative of igamma by x: the density of the gamma distribution."""
    return exp(-x + get("Xlogy")(a - convert(1, a.dtype.base_dtype), x) - lgamma(a))


@igamma.gradient
def _igamma_gradient(op, grad):
    a, x = op.inputs
    return both(op, igamma_grad_a(a, x) * grad, _igamma_by_x(a, x) * grad)


@igammac.gradient
def _igammac_gradient(op, grad):
    a, x = op.inputs
    return both(op, -(igamma_grad_a(a, x) * grad), -(_igamma_by_x(a, x) * grad))


def _igamma_by_a(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The derivative of igamma by a: from the series where x is small, else from the continued fraction."""
    p, y = (t.to(torch.float64) for t in torch.broadcast_tensors(a, x))
    wrong = (p <= 0) | (y < 0) | torch.isnan(p) | torch.isnan(y)
    p, y = torch.where(wrong, torch.ones_like(p), p), torch.where(wrong, torch.ones_like(y), y)
    small = (y <= 1) | (y <= p)
    top = torch.full_like(y, 1e4)
    by_series = _series_by_a(torch.where(small, p, torch.ones_like(p)), torch.where(small, y, torch.ones_like(y)))
    by_fraction = _fraction_by_a(torch.where(small, torch.ones_like(p), p),
                                 torch.minimum(torch.where(small, torch.full_like(y, 2.0), y), top + p))
    out = torch.where(small, by_series, by_fraction)
    out = torch.where(y == 0, torch.zeros_like(out), out)
    return out.masked_fill(wrong, float("nan")).to(a.dtype)


def _series_by_a(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """igamma = x**a e**-x / gamma(a+1) * sum of c_n, c_n = c_{n-1} x / (a+n), term by term with its derivative."""
    c, dc = torch.ones_like(a), torch.zeros_like(a)
    total, dtotal = c.clone(), dc.clone()
    for n in range(1, _ROUNDS):
        r = x / (a + n)
        c, dc = c * r, dc * r - c * r / (a + n)
        total, dtotal = total + c, dtotal + dc
        if bool(torch.all(dc.abs() <= 1e-17 * dtotal.abs() + _TINY)) and bool(torch.all(c <= 1e-17 * total)):
            break
    log_x = torch.log(torch.where(x == 0, torch.ones_like(x), x))
    front = torch.exp(a * log_x - x - torch.lgamma(a + 1))
    return front * (dtotal + total * (log_x - torch.digamma(a + 1)))


def _fraction_by_a(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """1 - igamma = x**a e**-x / gamma(a) * h, h a continued fraction by Lentz's method, with its derivative."""
    b = x + 1 - a
    c, dc = torch.full_like(a, 1 / _TINY), torch.zeros_like(a)
    b = torch.where(b.abs() < _TINY, torch.full_like(b, _TINY), b)
    d, dd = 1 / b, 1 / (b * b)
    h, dh = d.clone(), dd.clone()
    for i in range(1, _ROUNDS):
        an, dan = -i * (i - a), torch.full_like(a, float(i))
        b = b + 2
        low, dlow = an * d + b, dan * d + an * dd - 1
        high, dhigh = b + an / c, dan / c - an * dc / (c * c) - 1
        low = torch.where(low.abs() < _TINY, torch.full_like(low, _TINY), low)
        high = torch.where(high.abs() < _TINY, torch.full_like(high, _TINY), high)
        d, dd = 1 / low, -dlow / (low * low)
        c, dc = high, dhigh
        step, dstep = d * c, dd * c + d * dc
        h, dh = h * step, dh * step + h * dstep
        if bool(torch.all((step - 1).abs() < 1e-15)) and bool(torch.all((h * dstep).abs() <= 1e-14 * dh.abs() + _TINY)):
            break
    front = torch.exp(a * torch.log(x) - x - torch.lgamma(a))
    return -front * (dh + h * (torch.log(x) - torch.digamma(a)))


# -- beta -------------------------------------------------------------------------------------------------------------
betainc = op("Betainc", "a: T, b: T, x: T -> z: T", "T: type in {float32 float64}", export_as="math.betainc",
             v1_as="betainc")
rules.batching.elementwise.add(betainc)


@betainc.shape
def _betainc_shape(a, b, x):
    out: Any = ()
    for dims in (a, b, x):
        if dims is None:
            out = None if out == () else out
        elif len(dims):
            out = dims if not out else shapes.merge(out, dims)
    return out


@betainc.kernel
def _betainc_kernel(a, b, x):
    sizes = {tuple(t.shape) for t in (a, b, x) if t.ndim}
    if len(sizes) > 1:
        raise errors.invalid(f"Shapes of a, b and x are inconsistent: {[list(t.shape) for t in (a, b, x)]}")
    p, q, y = (t.to(torch.float64) for t in torch.broadcast_tensors(a, b, x))
    wrong = ~((p > 0) & (q > 0) & (y >= 0) & (y <= 1))
    p, q, y = (torch.where(wrong, torch.full_like(t, 0.5), t) for t in (p, q, y))
    turned = y > (p + 1) / (p + q + 2)                       # the fraction converges on the other side
    p, q = torch.where(turned, q, p), torch.where(turned, p, q)
    y, rest = torch.where(turned, 1 - y, y), torch.where(turned, y, 1 - y)
    front = torch.exp(torch.lgamma(p + q) - torch.lgamma(p) - torch.lgamma(q) + torch.xlogy(p, y) +
                      torch.xlogy(q, rest)) / p
    out = front * _beta_fraction(p, q, y)
    return torch.where(turned, 1 - out, out).masked_fill(wrong, float("nan")).to(a.dtype)


def _beta_fraction(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c = torch.ones_like(x)
    d = 1 / _away(1 - (a + b) * x / (a + 1))
    h = d
    for m in range(1, _ROUNDS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / _away(1 + even * d), _away(1 + even / c)
        h = h * d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / _away(1 + odd * d), _away(1 + odd / c)
        step = d * c
        h = h * step
        if bool(torch.all((step - 1).abs() < 1e-15)):
            break
    return h


def _away(x: torch.Tensor) -> torch.Tensor:
    """x, bounded away from 0 for division."""
    return torch.where(x.abs() < _TINY, torch.full_like(x, _TINY), x)


@betainc.gradient
def _betainc_gradient(op, grad):
    a, b, x = op.inputs
    one = convert(1, a.dtype.base_dtype)
    log_beta = lgamma(a) + lgamma(b) - lgamma(a + b)
    density = exp(get("Xlogy")(a - one, x) + get("Xlog1py")(b - one, -x) - log_beta)
    return None, None, unbroadcast(density * grad, x, op.outputs[0])


@export("math.lbeta", v1=["lbeta"])
@dispatched
def lbeta(x: Any, name: str | None = None) -> Tensor:
    """log |Beta(x)| over the last axis: the sum of lgamma(x), less lgamma of the sum.

    Args:
        x: Tensor of positive numbers.
        name: Name of the operation.

    Returns:
        The logarithm of the Beta function of the last axis.

    >>> round(float(tf.math.lbeta([1., 1.])), 3)
    0.0
    """
    with name_scope(name, "lbeta", [x]):
        x = convert(x, name="x")
        logs = get("Sum")(lgamma(x), [-1])
        return logs - lgamma(get("Sum")(x, [-1]))


# -- Bessel functions -------------------------------------------------------------------------------------------------
def _bessel(name: str, kernel: Callable) -> Any:
    made = unary(f"Bessel{name}", kernel, "float")
    made.kernel(lambda x: kernel(x.to(torch.float32)).to(x.dtype), types="half bfloat16")

    def call(x: Any, name: str | None = None) -> Any:
        return made(x, name=name)
    call.__name__ = call.__qualname__ = f"bessel_{name.lower()}"
    call.__doc__ = f"The Bessel function {name} of x{', scaled by exp(-|x|)' if name in ('I0e', 'I1e') else ''}."
    names = [f"math.special.bessel_{name.lower()}"] + ([f"math.bessel_{name.lower()}"] if name[0] == "I" else [])
    export.value(dispatched(call), *names)
    return made


def _of_positive(kernel: Callable, otherwise: float) -> Callable:
    """A function with a pole at 0, which TensorFlow continues to the left of it."""
    return lambda x: kernel(x).masked_fill_(x <= 0, otherwise)


i0 = _bessel("I0", torch.special.i0)
i0e = _bessel("I0e", torch.special.i0e)
i1 = _bessel("I1", torch.special.i1)
i1e = _bessel("I1e", torch.special.i1e)
j0 = _bessel("J0", torch.special.bessel_j0)
j1 = _bessel("J1", torch.special.bessel_j1)
y0 = _bessel("Y0", _of_positive(torch.special.bessel_y0, -math.inf))
y1 = _bessel("Y1", _of_positive(torch.special.bessel_y1, -math.inf))
k0 = _bessel("K0", _of_positive(torch.special.modified_bessel_k0, math.inf))
k1 = _bessel("K1", _of_positive(torch.special.modified_bessel_k1, math.inf))
k0e = _bessel("K0e", _of_positive(torch.special.scaled_modified_bessel_k0, math.inf))
k1e = _bessel("K1e", _of_positive(torch.special.scaled_modified_bessel_k1, math.inf))


def _over(y: Tensor, x: Tensor) -> Tensor:
    """y / x, and the limit 1/2 of I1(x) / x and J1(x) / x where x is 0."""
    zero = get("Equal")(x, convert(0, x.dtype.base_dtype))
    safe = get("Select")(zero, get("OnesLike")(x), x)
    half = get("Fill")(get("Shape")(x), convert(0.5, x.dtype.base_dtype))
    return get("Select")(zero, half, y / safe)


i0.gradient(lambda op, grad: grad * i1(op.inputs[0]))
i0e.gradient(lambda op, grad: grad * (i1e(op.inputs[0]) - sign(op.inputs[0]) * op.outputs[0]))
i1.gradient(lambda op, grad: grad * (i0(op.inputs[0]) - _over(op.outputs[0], op.inputs[0])))
j0.gradient(lambda op, grad: -grad * j1(op.inputs[0]))
j1.gradient(lambda op, grad: grad * (j0(op.inputs[0]) - _over(op.outputs[0], op.inputs[0])))
y0.gradient(lambda op, grad: -grad * y1(op.inputs[0]))
y1.gradient(lambda op, grad: grad * (y0(op.inputs[0]) - op.outputs[0] / op.inputs[0]))
k0.gradient(lambda op, grad: -grad * k1(op.inputs[0]))
k0e.gradient(lambda op, grad: grad * (op.outputs[0] - k1e(op.inputs[0])))
k1.gradient(lambda op, grad: -grad * (k0(op.inputs[0]) + op.outputs[0] / op.inputs[0]))
k1e.gradient(lambda op, grad: grad * (
    op.outputs[0] * (convert(1, grad.dtype.base_dtype) - get("Reciprocal")(op.inputs[0])) - k0e(op.inputs[0])))


@i1e.gradient
def _i1e_gradient(op, grad):
    x, y = op.inputs[0], op.outputs[0]
    return grad * (i0e(x) - _over(y, x) - sign(x) * y)


# -- polynomials ------------------------------------------------------------------------------------------------------
@export("math.polyval")
@dispatched
def polyval(coeffs: Any, x: Any, name: str | None = None) -> Tensor:
    """The polynomial with these coefficients (of the highest power first) at x, by Horner's rule.

    Args:
        coeffs: List of tensors or numbers, that of the highest power first.
        x: Tensor.
        name: Name of the operation.

    Returns:
        The polynomial at `x`.

    >>> float(tf.math.polyval([2., 0., 1.], tf.constant(3.)))
    19.0
    """
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    with name_scope(name, "polyval", [*coeffs, x]) as scope:
        x = convert(x, name="x")
        if not coeffs:
            return get("ZerosLike")(x, name=scope)
        coeffs = [convert(c, name=f"coeff_{i}", preferred_dtype=x.dtype.base_dtype) for i, c in enumerate(coeffs)]
        p = coeffs[0]
        for c in coeffs[1:]:
            p = c + p * x
        return p
