"""Distributions with a location and a scale: Normal, Laplace, StudentT; and Uniform."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.library.distributions import special
from penstock._src.library.distributions.checks import checked, gen_new_seed
from penstock._src.library.distributions.distribution import FULLY_REPARAMETERIZED, Distribution, Parameter
from penstock._src.library.distributions.divergence import RegisterKL
from penstock.compat import v1 as tf


class LocationScale(Distribution):
    """The base of distributions with `loc` and `scale`."""

    loc = Parameter("The location.")
    scale = Parameter("The scale, positive.")

    def _sample_shape(self, n: Any) -> Tensor:
        return tf.concat([[n], self.batch_shape_tensor()], 0)

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def _in_batch(self, x: Tensor) -> Tensor:
        """`x` in the shape of a batch."""
        return x * tf.ones(self.batch_shape_tensor(), self.dtype)


@export(v1=["distributions.Normal"])
class Normal(LocationScale):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    >>> tf.distributions.Normal(0., 1.).cdf(1.96)
    """

    def __init__(self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Normal"):
        with tf.name_scope(name, values=[loc, scale]) as name:
            self._set(name, validate_args, allow_nan_stats, FULLY_REPARAMETERIZED, positive=("scale",), loc=loc, scale=scale)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        return tf.random_normal(self._sample_shape(n), dtype=self.loc.dtype, seed=seed) * self.scale + self.loc

    def _log_prob(self, x: Tensor) -> Tensor:
        return -0.5 * tf.square(self._z(x)) - (0.5 * math.log(2.0 * math.pi) + tf.log(self.scale))

    def _log_cdf(self, x: Tensor) -> Tensor:
        return special.log_ndtr(self._z(x))

    def _cdf(self, x: Tensor) -> Tensor:
        return special.ndtr(self._z(x))

    def _log_survival_function(self, x: Tensor) -> Tensor:
        return special.log_ndtr(-self._z(x))

    def _survival_function(self, x: Tensor) -> Tensor:
        return special.ndtr(-self._z(x))

    def _entropy(self) -> Tensor:
        return 0.5 * math.log(2.0 * math.pi * math.e) + tf.log(self._in_batch(self.scale))

    def _mean(self) -> Tensor:
        return self._in_batch(self.loc)

    def _quantile(self, p: Tensor) -> Tensor:
        return special.ndtri(p) * self.scale + self.loc

    def _stddev(self) -> Tensor:
        return self._in_batch(self.scale)

    def _mode(self) -> Tensor:
        return self._mean()


@RegisterKL(Normal, Normal)
def _kl_normal_normal(a: Normal, b: Normal, name: str | None = None) -> Tensor:
    with tf.name_scope(name, "kl_normal_normal", [a.loc, b.loc]):
        ratio = tf.square(a.scale / b.scale)
        return 0.5 * (tf.square((a.loc - b.loc) / b.scale) + ratio - 1.0 - tf.log(ratio))


@export(v1=["distributions.Laplace"])
class Laplace(LocationScale):
    """The Laplace (double exponential) distribution.

    >>> tf.distributions.Laplace(0., 1.).prob(0.)
    """

    def __init__(self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Laplace"):
        with tf.name_scope(name, values=[loc, scale]) as name:
            self._set(name, validate_args, allow_nan_stats, FULLY_REPARAMETERIZED, positive=("scale",), loc=loc, scale=scale)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        # (-1, 1), open at the left: -1 would produce an infinite sample.
        uniform = tf.random_uniform(self._sample_shape(n), np.nextafter(self.dtype.as_numpy_dtype(-1.0),
                                                                        self.dtype.as_numpy_dtype(0.0)), 1.0,
                                    dtype=self.dtype, seed=seed)
        return self.loc - self.scale * tf.sign(uniform) * tf.log1p(-tf.abs(uniform))

    def _log_prob(self, x: Tensor) -> Tensor:
        return -tf.abs(self._z(x)) - (math.log(2.0) + tf.log(self.scale))

    def _log_cdf(self, x: Tensor) -> Tensor:
        return special.log_cdf_laplace(self._z(x))

    def _log_survival_function(self, x: Tensor) -> Tensor:
        return special.log_cdf_laplace(-self._z(x))

    def _cdf(self, x: Tensor) -> Tensor:
        z = self._z(x)
        return 0.5 + 0.5 * tf.sign(z) * (1.0 - tf.exp(-tf.abs(z)))

    def _quantile(self, p: Tensor) -> Tensor:
        return self.loc - self.scale * tf.sign(p - 0.5) * tf.log1p(-2.0 * tf.abs(p - 0.5))

    def _entropy(self) -> Tensor:
        return math.log(2.0) + 1.0 + tf.log(self._in_batch(self.scale))

    def _mean(self) -> Tensor:
        return self._in_batch(self.loc)

    def _stddev(self) -> Tensor:
        return math.sqrt(2.0) * self._in_batch(self.scale)

    def _mode(self) -> Tensor:
        return self._mean()


@RegisterKL(Laplace, Laplace)
def _kl_laplace_laplace(a: Laplace, b: Laplace, name: str | None = None) -> Tensor:
    with tf.name_scope(name, "kl_laplace_laplace", [a.loc, b.loc, a.scale, b.scale]):
        distance, ratio = tf.abs(a.loc - b.loc), a.scale / b.scale
        return -tf.log(ratio) - 1.0 + distance / b.scale + ratio * tf.exp(-distance / a.scale)


@export(v1=["distributions.StudentT"])
class StudentT(LocationScale):
    """Student's t distribution with `df` degrees of freedom, moved and scaled.

    >>> tf.distributions.StudentT(df=3., loc=0., scale=1.).log_prob(1.)
    """

    df = Parameter("The degrees of freedom, positive.")

    def __init__(self, df: Any, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "StudentT"):
        with tf.name_scope(name, values=[df, loc, scale]) as name:
            self._set(name, validate_args, allow_nan_stats, FULLY_REPARAMETERIZED, positive=("df",), df=df, loc=loc,
                      scale=scale)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        # A normal sample divided by the root of a chi-squared one over its degrees of freedom.
        shape = self._sample_shape(n)
        normal = tf.random_normal(shape, dtype=self.dtype, seed=seed)
        df = self.df * tf.ones(self.batch_shape_tensor(), self.dtype)
        chi2 = tf.random_gamma([n], 0.5 * df, beta=0.5, dtype=self.dtype, seed=gen_new_seed(seed, "student_t"))
        return normal * tf.rsqrt(chi2 / df) * self.scale + self.loc

    def _log_prob(self, x: Tensor) -> Tensor:
        return -0.5 * (self.df + 1.0) * tf.log1p(tf.square(self._z(x)) / self.df) - self._log_normalization()

    def _log_normalization(self) -> Tensor:
        return (tf.log(tf.abs(self.scale)) + 0.5 * tf.log(self.df) + 0.5 * math.log(math.pi) + tf.lgamma(0.5 * self.df)
                - tf.lgamma(0.5 * (self.df + 1.0)))

    def _cdf(self, x: Tensor) -> Tensor:
        y = (x - self.loc) / tf.abs(self.scale)
        tail = 0.5 * tf.betainc(0.5 * self.df * tf.ones_like(y), tf.fill(tf.shape(y * self.df), tf.constant(0.5, self.dtype)),
                                self.df / (tf.square(y) + self.df))
        return tf.where_v2(y < 0, tail, 1.0 - tail)

    def _entropy(self) -> Tensor:
        df = self._in_batch(self.df)
        half, next_half = 0.5 * df, 0.5 * (df + 1.0)
        beta = tf.lgamma(half) + math.lgamma(0.5) - tf.lgamma(next_half)
        return (tf.log(tf.abs(self._in_batch(self.scale))) + 0.5 * tf.log(df) + beta
                + next_half * (tf.digamma(next_half) - tf.digamma(half)))

    def _mean(self) -> Tensor:
        return self._undefined(self._in_batch(self.loc), self.df > 1.0, lambda: tf.assert_less(
            tf.ones([], self.dtype), self.df, message="mean not defined for components of df <= 1"))

    def _variance(self) -> Tensor:
        # Infinite for 1 < df <= 2, undefined for df <= 1.
        safe = tf.where_v2(self.df > 2.0, self.df - 2.0, tf.ones_like(self.df))
        finite = tf.ones(self.batch_shape_tensor(), self.dtype) * tf.square(self.scale) * self.df / safe
        infinity = tf.fill(self.batch_shape_tensor(), np.array(np.inf, self.dtype.as_numpy_dtype))
        variance = tf.where_v2(self.df > 2.0, finite, infinity)
        return self._undefined(variance, self.df > 1.0, lambda: tf.assert_less(
            tf.ones([], self.dtype), self.df, message="variance not defined for components of df <= 1"))

    def _mode(self) -> Tensor:
        return self._in_batch(self.loc)


@export(v1=["distributions.Uniform"])
class Uniform(Distribution):
    """The uniform distribution on the interval from `low` (included) to `high`.

    >>> tf.distributions.Uniform(0., 2.).prob(1.)
    """

    _values: Any

    low = Parameter("The lower end, included.")
    high = Parameter("The upper end.")

    def __init__(self, low: Any = 0.0, high: Any = 1.0, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Uniform"):
        with tf.name_scope(name, values=[low, high]) as name:
            self._set(name, validate_args, allow_nan_stats, FULLY_REPARAMETERIZED, low=low, high=high)
            if validate_args:
                fine = tf.assert_less(self.low, self.high, message="uniform not defined when low >= high.")
                self._values.update(low=checked(self.low, fine), high=checked(self.high, fine))

    def range(self, name: str = "range") -> Tensor:
        """`high - low`."""
        with self._name_scope(name):
            return self.high - self.low

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        shape = tf.concat([[n], self.batch_shape_tensor()], 0)
        return self.low + self.range() * tf.random_uniform(shape, dtype=self.dtype, seed=seed)

    def _prob(self, x: Tensor) -> Tensor:
        # A comparison alone would not propagate NaN.
        width = tf.ones_like(x) * self.range()
        inside = tf.where_v2((x < self.low) | (x >= self.high), tf.zeros_like(width), tf.ones_like(width) / width)
        return tf.where_v2(tf.is_nan(x), x * tf.ones_like(width), inside)

    def _cdf(self, x: Tensor) -> Tensor:
        shape = tf.broadcast_dynamic_shape(tf.shape(x), self.batch_shape_tensor())
        zeros, ones = tf.zeros(shape, self.dtype), tf.ones(shape, self.dtype)
        x = x * ones
        within = tf.where_v2(x < self.low, zeros, (x - self.low) / self.range())
        return tf.where_v2(x >= self.high, ones, within)

    def _quantile(self, p: Tensor) -> Tensor:
        return self.low + p * self.range()

    def _entropy(self) -> Tensor:
        return tf.log(self.range())

    def _mean(self) -> Tensor:
        return (self.low + self.high) / 2.0

    def _variance(self) -> Tensor:
        return tf.square(self.range()) / 12.0

    def _stddev(self) -> Tensor:
        return self.range() / math.sqrt(12.0)


@RegisterKL(Uniform, Uniform)
def _kl_uniform_uniform(a: Uniform, b: Uniform, name: str | None = None) -> Tensor:
    with tf.name_scope(name, "kl_uniform_uniform"):
        inside = (b.low <= a.low) & (a.high <= b.high)
        divergence = tf.log(b.high - b.low) - tf.log(a.high - a.low)
        return tf.where_v2(inside, divergence, tf.constant(np.inf, a.dtype))
