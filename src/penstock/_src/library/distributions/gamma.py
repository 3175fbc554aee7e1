"""The gamma family: Gamma, Exponential, Beta."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.library.distributions.checks import checked, gen_new_seed
from penstock._src.library.distributions.distribution import FULLY_REPARAMETERIZED, Distribution, Parameter
from penstock._src.library.distributions.divergence import RegisterKL
from penstock.compat import v1 as tf


@export(v1=["distributions.Gamma"])
class Gamma(Distribution):
    """The gamma distribution with shape `concentration` and inverse scale `rate`.

    >>> tf.distributions.Gamma(concentration=3., rate=2.).mean()
    """

    concentration = Parameter("The shape, positive.")
    rate = Parameter("The inverse scale, positive.")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Gamma"):
        with tf.name_scope(name, values=[concentration, rate]) as name:
            self._set(name, validate_args, allow_nan_stats, FULLY_REPARAMETERIZED, positive=("concentration", "rate"),
                      concentration=concentration, rate=rate)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        return tf.random_gamma([n], self.concentration, beta=self.rate, dtype=self.dtype, seed=seed)

    def _valid(self, x: Tensor) -> Tensor:
        tf.debugging.assert_same_float_dtype([x], dtype=self.dtype)
        return checked(x, tf.assert_positive(x)) if self.validate_args else x

    def _log_prob(self, x: Tensor) -> Tensor:
        x = self._valid(x)
        a, b = self.concentration, self.rate
        return tf.math.xlogy(a - 1.0, x) - b * x + a * tf.log(b) - tf.lgamma(a)

    def _cdf(self, x: Tensor) -> Tensor:
        return tf.igamma(self.concentration, self.rate * self._valid(x))

    def _entropy(self) -> Tensor:
        a = self.concentration
        return a - tf.log(self.rate) + tf.lgamma(a) + (1.0 - a) * tf.digamma(a)

    def _mean(self) -> Tensor:
        return self.concentration / self.rate

    def _variance(self) -> Tensor:
        return self.concentration / tf.square(self.rate)

    def _stddev(self) -> Tensor:
        return tf.sqrt(self.concentration) / self.rate

    def _mode(self) -> Tensor:
        return self._undefined((self.concentration - 1.0) / self.rate, self.concentration > 1.0, lambda: tf.assert_less(
            tf.ones([], self.dtype), self.concentration, message="mode not defined when any concentration <= 1"))


@RegisterKL(Gamma, Gamma)
def _kl_gamma_gamma(a: Gamma, b: Gamma, name: str | None = None) -> Tensor:
    with tf.name_scope(name, "kl_gamma_gamma", [a.concentration, a.rate, b.concentration, b.rate]):
        return ((a.concentration - b.concentration) * tf.digamma(a.concentration) + tf.lgamma(b.concentration)
                - tf.lgamma(a.concentration) + b.concentration * (tf.log(a.rate) - tf.log(b.rate))
                + a.concentration * (b.rate / a.rate - 1.0))


@export(v1=["distributions.Exponential"])
class Exponential(Gamma):
    """The exponential distribution with inverse scale `rate`.

    >>> tf.distributions.Exponential(rate=2.).mean()
    """

    def __init__(self, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Exponential"):
        with tf.name_scope(name, values=[rate]) as name:
            rate = tf.convert_to_tensor(rate, name="rate")
            self._set(name, validate_args, allow_nan_stats, FULLY_REPARAMETERIZED, positive=("concentration", "rate"),
                      concentration=tf.ones([], rate.dtype), rate=rate)

    @classmethod
    def _param_shapes(cls, sample_shape: Any) -> dict[str, Tensor]:
        return {"rate": tf.convert_to_tensor(sample_shape, dtype=tf.int32)}

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        # From the open interval: 0 would produce an infinite sample.
        tiny = np.finfo(self.dtype.as_numpy_dtype).tiny
        shape = tf.concat([[n], tf.shape(self.rate)], 0)
        return -tf.log(tf.random_uniform(shape, tiny, 1.0, dtype=self.dtype, seed=seed)) / self.rate

    def _cdf(self, x: Tensor) -> Tensor:
        return -tf.math.expm1(-self.rate * self._valid(x))

    def _log_survival_function(self, x: Tensor) -> Tensor:
        return -self.rate * self._valid(x)

    def _quantile(self, p: Tensor) -> Tensor:
        return -tf.log1p(-p) / self.rate


@export(v1=["distributions.Beta"])
class Beta(Distribution):
    """The beta distribution on (0, 1).

    >>> tf.distributions.Beta(concentration1=2., concentration0=3.).mean()
    """

    _values: Any

    concentration1 = Parameter("The power of x, plus one; positive.")
    concentration0 = Parameter("The power of 1 - x, plus one; positive.")

    def __init__(self, concentration1: Any = None, concentration0: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Beta"):
        with tf.name_scope(name, values=[concentration1, concentration0]) as name:
            self._set(name, validate_args, allow_nan_stats, FULLY_REPARAMETERIZED, concentration1=concentration1,
                      concentration0=concentration0)
            if validate_args:
                for key in ("concentration1", "concentration0"):
                    value = self._values[key]
                    self._values[key] = checked(value, tf.assert_positive(value, message="Concentration parameter must be "
                                                                                         "positive."))
            self._total = self.concentration1 + self.concentration0

    total_concentration = property(lambda self: self._total, doc="The sum of both.")

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        shape = self.batch_shape_tensor()
        one = tf.random_gamma([n], tf.broadcast_to(self.concentration1, shape), dtype=self.dtype, seed=seed)
        zero = tf.random_gamma([n], tf.broadcast_to(self.concentration0, shape), dtype=self.dtype,
                               seed=gen_new_seed(seed, "beta"))
        return one / (one + zero)

    def _valid(self, x: Tensor) -> Tensor:
        if not self.validate_args:
            return x
        return checked(x, tf.assert_positive(x, message="sample must be positive"),
                       tf.assert_less(x, tf.ones([], self.dtype), message="sample must be less than `1`."))

    def _log_prob(self, x: Tensor) -> Tensor:
        x = self._valid(x)
        return (tf.math.xlogy(self.concentration1 - 1.0, x) + (self.concentration0 - 1.0) * tf.log1p(-x)
                - self._log_normalization())

    def _log_normalization(self) -> Tensor:
        return tf.lgamma(self.concentration1) + tf.lgamma(self.concentration0) - tf.lgamma(self._total)

    def _cdf(self, x: Tensor) -> Tensor:
        x = self._valid(x)
        shape = tf.broadcast_dynamic_shape(tf.shape(x), self.batch_shape_tensor())
        return tf.betainc(*(tf.broadcast_to(v, shape) for v in (self.concentration1, self.concentration0, x)))

    def _entropy(self) -> Tensor:
        return (self._log_normalization() - (self.concentration1 - 1.0) * tf.digamma(self.concentration1)
                - (self.concentration0 - 1.0) * tf.digamma(self.concentration0) + (self._total - 2.0) * tf.digamma(self._total))

    def _mean(self) -> Tensor:
        return self.concentration1 / self._total

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self._mean()) / (1.0 + self._total)

    def _mode(self) -> Tensor:
        one = tf.ones([], self.dtype)
        def defined() -> Any:
            return tf.group(
                tf.assert_less(one, self.concentration1, message="Mode undefined for concentration1 <= 1."),
                tf.assert_less(one, self.concentration0, message="Mode undefined for concentration0 <= 1."))
        return self._undefined((self.concentration1 - 1.0) / (self._total - 2.0),
                               (self.concentration1 > 1.0) & (self.concentration0 > 1.0), defined)


@RegisterKL(Beta, Beta)
def _kl_beta_beta(a: Beta, b: Beta, name: str | None = None) -> Tensor:
    with tf.name_scope(name, "kl_beta_beta", [a.concentration1, b.concentration1, a.concentration0, b.concentration0]):
        def term(key: str) -> Tensor:
            mine = getattr(a, key)
            return tf.digamma(mine) * (mine - getattr(b, key))
        return (b._log_normalization() - a._log_normalization() + term("concentration1") + term("concentration0")
                - tf.digamma(a.total_concentration) * (a.total_concentration - b.total_concentration))
