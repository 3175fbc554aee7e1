"""Subclasses of Keras' layers, models, losses, metrics and callbacks."""
from typing import Any

import numpy as np

import penstock as tf


@tf.keras.utils.register_keras_serializable(package="typing")
class Scaled(tf.keras.layers.Layer):
    def __init__(self, units: int, scale: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.units = units
        self.scale = scale

    def build(self, input_shape: tf.TensorShape) -> None:
        self.kernel = self.add_weight(name="kernel", shape=(input_shape[-1], self.units), initializer="glorot_uniform")
        super().build(input_shape)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        return self.scale * tf.matmul(inputs, self.kernel)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "scale": self.scale}


class Network(tf.keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.first = Scaled(8, name="first")
        self.second = tf.keras.layers.Dense(2)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        hidden = tf.nn.relu(self.first(inputs))
        result: tf.Tensor = self.second(hidden)
        return result


class Distance(tf.keras.losses.Loss):
    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.abs(tf.cast(y_true, tf.float32) - y_pred), axis=-1)


class Largest(tf.keras.metrics.Metric):
    def __init__(self, name: str = "largest"):
        super().__init__(name=name)
        self.value = self.add_weight(name="value", initializer="zeros")

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: Any = None) -> None:
        self.value.assign(tf.maximum(self.value, tf.reduce_max(y_pred)))

    def result(self) -> tf.Tensor:
        return tf.identity(self.value)


class Count(tf.keras.callbacks.Callback):
    epochs = 0

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.epochs += 1


def main() -> int:
    model = Network()
    model.compile(optimizer="sgd", loss=Distance(), metrics=[Largest()])
    count = Count()
    x = np.ones((8, 3), "float32")
    model.fit(x, np.zeros((8, 2), "float32"), epochs=2, verbose=0, callbacks=[count])
    for variable in model.trainable_variables:
        assert variable.shape.rank == 2 or variable.shape.rank == 1
    return count.epochs


if __name__ == "__main__":
    print(main())
