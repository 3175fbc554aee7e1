"""Group normalization beside its definition, with gradients by differences of the loss."""
import numpy as np
import pytest

import penstock as tf


def defined(x, groups, axis, epsilon, gamma, beta):
    moved = np.moveaxis(x.astype("float64"), axis, -1)
    parts = moved.reshape(len(x), -1, groups, moved.shape[-1] // groups)
    mean, variance = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
    y = ((parts - mean) / np.sqrt(variance + epsilon)).reshape(moved.shape) * gamma + beta
    return np.moveaxis(y, -1, axis)


@pytest.mark.parametrize("shape, groups, axis", [
    ((3, 5, 4, 6), 2, -1), ((2, 7, 6), 3, -1), ((2, 6, 3, 5), 3, 1), ((4, 8), 4, -1), ((2, 3, 3, 5), 1, -1), ((2, 3, 5), 5, -1),
    ((1, 2, 4, 3, 6), 2, 2)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_values(shape, groups, axis, dtype):
    r = np.random.RandomState(0)
    x = (r.randn(*shape) * 3 + 5).astype(dtype)
    layer = tf.keras.layers.GroupNormalization(groups, axis, dtype=dtype)
    layer(x)
    size = shape[axis]
    gamma, beta = r.rand(size) + 0.5, r.randn(size)
    layer.set_weights([gamma, beta])
    found = layer(x)
    assert found.dtype == dtype and found.shape == shape
    tolerance = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2}[dtype]
    np.testing.assert_allclose(found, defined(x, groups, axis, layer.epsilon, gamma, beta), rtol=tolerance, atol=tolerance)


def test_gradients_and_unknown_sizes():
    r = np.random.RandomState(1)
    x, weights = r.randn(2, 3, 4, 6), r.randn(2, 3, 4, 6)
    layer = tf.keras.layers.GroupNormalization(2, dtype="float64", scale=False, center=False)

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 6], tf.float64)])
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x) * weights)
        return tape.gradient(loss, x)
    found = gradient(tf.constant(x)).numpy()
    for place in [(0, 0, 0, 0), (1, 2, 3, 5), (0, 1, 2, 3)]:
        step = np.zeros_like(x)
        step[place] = 1e-5
        ends = [(defined(x + s * step, 2, -1, layer.epsilon, 1, 0) * weights).sum() for s in (1, -1)]
        np.testing.assert_allclose(found[place], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-7)
