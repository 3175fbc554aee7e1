"""Models that penstock and real tf.keras train side by side; both import this, so it imports neither.

A model is a function of the library: it returns a compiled model, its inputs and its targets. All sizes are small.
"""
from __future__ import annotations

import sys

import numpy as np

STEPS, BATCH = 100, 16
MODELS = {}


def model(build):
    """Adds a model."""
    MODELS[build.__name__] = build
    return build


def numbers(*shape, seed=0):
    """Some numbers around zero, always the same."""
    return np.random.RandomState(seed).randn(*shape).astype("float32")


def classes(n, count=3, seed=1):
    """Some labels, always the same."""
    return np.random.RandomState(seed).randint(0, count, n).astype("int32")


def words(n, length=7, vocabulary=20, seed=2):
    """Some sentences of numbers of words."""
    return np.random.RandomState(seed).randint(0, vocabulary, (n, length)).astype("int32")


@model
def dense_sgd(tf):
    L = tf.keras.layers
    m = tf.keras.Sequential([tf.keras.Input((10,)), L.Dense(16, activation="relu"), L.Dense(3, activation="softmax")])
    m.compile(tf.keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    return m, numbers(64, 10), classes(64)


@model
def dense_adam_regularized(tf):
    L = tf.keras.layers
    small = tf.keras.regularizers.L2(0.01)
    m = tf.keras.Sequential([tf.keras.Input((10,)), L.Dense(16, activation="tanh", kernel_regularizer=small), L.Dense(1)])
    m.compile(tf.keras.optimizers.Adam(0.01), "mse")
    return m, numbers(64, 10), numbers(64, 1, seed=3)


@model
def logistic_ftrl(tf):
    m = tf.keras.Sequential([tf.keras.Input((10,)), tf.keras.layers.Dense(1, activation="sigmoid")])
    m.compile(tf.keras.optimizers.Ftrl(0.1, l1_regularization_strength=0.001), "binary_crossentropy")
    return m, numbers(64, 10), classes(64, 2).reshape(-1, 1).astype("float32")


@model
def conv_momentum(tf):
    L = tf.keras.layers
    m = tf.keras.Sequential([tf.keras.Input((8, 8, 2)), L.Conv2D(8, 3, activation="relu", padding="same"), L.MaxPooling2D(),
                             L.Conv2D(8, 3, strides=2, activation="elu"), L.Flatten(), L.Dense(3)])
    m.compile(tf.keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True),
              tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return m, numbers(64, 8, 8, 2), classes(64)


@model
def conv_batch_norm_rmsprop(tf):
    L = tf.keras.layers
    m = tf.keras.Sequential([tf.keras.Input((8, 8, 2)), L.Conv2D(6, 3, use_bias=False), L.BatchNormalization(), L.ReLU(),
                             L.GlobalAveragePooling2D(), L.Dense(3, activation="softmax")])
    m.compile(tf.keras.optimizers.RMSprop(0.01), "sparse_categorical_crossentropy")
    return m, numbers(64, 8, 8, 2), classes(64)


@model
def separable_conv_adamax(tf):
    L = tf.keras.layers
    m = tf.keras.Sequential([tf.keras.Input((8, 8, 3)), L.SeparableConv2D(8, 3, activation="relu"), L.DepthwiseConv2D(3),
                             L.GlobalMaxPooling2D(), L.Dense(1)])
    m.compile(tf.keras.optimizers.Adamax(0.01), "mae")
    return m, numbers(64, 8, 8, 3), numbers(64, 1, seed=3)


@model
def lstm_adam(tf):
    L = tf.keras.layers
    m = tf.keras.Sequential([tf.keras.Input((6, 4)), L.LSTM(8, return_sequences=True), L.LSTM(5), L.Dense(1)])
    m.compile(tf.keras.optimizers.Adam(0.01), "mse")
    return m, numbers(64, 6, 4), numbers(64, 1, seed=3)


@model
def gru_rmsprop(tf):
    L = tf.keras.layers
    m = tf.keras.Sequential([tf.keras.Input((6, 4)), L.GRU(8), L.Dense(3, activation="softmax")])
    m.compile(tf.keras.optimizers.RMSprop(0.005, momentum=0.5), "sparse_categorical_crossentropy")
    return m, numbers(64, 6, 4), classes(64)


@model
def bidirectional_adagrad(tf):
    L = tf.keras.layers
    m = tf.keras.Sequential([tf.keras.Input((5, 3)), L.Bidirectional(L.LSTM(4)), L.Dense(1)])
    m.compile(tf.keras.optimizers.Adagrad(0.1), tf.keras.losses.Huber())
    return m, numbers(64, 5, 3), numbers(64, 1, seed=3)


@model
def embedding_adam(tf):
    L = tf.keras.layers
    m = tf.keras.Sequential([tf.keras.Input((7,), dtype="int32"), L.Embedding(20, 6), L.GlobalAveragePooling1D(),
                             L.Dense(3, activation="softmax")])
    m.compile(tf.keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    return m, words(64), classes(64)


@model
def embedding_lstm_masked_nadam(tf):
    L = tf.keras.layers
    m = tf.keras.Sequential([tf.keras.Input((7,), dtype="int32"), L.Embedding(20, 6, mask_zero=True), L.LSTM(6),
                             L.Dense(1, activation="sigmoid")])
    m.compile(tf.keras.optimizers.Nadam(0.01), "binary_crossentropy")
    return m, np.sort(words(64, vocabulary=20) * (words(64, seed=5) > 4))[:, ::-1].copy(), classes(64, 2).reshape(-1, 1)


@model
def attention_sgd(tf):
    L = tf.keras.layers
    x = tf.keras.Input((5, 8))
    y = L.LayerNormalization()(L.Add()([x, L.MultiHeadAttention(2, 4)(x, x)]))
    m = tf.keras.Model(x, L.Dense(1)(L.GlobalAveragePooling1D()(y)))
    m.compile(tf.keras.optimizers.SGD(0.05, momentum=0.9), "mse")
    return m, numbers(64, 5, 8), numbers(64, 1, seed=3)


@model
def residual_adadelta(tf):
    L = tf.keras.layers
    x = tf.keras.Input((8, 4))
    y = L.Conv1D(4, 3, padding="causal", activation="relu")(x)
    z = L.Concatenate()([L.Add()([x, y]), y])
    m = tf.keras.Model(x, L.Dense(2)(L.Flatten()(z)))
    m.compile(tf.keras.optimizers.Adadelta(1.0), "mse")
    return m, numbers(64, 8, 4), numbers(64, 2, seed=3)


def losses_of(tf, name, weights):
    """The losses of all steps from given weights; from its own, which it adds to `weights`, if there are none."""
    made, x, y = MODELS[name](tf)
    for i, layer in enumerate(made.layers):
        for j, w in enumerate(layer.get_weights()):
            weights.setdefault(f"{name}/{i}/{j}", w)
        layer.set_weights([weights[f"{name}/{i}/{j}"] for j in range(len(layer.get_weights()))])
    found = []
    for step in range(STEPS):
        at = np.arange(step * BATCH, (step + 1) * BATCH) % len(x)
        made.reset_metrics()
        found.append(np.ravel(made.train_on_batch(x[at], y[at]))[0])
    return np.array(found, dtype="float64")


if __name__ == "__main__":          # real Keras' side: python training_models.py weights.npz losses.npz
    import tensorflow
    with np.load(sys.argv[1]) as given:
        start = dict(given)
    np.savez(sys.argv[2], **{name: losses_of(tensorflow, name, start) for name in MODELS})
