"""A GAN of digits: two small convolutional networks, their losses, and an epoch of training."""
from __future__ import annotations

from typing import Any

from penstock.compat import v1 as tf

_layers = tf.keras.layers


def _image_shape(data_format: str, height: int, channels: int) -> list[int]:
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(f"data_format must be channels_first or channels_last, not {data_format!r}")
    return [-1, channels, height, height] if data_format == "channels_first" else [-1, height, height, channels]


class Discriminator(tf.keras.Model):
    """A logit for each image: whether it is a real one."""

    def __init__(self, data_format: str):
        super().__init__(name="")
        self._shape = _image_shape(data_format, 28, 1)
        self.stack = [_layers.Conv2D(64, 5, padding="SAME", data_format=data_format, activation=tf.tanh),
                      _layers.AveragePooling2D(2, 2, data_format=data_format),
                      _layers.Conv2D(128, 5, data_format=data_format, activation=tf.tanh),
                      _layers.AveragePooling2D(2, 2, data_format=data_format),
                      _layers.Flatten(), _layers.Dense(1024, activation=tf.tanh), _layers.Dense(1)]

    def call(self, inputs: Any) -> Any:
        x = tf.reshape(inputs, self._shape)
        for layer in self.stack:
            x = layer(x)
        return x


class Generator(tf.keras.Model):
    """An image for each vector of noise."""

    def __init__(self, data_format: str):
        super().__init__(name="")
        self.data_format, self._shape = data_format, _image_shape(data_format, 6, 128)
        self.fc1 = _layers.Dense(6 * 6 * 128, activation=tf.tanh)
        self.conv1 = _layers.Conv2DTranspose(64, 4, strides=2, data_format=data_format)
        self.conv2 = _layers.Conv2DTranspose(1, 2, strides=2, activation=tf.nn.sigmoid, data_format=data_format)

    def call(self, inputs: Any) -> Any:
        return self.conv2(self.conv1(tf.reshape(self.fc1(inputs), self._shape)))


def discriminator_loss(discriminator_real_outputs: Any, discriminator_gen_outputs: Any) -> Any:
    """The discriminator's loss, with the label 0.875 for real images (which trains better than 1) and 0 for generated ones."""
    real = tf.losses.sigmoid_cross_entropy(tf.ones_like(discriminator_real_outputs), discriminator_real_outputs,
                                           label_smoothing=0.25)
    loss = real + tf.losses.sigmoid_cross_entropy(tf.zeros_like(discriminator_gen_outputs), discriminator_gen_outputs)
    tf.contrib.summary.scalar("discriminator_loss", loss)
    return loss


def generator_loss(discriminator_gen_outputs: Any) -> Any:
    """The generator's loss: generated images labelled as real."""
    loss = tf.losses.sigmoid_cross_entropy(tf.ones_like(discriminator_gen_outputs), discriminator_gen_outputs)
    tf.contrib.summary.scalar("generator_loss", loss)
    return loss


def train_one_epoch(generator: Any, discriminator: Any, generator_optimizer: Any, discriminator_optimizer: Any, dataset: Any,
                    step_counter: Any, log_interval: int, noise_dim: int) -> None:
    """Trains both on every batch of a dataset, eagerly."""
    for number, images in enumerate(dataset):
        step_counter.assign_add(1)
        with tf.contrib.summary.record_summaries_every_n_global_steps(log_interval, global_step=step_counter):
            noise = tf.random_uniform([images.shape[0], noise_dim], -1.0, 1.0, seed=number)
            with tf.GradientTape() as of_generator, tf.GradientTape() as of_discriminator:
                made = generator(noise)
                judged = discriminator(made)
                fooled, caught = generator_loss(judged), discriminator_loss(discriminator(images), judged)
            tf.contrib.summary.image("generated_images", tf.reshape(made, [-1, 28, 28, 1]), max_images=10)
            for tape, loss, model, optimizer in ((of_generator, fooled, generator, generator_optimizer),
                                                 (of_discriminator, caught, discriminator, discriminator_optimizer)):
                optimizer.apply_gradients(zip(tape.gradient(loss, model.variables), model.variables))
