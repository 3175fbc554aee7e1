"""Batches with other proportions than the input: rejection, resampling by rates and weights, learning rates that restart."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.training.{name}"])


@_export("rejection_sample")
def rejection_sample(tensors: Any, accept_prob_fn: Callable, batch_size: int, queue_threads: int = 1,
                     enqueue_many: bool = False,
                     prebatch_capacity: int = 16, prebatch_threads: int = 1, runtime_checks: bool = False,
                     name: str | None = None) -> Any:
    """Batches of examples, each of which is kept with the probability that a function returns."""
    with tf.name_scope(name, "rejection_sample", tensors):
        tensors = [tf.convert_to_tensor(t) for t in tensors]
        if enqueue_many:
            tensors = tf.train.batch(tensors, batch_size=1, num_threads=prebatch_threads, capacity=prebatch_capacity,
                                     enqueue_many=True)
            tensors = [tf.squeeze(x, [0]) for x in (tensors if isinstance(tensors, list) else [tensors])]
        probability = accept_prob_fn(tensors)
        probability.shape.assert_has_rank(0)
        if runtime_checks:
            inside = tf.Assert((probability >= 0.0) & (probability <= 1.0), ["accept_prob is not in [0, 1]", probability])
            with tf.control_dependencies([inside]):
                probability = tf.identity(probability)
        keep = tf.random_uniform([]) < probability
        return tf.train.maybe_batch(tensors, keep, batch_size=batch_size, num_threads=queue_threads)


@_export("stratified_sample")
def stratified_sample(tensors: Any, labels: Any, target_probs: Any, batch_size: int, init_probs: Any = None,
                      enqueue_many: bool = False, queue_capacity: int = 16, threads_per_queue: int = 1,
                      name: str | None = None) -> tuple[list, Any]:
    """Batches in which the labels have the probabilities `target_probs`, by rejecting examples; `init_probs` are those of the
    input."""
    if init_probs is None:
        raise ValueError("init_probs, the proportions of the labels in the input, have to be given")
    with tf.name_scope(name, "stratified_sample", [*tensors, labels]):
        target = tf.cast(tf.convert_to_tensor(target_probs), tf.float32)
        ratio = target / tf.cast(tf.convert_to_tensor(init_probs), tf.float32)
        accept = ratio / tf.reduce_max(ratio)
        *drawn, label = rejection_sample([*tensors, labels], lambda all_: tf.gather(accept, all_[-1]), batch_size,
                                         threads_per_queue, enqueue_many, queue_capacity)
        return drawn, label


@_export("resample_at_rate")
def resample_at_rate(inputs: Any, rates: Any, scope: Any = None, seed: int | None = None,
                     back_prop: bool = False) -> list[Tensor]:
    """Rows of the inputs, each repeated a random number of times with the given mean."""
    with tf.name_scope(scope, "resample_at_rate", [*inputs, rates]):
        rates = tf.convert_to_tensor(rates, name="rates")
        counts = tf.cast(tf.random_poisson(rates, [], seed=seed, dtype=tf.float32), tf.int32)
        rows = tf.repeat(tf.range(tf.shape(rates)[0]), counts)
        rows = rows if back_prop else tf.stop_gradient(rows)
        return [tf.gather(x, rows) for x in inputs]


@_export("weighted_resample")
def weighted_resample(inputs: Any, weights: Any, overall_rate: float, scope: Any = None, mean_decay: float = 0.999,
                      seed: int | None = None) -> tuple[list[Tensor], Tensor]:
    """Rows resampled in proportion to their weights: returns them, and the rates at which they were drawn."""
    with tf.variable_scope(scope, "resample", nest.flatten([inputs, weights])):
        weights = tf.convert_to_tensor(weights)
        mean = tf.get_variable("estimate", shape=[], initializer=tf.zeros_initializer(), trainable=False)
        count = tf.get_variable("count", shape=[], initializer=tf.zeros_initializer(), trainable=False)
        decay = tf.minimum(mean_decay, count / (count + 1.0))
        average = mean.assign(mean * decay + tf.reduce_mean(weights) * (1.0 - decay))
        with tf.control_dependencies([average, count.assign_add(1.0)]):
            rates = weights * overall_rate / average
        *resampled, drawn_at = resample_at_rate([*inputs, rates], rates, scope=None, seed=seed)
        return resampled, drawn_at


@_export("sgdr_decay")
def sgdr_decay(learning_rate: Any, global_step: Any, initial_period_steps: int, t_mul: float = 2.0, m_mul: float = 1.0,
               name: str | None = None) -> Tensor:
    """A cosine decay that restarts (https://arxiv.org/abs/1608.03983)."""
    if global_step is None:
        raise ValueError("global_step is required for sgdr_decay.")
    with tf.name_scope(name, "SGDRDecay", [learning_rate, global_step]):
        rate = tf.convert_to_tensor(learning_rate, name="initial_learning_rate")
        t_mul, m_mul = tf.cast(t_mul, rate.dtype), tf.cast(m_mul, rate.dtype)
        done = tf.cast(global_step, rate.dtype) / initial_period_steps

        def equal_periods() -> tuple[Tensor, Tensor]:
            restarts = tf.floor(done)
            return restarts, done - restarts

        def growing_periods() -> tuple[Tensor, Tensor]:
            restarts = tf.floor(tf.log(1.0 - done * (1.0 - t_mul)) / tf.log(t_mul))
            before = (1.0 - t_mul**restarts) / (1.0 - t_mul)
            return restarts, (done - before) / t_mul**restarts

        restarts, fraction = tf.cond(tf.equal(t_mul, 1.0), equal_periods, growing_periods)
        return rate * m_mul**restarts * 0.5 * (1.0 + tf.cos(math.pi * fraction))
