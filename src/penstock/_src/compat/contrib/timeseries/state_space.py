"""State space models: a hidden state that moves linearly, seen through noise, and followed by a Kalman filter.

A structural model adds up a level with a trend, a cycle for each period, and a moving average with autoregression. Features
of a series are filtered side by side, each with its own state. A step over a gap of k times is the one-time step to the power
of k, by squaring (`_over`).
"""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.compat.contrib.timeseries.keys import State, TrainEvalFeatures, public
from penstock._src.compat.contrib.timeseries.model import ModelOutputs, TimeSeriesModel
from penstock.compat import v1 as tf

_TIMES, _VALUES = TrainEvalFeatures.TIMES, TrainEvalFeatures.VALUES


@public
class StructuralEnsemble(TimeSeriesModel):
    """Level and trend, cycles, and what of the past is left in the noise, added up."""

    def __init__(self, periodicities: Any, num_features: int, cycle_num_latent_values: int = 11, moving_average_order: int = 4,
                 autoregressive_order: int = 0, exogenous_feature_columns: Any = None, exogenous_update_condition: Any = None,
                 dtype: Any = tf.float64):
        super().__init__(num_features, exogenous_feature_columns, dtype)
        self.periods = [float(p) for p in np.ravel(periodicities if periodicities is not None else [])]
        if any(p <= 0 for p in self.periods) or cycle_num_latent_values < 2 or \
                min(moving_average_order, autoregressive_order) < 0:
            raise ValueError("periodicities must be positive, cycles have two values at least, and orders not be negative")
        self._latent = cycle_num_latent_values
        self._orders = autoregressive_order, moving_average_order
        self._condition = exogenous_update_condition
        self._memory = max(autoregressive_order, moving_average_order + 1)
        self.size = 2 + len(self.periods) * (self._latent - 1) + self._memory

    # -- parameters -----------------------------------------------------------------------------------------------------
    def _parameters(self) -> None:
        p, q = self._orders
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE, use_resource=True):
            def deviation(name: str, count: int, start: float) -> Any:
                return tf.exp(tf.get_variable(f"log_{name}_variance", [count], self.dtype,
                                              tf.constant_initializer(2 * np.log(start))))
            moves = [deviation("level", 1, 0.1), deviation("trend", 1, 0.01)]
            moves += [tf.tile(deviation(f"cycle_{i}", 1, 0.03), [self._latent - 1]) for i in range(len(self.periods))]
            memory = [tf.tanh(tf.get_variable("autoregression", [p], self.dtype, tf.zeros_initializer())),
                      tf.get_variable("moving_average", [q], self.dtype, tf.zeros_initializer())]
            shock = deviation("shock", 1, 0.1)
            self._noise = deviation("observation", 1, 0.3)[0]
            self._exogenous_size = sum(int(np.prod(c._variable_shape.as_list())) for c in self._columns)
            if self._columns:
                self._jump = tf.get_variable("exogenous", [self._exogenous_size, self.size], self.dtype, tf.zeros_initializer())
                self._jump_noise = deviation("exogenous", self.size, 0.3)
        self._step, self._moved = self._transition(memory[0]), self._movement(moves, memory[1], shock)

    def _transition(self, autoregression: Any) -> Any:
        """One step of the state: the trend is added to the level, cycles stay, memory moves on."""
        rest = self.size - self._memory
        fixed = np.eye(self.size)
        fixed[0, 1] = 1.0
        fixed[rest:, rest:] = np.eye(self._memory, k=1)
        column = tf.pad(autoregression, [[rest, self._memory - self._orders[0]]])
        return tf.constant(fixed, self.dtype) + column[:, tf.newaxis] * tf.one_hot(rest, self.size, dtype=self.dtype)

    def _movement(self, moves: list, average: Any, shock: Any) -> Any:
        """The covariance of what is added to the state in one step."""
        entry = tf.pad(tf.concat([tf.ones([1], self.dtype), average], 0), [[0, self._memory - 1 - self._orders[1]]])
        rest = self.size - self._memory
        together = tf.pad(entry[:, tf.newaxis] * entry * shock, [[rest, 0], [rest, 0]])
        return tf.matrix_diag(tf.pad(tf.concat(moves, 0), [[0, self._memory]])) + together

    def _seen(self, times: Any) -> Any:
        """What of the state is seen at some times, (..., size): cycles between two of their values, which add up to zero."""
        parts = [tf.ones([*_dims(times), 1], self.dtype), tf.zeros([*_dims(times), 1], self.dtype)]
        for period in self.periods:
            place = tf.floormod(tf.cast(times, self.dtype), period) * (self._latent / period)
            away = tf.abs(place[..., tf.newaxis] - tf.range(self._latent, dtype=self.dtype))
            shares = tf.nn.relu(1.0 - tf.minimum(away, self._latent - away))
            parts.append(shares[..., :-1] - shares[..., -1:])
        parts.append(tf.one_hot(tf.zeros_like(times, tf.int32), self._memory, dtype=self.dtype))
        return tf.concat(parts, -1)

    def _over(self, last: Any, by_time: Any) -> tuple[Any, Any]:
        """The transition and the added covariance from each time to the next, (times, batch, size, size)."""
        first = tf.where(last < 0, tf.zeros_like(last), by_time[0] - last)
        gaps = tf.reshape(tf.concat([first[tf.newaxis], by_time[1:] - by_time[:-1]], 0), [-1])

        def wide(x: Any) -> Any:
            made = tf.broadcast_to(x, [tf.shape(gaps)[0], self.size, self.size])
            made.set_shape([None, self.size, self.size])
            return made

        def double(left: Any, moved: Any, added: Any, step: Any, more: Any) -> tuple:
            odd = tf.equal(left % 2, 1)
            then = tf.matmul(step, moved), tf.matmul(step, tf.matmul(added, step, transpose_b=True)) + more
            return (left // 2, tf.where(odd, then[0], moved), tf.where(odd, then[1], added), tf.matmul(step, step),
                    tf.matmul(step, tf.matmul(more, step, transpose_b=True)) + more)
        start = (gaps, wide(tf.eye(self.size, dtype=self.dtype)), wide(tf.zeros([self.size, self.size], self.dtype)),
                 wide(self._step), wide(self._moved))
        _, moved, added, *_ = tf.while_loop(lambda left, *_: tf.reduce_any(left > 0), double, start)
        shape = [*_dims(by_time), 1, self.size, self.size]
        return tf.reshape(moved, shape), tf.reshape(added, shape)

    # -- filtering --------------------------------------------------------------------------------------------------------
    def get_start_state(self) -> tuple:
        f = self.num_features
        spread = np.concatenate([[1.0, 0.01], np.full(self.size - 2, 0.5)])
        return (tf.zeros([f, self.size], self.dtype), tf.constant(np.tile(np.diag(spread), [f, 1, 1]), self.dtype),
                tf.constant(-1, tf.int64))

    def _moves(self, mean: Any, covariance: Any, step: Any, added: Any, exogenous: Any, update: Any) -> tuple[Any, Any]:
        """The state at a later time, before anything is seen."""
        mean = tf.reduce_sum(step * mean[..., tf.newaxis, :], -1)
        step = tf.broadcast_to(step, tf.shape(covariance))
        covariance = tf.matmul(step, tf.matmul(covariance, step, transpose_b=True)) + added
        if exogenous is not None:
            asked = tf.cast(update, self.dtype)[:, tf.newaxis]
            mean += (tf.matmul(exogenous, self._jump) * asked)[:, tf.newaxis]
            strength = tf.reduce_sum(tf.square(exogenous), -1, keepdims=True) * asked
            covariance += tf.matrix_diag(self._jump_noise * strength)[:, tf.newaxis]
        return mean, covariance

    def _expected(self, mean: Any, covariance: Any, seen: Any) -> tuple[Any, Any, Any]:
        """What will be observed, its variance, and how it goes with the state."""
        seen = tf.broadcast_to(seen[:, tf.newaxis], tf.shape(mean))
        with_state = tf.squeeze(tf.matmul(covariance, seen[..., tf.newaxis]), -1)
        return tf.reduce_sum(seen * mean, -1), tf.reduce_sum(seen * with_state, -1) + self._noise, with_state

    def _exogenous_of(self, features: dict[str, Any]) -> tuple[Any, Any]:
        exogenous = self.exogenous(features)
        if exogenous is None:
            return None, None
        others = {k: v for k, v in features.items() if k not in (_TIMES, _VALUES, State.STATE_TUPLE)}
        update = tf.ones(tf.shape(features[_TIMES]), tf.bool) if self._condition is None else \
            tf.broadcast_to(self._condition(features[_TIMES], others), tf.shape(features[_TIMES]))
        return tf.transpose(exogenous, [1, 0, 2]), tf.transpose(update)

    def get_batch_loss(self, features: dict[str, Any], mode: str, state: tuple) -> ModelOutputs:
        """Follows observations: the loss is minus the log likelihood of each, given those before it."""
        self._parameters()
        times = tf.cast(features[_TIMES], tf.int64)
        values, by_time = tf.transpose(self.scaled(features[_VALUES]), [1, 0, 2]), tf.transpose(times)
        seen, (exogenous, update) = self._seen(by_time), self._exogenous_of(features)
        count, (steps, added) = tf.shape(by_time)[0], self._over(tf.cast(state[2], tf.int64), by_time)

        def one(i: Any, mean: Any, covariance: Any, loss: Any, means: Any, variances: Any) -> tuple:
            mean, covariance = self._moves(mean, covariance, steps[i], added[i], *(
                (None, None) if exogenous is None else (exogenous[i], update[i])))
            expected, variance, with_state = self._expected(mean, covariance, seen[i])
            miss, gain = values[i] - expected, with_state / variance[..., tf.newaxis]
            loss += 0.5 * tf.reduce_mean(np.log(2 * np.pi) + tf.log(variance) + tf.square(miss) / variance)
            new = mean + gain * miss[..., tf.newaxis]
            left = covariance - gain[..., tf.newaxis] * with_state[..., tf.newaxis, :]
            left = 0.5 * (left + tf.matrix_transpose(left))
            return i + 1, new, left, loss, means.write(i, expected), variances.write(i, variance)
        arrays = [tf.TensorArray(self.dtype, count, infer_shape=False, element_shape=[None, self.num_features])
                  for _ in range(2)]
        _, mean, covariance, loss, means, variances = tf.while_loop(
            lambda i, *_: i < count, one, (0, tf.cast(state[0], self.dtype), tf.cast(state[1], self.dtype),
                                           tf.zeros([], self.dtype), *arrays))
        predictions = self._observed(means.stack(), variances.stack())
        return ModelOutputs(loss / tf.cast(count, self.dtype), (mean, covariance, by_time[-1]),
                            {**predictions, "observed": features[_VALUES]}, times)

    def predict(self, features: dict[str, Any]) -> dict[str, Any]:
        """The state moves on, and nothing is seen."""
        self._parameters()
        by_time = tf.transpose(tf.cast(features[_TIMES], tf.int64))
        seen, (exogenous, update) = self._seen(by_time), self._exogenous_of(features)
        mean, covariance, last = features[State.STATE_TUPLE]
        count, (steps, added) = tf.shape(by_time)[0], self._over(tf.cast(last, tf.int64), by_time)

        def one(i: Any, mean: Any, covariance: Any, means: Any, variances: Any) -> tuple:
            mean, covariance = self._moves(mean, covariance, steps[i], added[i], *(
                (None, None) if exogenous is None else (exogenous[i], update[i])))
            expected, variance, _ = self._expected(mean, covariance, seen[i])
            return i + 1, mean, covariance, means.write(i, expected), variances.write(i, variance)
        arrays = [tf.TensorArray(self.dtype, count, infer_shape=False, element_shape=[None, self.num_features])
                  for _ in range(2)]
        *_, means, variances = tf.while_loop(lambda i, *_: i < count, one, (
            0, tf.cast(mean, self.dtype), tf.cast(covariance, self.dtype), *arrays))
        return self._observed(means.stack(), variances.stack())

    def _observed(self, means: Any, variances: Any) -> dict[str, Any]:
        """Scaled means and variances, time first, as results: covariances are matrices over the features."""
        variances = tf.transpose(variances, [1, 0, 2]) * tf.square(self._statistics[1])
        return {"mean": self.scaled_back(tf.transpose(means, [1, 0, 2])), "covariance": tf.matrix_diag(variances)}


def _dims(x: Any) -> list:
    return [tf.shape(x)[i] if n is None else n for i, n in enumerate(x.shape.as_list())]
