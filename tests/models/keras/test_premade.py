"""Ready-made models: values from numpy, each part with its own optimizer, configurations."""
import numpy as np
import pytest

import penstock as tf


@pytest.fixture(autouse=True)
def _seeds():
    tf.random.set_seed(0)


def data(n=64):
    x = np.random.RandomState(0).rand(n, 3).astype("f")
    return x, x @ np.array([[1.], [-2.], [3.]], "f") + 0.5


def test_linear_model_learns_a_linear_function():
    x, y = data()
    model = tf.keras.experimental.LinearModel()
    model.compile(tf.keras.optimizers.SGD(0.4), "mse")
    model.fit(x, y, epochs=200, batch_size=64, verbose=0)
    np.testing.assert_allclose(model.predict(x, verbose=0), y, atol=0.02)
    np.testing.assert_allclose(model.dense_layers[0].kernel.numpy()[:, 0], [1, -2, 3], atol=0.05)


def test_linear_model_sums_several_inputs():
    model = tf.keras.experimental.LinearModel(units=2, kernel_initializer="ones", bias_initializer="ones")
    got = model({"b": tf.ones([3, 4]), "a": tf.ones([3, 1])})
    np.testing.assert_array_equal(got.numpy(), np.full((3, 2), 6.))
    assert [layer.name for layer in model.dense_layers] == ["a", "b"]
    again = tf.keras.experimental.LinearModel.from_config(model.get_config())
    np.testing.assert_array_equal(again([tf.ones([3, 1]), tf.ones([3, 4])]).numpy(), got.numpy())


def test_wide_and_deep_parts_have_their_own_optimizers():
    x, y = data()
    wide = tf.keras.experimental.LinearModel()
    deep = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
    model = tf.keras.experimental.WideDeepModel(wide, deep)
    model.compile([tf.keras.optimizers.SGD(0.1), tf.keras.optimizers.SGD(0.)], "mse")
    model([x, x])
    before = [w.copy() for w in deep.get_weights()]
    first = model.evaluate([x, x], y, verbose=0)
    model.fit([x, x], y, epochs=60, verbose=0)
    assert model.evaluate([x, x], y, verbose=0) < first / 10
    for old, new in zip(before, deep.get_weights()):
        np.testing.assert_array_equal(old, new)
    np.testing.assert_allclose(model([x, x]).numpy(), wide(x).numpy() + deep(x).numpy(), rtol=1e-5)


def test_wide_and_deep_models_have_configurations():
    deep = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])
    model = tf.keras.experimental.WideDeepModel(tf.keras.experimental.LinearModel(units=1), deep, activation="sigmoid")
    again = tf.keras.experimental.WideDeepModel.from_config(model.get_config())
    again([tf.ones([1, 3]), tf.ones([1, 3])])
    model([tf.ones([1, 3]), tf.ones([1, 3])])
    again.set_weights(model.get_weights())
    x = data()[0]
    np.testing.assert_allclose(again([x, x]).numpy(), model([x, x]).numpy(), rtol=1e-6)


def test_random_fourier_features_come_near_to_the_kernel():
    x = np.random.RandomState(0).randn(6, 4).astype("f")
    layer = tf.keras.layers.experimental.RandomFourierFeatures(20000, scale=2.)
    features = layer(x).numpy()
    distances = ((x[:, None] - x[None]) ** 2).sum(-1)
    np.testing.assert_allclose(features @ features.T * 2 / 20000, np.exp(-distances / (2 * 2. ** 2)), atol=0.05)
    with pytest.raises(ValueError, match="Unsupported"):
        tf.keras.layers.experimental.RandomFourierFeatures(3, kernel_initializer="poisson")


def test_activations_of_ones_own_in_configurations():
    def twice(x):
        return 2 * x
    model = tf.keras.experimental.WideDeepModel(tf.keras.experimental.LinearModel(), tf.keras.Sequential(
        [tf.keras.layers.Dense(1, input_shape=(3,))]), activation=twice)
    made = tf.keras.experimental.WideDeepModel.from_config(model.get_config(), custom_objects={"twice": twice})
    assert made.activation is twice
