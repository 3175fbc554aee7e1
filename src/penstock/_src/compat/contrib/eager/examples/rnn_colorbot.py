"""Colors from their names: an LSTM over characters."""
from __future__ import annotations

from typing import Any

from penstock.compat import v1 as tf


def parse(line: Any) -> tuple[Any, Any, Any]:
    """A line `name,r,g,b` as (color, characters as one-hot rows, how many)."""
    items = tf.string_split([line], ",").values
    letters = tf.one_hot(tf.decode_raw(items[0], tf.uint8), depth=256)
    return tf.string_to_number(items[1:], tf.float32) / 255.0, letters, tf.cast(tf.shape(letters)[0], tf.int64)


class RNNColorbot(tf.keras.Model):
    """LSTM cells over characters, and a ReLU layer on the output of the last one: `model((characters, lengths))`."""

    def __init__(self, rnn_cell_sizes: list[int], label_dimension: int, keep_prob: float):
        super().__init__(name="")
        self.label_dimension, self.keep_prob = label_dimension, keep_prob
        self.cells = tf.contrib.checkpoint.List([tf.nn.rnn_cell.BasicLSTMCell(size) for size in rnn_cell_sizes])
        self.relu = tf.keras.layers.Dense(label_dimension, activation=tf.nn.relu, name="relu")

    def call(self, inputs: Any, training: bool = False) -> Any:
        letters, lengths = inputs
        steps = tf.transpose(letters, [1, 0, 2])
        for cell in self.cells:
            state, outputs = cell.zero_state(int(steps.shape[1]), tf.float32), []
            for step in tf.unstack(steps, axis=0):
                output, state = cell(step, state)
                outputs.append(output)
            steps = tf.stack(outputs, axis=0)
            if training:
                steps = tf.nn.dropout(steps, self.keep_prob)
        rows = tf.range(tf.shape(lengths, out_type=tf.int64)[0])
        return self.relu(tf.gather_nd(steps, tf.stack([tf.cast(lengths, tf.int64) - 1, rows], axis=1)))


def loss(labels: Any, predictions: Any) -> Any:
    """The mean of squared differences."""
    return tf.reduce_mean(tf.squared_difference(predictions, labels))
