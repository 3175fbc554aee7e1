"""Distributions of vectors: Dirichlet (of probabilities), Multinomial and DirichletMultinomial (of counts)."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.library.distributions.checks import (
    assert_integer_form,
    checked,
    gen_new_seed,
    log_combinations,
    logits_and_probs,
    nonnegative_integers,
)
from penstock._src.library.distributions.distribution import FULLY_REPARAMETERIZED, NOT_REPARAMETERIZED, Distribution, Parameter
from penstock._src.library.distributions.divergence import RegisterKL
from penstock.compat import v1 as tf


class _Vectors(Distribution):
    """The base of distributions of vectors: the last dimension of one parameter is the event."""

    _values: Any

    _vector: str

    def _event_shape(self) -> TensorShape:
        shape = self._values[self._vector].shape.with_rank_at_least(1)
        return shape[-1:] if shape.ndims is not None else TensorShape([None])

    def _event_shape_tensor(self) -> Tensor:
        return tf.shape(self._values[self._vector])[-1:]


def _concentration(value: Any, validate_args: bool) -> Tensor:
    value = tf.convert_to_tensor(value, name="concentration")
    if not validate_args:
        return value
    return checked(value, tf.assert_positive(value, message="Concentration parameter must be positive."),
                   tf.assert_rank_at_least(value, 1, message="Concentration parameter must have >=1 dimensions."),
                   tf.assert_less(1, tf.shape(value)[-1], message="Concentration parameter must have event_size >= 2."))


@export(v1=["distributions.Dirichlet"])
class Dirichlet(_Vectors):
    """The Dirichlet distribution over vectors of probabilities.

    >>> tf.distributions.Dirichlet([1., 2., 3.]).mean()
    """

    _values: Any

    concentration = Parameter("The concentration parameters; positive.", event_rank=1)
    _vector = "concentration"

    def __init__(self, concentration: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Dirichlet"):
        with tf.name_scope(name, values=[concentration]) as name:
            value = _concentration(concentration, validate_args)
            self._values["concentration"] = value
            self._total = tf.reduce_sum(value, -1)
        super().__init__(dtype=value.dtype.base_dtype, reparameterization_type=FULLY_REPARAMETERIZED,
                         validate_args=validate_args, allow_nan_stats=allow_nan_stats, graph_parents=[value, self._total],
                         name=name)

    total_concentration = property(lambda self: self._total, doc="The sum over the classes.")

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        gammas = tf.random_gamma([n], self.concentration, dtype=self.dtype, seed=seed)
        return gammas / tf.reduce_sum(gammas, -1, keepdims=True)

    def _log_prob(self, x: Tensor) -> Tensor:
        if self.validate_args:
            x = checked(x, tf.assert_positive(x, message="samples must be positive"),
                        tf.debugging.assert_near(tf.ones([], self.dtype), tf.reduce_sum(x, -1),
                                                 message="sample last-dimension must sum to `1`"))
        return tf.reduce_sum(tf.math.xlogy(self.concentration - 1.0, x), -1) - tf.lbeta(self.concentration)

    def _entropy(self) -> Tensor:
        k = tf.cast(self.event_shape_tensor()[0], self.dtype)
        return (tf.lbeta(self.concentration) + (self._total - k) * tf.digamma(self._total)
                - tf.reduce_sum((self.concentration - 1.0) * tf.digamma(self.concentration), -1))

    def _mean(self) -> Tensor:
        return self.concentration / self._total[..., tf.newaxis]

    def _scale(self) -> Tensor:
        """The ratio of the covariance of a draw to that of Bernoulli variables with the same mean: 1 / (total + 1)."""
        return 1.0 / (1.0 + self._total[..., tf.newaxis])

    def _covariance(self) -> Tensor:
        mean, scale = self._mean(), self._scale()
        x = scale * mean
        return tf.matrix_set_diag(-tf.matmul(x[..., tf.newaxis], mean[..., tf.newaxis, :]), self._variance())

    def _variance(self) -> Tensor:
        mean = self._mean()
        return self._scale() * mean * (1.0 - mean)

    def _mode(self) -> Tensor:
        k = tf.cast(self.event_shape_tensor()[0], self.dtype)
        mode = (self.concentration - 1.0) / (self._total[..., tf.newaxis] - k)
        if self.allow_nan_stats:
            defined = tf.reduce_all(self.concentration > 1.0, -1, keepdims=True)
            return tf.where_v2(defined, mode, tf.fill(tf.shape(mode), tf.constant(float("nan"), self.dtype)))
        return checked(mode, tf.assert_less(tf.ones([], self.dtype), self.concentration,
                                            message="Mode undefined when any concentration <= 1"))


@RegisterKL(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(a: Dirichlet, b: Dirichlet, name: str | None = None) -> Tensor:
    with tf.name_scope(name, "kl_dirichlet_dirichlet", [a.concentration, b.concentration]):
        mean_log = tf.digamma(a.concentration) - tf.digamma(a.total_concentration[..., tf.newaxis])
        return (tf.reduce_sum((a.concentration - b.concentration) * mean_log, axis=-1) - tf.lbeta(a.concentration)
                + tf.lbeta(b.concentration))


class _Counts(_Vectors):
    """The base of the two distributions of counts."""

    total_count = Parameter("The number of trials.")

    def _valid(self, counts: Tensor) -> Tensor:
        if not self.validate_args:
            return counts
        return checked(nonnegative_integers(counts), tf.assert_equal(
            self.total_count, tf.reduce_sum(counts, -1), message="counts must sum to `self.total_count`"))


def _count(total_count: Any, validate_args: bool) -> Tensor:
    value = tf.convert_to_tensor(total_count, name="total_count", preferred_dtype=tf.float32)
    return nonnegative_integers(value) if validate_args else value


@export(v1=["distributions.Multinomial"])
class Multinomial(_Counts):
    """The counts of each class in `total_count` independent draws.

    >>> tf.distributions.Multinomial(total_count=4., probs=[0.2, 0.8]).mean()
    """

    _values: Any

    logits = Parameter("The log probabilities of the classes, up to a constant.", event_rank=1)
    probs = Parameter("The probabilities of the classes.", event_rank=1)
    _vector = "logits"

    def __init__(self, total_count: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Multinomial"):
        with tf.name_scope(name, values=[total_count, logits, probs]) as name:
            count = _count(total_count, validate_args)
            logits, probs = logits_and_probs(logits=logits, probs=probs, multidimensional=True, validate_args=validate_args,
                                             name=name)
            self._values.update(total_count=count, logits=logits, probs=probs)
        super().__init__(dtype=probs.dtype.base_dtype, reparameterization_type=NOT_REPARAMETERIZED, validate_args=validate_args,
                         allow_nan_stats=allow_nan_stats, graph_parents=[count, logits, probs], name=name)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        return draw_counts(n, self.total_count, self.logits, self.batch_shape_tensor(), self.dtype, seed)

    def _log_prob(self, counts: Tensor) -> Tensor:
        counts = self._valid(counts)
        return tf.reduce_sum(counts * tf.nn.log_softmax(self.logits), -1) + log_combinations(self.total_count, counts)

    def _mean(self) -> Tensor:
        return self.total_count[..., tf.newaxis] * self.probs

    def _covariance(self) -> Tensor:
        p = self.probs * tf.ones_like(self.total_count)[..., tf.newaxis]
        outer = -tf.matmul(self._mean()[..., tf.newaxis], p[..., tf.newaxis, :])
        return tf.matrix_set_diag(outer, self._variance())

    def _variance(self) -> Tensor:
        p = self.probs * tf.ones_like(self.total_count)[..., tf.newaxis]
        return self._mean() - self._mean() * p


def draw_counts(n: Any, total_count: Tensor, logits: Tensor, batch_shape: Tensor, dtype: Any, seed: Any) -> Tensor:
    """`n` vectors of counts for each member of the batch: one histogram per row over all of its draws.

    If members have different totals, all draw as many as the largest, and count only their own.
    """
    classes = tf.shape(logits)[-1]
    shape = tf.concat([batch_shape, [classes]], 0)
    rows = tf.reshape(tf.broadcast_to(logits, shape), [-1, classes])
    totals = tf.cast(tf.reshape(tf.broadcast_to(total_count, batch_shape), [-1]), tf.int32)
    most = tf.reduce_max(tf.concat([totals, [0]], 0))
    draws = tf.reshape(tf.multinomial(rows, most * n, seed=seed, output_dtype=tf.int32), [-1, n, most])
    counted = tf.sequence_mask(totals, most, dtype=dtype)[:, tf.newaxis, :]
    cells = tf.reshape(tf.range(tf.shape(rows)[0] * n), [-1, n, 1]) * classes + draws
    weights = counted * tf.ones_like(cells, dtype=dtype)
    sums = tf.math.unsorted_segment_sum(tf.reshape(weights, [-1]), tf.reshape(cells, [-1]), tf.shape(rows)[0] * n * classes)
    counts = tf.transpose(tf.reshape(sums, [-1, n, classes]), [1, 0, 2])
    return tf.reshape(counts, tf.concat([[n], shape], 0))


@export(v1=["distributions.DirichletMultinomial"])
class DirichletMultinomial(_Counts):
    """Counts of `total_count` draws from probabilities that are themselves drawn from a Dirichlet distribution.

    >>> tf.distributions.DirichletMultinomial(total_count=2., concentration=[1., 2.]).prob([1., 1.])
    """

    _values: Any

    concentration = Parameter("The concentration of the Dirichlet distribution.", event_rank=1)
    total_count = Parameter("The number of trials.", event_rank=None)
    _vector = "concentration"

    def __init__(self, total_count: Any, concentration: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "DirichletMultinomial"):
        with tf.name_scope(name, values=[total_count, concentration]) as name:
            value = _concentration(concentration, validate_args)
            count = tf.convert_to_tensor(total_count, name="total_count", preferred_dtype=value.dtype)
            if validate_args:
                count = nonnegative_integers(count)
            self._values.update(total_count=count, concentration=value)
            self._total = tf.reduce_sum(value, -1)
        super().__init__(dtype=value.dtype.base_dtype, reparameterization_type=NOT_REPARAMETERIZED, validate_args=validate_args,
                         allow_nan_stats=allow_nan_stats, graph_parents=[count, value], name=name)

    total_concentration = property(lambda self: self._total, doc="The sum over the classes.")

    def _valid(self, counts: Tensor) -> Tensor:
        if not self.validate_args:
            return counts
        return checked(counts, tf.assert_non_negative(counts, message="counts must be non-negative."),
                       assert_integer_form(counts, message="counts cannot contain fractional components."),
                       tf.assert_equal(self.total_count, tf.reduce_sum(counts, -1),
                                       message="counts last-dimension must sum to `self.total_count`"))

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        batch = self.batch_shape_tensor()
        shape = tf.concat([batch, self.event_shape_tensor()], 0)
        gammas = tf.random_gamma([n], tf.broadcast_to(self.concentration, shape), dtype=self.dtype, seed=seed)
        logits = tf.log(gammas / tf.reduce_sum(gammas, -1, keepdims=True))
        drawn = draw_counts(1, self.total_count, logits, tf.concat([[n], batch], 0), self.dtype,
                            gen_new_seed(seed, "dirichlet_multinomial"))
        return drawn[0]

    def _log_prob(self, counts: Tensor) -> Tensor:
        counts = self._valid(counts)
        ordered = tf.lbeta(self.concentration + counts) - tf.lbeta(self.concentration)
        return ordered + log_combinations(self.total_count, counts)

    # As in TensorFlow, the moments broadcast the totals against the concentrations themselves, not against their batch: totals
    # of one per member have shape [..., 1].

    def _mean(self) -> Tensor:
        return self.total_count * self._probs()

    def _probs(self) -> Tensor:
        return self.concentration / self._total[..., tf.newaxis]

    def _scale(self) -> Tensor:
        """By how much the variance is larger than of a Multinomial: (total concentration + n) / (total concentration + 1)."""
        c0 = self._total[..., tf.newaxis]
        return (c0 + self.total_count) / (1.0 + c0)

    def _covariance(self) -> Tensor:
        x = self._scale() * self._mean()
        outer = -tf.matmul(x[..., tf.newaxis], (self._probs() * tf.ones_like(x))[..., tf.newaxis, :])
        return tf.matrix_set_diag(outer, self._variance())

    def _variance(self) -> Tensor:
        return self._scale() * self._mean() * (1.0 - self._probs())
