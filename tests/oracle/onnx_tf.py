"""Writes SavedModels with real TensorFlow, and what they compute: `python onnx_tf.py FOLDER`."""
import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def perceptron():
    return keras.Sequential([layers.Input((8,)), layers.Dense(5, "relu"), layers.BatchNormalization(),
                             layers.Dense(3, "softmax")])


def convolutional():
    image = layers.Input((16, 16, 3))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(6, 3, 2, "same")(image)))
    x = layers.MaxPool2D()(layers.Add()([x, layers.DepthwiseConv2D(3, padding="same")(x)]))
    x = layers.Conv2DTranspose(4, 3, 2, "same")(x)
    return keras.Model(image, layers.Dense(3)(layers.GlobalAveragePooling2D()(x)))


def recurrent():
    return keras.Sequential([layers.Input((6, 5)), layers.Bidirectional(layers.LSTM(4, return_sequences=True)), layers.GRU(3)])


def attention():
    words = layers.Input((7,), dtype="int32")
    x = layers.Embedding(20, 12)(words)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(3, 4)(x, x))
    return keras.Model(words, layers.Dense(5, "softmax")(layers.Dense(12, activation="gelu")(x)[:, 0]))


def main(folder):
    keras.utils.set_random_seed(0)
    draw = np.random.default_rng(0)
    for make in (perceptron, convolutional, recurrent, attention):
        model, path = make(), f"{folder}/{make.__name__}"
        model.export(path, verbose=False)
        run = tf.saved_model.load(path).signatures["serving_default"]
        key, = run.structured_input_signature[1]
        shape, dtype = model.input_shape[1:], model.inputs[0].dtype
        feeds = [draw.integers(0, 20, (n, *shape)).astype(dtype) if dtype == "int32" else
                 draw.normal(size=(n, *shape)).astype(dtype) for n in (2, 3)]
        found = [next(iter(run(**{key: tf.constant(x)}).values())).numpy() for x in feeds]
        np.savez(f"{path}.npz", key=key, x0=feeds[0], x1=feeds[1], y0=found[0], y1=found[1])


main(sys.argv[1])
