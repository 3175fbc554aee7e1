"""tf.nn.RNNCellDropoutWrapper and related functions around Keras cells."""
import numpy as np
import pytest

import penstock as tf

X = np.random.RandomState(0).randn(2, 5, 4).astype(np.float32)


def test_residual_adds_inputs_to_outputs():
    cell = tf.keras.layers.LSTMCell(4)
    plain, around = tf.keras.layers.RNN(cell, return_sequences=True), \
        tf.keras.layers.RNN(tf.nn.RNNCellResidualWrapper(cell), return_sequences=True)
    np.testing.assert_allclose(around(X), plain(X) + X, atol=1e-6)
    assert len(around.trainable_weights) == 3


def test_residual_function():
    cell = tf.keras.layers.GRUCell(4)
    wrapper = tf.nn.RNNCellResidualWrapper(cell, residual_fn=lambda i, o: o - i)
    state = tf.zeros([2, 4])
    output, _ = wrapper(X[:, 0], [state])
    np.testing.assert_allclose(output, cell(X[:, 0], [state])[0] - X[:, 0], atol=1e-6)


def test_dropout_drops_outputs():
    wrapper = tf.nn.RNNCellDropoutWrapper(tf.keras.layers.SimpleRNNCell(50), output_keep_prob=0.5, seed=1)
    output, state = wrapper(X[:, 0], [tf.zeros([2, 50])])
    state = np.asarray(tf.nest.flatten(state)[0])
    kept = np.asarray(output) != 0
    assert 20 < kept.sum() < 80
    np.testing.assert_allclose(np.asarray(output)[kept], 2 * state[kept], rtol=1e-5)


def test_no_dropout_around_lstm():
    with pytest.raises(ValueError, match="does not work with DropoutWrapper"):
        tf.nn.RNNCellDropoutWrapper(tf.keras.layers.LSTMCell(3))


def test_device_and_zero_state():
    cell = tf.keras.layers.GRUCell(3)
    wrapper = tf.nn.RNNCellDeviceWrapper(cell, "/cpu:0")
    assert wrapper.state_size == 3 and wrapper.wrapped_cell is cell
    assert tf.nest.flatten(wrapper.zero_state(2, tf.float32))[0].shape == (2, 3)
    np.testing.assert_allclose(tf.keras.layers.RNN(wrapper)(X), tf.keras.layers.RNN(cell)(X), atol=1e-6)


def test_configuration_makes_it_again():
    wrapper = tf.nn.RNNCellDeviceWrapper(tf.keras.layers.GRUCell(3), "/cpu:0")
    again = tf.nn.RNNCellDeviceWrapper.from_config(wrapper.get_config())
    assert type(again.cell) is tf.keras.layers.GRUCell and again.cell.units == 3 and again.get_config() == wrapper.get_config()
