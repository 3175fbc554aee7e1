"""The common part of models of series: statistics of the data, scaling, exogenous features."""
from __future__ import annotations

from typing import Any, NamedTuple

from penstock._src.compat.contrib.timeseries.keys import State, TrainEvalFeatures, public
from penstock.compat import v1 as tf

_TIMES, _VALUES = TrainEvalFeatures.TIMES, TrainEvalFeatures.VALUES


@public
class ModelOutputs(NamedTuple):
    """The results of a model on a batch: a loss, the final state, predictions of the observations, and their times."""
    loss: Any
    end_state: tuple
    predictions: dict[str, Any]
    prediction_times: Any


class TimeSeriesModel:
    """A model. Subclasses have `get_start_state`, `get_batch_loss` and `predict`."""

    def __init__(self, num_features: int, exogenous_feature_columns: Any = None, dtype: Any = tf.float32):
        self.num_features, self.dtype = num_features, dtype
        self._columns = list(exogenous_feature_columns or ())
        self._statistics: Any = None

    # -- statistics -------------------------------------------------------------------------------------------------------
    def initialize_graph(self, training_values: Any = None) -> None:
        """Makes the variables with mean and variance of the data, which batches of training add to."""
        with tf.variable_scope("statistics", use_resource=True):
            count, total, squares = (tf.get_variable(name, shape, tf.float64, tf.zeros_initializer(), trainable=False)
                                     for name, shape in (("count", []), ("sum", [self.num_features]),
                                                         ("squares", [self.num_features])))
        if training_values is not None:
            rows = tf.reshape(tf.cast(training_values, tf.float64), [-1, self.num_features])
            count = count.assign_add(tf.cast(tf.shape(rows)[0], tf.float64), read_value=True)
            total = total.assign_add(tf.reduce_sum(rows, 0), read_value=True)
            squares = squares.assign_add(tf.reduce_sum(tf.square(rows), 0), read_value=True)
        many = tf.maximum(tf.identity(count), 1.0)
        mean = tf.identity(total) / many
        variance = tf.where(tf.fill([self.num_features], tf.identity(count) > 0),
                            tf.maximum(tf.identity(squares) / many - tf.square(mean), 1e-10), tf.ones_like(mean))
        self._statistics = tf.cast(mean, self.dtype), tf.cast(tf.sqrt(variance), self.dtype)

    def scaled(self, values: Any) -> Any:
        """Values with mean 0 and variance 1."""
        return (tf.cast(values, self.dtype) - self._statistics[0]) / self._statistics[1]

    def scaled_back(self, values: Any) -> Any:
        """The inverse of `scaled`."""
        return values * self._statistics[1] + self._statistics[0]

    # -- exogenous features -----------------------------------------------------------------------------------------------
    def exogenous(self, features: dict[str, Any]) -> Any:
        """Exogenous features of each time as vectors, (batch, times, n), or None."""
        if not self._columns:
            return None
        shape = tf.shape(features[_TIMES])
        flat = {key: tf.reshape(value, [-1, *value.shape.as_list()[2:]]) if value.shape.ndims > 2 else
                tf.reshape(value, [-1, 1]) for key, value in features.items()
                if key not in (_TIMES, _VALUES, State.STATE_TUPLE) and not key.startswith(State.STATE_PREFIX)}
        dense = tf.cast(tf.feature_column.input_layer(flat, self._columns), self.dtype)
        return tf.reshape(dense, [shape[0], shape[1], dense.shape.as_list()[-1]])

    # -- what subclasses override
    # -----------------------------------------------------------------------------------------------
    def get_start_state(self) -> tuple:
        """The state before the first observation, without a batch dimension."""
        raise NotImplementedError

    def get_batch_loss(self, features: dict[str, Any], mode: str, state: tuple) -> ModelOutputs:
        """Filters observations from a state on."""
        raise NotImplementedError

    def predict(self, features: dict[str, Any]) -> dict[str, Any]:
        """Predicts `features["times"]` from the state in `features["start_tuple"]` on."""
        raise NotImplementedError

    def start_state(self, batch: Any) -> tuple:
        """The start state of each series of a batch."""
        return tuple(tf.tile(s[tf.newaxis], [batch, *[1] * s.shape.ndims]) for s in self.get_start_state())
