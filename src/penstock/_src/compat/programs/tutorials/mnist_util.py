"""`examples.saved_model.integration_tests.mnist_util`: digits as images between 0 and 1, and one-hot labels."""
from __future__ import annotations

from typing import Any

import numpy as np

import penstock as tf

INPUT_SHAPE = (28, 28, 1)
NUM_CLASSES = 10


def load_reshaped_data(use_fashion_mnist: bool = False, fake_tiny_data: bool = False) -> tuple:
    """((images, labels), (images, labels)) of training and test: MNIST, Fashion MNIST, or a few random ones."""
    if fake_tiny_data:
        parts: Any = [(np.random.randint(0, 256, [n, 28, 28], np.uint8), np.random.randint(0, NUM_CLASSES, [n]))
                      for n in (16, 128)]
    else:
        parts = (tf.keras.datasets.fashion_mnist if use_fashion_mnist else tf.keras.datasets.mnist).load_data()
    return tuple((images[..., np.newaxis].astype(np.float32) / 255.0, tf.keras.utils.to_categorical(labels, NUM_CLASSES))
                 for images, labels in parts)
