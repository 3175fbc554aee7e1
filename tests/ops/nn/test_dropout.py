"""Dropout: what is kept is scaled, noise shapes, and what is refused."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_kept_elements_are_scaled(rate):
    y = tf.nn.dropout(tf.ones([100, 100]), rate, seed=1).numpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / (1 - rate))}
    assert abs((y == 0).mean() - rate) < 0.03


def test_noise_shape():
    y = tf.nn.dropout(tf.ones([50, 20]), 0.5, noise_shape=[None, 1]).numpy()
    assert (y == y[:, :1]).all() and 0 < (y[:, 0] == 0).mean() < 1


def test_gradient_goes_through_the_same_mask():
    x = tf.ones([40])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.dropout(x, 0.5)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), y.numpy())


def test_zero_rate_gives_the_input():
    x = tf.constant([1.0])
    assert tf.nn.dropout(x, 0) is x
    with tf1.Graph().as_default():
        p = tf1.placeholder(tf.float32, [None, 3])
        assert tf1.nn.dropout(p, keep_prob=1.0) is p


def test_rate_fed():
    with tf1.Graph().as_default():
        keep = tf1.placeholder(tf.float32, [])
        y = tf1.nn.dropout(tf.ones([1000]), keep)
        assert y.shape == (1000,)
        with tf1.Session() as sess:
            assert sess.run(y, {keep: 1.0}).sum() == 1000
            assert set(np.unique(sess.run(y, {keep: 0.25}))) == {0.0, 4.0}


def test_errors():
    for rate in (-0.1, 1.0, 2.0, [0.1, 0.2]):
        with pytest.raises(ValueError):
            tf.nn.dropout([1.0], rate)
    for keep in (0.0, 1.1, [0.5]):
        with pytest.raises(ValueError):
            tf1.nn.dropout([1.0], keep)
    with pytest.raises(ValueError, match="floating point"):
        tf.nn.dropout([1], 0.5)
    with pytest.raises(ValueError, match="needs a rate"):
        tf1.nn.dropout([1.0])
