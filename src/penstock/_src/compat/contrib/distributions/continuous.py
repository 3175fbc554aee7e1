"""Continuous distributions of one number."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.library.distributions import special
from penstock._src.library.distributions.distribution import FULLY_REPARAMETERIZED, Distribution, Parameter
from penstock._src.library.distributions.divergence import RegisterKL
from penstock._src.library.distributions.gamma import Beta, Exponential, Gamma
from penstock._src.library.distributions.location_scale import Laplace, LocationScale, Normal, StudentT
from penstock.compat import v1 as tf

_EULER = 0.5772156649015329


def _export(cls: type) -> type:
    return export(v1=[f"contrib.distributions.{cls.__name__}"])(cls)


def _open_uniform(shape: Tensor, dtype: Any, seed: Any) -> Tensor:
    return tf.random_uniform(shape, np.finfo(dtype.as_numpy_dtype).tiny, 1.0, dtype=dtype, seed=seed)


class _Scaled(LocationScale):
    """A distribution with a location and a scale, from that of the standard one."""

    def __init__(self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = ""):
        name = name or type(self).__name__
        with tf.name_scope(name, values=[loc, scale]) as name:
            self._set(name, validate_args, allow_nan_stats, FULLY_REPARAMETERIZED, positive=("scale",), loc=loc, scale=scale)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        return self._quantile(_open_uniform(self._sample_shape(n), self.dtype, seed))


@_export
class Logistic(_Scaled):
    """The logistic distribution."""

    def _log_prob(self, x: Tensor) -> Tensor:
        z = self._z(x)
        return -z - 2.0 * tf.nn.softplus(-z) - tf.log(self.scale)

    def _log_cdf(self, x: Tensor) -> Tensor:
        return -tf.nn.softplus(-self._z(x))

    def _cdf(self, x: Tensor) -> Tensor:
        return tf.sigmoid(self._z(x))

    def _survival_function(self, x: Tensor) -> Tensor:
        return tf.sigmoid(-self._z(x))

    def _quantile(self, p: Tensor) -> Tensor:
        return self.loc + self.scale * (tf.log(p) - tf.log1p(-p))

    def _entropy(self) -> Tensor:
        return 2.0 + tf.log(self._in_batch(self.scale))

    def _mean(self) -> Tensor:
        return self._in_batch(self.loc)

    def _stddev(self) -> Tensor:
        return self._in_batch(self.scale) * math.pi / math.sqrt(3)

    def _mode(self) -> Tensor:
        return self._mean()


@_export
class Gumbel(_Scaled):
    """The Gumbel distribution of largest values."""

    def _log_prob(self, x: Tensor) -> Tensor:
        z = self._z(x)
        return -z - tf.exp(-z) - tf.log(self.scale)

    def _log_cdf(self, x: Tensor) -> Tensor:
        return -tf.exp(-self._z(x))

    def _cdf(self, x: Tensor) -> Tensor:
        return tf.exp(self._log_cdf(x))

    def _quantile(self, p: Tensor) -> Tensor:
        return self.loc - self.scale * tf.log(-tf.log(p))

    def _entropy(self) -> Tensor:
        return tf.log(self._in_batch(self.scale)) + 1.0 + _EULER

    def _mean(self) -> Tensor:
        return self._in_batch(self.loc + self.scale * _EULER)

    def _stddev(self) -> Tensor:
        return self._in_batch(self.scale) * math.pi / math.sqrt(6)

    def _mode(self) -> Tensor:
        return self._in_batch(self.loc)


@_export
class Cauchy(_Scaled):
    """The Cauchy distribution, which has no mean."""

    def _log_prob(self, x: Tensor) -> Tensor:
        return -tf.log1p(tf.square(self._z(x))) - math.log(math.pi) - tf.log(self.scale)

    def _cdf(self, x: Tensor) -> Tensor:
        return tf.atan(self._z(x)) / math.pi + 0.5

    def _quantile(self, p: Tensor) -> Tensor:
        return self.loc + self.scale * tf.tan(math.pi * (p - 0.5))

    def _entropy(self) -> Tensor:
        return math.log(4 * math.pi) + tf.log(self._in_batch(self.scale))

    def _mode(self) -> Tensor:
        return self._in_batch(self.loc)


@_export
class HalfNormal(Distribution):
    """The absolute value of a normal number."""

    scale = Parameter("The scale, positive.")

    def __init__(self, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "HalfNormal"):
        with tf.name_scope(name, values=[scale]) as name:
            self._set(name, validate_args, allow_nan_stats, FULLY_REPARAMETERIZED, positive=("scale",), scale=scale)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        shape = tf.concat([[n], self.batch_shape_tensor()], 0)
        return tf.abs(tf.random_normal(shape, dtype=self.dtype, seed=seed) * self.scale)

    def _prob(self, x: Tensor) -> Tensor:
        density = math.sqrt(2 / math.pi) / self.scale * tf.exp(-0.5 * tf.square(x / self.scale))
        return density * tf.cast(x >= 0, self.dtype)

    def _cdf(self, x: Tensor) -> Tensor:
        return tf.erf(tf.nn.relu(x) / self.scale / math.sqrt(2.0))

    def _quantile(self, p: Tensor) -> Tensor:
        return math.sqrt(2.0) * self.scale * special.erfinv(p)

    def _entropy(self) -> Tensor:
        return 0.5 * tf.log(math.pi * tf.square(self.scale) / 2.0) + 0.5

    def _mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    def _mode(self) -> Tensor:
        return tf.zeros(self.batch_shape_tensor(), self.dtype)

    def _variance(self) -> Tensor:
        return tf.square(self.scale) * (1.0 - 2.0 / math.pi)


@_export
class InverseGamma(Distribution):
    """One over a gamma number."""

    concentration = Parameter("The shape, positive.")
    rate = Parameter("The scale, positive.")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "InverseGamma"):
        with tf.name_scope(name, values=[concentration, rate]) as name:
            self._set(name, validate_args, allow_nan_stats, FULLY_REPARAMETERIZED, positive=("concentration", "rate"),
                      concentration=concentration, rate=rate)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        return 1.0 / tf.random_gamma([n], self.concentration, beta=self.rate, dtype=self.dtype, seed=seed)

    def _log_prob(self, x: Tensor) -> Tensor:
        a, b = self.concentration, self.rate
        return -(1.0 + a) * tf.log(x) - b / x - tf.lgamma(a) + a * tf.log(b)

    def _cdf(self, x: Tensor) -> Tensor:
        return tf.igammac(self.concentration, self.rate / x)

    def _entropy(self) -> Tensor:
        a = self.concentration
        return a + tf.log(self.rate) + tf.lgamma(a) - (1.0 + a) * tf.digamma(a)

    def _mean(self) -> Tensor:
        return self._undefined(self.rate / (self.concentration - 1.0), self.concentration > 1.0, lambda: tf.assert_less(
            tf.ones([], self.dtype), self.concentration, message="mean undefined when any concentration <= 1"))

    def _variance(self) -> Tensor:
        a = self.concentration
        value = tf.square(self.rate) / tf.square(a - 1.0) / (a - 2.0)
        return self._undefined(value, a > 2.0, lambda: tf.assert_less(
            tf.constant(2.0, self.dtype), a, message="variance undefined when any concentration <= 2"))

    def _mode(self) -> Tensor:
        return self.rate / (1.0 + self.concentration)


@_export
class Chi2(Gamma):
    """The chi-squared distribution."""

    def __init__(self, df: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Chi2"):
        df = tf.convert_to_tensor(df, name="df")
        self._df = df
        super().__init__(0.5 * df, tf.constant(0.5, df.dtype), validate_args, allow_nan_stats, name)

    df = property(lambda self: self._df)


@_export
class Kumaraswamy(Beta):
    """The Kumaraswamy distribution on (0, 1), much like the beta distribution."""

    def __init__(self, concentration1: Any = None, concentration0: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Kumaraswamy"):
        super().__init__(concentration1, concentration0, validate_args, allow_nan_stats, name)

    def _quantile(self, p: Tensor) -> Tensor:
        return tf.pow(-tf.math.expm1(tf.log1p(-p) / self.concentration0), 1.0 / self.concentration1)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        return self._quantile(_open_uniform(tf.concat([[n], self.batch_shape_tensor()], 0), self.dtype, seed))

    def _log_prob(self, x: Tensor) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return tf.log(a) + tf.log(b) + (a - 1.0) * tf.log(x) + (b - 1.0) * tf.log1p(-tf.pow(x, a))

    def _cdf(self, x: Tensor) -> Tensor:
        return -tf.math.expm1(self.concentration0 * tf.log1p(-tf.pow(x, self.concentration1)))

    def _moment(self, n: int) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return tf.exp(tf.log(b) + tf.lgamma(1.0 + n / a) + tf.lgamma(b) - tf.lgamma(1.0 + n / a + b))

    def _mean(self) -> Tensor:
        return self._moment(1)

    def _variance(self) -> Tensor:
        return self._moment(2) - tf.square(self._moment(1))

    def _mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        inside = tf.logical_and(a > 1.0, b > 1.0)
        if self.allow_nan_stats:
            safe = tf.where_v2(inside, (a - 1.0) / tf.where_v2(inside, a * b - 1.0, tf.ones_like(a * b)), tf.ones_like(a * b))
            return tf.where_v2(inside, tf.pow(safe, 1.0 / a), tf.constant(math.nan, self.dtype))
        with tf.control_dependencies([tf.Assert(tf.reduce_all(inside), ["Mode undefined for concentrations <= 1.", a, b])]):
            return tf.pow((a - 1.0) / (a * b - 1.0), 1.0 / a)

    def _entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return 1.0 - 1.0 / b + (1.0 - 1.0 / a) * (tf.digamma(b + 1.0) + _EULER) - tf.log(a) - tf.log(b)


def _softplused(base: type, name: str, *keys: str) -> type:
    """A class whose parameters go through softplus first."""
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        import inspect
        bound = inspect.signature(base.__init__).bind(self, *args, **{"name": name, **kwargs})
        for key in keys:
            bound.arguments[key] = tf.nn.softplus(tf.convert_to_tensor(bound.arguments[key]))
        base.__init__(*bound.args, **bound.kwargs)
    return _export(type(name, (base,), {"__init__": __init__, "__module__": __name__,
                                        "__doc__": f"{base.__name__}, with the softplus of {' and '.join(keys)}."}))


NormalWithSoftplusScale = _softplused(Normal, "NormalWithSoftplusScale", "scale")
LaplaceWithSoftplusScale = _softplused(Laplace, "LaplaceWithSoftplusScale", "scale")
GammaWithSoftplusConcentrationRate = _softplused(Gamma, "GammaWithSoftplusConcentrationRate", "concentration", "rate")
ExponentialWithSoftplusRate = _softplused(Exponential, "ExponentialWithSoftplusRate", "rate")
BetaWithSoftplusConcentration = _softplused(Beta, "BetaWithSoftplusConcentration", "concentration1", "concentration0")
InverseGammaWithSoftplusConcentrationRate = _softplused(InverseGamma, "InverseGammaWithSoftplusConcentrationRate",
                                                        "concentration", "rate")
StudentTWithAbsDfSoftplusScale = _softplused(StudentT, "StudentTWithAbsDfSoftplusScale", "scale")


@RegisterKL(Gumbel, Gumbel)
def _kl_gumbel(a: Gumbel, b: Gumbel, name: str | None = None) -> Tensor:
    with tf.name_scope(name, "kl_gumbel_gumbel", [a.loc, b.loc, a.scale, b.scale]):
        ratio = a.scale / b.scale
        return (tf.log(b.scale) - tf.log(a.scale) + _EULER * (ratio - 1.0)
                + tf.math.expm1((b.loc - a.loc) / b.scale + tf.lgamma(ratio + 1.0)) + (a.loc - b.loc) / b.scale)


@RegisterKL(HalfNormal, HalfNormal)
def _kl_half_normal(a: HalfNormal, b: HalfNormal, name: str | None = None) -> Tensor:
    with tf.name_scope(name, "kl_half_normal_half_normal", [a.scale, b.scale]):
        return tf.log(b.scale) - tf.log(a.scale) + 0.5 * (tf.square(a.scale / b.scale) - 1.0)
