"""MultiHeadAttention and names of nested layers; numbers and names are those of tf_keras 2.21 (recorded)."""
from __future__ import annotations

import numpy as np

import penstock as tf

keras = tf.keras
X = np.linspace(-1, 1, 40, dtype="float32").reshape(2, 4, 5)


def test_each_projection_has_numbers_and_names_of_its_own():
    keras.utils.set_random_seed(3)
    layer = keras.layers.MultiHeadAttention(2, 3, name="mha")
    np.testing.assert_allclose(layer(X, X).numpy().sum((1, 2)), [2.48642, -1.35586], atol=1e-4)
    sums = [float(w.numpy().sum()) for w in layer.weights]
    np.testing.assert_allclose(sums, [0.97794, 0.0, -0.0619, 0.0, -1.12799, 0.0, -3.35762, 0.0], atol=1e-4)
    assert [w.name for w in layer.weights] == [
        f"mha/{part}/{kind}:0" for part in ("query", "key", "value", "attention_output") for kind in ("kernel", "bias")]


def test_configuration_has_the_shapes_of_the_inputs():
    layer = keras.layers.MultiHeadAttention(2, 3)
    before = layer.get_config()
    assert before["query_shape"] is None and list(before)[-4:] == ["query_shape", "key_shape", "value_shape",
                                                                   "softmax_robust_masking"]
    layer(X, X[:, :2])
    config = layer.get_config()
    assert config["query_shape"].as_list() == [2, 4, 5] and config["value_shape"].as_list() == [2, 2, 5]
    again = keras.layers.MultiHeadAttention.from_config(config)
    again(X, X)
    again.set_weights(layer.get_weights())
    np.testing.assert_allclose(again(X, X).numpy(), layer(X, X).numpy(), rtol=1e-5)


def test_a_sequential_in_a_layer_names_its_weights_alone():
    class Outer(keras.layers.Layer):
        """Holds a stack of layers without an input shape."""

        def __init__(self):
            super().__init__()
            self.stack = keras.Sequential([keras.layers.Dense(2, name="inner")])

        def call(self, x):
            return self.stack(x)

    for _ in range(2):                                     # names are not made unique
        inputs, layer = keras.Input((3,)), Outer()
        layer(inputs)
        assert [w.name for w in layer.weights] == ["inner/kernel:0", "inner/bias:0"]
