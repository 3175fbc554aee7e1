"""Activations: kinks, types, second derivatives, and the functions made of several ops."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.ops.registry import get


def second_derivative(f, x):
    x = tf.constant(x)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        g = inner.gradient(y, x)
    return outer.gradient(g, x).numpy()


@pytest.mark.parametrize("f, expect", [
    (tf.nn.relu, lambda x: 0 * x), (tf.nn.relu6, lambda x: 0 * x), (tf.nn.leaky_relu, lambda x: 0 * x),
    (tf.nn.elu, lambda x: np.where(x < 0, np.exp(x), 0)),
    (tf.nn.selu, lambda x: np.where(x < 0, 1.7580993408473766 * np.exp(x), 0)),
    (tf.nn.softplus, lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2),
    (tf.nn.softsign, lambda x: -2 * np.sign(x) / (1 + np.abs(x)) ** 3)])
def test_second_derivatives(f, expect):
    x = np.array([-2.5, -0.5, 0.25, 3.0])
    np.testing.assert_allclose(second_derivative(f, x), expect(x), rtol=1e-6, atol=1e-9)


def test_gradients_at_the_kink():
    """The derivative at zero is zero for relu, and the one of the right side for elu and selu."""
    zero, one = np.zeros(1, np.float32), np.ones(1, np.float32)
    assert get("ReluGrad")(one, zero).numpy() == 0
    assert get("EluGrad")(one, zero).numpy() == 1
    assert get("SeluGrad")(one, zero).numpy() == np.float32(1.0507009873554805)


def test_softplus_far_out():
    x = np.array([-800.0, 800.0])
    np.testing.assert_array_equal(tf.nn.softplus(x).numpy(), [0.0, 800.0])


def test_leaky_relu_takes_integers_and_tensors():
    np.testing.assert_allclose(tf.nn.leaky_relu(np.array([-10, 5])).numpy(), [-2.0, 5.0], rtol=1e-6)
    np.testing.assert_allclose(tf.nn.leaky_relu([-10.0, 5.0], alpha=tf.constant(0.5)).numpy(), [-5.0, 5.0], rtol=1e-6)


def test_compositions():
    x = np.array([[-1.0, 2.0]])
    sigmoid = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(tf.nn.swish(x).numpy(), x * sigmoid, rtol=1e-6)
    np.testing.assert_allclose(tf.nn.silu(x, beta=2.0).numpy(), x / (1 + np.exp(-2 * x)), rtol=1e-6)
    np.testing.assert_array_equal(tf.nn.crelu(x).numpy(), [[0, 2, 1, 0]])
    np.testing.assert_array_equal(tf.nn.crelu(x, axis=0).numpy(), [[0, 2], [1, 0]])
    np.testing.assert_allclose(tf.nn.gelu(x).numpy(), [[-0.15865525, 1.95449974]], rtol=1e-6)
    np.testing.assert_allclose(tf.nn.gelu(x, approximate=True).numpy(), [[-0.15880801, 1.95459769]], rtol=1e-6)


def test_gradient_of_another_shape_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="same shape|must be equal"):
        get("ReluGrad")(np.ones(3, np.float32), np.ones(2, np.float32))
    with tf1.Graph().as_default(), pytest.raises(ValueError, match="must be equal"):
        get("ReluGrad")(np.ones(3, np.float32), np.ones(2, np.float32))


@pytest.mark.parametrize("name", ["Relu", "Elu", "Softplus", "LeakyRelu"])
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_short_types(name, dtype):
    x = np.array([-2.0, -0.5, 1.5], np.float32)
    np.testing.assert_allclose(tf.cast(get(name)(tf.cast(x, dtype)), tf.float32).numpy(), get(name)(x).numpy(),
                               rtol=1e-2, atol=1e-2)
