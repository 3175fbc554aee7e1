"""Autoregression: a window of values from the window before it, with a dense or a recurrent network."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.compat.contrib.timeseries.keys import State, TrainEvalFeatures, public
from penstock._src.compat.contrib.timeseries.model import ModelOutputs, TimeSeriesModel
from penstock.compat import v1 as tf

_TIMES, _VALUES = TrainEvalFeatures.TIMES, TrainEvalFeatures.VALUES


def _flat(inputs: Any, outputs: Any, length: int, features: int, hidden: Any) -> tuple[Any, Any]:
    """Means and variances of a window, by dense layers over everything that is known."""
    x = tf.concat([tf.layers.flatten(t) for t in (inputs, outputs) if t.shape[1] and t.shape[2]], 1)
    for i, size in enumerate(hidden or ()):
        x = tf.layers.dense(x, size, tf.nn.relu, name=f"layer_{i}")
    return tuple(tf.reshape(tf.layers.dense(x, length * features, name=n), [-1, length, features])
                 for n in ("predicted_mean", "log_sigma_square"))


def _lstm(inputs: Any, outputs: Any, length: int, features: int, units: int) -> tuple[Any, Any]:
    """The same by an LSTM that reads one window and another one that writes the next."""
    _, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(units, name="encoder"), inputs, dtype=inputs.dtype)
    if not outputs.shape[2]:
        outputs = tf.zeros([tf.shape(inputs)[0], length, 1], inputs.dtype)
    written, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(units, name="decoder"), outputs, initial_state=state)
    return tuple(tf.layers.dense(written, features, name=n) for n in ("mean_transform", "covariance_transform"))


@public
class ARModel(TimeSeriesModel):
    """Predicts `output_window_size` values from the `input_window_size` before them, and from the phase of each period."""

    SQUARED_LOSS = "squared_loss"
    NORMAL_LIKELIHOOD_LOSS = "normal_likelihood_loss"

    def __init__(self, periodicities: Any, input_window_size: int, output_window_size: int, num_features: int,
                 num_time_buckets: int = 10, loss: str = NORMAL_LIKELIHOOD_LOSS, exogenous_feature_columns: Any = None,
                 hidden_layer_sizes: Any = None, num_units: int | None = None):
        super().__init__(num_features, exogenous_feature_columns)
        self.periods = [int(p) for p in np.ravel(periodicities if periodicities is not None else [])]
        self.input_window_size, self.output_window_size = input_window_size, output_window_size
        self.window_size, self.loss = input_window_size + output_window_size, loss
        self._buckets, self._hidden, self._units = num_time_buckets, hidden_layer_sizes, num_units
        if any(p <= 0 for p in self.periods) or output_window_size < 1 or not (self.periods or input_window_size):
            raise ValueError("periodicities and output_window_size must be positive, and there must be periods or an input "
                             f"window: {self.periods}, {output_window_size}, {input_window_size}")
        if loss not in (self.SQUARED_LOSS, self.NORMAL_LIKELIHOOD_LOSS):
            raise ValueError(f"Unknown loss {loss!r}")

    def get_start_state(self) -> tuple:
        n = self.input_window_size
        width = sum(int(np.prod(c._variable_shape.as_list())) for c in self._columns)
        return (tf.zeros([n], tf.int64), tf.zeros([n, self.num_features], self.dtype), tf.zeros([n, width], self.dtype))

    def _phases(self, times: Any) -> Any:
        """Where in each period a time is: shares of the two buckets around it, (batch, times, buckets × periods)."""
        parts = []
        for period in self.periods:
            place = tf.cast(tf.floormod(times, period), self.dtype) * (self._buckets / period)
            away = tf.abs(place[..., tf.newaxis] - tf.range(self._buckets, dtype=self.dtype))
            parts.append(tf.nn.relu(1.0 - tf.minimum(away, self._buckets - away)))
        return tf.concat(parts, -1)

    def _window(self, times: Any, values: Any, exogenous: Any) -> tuple[Any, Any]:
        """Means and variances, scaled, of the output window of `times` after the values of the input window."""
        n, known = self.input_window_size, []
        if self.periods:
            known.append(self._phases(times))
        if exogenous is not None and exogenous.shape[-1]:
            known.append(exogenous)
        context = tf.concat(known, -1) if known else tf.zeros([tf.shape(times)[0], self.window_size, 0], self.dtype)
        inputs, outputs = tf.concat([values, context[:, :n]], -1), context[:, n:]
        width = context.shape.as_list()[-1]
        inputs.set_shape([None, n, self.num_features + width])
        outputs.set_shape([None, self.output_window_size, width])
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE, use_resource=True):
            if self._units:
                mean, log_variance = _lstm(inputs, outputs, self.output_window_size, self.num_features, self._units)
            else:
                mean, log_variance = _flat(inputs, outputs, self.output_window_size, self.num_features, self._hidden)
        return mean, tf.exp(log_variance)

    def _loss_of(self, target: Any, mean: Any, variance: Any) -> Any:
        if self.loss == self.SQUARED_LOSS:
            return tf.reduce_mean(tf.squared_difference(target, mean))
        variance = tf.maximum(variance, 1e-5)
        return 0.5 * tf.reduce_mean(np.log(2 * np.pi) + tf.log(variance) + tf.squared_difference(target, mean) / variance)

    def get_batch_loss(self, features: dict[str, Any], mode: str, state: tuple) -> ModelOutputs:
        """The loss of windows (training), or of all windows that a longer series can be cut into (evaluation)."""
        n, m = self.input_window_size, self.output_window_size
        times, values = features[_TIMES], features[_VALUES]
        length = times.shape.as_list()[1]
        if length is None or length < self.window_size or mode == tf.estimator.ModeKeys.TRAIN and length != self.window_size:
            raise ValueError(f"ARModel with input_window_size={n} and output_window_size={m} expects feature 'times' to have "
                             f"shape (batch_size, {self.window_size}) in training, and no less in evaluation, but got shape "
                             f"{times.shape}. If you are using RandomWindowInputFn, set window_size={self.window_size}.")
        scaled, exogenous = self.scaled(values), self.exogenous(features)
        count = (length - n) // m
        first = length - n - count * m                                   # what does not fill a window is left out
        starts = [first + i * m for i in range(count)]

        def windows(x: Any, size: int, offset: int = 0) -> Any:
            return tf.concat([x[:, s + offset:s + offset + size] for s in starts], 0)
        mean, variance = self._window(windows(times, self.window_size), windows(scaled, n),
                                      None if exogenous is None else windows(exogenous, self.window_size))
        loss = self._loss_of(windows(scaled, m, n), mean, variance)

        def joined(x: Any) -> Any:
            return tf.concat(tf.split(x, count, 0), 1)
        end = (tf.cast(times[:, length - n:], tf.int64), scaled[:, length - n:],
               state[2] if exogenous is None else exogenous[:, length - n:])
        predictions = {"mean": self.scaled_back(joined(mean)), "covariance": joined(variance) * tf.square(self._statistics[1]),
                       "observed": values[:, first + n:]}
        return ModelOutputs(loss, end, predictions, times[:, first + n:])

    def predict(self, features: dict[str, Any]) -> dict[str, Any]:
        """Predicts window by window, each from the means of the previous one."""
        n, m = self.input_window_size, self.output_window_size
        past_times, past, past_exogenous = features[State.STATE_TUPLE]
        times, exogenous = tf.cast(features[_TIMES], tf.int64), self.exogenous(features)
        length = tf.shape(times)[1]
        rounds = (length + m - 1) // m
        extra = tf.range(1, rounds * m - length + 1, dtype=tf.int64)
        times = tf.concat([tf.cast(past_times, tf.int64), times, times[:, -1:] + extra], 1)
        if exogenous is None:
            exogenous = tf.zeros([tf.shape(times)[0], tf.shape(times)[1], 0], self.dtype)
            exogenous.set_shape([None, None, 0])
        else:
            rest = tf.tile(exogenous[:, -1:], [1, rounds * m - length, 1])
            exogenous = tf.concat([past_exogenous, exogenous, rest], 1)

        def one(i: Any, known: Any, means: Any, variances: Any) -> tuple:
            begin = i * m
            window = tf.reshape(times[:, begin:begin + self.window_size], [-1, self.window_size])
            mean, variance = self._window(window, known, exogenous[:, begin:begin + self.window_size])
            kept = tf.concat([known, mean], 1)[:, m:] if n else known
            kept.set_shape(known.shape)
            return i + 1, kept, means.write(i, mean), variances.write(i, variance)
        past = tf.cast(past, self.dtype)
        past.set_shape([None, n, self.num_features])
        arrays = [tf.TensorArray(self.dtype, rounds, infer_shape=False, element_shape=[None, m, self.num_features])
                  for _ in range(2)]
        *_, means, variances = tf.while_loop(lambda i, *_: i < rounds, one, (0, past, *arrays))

        def joined(array: Any) -> Any:
            stacked = tf.transpose(array.stack(), [1, 0, 2, 3])
            return tf.reshape(stacked, [-1, rounds * m, self.num_features])[:, :length]
        return {"mean": self.scaled_back(joined(means)), "covariance": joined(variances) * tf.square(self._statistics[1])}
