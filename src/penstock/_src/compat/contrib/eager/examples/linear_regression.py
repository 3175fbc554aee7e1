"""Linear regression on made-up data, eagerly."""
from __future__ import annotations

from typing import Any

from penstock.compat import v1 as tf


class LinearModel(tf.keras.Model):
    """A line: one dense layer with one output."""

    def __init__(self):
        super().__init__()
        self._hidden_layer = tf.keras.layers.Dense(1)

    def call(self, xs: Any) -> Any:
        return self._hidden_layer(xs)


def mean_square_loss(model: Any, xs: Any, ys: Any) -> Any:
    """The mean of squared differences."""
    return tf.reduce_mean(tf.squared_difference(model(xs), ys))


def fit(model: Any, dataset: Any, optimizer: Any, verbose: bool = False, logdir: str | None = None) -> None:
    """A step of an optimizer for each batch of a dataset; the loss is printed, or written as summaries."""
    writer = tf.contrib.summary.create_file_writer(logdir) if logdir else None
    for i, (xs, ys) in enumerate(dataset):
        with tf.GradientTape() as tape:
            loss = mean_square_loss(model, xs, ys)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        if verbose:
            print(f"Iteration {i}: loss = {loss.numpy()}")
        if writer is not None:
            with writer.as_default(), tf.contrib.summary.always_record_summaries():
                tf.contrib.summary.scalar("loss", loss, step=i)


def synthetic_dataset(w: Any, b: Any, noise_level: float, batch_size: int, num_batches: int) -> Any:
    """Batches of (x, x w + b), with noise."""
    return synthetic_dataset_helper(w, b, tf.shape(w)[0], noise_level, batch_size, num_batches)


def synthetic_dataset_helper(w: Any, b: Any, num_features: Any, noise_level: float, batch_size: int, num_batches: int) -> Any:
    """`synthetic_dataset`, with the number of features given."""
    def batch(_: Any) -> tuple[Any, Any]:
        x = tf.random_normal([batch_size, num_features])
        return x, tf.matmul(x, w) + b + noise_level * tf.random_normal([])
    return tf.data.Dataset.range(num_batches).map(batch)
