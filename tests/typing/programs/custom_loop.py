"""A custom training loop: tf.Module, tf.function, GradientTape, optimizers, checkpoints, custom gradients."""
import tempfile
from collections.abc import Callable

import penstock as tf


class Linear(tf.Module):
    def __init__(self, features: int, name: str | None = None):
        super().__init__(name=name)
        self.w = tf.Variable(tf.zeros([features, 1]), name="w")
        self.b = tf.Variable(0.0, name="b", trainable=True)

    @tf.function
    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return tf.matmul(x, self.w) + self.b

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def serve(self, x: tf.Tensor) -> tf.Tensor:
        return tf.sigmoid(self(x))


@tf.custom_gradient
def clipped(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    def gradient(dy: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(dy, -1.0, 1.0)
    return tf.identity(x), gradient


def main(steps: int = 5) -> float:
    model = Linear(3)
    optimizer = tf.keras.optimizers.SGD(learning_rate=0.1, momentum=0.9)
    x = tf.random.normal([16, 3], seed=1)
    y = tf.reduce_sum(x, axis=1, keepdims=True) - 1.0

    @tf.function
    def step(features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(features) - labels))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    loss = tf.constant(0.0)
    for _ in range(steps):
        loss = step(x, y)
    assert step.get_concrete_function(x, y) is not None
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = tf.train.Checkpoint(model=model)
        manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=1)
        path = manager.save()
        checkpoint.restore(path)
    model.w.assign(tf.ones_like(model.w) * 2.0)
    doubled = 2.0 * model.b + model.w[0] / 3.0 - 1
    assert bool(tf.reduce_all(doubled == doubled)) and -model.serve(x).shape[0] < 0
    with tf.name_scope("scope"), tf.device("/cpu:0"):
        total = tf.add_n([x, x])
    assert total.dtype == tf.float32 and total.shape.as_list() == [16, 3]
    return float(loss.numpy())


if __name__ == "__main__":
    print(main())
