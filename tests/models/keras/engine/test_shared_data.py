"""`fit` works on the arrays that it was given, without a copy of them, and leaves them as they were."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.models.keras.engine import data_adapter


def test_arrays_are_not_copied():
    for kind in (np.float32, np.int64, np.uint8, np.bool_):
        x = np.ones((4, 3), kind)
        assert np.shares_memory(data_adapter._eager_value(x)._value.numpy(), x)
    assert data_adapter._eager_value(np.ones(3, np.float64)).dtype == tf.float32
    frozen = np.ones(3, np.float32)
    frozen.setflags(write=False)
    assert not np.shares_memory(data_adapter._eager_value(frozen)._value.numpy(), frozen)


class Keeps(tf.keras.layers.Layer):
    """A layer with a variable that takes its inputs over, and changes them."""

    def build(self, shape):
        self.kept = self.add_weight("kept", (8, 3), initializer="zeros", trainable=False)

    def call(self, x):
        self.kept.assign(x)
        self.kept.assign_add(tf.ones_like(x))
        return tf.nn.relu(x * -1.0) + self.kept


@pytest.mark.parametrize("eagerly", [False, True])
def test_arrays_stay_as_they_were(eagerly):
    x = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    y = np.ones((8, 3), np.float32)
    before = x.copy(), y.copy()
    model = tf.keras.Sequential([Keeps(), tf.keras.layers.Dense(3)])
    model.compile("sgd", "mse", run_eagerly=eagerly)
    for batch in (8, None):
        model.fit(x, y, batch_size=batch, epochs=2, shuffle=False, verbose=0)
        model.evaluate(x, y, verbose=0)
        model.predict(x, batch_size=8, verbose=0)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(y, before[1])
    np.testing.assert_allclose(model.layers[0].kept.numpy(), x + 1, rtol=1e-6)
