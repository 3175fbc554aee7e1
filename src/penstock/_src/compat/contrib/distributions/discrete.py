"""Distributions of counts and of choices; relaxed choices, which are differentiable."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.library.distributions.checks import logits_and_probs
from penstock._src.library.distributions.distribution import FULLY_REPARAMETERIZED, NOT_REPARAMETERIZED, Distribution, Parameter
from penstock._src.library.distributions.divergence import RegisterKL
from penstock.compat import v1 as tf


def _export(cls: type) -> type:
    return export(v1=[f"contrib.distributions.{cls.__name__}"])(cls)


@_export
class Poisson(Distribution):
    """The Poisson distribution."""

    rate = Parameter("The mean, positive.")

    def __init__(self, rate: Any = None, log_rate: Any = None, interpolate_nondiscrete: bool = True,
                 validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Poisson"):
        if (rate is None) == (log_rate is None):
            raise ValueError("Must specify exactly one of `rate` and `log_rate`.")
        with tf.name_scope(name, values=[rate, log_rate]) as name:
            rate = tf.exp(tf.convert_to_tensor(log_rate)) if rate is None else rate
            self._set(name, validate_args, allow_nan_stats, NOT_REPARAMETERIZED, positive=("rate",), rate=rate)

    log_rate = property(lambda self: tf.log(self.rate))

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        return tf.random_poisson(self.rate, [n], dtype=self.dtype, seed=seed)

    def _log_prob(self, k: Tensor) -> Tensor:
        k = tf.cast(k, self.dtype)
        return tf.math.xlogy(k, self.rate) - tf.lgamma(1.0 + k) - self.rate

    def _cdf(self, k: Tensor) -> Tensor:
        k = tf.floor(tf.cast(k, self.dtype))
        return tf.where_v2(k < 0, tf.zeros_like(k * self.rate), tf.igammac(1.0 + tf.maximum(k, 0.0), self.rate))

    def _mean(self) -> Tensor:
        return tf.identity(self.rate)

    def _variance(self) -> Tensor:
        return tf.identity(self.rate)

    def _mode(self) -> Tensor:
        return tf.floor(self.rate)


@RegisterKL(Poisson, Poisson)
def _kl_poisson(a: Poisson, b: Poisson, name: str | None = None) -> Tensor:
    with tf.name_scope(name, "kl_poisson_poisson", [a.rate, b.rate]):
        return a.rate * (tf.log(a.rate) - tf.log(b.rate)) - a.rate + b.rate


class _Logits(Distribution):
    """The common part of distributions with `logits` or `probs` of one event."""

    logits = Parameter("The log odds.")
    probs = Parameter("The probability.")

    def _set_logits(self, name: str, logits: Any, probs: Any, validate_args: bool, allow_nan_stats: bool, dtype: Any = None,
                    **others: Any) -> None:
        found = logits_and_probs(logits=logits, probs=probs, validate_args=validate_args, name=name)
        self._values.update(logits=found[0], probs=found[1])
        for key, value in others.items():
            self._values[key] = tf.convert_to_tensor(value, name=key, preferred_dtype=found[1].dtype)
        super().__init__(dtype=dtype or found[1].dtype.base_dtype, reparameterization_type=NOT_REPARAMETERIZED,
                         validate_args=validate_args, allow_nan_stats=allow_nan_stats, name=name)


@_export
class Geometric(_Logits):
    """The number of failures before the first success."""

    def __init__(self, logits: Any = None, probs: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Geometric"):
        with tf.name_scope(name, values=[logits, probs]) as name:
            self._set_logits(name, logits, probs, validate_args, allow_nan_stats)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        shape = tf.concat([[n], self.batch_shape_tensor()], 0)
        uniform = tf.random_uniform(shape, np.finfo(self.dtype.as_numpy_dtype).tiny, 1.0, dtype=self.dtype, seed=seed)
        return tf.floor(tf.log(uniform) / tf.log1p(-self.probs))

    def _log_prob(self, k: Tensor) -> Tensor:
        k = tf.cast(k, self.dtype)
        return tf.math.xlogy(k, 1.0 - self.probs) + tf.log(self.probs)

    def _cdf(self, k: Tensor) -> Tensor:
        k = tf.floor(tf.cast(k, self.dtype))
        return tf.where_v2(k < 0, tf.zeros_like(k * self.probs), -tf.math.expm1((1.0 + k) * tf.log1p(-self.probs)))

    def _entropy(self) -> Tensor:
        return (-self.logits * (tf.sigmoid(self.logits) - 1.0) + tf.nn.softplus(-self.logits)) / self.probs

    def _mean(self) -> Tensor:
        return tf.exp(-self.logits)

    def _variance(self) -> Tensor:
        return self._mean() / self.probs

    def _mode(self) -> Tensor:
        return tf.zeros(self.batch_shape_tensor(), self.dtype)


@_export
class NegativeBinomial(_Logits):
    """The number of successes before `total_count` failures."""

    total_count = Parameter("The number of failures.")

    def __init__(self, total_count: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "NegativeBinomial"):
        with tf.name_scope(name, values=[total_count, logits, probs]) as name:
            self._set_logits(name, logits, probs, validate_args, allow_nan_stats, total_count=total_count)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        rate = tf.random_gamma([n], self.total_count * tf.ones_like(self.logits), beta=tf.exp(-self.logits), dtype=self.dtype,
                               seed=seed)
        return tf.random_poisson(rate, [], dtype=self.dtype, seed=None if seed is None else seed + 1)

    def _log_prob(self, k: Tensor) -> Tensor:
        k, n = tf.cast(k, self.dtype), self.total_count
        return (n * -tf.nn.softplus(self.logits) + k * -tf.nn.softplus(-self.logits) + tf.lgamma(n + k) - tf.lgamma(1.0 + k)
                - tf.lgamma(n))

    def _mean(self) -> Tensor:
        return self.total_count * tf.exp(self.logits)

    def _variance(self) -> Tensor:
        return self._mean() / tf.sigmoid(-self.logits)


@_export
class Binomial(_Logits):
    """The number of successes in `total_count` trials."""

    total_count = Parameter("The number of trials.")

    def __init__(self, total_count: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Binomial"):
        with tf.name_scope(name, values=[total_count, logits, probs]) as name:
            self._set_logits(name, logits, probs, validate_args, allow_nan_stats, total_count=total_count)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        shape = tf.concat([[n], self.batch_shape_tensor()], 0)
        ones = tf.ones(self.batch_shape_tensor(), self.dtype)
        most = tf.cast(tf.reduce_max(self.total_count), tf.int32)
        drawn = tf.random_uniform(tf.concat([shape, [most]], 0), dtype=self.dtype, seed=seed) < (self.probs * ones)[..., None]
        counted = tf.sequence_mask(tf.cast(self.total_count * ones, tf.int32), most)
        return tf.reduce_sum(tf.cast(drawn & counted, self.dtype), -1)

    def _log_prob(self, k: Tensor) -> Tensor:
        k, n = tf.cast(k, self.dtype), self.total_count
        chosen = tf.lgamma(1.0 + n) - tf.lgamma(1.0 + k) - tf.lgamma(1.0 + n - k)
        return chosen + tf.math.xlogy(k, self.probs) + tf.math.xlogy(n - k, 1.0 - self.probs)

    def _cdf(self, k: Tensor) -> Tensor:
        k = tf.floor(tf.cast(k, self.dtype)) * tf.ones(self.batch_shape_tensor(), self.dtype)
        n, p = self.total_count + tf.zeros_like(k), self.probs + tf.zeros_like(k)
        inside = tf.betainc(tf.maximum(n - k, 1e-6), tf.maximum(1.0 + k, 1e-6), 1.0 - p)
        return tf.where_v2(k < 0, tf.zeros_like(k), tf.where_v2(k >= n, tf.ones_like(k), inside))

    def _mean(self) -> Tensor:
        return self.total_count * self.probs

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self.probs)

    def _mode(self) -> Tensor:
        return tf.floor((1.0 + self.total_count) * self.probs)


class _Classes(Distribution):
    """The common part of distributions over vectors of classes."""

    logits = Parameter("The log probabilities of the classes, up to a constant.", event_rank=1)
    probs = Parameter("The probabilities of the classes.", event_rank=None)

    def _set_classes(self, name: str, logits: Any, probs: Any, dtype: Any, validate_args: bool, allow_nan_stats: bool,
                     reparameterized: Any) -> None:
        found = logits_and_probs(logits=logits, probs=probs, validate_args=validate_args, multidimensional=True, name=name)
        self._values.update(logits=found[0], probs=found[1])
        super().__init__(dtype=tf.as_dtype(dtype) if dtype is not None else found[0].dtype.base_dtype,
                         reparameterization_type=reparameterized, validate_args=validate_args, allow_nan_stats=allow_nan_stats,
                         name=name)

    event_size = property(lambda self: tf.shape(self.logits)[-1])

    def _event_shape(self) -> Any:
        return self.logits.shape[-1:]

    def _event_shape_tensor(self) -> Tensor:
        return tf.shape(self.logits)[-1:]

    def _gumbels(self, n: Any, seed: Any) -> Tensor:
        shape = tf.concat([[n], tf.shape(self.logits)], 0)
        uniform = tf.random_uniform(shape, np.finfo(self.logits.dtype.as_numpy_dtype).tiny, 1.0, dtype=self.logits.dtype,
                                    seed=seed)
        return -tf.log(-tf.log(uniform))


@_export
class OneHotCategorical(_Classes):
    """One of several classes, as a row with a one."""

    def __init__(self, logits: Any = None, probs: Any = None, dtype: Any = tf.int32, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "OneHotCategorical"):
        with tf.name_scope(name, values=[logits, probs]) as name:
            self._set_classes(name, logits, probs, dtype, validate_args, allow_nan_stats, NOT_REPARAMETERIZED)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        return tf.one_hot(tf.argmax(self.logits + self._gumbels(n, seed), -1), self.event_size, dtype=self.dtype)

    def _log_prob(self, x: Tensor) -> Tensor:
        x = tf.cast(x, self.logits.dtype)
        return tf.reduce_sum(tf.math.multiply_no_nan(tf.nn.log_softmax(self.logits) * tf.ones_like(x), x), -1)

    def _entropy(self) -> Tensor:
        return -tf.reduce_sum(tf.nn.log_softmax(self.logits) * self.probs, axis=-1)

    def _mean(self) -> Tensor:
        return tf.nn.softmax(self.logits)

    def _mode(self) -> Tensor:
        return tf.one_hot(tf.argmax(self.logits, -1), self.event_size, dtype=self.dtype)

    def _variance(self) -> Tensor:
        return self.probs * (1.0 - self.probs)

    def _covariance(self) -> Tensor:
        outer = -tf.matmul(self.probs[..., tf.newaxis], self.probs[..., tf.newaxis, :])
        return tf.matrix_set_diag(outer, self._variance())


@RegisterKL(OneHotCategorical, OneHotCategorical)
def _kl_one_hot(a: OneHotCategorical, b: OneHotCategorical, name: str | None = None) -> Tensor:
    with tf.name_scope(name, "kl_categorical_categorical", [a.logits, b.logits]):
        return tf.reduce_sum(a.probs * (tf.nn.log_softmax(a.logits) - tf.nn.log_softmax(b.logits)), -1)


@_export
class ExpRelaxedOneHotCategorical(_Classes):
    """The logarithm of a relaxed one-hot row."""

    def __init__(self, temperature: Any, logits: Any = None, probs: Any = None, dtype: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "ExpRelaxedOneHotCategorical"):
        with tf.name_scope(name, values=[logits, probs, temperature]) as name:
            self._set_classes(name, logits, probs, dtype, validate_args, allow_nan_stats, FULLY_REPARAMETERIZED)
            self._temperature = tf.convert_to_tensor(temperature, name="temperature", preferred_dtype=self.logits.dtype)

    temperature = property(lambda self: self._temperature)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        heated = self._temperature[..., tf.newaxis] if self._temperature.shape.ndims else self._temperature
        return tf.nn.log_softmax((self.logits + self._gumbels(n, seed)) / heated)

    def _log_prob(self, x: Tensor) -> Tensor:
        k = tf.cast(self.event_size, x.dtype)
        heated = self._temperature[..., tf.newaxis] if self._temperature.shape.ndims else self._temperature
        normalization = tf.lgamma(k) + (k - 1.0) * tf.log(self._temperature)
        unnormalized = tf.reduce_sum(tf.nn.log_softmax(self.logits - x * heated), axis=-1)
        return unnormalized + normalization


@_export
class RelaxedOneHotCategorical(ExpRelaxedOneHotCategorical):
    """A differentiable one-hot row (https://arxiv.org/abs/1611.00712, https://arxiv.org/abs/1611.01144)."""

    def __init__(self, temperature: Any, logits: Any = None, probs: Any = None, dtype: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "RelaxedOneHotCategorical"):
        super().__init__(temperature, logits, probs, dtype, validate_args, allow_nan_stats, name)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        return tf.exp(super()._sample_n(n, seed))

    def _log_prob(self, x: Tensor) -> Tensor:
        return super()._log_prob(tf.log(x)) - tf.reduce_sum(tf.log(x), -1)


@_export
class RelaxedBernoulli(_Logits):
    """A differentiable number near 0 or 1."""

    def __init__(self, temperature: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "RelaxedBernoulli"):
        with tf.name_scope(name, values=[logits, probs, temperature]) as name:
            self._set_logits(name, logits, probs, validate_args, allow_nan_stats)
            self._temperature = tf.convert_to_tensor(temperature, name="temperature", preferred_dtype=self.logits.dtype)
        self._reparameterization_type = FULLY_REPARAMETERIZED

    temperature = property(lambda self: self._temperature)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        shape = tf.concat([[n], self.batch_shape_tensor()], 0)
        u = tf.random_uniform(shape, np.finfo(self.dtype.as_numpy_dtype).tiny, 1.0, dtype=self.dtype, seed=seed)
        return tf.sigmoid((tf.log(u) - tf.log1p(-u) + self.logits) / self._temperature)

    def _log_prob(self, x: Tensor) -> Tensor:
        z = (tf.log(x) - tf.log1p(-x)) * self._temperature - self.logits
        return tf.log(self._temperature) - z - 2.0 * tf.nn.softplus(-z) - tf.log(x) - tf.log1p(-x)


@_export
class Deterministic(Distribution):
    """A number that is certain, within a tolerance."""

    loc = Parameter("The number.")

    def __init__(self, loc: Any, atol: Any = None, rtol: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Deterministic"):
        with tf.name_scope(name, values=[loc]) as name:
            value = tf.convert_to_tensor(loc, name="loc")
            self._values["loc"], self._atol, self._rtol = value, atol or 0, rtol or 0
        super().__init__(dtype=value.dtype.base_dtype, reparameterization_type=NOT_REPARAMETERIZED, validate_args=validate_args,
                         allow_nan_stats=allow_nan_stats, graph_parents=[value], name=name)

    def _slack(self) -> Tensor:
        return tf.cast(self._atol, self.dtype) + tf.cast(self._rtol, self.dtype) * tf.abs(self.loc)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        return tf.broadcast_to(self.loc, tf.concat([[n], tf.shape(self.loc)], 0))

    def _prob(self, x: Tensor) -> Tensor:
        return tf.cast(tf.abs(x - self.loc) <= self._slack(), self.dtype)

    def _cdf(self, x: Tensor) -> Tensor:
        return tf.cast(x >= self.loc - self._slack(), self.dtype)

    def _entropy(self) -> Tensor:
        return tf.zeros_like(self.loc)

    def _mean(self) -> Tensor:
        return tf.identity(self.loc)

    def _variance(self) -> Tensor:
        return tf.zeros_like(self.loc)

    def _mode(self) -> Tensor:
        return tf.identity(self.loc)
