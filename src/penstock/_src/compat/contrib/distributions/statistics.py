"""Functions of tf.contrib.distributions: statistics of samples, moving moments, conjugate priors, small matrices."""
from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.library.distributions.location_scale import Normal
from penstock.compat import v1 as tf


def _export(made: Any) -> Any:
    return export(v1=[f"contrib.distributions.{made.__name__}"])(made)


# -- statistics of samples ------------------------------------------------------------------------------------------------
_ROUND: dict[str, Callable] = {"nearest": tf.round, "lower": tf.ceil, "higher": tf.floor}     # positions from the largest on


@_export
def percentile(x: Any, q: Any, axis: Any = None, interpolation: str | None = None, keep_dims: bool = False,
               validate_args: bool = False, name: str | None = None) -> Tensor:
    """The q-th percentile along axes: the element at that place in order; "lower", "higher" or "nearest" to it.

    >>> tf.contrib.distributions.percentile([1., 2., 3., 4.], q=30., interpolation="lower")    # 1.0
    """
    interpolation = interpolation or "nearest"
    if interpolation not in _ROUND:
        raise ValueError(f"Argument 'interpolation' must be in {set(_ROUND)}.  Found {interpolation}")
    with tf.name_scope(name, "percentile", [x, q]):
        x, q = tf.convert_to_tensor(x, name="x"), tf.cast(q, tf.float64, name="q")
        if q.shape.ndims != 0:
            raise ValueError("Expected `q` to be a scalar.")
        rank = x.shape.ndims
        if rank is None:
            raise ValueError("The rank of `x` must be known.")
        given = list(range(rank)) if axis is None else [int(axis)] if not isinstance(axis, (list, tuple)) else list(axis)
        axes = sorted({a % rank for a in given})
        kept = [a for a in range(rank) if a not in axes]
        moved = tf.transpose(x, kept + axes)
        rows = tf.reshape(moved, tf.concat([tf.shape(moved)[:len(kept)], [-1]], 0)) if axes else x[..., None]
        count = tf.shape(rows)[-1]
        checks = [tf.assert_greater_equal(q, tf.cast(0, tf.float64)), tf.assert_less_equal(q, tf.cast(100, tf.float64))] \
            if validate_args else []
        with tf.control_dependencies(checks):
            at = tf.cast(_ROUND[interpolation](tf.cast(count - 1, tf.float64) * (1.0 - q / 100.0)), tf.int32)
        found = tf.gather(tf.nn.top_k(rows, count)[0], tf.clip_by_value(at, 0, count - 1), axis=-1)
        found.set_shape([x.shape.as_list()[a] for a in kept])
        if keep_dims:
            for a in axes:
                found = tf.expand_dims(found, a)
        return found


@_export
def auto_correlation(x: Any, axis: int = -1, max_lags: Any = None, center: bool = True, normalize: bool = True,
                     name: str = "auto_correlation") -> Tensor:
    """The correlation of a stationary series with itself, for each lag, along an axis."""
    with tf.name_scope(name, values=[x]):
        x = tf.convert_to_tensor(x, name="x")
        rank = x.shape.ndims
        order = [a for a in range(rank) if a != axis % rank] + [axis % rank]
        rows = tf.transpose(x, order)
        if center:
            rows = rows - tf.reduce_mean(rows, -1, keepdims=True)
        count = tf.shape(rows)[-1]
        wide = tf.complex64 if x.dtype.base_dtype in (tf.float32, tf.float16, tf.bfloat16, tf.complex64) else tf.complex128
        padded = tf.cast(tf.concat([rows, tf.zeros_like(rows)], -1), wide)
        power = tf.fft(padded)
        sums = tf.ifft(power * tf.conj(power))
        lags = count - 1 if max_lags is None else tf.minimum(tf.convert_to_tensor(max_lags, tf.int32), count - 1)
        sums = sums[..., :lags + 1]
        sums = sums if x.dtype.is_complex else tf.cast(tf.real(sums), x.dtype)
        means = sums / tf.cast(tf.cast(count, tf.float64) - tf.range(tf.cast(lags + 1, tf.float64)), sums.dtype)
        means = means / means[..., :1] if normalize else means
        out = tf.transpose(means, [order.index(a) for a in range(rank)])
        known = tf.get_static_value(lags)
        out.set_shape([None if a == axis % rank and known is None else int(known) + 1 if a == axis % rank else d
                       for a, d in enumerate(x.shape.as_list())])
        return out


@_export
def reduce_weighted_logsumexp(logx: Any, w: Any = None, axis: Any = None, keep_dims: bool = False, return_sign: bool = False,
                              name: str | None = None) -> Any:
    """log(abs(sum(weight * exp(logx)))), without overflow; with `return_sign`, also the sign of the sum."""
    with tf.name_scope(name, "reduce_weighted_logsumexp", [logx, w]):
        logx = tf.convert_to_tensor(logx, name="logx")
        if w is None:
            total = tf.reduce_logsumexp(logx, axis=axis, keepdims=keep_dims)
            return (total, tf.ones_like(total)) if return_sign else total
        w = tf.convert_to_tensor(w, dtype=logx.dtype, name="w")
        size = logx + tf.log(tf.abs(w))
        top = tf.stop_gradient(tf.reduce_max(size, axis=axis, keepdims=True))
        top = tf.where(tf.math.is_inf(top), tf.zeros_like(top), top)
        sums = tf.reduce_sum(tf.sign(w) * tf.exp(size - top), axis=axis, keepdims=keep_dims)
        total = (top if keep_dims else tf.squeeze(top, axis=axis)) + tf.log(tf.abs(sums))
        return (total, tf.sign(sums)) if return_sign else total


