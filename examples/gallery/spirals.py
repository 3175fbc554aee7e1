"""Two spirals and the border that a small network draws between them: Keras, `fit` on a `tf.data` pipeline.

    python examples/gallery/spirals.py picture.png
"""
import sys
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

import penstock as tf


def points(count: int = 1000) -> Any:
    """Points of two spirals, and which one each belongs to."""
    draw = np.random.RandomState(0)
    label = draw.randint(0, 2, count)
    angle = 1.0 + 2.9 * np.pi * np.sqrt(draw.rand(count))
    turn = angle + np.pi * label
    where = np.stack([angle * np.cos(turn), angle * np.sin(turn)], 1) + 0.15 * draw.randn(count, 2)
    return where.astype(np.float32), label.astype(np.float32)


def train(x: Any, y: Any, epochs: int = 60) -> Any:
    """A network of three layers."""
    tf.keras.utils.set_random_seed(3)
    model = tf.keras.Sequential([tf.keras.layers.Dense(48, "tanh", input_shape=(2,)), tf.keras.layers.Dense(48, "tanh"),
                                 tf.keras.layers.Dense(48, "tanh"), tf.keras.layers.Dense(1, "sigmoid")])
    model.compile(tf.keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    model.fit(tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000, seed=1).batch(50), epochs=epochs, verbose=0)
    return model


def picture(size: int = 400, reach: float = 11.0) -> Any:
    """The prediction for each point of the plane, and the examples."""
    x, y = points()
    model = train(x, y)
    line = np.linspace(-reach, reach, size, dtype=np.float32)
    plane = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
    p = model.predict(plane, batch_size=4096, verbose=0).reshape(size, size, 1)
    image = Image.fromarray(np.uint8(p * [225, 130, 90] + (1 - p) * [80, 140, 200]))
    draw = ImageDraw.Draw(image)
    for (a, b), label in zip((x + reach) * size / (2 * reach), y):
        draw.ellipse([a - 2, b - 2, a + 2, b + 2], fill=(120, 40, 20) if label else (15, 50, 100))
    return image


if __name__ == "__main__":
    picture().save(sys.argv[1])
