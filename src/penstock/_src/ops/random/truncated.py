"""Truncated normal numbers with parameters per element, from a seed alone."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope


@export("random.stateless_parameterized_truncated_normal")
def stateless_parameterized_truncated_normal(shape: Any, seed: Any, means: Any = 0.0, stddevs: Any = 1.0, minvals: Any = -2.0,
                                             maxvals: Any = 2.0, name: str | None = None) -> Tensor:
    """Normal numbers between `minvals` and `maxvals`; parameters broadcast to `shape`.

    It applies the inverse distribution function to uniform numbers, in float64, so that the parameters have gradients. As in
    TensorFlow, those of `means` and `stddevs` are of the shift and the scale alone: they ignore that the bounds, in standard
    deviations from the mean, move too.

    >>> tf.random.stateless_parameterized_truncated_normal([2], seed=[1, 2], minvals=0.0, maxvals=[1.0, 2.0])
    """
    with name_scope(name, "parameterized_truncated_normal", [shape]):
        means = tf.convert_to_tensor(means, dtype_hint=tf.float32)
        dtype = means.dtype
        mean, deviation, low, high = (tf.cast(tf.convert_to_tensor(x, dtype), tf.float64)
                                      for x in (means, stddevs, minvals, maxvals))
        center, unit = tf.stop_gradient(mean), tf.stop_gradient(deviation)
        a, b = (low - center) / unit, (high - center) / unit
        upper = a > 0                                            # in the upper tail, mirrored: it is finer near zero
        a, b = tf.where(upper, -b, a), tf.where(upper, -a, b)
        below = 0.5 * tf.math.erfc(-a * 0.5 ** 0.5)
        within = 0.5 * tf.math.erfc(-b * 0.5 ** 0.5) - below
        uniform = tf.random.stateless_uniform(shape, seed, dtype=tf.float64)
        x = tf.clip_by_value(tf.math.ndtri(below + uniform * within), a, b)
        return tf.cast(mean + deviation * tf.where(upper, -x, x), dtype)


def parameterized_truncated_normal(shape: Any, means: Any = 0.0, stddevs: Any = 1.0, minvals: Any = -2.0, maxvals: Any = 2.0,
                                   dtype: Any = tf.float32, seed: int | None = None, name: str | None = None) -> Tensor:
    """Like `stateless_parameterized_truncated_normal`, with different numbers at each call; one row of parameters per batch."""
    first, second = tf.compat.v1.get_seed(seed)
    with name_scope(name, "parameterized_truncated_normal", [shape]):
        parts = [tf.convert_to_tensor(x, dtype) for x in (means, stddevs, minvals, maxvals)]
        return tf.raw_ops.ParameterizedTruncatedNormal(
            shape=tf.convert_to_tensor(shape, tf.int32), means=parts[0], stdevs=parts[1], minvals=parts[2], maxvals=parts[3],
            seed=first or 0, seed2=second or 0)
