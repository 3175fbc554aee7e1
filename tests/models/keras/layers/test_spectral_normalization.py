"""SpectralNormalization against singular values of numpy."""
import numpy as np
import pytest

import penstock as tf


@pytest.mark.parametrize("make, shape", [(lambda: tf.keras.layers.Dense(3), (5, 4)),
                                         (lambda: tf.keras.layers.Conv2D(3, 2), (5, 4, 4, 2))])
def test_the_largest_singular_value_becomes_one(make, shape):
    layer = tf.keras.layers.SpectralNormalization(make(), power_iterations=100)
    x = np.random.RandomState(0).randn(*shape).astype("f")
    plain = layer(x, training=False).numpy()
    kernel = layer.layer.kernel.numpy()
    largest = np.linalg.svd(kernel.reshape(-1, 3), compute_uv=False)[0]
    np.testing.assert_allclose(layer(x, training=True).numpy(), plain / largest, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.layer.kernel.numpy(), kernel / largest, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(layer(x, training=False).numpy(), plain / largest, rtol=1e-4, atol=1e-5)


def test_it_is_trained_in_fit_and_has_a_configuration():
    model = tf.keras.Sequential([tf.keras.layers.SpectralNormalization(tf.keras.layers.Dense(2), input_shape=(4,))])
    model.compile("sgd", "mse")
    before = model.layers[0].vector_u.numpy()
    model.fit(np.ones((8, 4), "f"), np.ones((8, 2), "f"), epochs=2, verbose=0)
    assert np.abs(model.layers[0].vector_u.numpy() - before).max() > 0
    again = tf.keras.Sequential.from_config(model.get_config())
    assert isinstance(again.layers[0].layer, tf.keras.layers.Dense)


def test_layers_without_a_kernel_are_refused():
    with pytest.raises(ValueError, match="no attribute 'kernel'"):
        tf.keras.layers.SpectralNormalization(tf.keras.layers.Flatten())(np.ones((1, 2, 2), "f"))