# -- small matrices -------------------------------------------------------------------------------------------------------
@_export
def tridiag(below: Any = None, diag: Any = None, above: Any = None, name: str | None = None) -> Tensor:
    """Matrices with given numbers on the diagonal, below it and above it; zeros where they are None."""
    with tf.name_scope(name, "tridiag", [below, diag, above]):
        parts = []
        if below is not None:
            parts.append(tf.pad(tf.matrix_diag(below), _widened(below, ([1, 0], [0, 1]))))
        if diag is not None:
            parts.append(tf.matrix_diag(diag))
        if above is not None:
            parts.append(tf.pad(tf.matrix_diag(above), _widened(above, ([0, 1], [1, 0]))))
        if not parts:
            raise ValueError("Must specify at least one of {below, diag, above}.")
        return tf.add_n(parts) if len(parts) > 1 else parts[0]


def _widened(values: Any, last: tuple) -> list:
    rank = tf.convert_to_tensor(values).shape.ndims
    return [[0, 0]] * (rank - 1) + list(last)


@_export
def matrix_diag_transform(matrix: Any, transform: Callable | None = None, name: str | None = None) -> Tensor:
    """Matrices whose diagonals are replaced by a function of them."""
    with tf.name_scope(name, "matrix_diag_transform", [matrix]):
        matrix = tf.convert_to_tensor(matrix, name="matrix")
        return matrix if transform is None else tf.matrix_set_diag(matrix, transform(tf.matrix_diag_part(matrix)))


# -- moving moments -------------------------------------------------------------------------------------------------------
@_export
def assign_moving_mean_variance(mean_var: Any, variance_var: Any, value: Any, decay: Any, name: str | None = None
                                ) -> tuple[Any, Any]:
    """Updates of variables with the exponentially weighted mean and variance of a stream of values."""
    with tf.name_scope(name, "update_mean_variance", [variance_var, mean_var, value, decay]):
        value = tf.convert_to_tensor(value, name="value", dtype=mean_var.dtype.base_dtype)
        decay, delta = tf.convert_to_tensor(decay, dtype=value.dtype), value - mean_var
        share = 1.0 - decay
        with tf.control_dependencies([delta]):
            variance = tf.assign_sub(variance_var, share * (variance_var - decay * tf.square(delta)))
            with tf.control_dependencies([variance]):
                mean = tf.assign_add(mean_var, share * delta)
        return mean, variance


@_export
def assign_log_moving_mean_exp(log_mean_exp_var: Any, log_value: Any, decay: Any, name: str | None = None) -> Any:
    """The update of a variable with the logarithm of the exponentially weighted mean of exp(values)."""
    with tf.name_scope(name, "assign_log_moving_mean_exp", [log_mean_exp_var, log_value, decay]):
        dtype = log_mean_exp_var.dtype.base_dtype
        decay, log_value = tf.convert_to_tensor(decay, dtype), tf.convert_to_tensor(log_value, dtype)
        both = tf.stack([tf.log(decay) + log_mean_exp_var, tf.log1p(-decay) + log_value], -1)
        return tf.assign(log_mean_exp_var, tf.reduce_logsumexp(both, axis=-1))


@_export
def moving_mean_variance(value: Any, decay: Any, collections: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """Variables with the exponentially weighted mean and variance of a value, as their updated contents."""
    collections = [tf.GraphKeys.GLOBAL_VARIABLES] if collections is None else collections
    with tf.variable_scope(name, "moving_mean_variance", [value, decay]):
        value = tf.convert_to_tensor(value, name="value")
        mean, variance = (tf.get_variable(n, value.shape, value.dtype.base_dtype, tf.zeros_initializer(), trainable=False,
                                          collections=collections) for n in ("moving_mean", "moving_variance"))
        return assign_moving_mean_variance(mean, variance, value, decay)


# -- conjugate priors -----------------------------------------------------------------------------------------------------
@_export
def normal_conjugates_known_scale_posterior(prior: Any, scale: Any, s: Any, n: Any) -> Normal:
    """The distribution of a normal's mean, after `n` observations whose sum is `s`, when its scale is known."""
    if not isinstance(prior, Normal):
        raise TypeError("Expected prior to be an instance of type Normal")
    if s.dtype != prior.dtype:
        raise TypeError(f"Observation sum s.dtype does not match prior dtype: {s.dtype} vs. {prior.dtype}")
    n = tf.cast(n, prior.dtype)
    before, each = tf.square(prior.scale), tf.square(scale)
    after = 1.0 / (1.0 / before + n / each)
    return Normal(loc=(prior.loc / before + s / each) * after, scale=tf.sqrt(after))


@_export
def normal_conjugates_known_scale_predictive(prior: Any, scale: Any, s: Any, n: Any) -> Normal:
    """The distribution of the next observation, after `n` whose sum is `s`, when the normal's scale is known."""
    mean = normal_conjugates_known_scale_posterior(prior, scale, s, n)
    return Normal(loc=mean.loc, scale=tf.sqrt(tf.square(mean.scale) + tf.square(scale)))


# -- seeds ----------------------------------------------------------------------------------------------------------------
@_export
class SeedStream:
    """Different seeds from one: a function without arguments returns the next."""

    def __init__(self, seed: Any, salt: str):
        self._seed = seed.original_seed if isinstance(seed, SeedStream) else seed
        self._salt, self._counter = salt, 0

    original_seed = property(lambda self: self._seed)
    salt = property(lambda self: self._salt)

    def __call__(self) -> int | None:
        """The next seed; None if there was none at the beginning."""
        self._counter += 1
        if self._seed is None:
            return None
        text = f"{self._seed}{self._counter}{self._salt}".encode()
        return int(hashlib.md5(text, usedforsecurity=False).hexdigest()[:8], 16) & 0x7FFFFFFF
