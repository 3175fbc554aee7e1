"""Distributions of one choice: Bernoulli (of two) and Categorical (of many)."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.library.distributions.checks import assert_integer_form, checked, integers_that_fit, logits_and_probs
from penstock._src.library.distributions.distribution import NOT_REPARAMETERIZED, Distribution, Parameter
from penstock._src.library.distributions.divergence import RegisterKL
from penstock.compat import v1 as tf


def together(*tensors: Tensor) -> list[Tensor]:
    """The tensors, broadcast to one shape; no ops are added if the shapes are already equal."""
    static = tensors[0].shape
    if all(t.shape.is_fully_defined() and t.shape == static for t in tensors):
        return list(tensors)
    shape = tf.shape(tensors[0])
    for t in tensors[1:]:
        shape = tf.broadcast_dynamic_shape(shape, tf.shape(t))
    return [tf.broadcast_to(t, shape) for t in tensors]


@export(v1=["distributions.Bernoulli"])
class Bernoulli(Distribution):
    """One with probability `probs` (or with log odds `logits`), otherwise zero.

    >>> tf.distributions.Bernoulli(probs=[0.1, 0.7]).entropy()
    """

    _values: Any

    logits = Parameter("The log odds of one.")
    probs = Parameter("The probability of one.")

    def __init__(self, logits: Any = None, probs: Any = None, dtype: Any = tf.int32, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Bernoulli"):
        with tf.name_scope(name) as name:
            found = logits_and_probs(logits=logits, probs=probs, validate_args=validate_args, name=name)
            self._values.update(zip(("logits", "probs"), found, strict=True))
        super().__init__(dtype=tf.as_dtype(dtype), reparameterization_type=NOT_REPARAMETERIZED, validate_args=validate_args,
                         allow_nan_stats=allow_nan_stats, graph_parents=list(found), name=name)

    @classmethod
    def _param_shapes(cls, sample_shape: Any) -> dict[str, Tensor]:
        return {"logits": tf.convert_to_tensor(sample_shape, dtype=tf.int32)}

    def _batch_shape(self) -> Any:
        return self.logits.shape

    def _batch_shape_tensor(self) -> Tensor:
        return tf.shape(self.logits)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        uniform = tf.random_uniform(tf.concat([[n], self.batch_shape_tensor()], 0), seed=seed, dtype=self.probs.dtype)
        return tf.cast(tf.less(uniform, self.probs), self.dtype)

    def _log_prob(self, event: Tensor) -> Tensor:
        if self.validate_args:
            event = _zero_or_one(event)
        event, logits = together(tf.cast(event, self.logits.dtype), self.logits)
        return -tf.nn.sigmoid_cross_entropy_with_logits(labels=event, logits=logits)

    def _entropy(self) -> Tensor:
        return -self.logits * (tf.sigmoid(self.logits) - 1.0) + tf.nn.softplus(-self.logits)

    def _mean(self) -> Tensor:
        return tf.identity(self.probs)

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self.probs)

    def _mode(self) -> Tensor:
        return tf.cast(self.probs > 0.5, self.dtype)


def _zero_or_one(event: Tensor) -> Tensor:
    checks = [tf.assert_non_negative(event, message="Elements must be non-negative."),
              tf.assert_less_equal(event, tf.ones([], event.dtype), message="Elements cannot exceed 1.")]
    if event.dtype.is_floating:
        checks.append(assert_integer_form(event, message="Elements must be bool-equivalent."))
    return checked(event, *checks)


@RegisterKL(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(a: Bernoulli, b: Bernoulli, name: str | None = None) -> Tensor:
    with tf.name_scope(name, "kl_bernoulli_bernoulli", [a.logits, b.logits]):
        zero = tf.nn.softplus(-b.logits) - tf.nn.softplus(-a.logits)
        one = tf.nn.softplus(b.logits) - tf.nn.softplus(a.logits)
        return tf.sigmoid(a.logits) * zero + tf.sigmoid(-a.logits) * one


@export(v1=["distributions.Categorical"])
class Categorical(Distribution):
    """One of the classes 0 to n - 1, by their `logits` or `probs` along the last axis.

    >>> tf.distributions.Categorical(probs=[0.2, 0.5, 0.3]).log_prob(1)
    """

    _values: Any

    logits = Parameter("The log probabilities of the classes, up to a constant.", event_rank=1)
    probs = Parameter("The probabilities of the classes.", event_rank=None)

    def __init__(self, logits: Any = None, probs: Any = None, dtype: Any = tf.int32, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Categorical"):
        with tf.name_scope(name, values=[logits, probs]) as name:
            found = logits_and_probs(logits=logits, probs=probs, validate_args=validate_args, multidimensional=True, name=name)
            self._values.update(zip(("logits", "probs"), found, strict=True))
            shape = found[0].shape.with_rank_at_least(1)
            size = shape.static_dims[-1] if shape.ndims is not None else None
            self._event_size = tf.shape(found[0])[-1] if size is None else tf.constant(size, tf.int32, name="event_size")
        super().__init__(dtype=tf.as_dtype(dtype), reparameterization_type=NOT_REPARAMETERIZED, validate_args=validate_args,
                         allow_nan_stats=allow_nan_stats, graph_parents=list(found), name=name)

    event_size = property(lambda self: self._event_size, doc="The number of classes.")

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        logits = self.logits if self.logits.shape.ndims == 2 else tf.reshape(self.logits, [-1, self.event_size])
        draws = tf.multinomial(logits, n, seed=seed, output_dtype=tf.int64 if self.dtype.size > 4 else tf.int32)
        draws = tf.reshape(tf.transpose(draws), tf.concat([[n], self.batch_shape_tensor()], 0))
        return tf.cast(draws, self.dtype)

    def _event_and(self, k: Tensor, params: Tensor) -> tuple[Tensor, Tensor]:
        """The class numbers, and the parameters in as many rows."""
        k = tf.convert_to_tensor(k, name="k")
        if self.validate_args:
            k = integers_that_fit(k, target_dtype=tf.int32)
        if k.dtype.is_floating:
            k = tf.cast(k, tf.int32)
        elif not k.dtype.is_integer:
            raise TypeError(f"`value` should have integer `dtype` or `self.dtype` ({self.dtype.base_dtype})")
        if k.shape.ndims is None or params.shape.ndims is None or k.shape.as_list() != params.shape[:-1].as_list() \
                or not k.shape.is_fully_defined():
            params = params * tf.ones_like(k, dtype=params.dtype)[..., tf.newaxis]
            k = k * tf.cast(tf.ones(tf.shape(params)[:-1]), k.dtype)
            if params.shape.ndims is not None:
                k.set_shape(params.shape[:-1])
        return k, params

    def _cdf(self, k: Tensor) -> Tensor:
        k, probs = self._event_and(k, self.probs)
        below = tf.sequence_mask(k, self.event_size, dtype=probs.dtype)
        return tf.reduce_sum(below * probs, axis=-1)

    def _log_prob(self, k: Tensor) -> Tensor:
        k, logits = self._event_and(k, self.logits)
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=k, logits=logits)

    def _entropy(self) -> Tensor:
        log_probs = tf.nn.log_softmax(self.logits)
        return -tf.reduce_sum(tf.math.multiply_no_nan(log_probs, self.probs), axis=-1)

    def _mode(self) -> Tensor:
        mode = tf.cast(tf.argmax(self.logits, axis=-1), self.dtype)
        mode.set_shape(self.batch_shape)
        return mode


@RegisterKL(Categorical, Categorical)
def _kl_categorical_categorical(a: Categorical, b: Categorical, name: str | None = None) -> Tensor:
    with tf.name_scope(name, "kl_categorical_categorical", [a.logits, b.logits]):
        difference = tf.nn.log_softmax(a.logits) - tf.nn.log_softmax(b.logits)
        return tf.reduce_sum(tf.nn.softmax(a.logits) * difference, axis=-1)
