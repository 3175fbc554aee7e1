"""MultiHeadAttention and names of nested layers; numbers and names are those of tf_keras 2.21 (recorded)."""
from __future__ import annotations

import numpy as np
import pytest

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


@pytest.mark.parametrize("bias_axes, shape", [("d", (3, 1, 1)), ("e", (4, 1)), ("de", (3, 4, 1))])
def test_einsum_dense_has_a_bias_before_axes_that_are_not_named(bias_axes, shape):
    layer = tf.keras.layers.EinsumDense("bc...,cde->bde...", output_shape=(3, 4), bias_axes=bias_axes,
                                        bias_initializer="glorot_uniform")
    x = np.random.RandomState(0).randn(2, 1, 5).astype("f")
    y = layer(x)
    assert tuple(layer.bias.shape) == shape
    np.testing.assert_allclose(y, np.einsum("bcx,cde->bdex", x, layer.kernel) + layer.bias.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ragged", [("query",), ("value",), ("key", "value"), ("query", "key", "value")])
def test_heads_attend_to_ragged_tensors_as_to_padded_ones(ragged):
    rng = np.random.RandomState(0)
    rows = {n: [rng.randn(k, 4).astype("f").tolist() for k in (2, 3)] for n in ("query", "key", "value")}
    made = {n: tf.ragged.constant(r, ragged_rank=1, inner_shape=(4,), dtype=tf.float32) for n, r in rows.items()}
    layer = tf.keras.layers.MultiHeadAttention(2, 3)
    dense = {n: r.to_tensor() for n, r in made.items()}
    expected = layer(**dense).numpy()
    found = layer(**{n: made[n] if n in ragged else dense[n] for n in made})
    assert isinstance(found, tf.RaggedTensor) == ("query" in ragged)
    if "query" in ragged:
        np.testing.assert_allclose(found[0], expected[0, :2], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_shapes_that_do_not_fit_have_no_output_shape():
    layer = tf.keras.layers.MultiHeadAttention(4, 2)
    assert layer.compute_output_shape((None, 40, 80), (None, 20, 80)).as_list() == [None, 40, 80]
    with pytest.raises(ValueError, match="must be equal"):
        layer.compute_output_shape((None, 40, 80), (None, 20, 70))
    with pytest.raises(ValueError, match="must be equal"):
        layer.compute_output_shape((None, 40, 80), (None, 20, 80), (None, 10, 70))
