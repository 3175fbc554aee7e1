"""Digits that a network writes: a conditional variational autoencoder, trained by a `GradientTape` on the package's digits.

    python examples/gallery/written_digits.py picture.png
"""
import sys
from typing import Any

import numpy as np
from PIL import Image

import penstock as tf
from penstock import digits

LATENT = 6


def networks() -> Any:
    """What reads a digit, and what writes one; both know which digit it is."""
    layers = tf.keras.layers
    encoder = tf.keras.Sequential([layers.Dense(256, "relu", input_shape=(74,)), layers.Dense(2 * LATENT)])
    decoder = tf.keras.Sequential([layers.Dense(256, "relu", input_shape=(LATENT + 10,)), layers.Dense(256, "relu"),
                                   layers.Dense(64)])
    return encoder, decoder


def train(epochs: int = 60) -> Any:
    """The decoder after training."""
    tf.keras.utils.set_random_seed(1)
    (images, labels), _ = digits.load()
    pixels = images.reshape(-1, 64).astype(np.float32) / images.max()
    data = tf.data.Dataset.from_tensor_slices((pixels, np.eye(10, dtype=np.float32)[labels])).shuffle(1500, seed=1).batch(64)
    encoder, decoder = networks()
    weights = encoder.trainable_variables + decoder.trainable_variables
    optimizer = tf.keras.optimizers.Adam(2e-3)

    @tf.function
    def step(x: Any, which: Any) -> Any:
        with tf.GradientTape() as tape:
            mean, log_variance = tf.split(encoder(tf.concat([x, which], 1)), 2, axis=1)
            z = mean + tf.exp(log_variance / 2) * tf.random.normal(tf.shape(mean))
            out = decoder(tf.concat([z, which], 1))
            pixels = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=out), 1)
            spread = 0.5 * tf.reduce_sum(tf.exp(log_variance) + mean**2 - 1 - log_variance, 1)
            loss = tf.reduce_mean(pixels + spread)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    for x, which in data.repeat(epochs):
        step(x, which)
    return decoder


def picture(rows: int = 6, scale: int = 5) -> Any:
    """Each digit, written with different moods."""
    z = np.repeat(np.random.RandomState(2).randn(rows, LATENT).astype(np.float32), 10, 0)
    which = np.tile(np.eye(10, dtype=np.float32), (rows, 1))
    drawn = tf.sigmoid(train()(np.concatenate([z, which], 1))).numpy().reshape(rows, 10, 8, 8)
    sheet = np.pad(drawn, ((0, 0), (0, 0), (1, 1), (1, 1))).transpose(0, 2, 1, 3).reshape(rows * 10, 100)
    image = Image.fromarray(np.uint8(255 - 255 * np.clip(sheet, 0, 1)))
    return image.resize((100 * scale, rows * 10 * scale), Image.Resampling.BICUBIC)


if __name__ == "__main__":
    picture().save(sys.argv[1])
