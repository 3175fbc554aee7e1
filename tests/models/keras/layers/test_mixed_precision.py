"""Layers that compute in another type than that of their variables."""
import numpy as np
import pytest

import penstock as tf

K = tf.keras


@pytest.fixture(autouse=True)
def mixed():
    K.mixed_precision.set_global_policy("mixed_bfloat16")
    yield
    K.mixed_precision.set_global_policy("float32")


def test_embeddings_are_cast_after_the_lookup():
    layer = K.layers.Embedding(5, 3)
    with tf.GradientTape() as tape:
        y = layer(tf.constant([1, 2, 2]))
        loss = tf.reduce_sum(tf.cast(y, tf.float32))
    assert y.dtype == tf.bfloat16 and layer.embeddings.dtype == tf.float32
    rounded = tf.cast(tf.cast(layer.embeddings, tf.bfloat16), tf.float32).numpy()
    np.testing.assert_array_equal(tf.cast(y, tf.float32), rounded[[1, 2, 2]])
    gradient = tape.gradient(loss, layer.embeddings)
    assert isinstance(gradient, tf.IndexedSlices)                  # the table is not cast, so its gradient stays sparse
    np.testing.assert_array_equal(tf.convert_to_tensor(gradient).numpy().sum(1), [0, 3, 6, 0, 0])


def test_attention_computes_in_the_type_of_its_policy():
    layer = K.layers.MultiHeadAttention(2, 4)
    x = tf.cast(np.random.RandomState(0).randn(2, 3, 8), tf.bfloat16)
    assert layer(x, x).dtype == tf.bfloat16
    assert {v.dtype for v in layer.trainable_variables} == {tf.float32}


def test_embeddings_in_their_own_type():
    assert K.layers.Embedding(5, 3, dtype="float32")(tf.constant([1])).dtype == tf.float32
