"""Gradients of decompositions against finite differences: complex matrices, and shapes that are known only at run time."""
import numpy as np
import pytest

import penstock as tf

SHAPES = [(3, 3), (3, 5), (5, 3), (2, 4, 3)]


def of_svd(x):
    """A function that depends on neither the signs nor the phases of singular vectors."""
    s, u, v = tf.linalg.svd(x)
    y = tf.matmul(u * tf.cast(tf.sin(s), u.dtype)[..., None, :], v, adjoint_b=True)
    return tf.reduce_sum(tf.sin(tf.math.real(y)) + tf.math.imag(y) ** 3)


def of_qr(x):
    q, r = tf.linalg.qr(x)
    return tf.reduce_sum(tf.abs(q) ** 4) + tf.reduce_sum(tf.sin(tf.math.real(r)) + tf.math.imag(r) ** 3)


def with_gradient(function):
    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x)
    return both


def check(function, dtype, shape):
    """The derivative in a random direction is the inner product of the gradient with it."""
    rng = np.random.default_rng(3)

    def draw():
        x = rng.normal(size=shape)
        return (x + 1j * rng.normal(size=shape) if dtype.is_complex else x).astype(dtype.as_numpy_dtype)
    x, direction, step = draw(), draw(), 1e-6
    _, grad = function(tf.constant(x))
    after, before = (function(tf.constant(x + sign * step * direction))[0].numpy() for sign in (1, -1))
    np.testing.assert_allclose(np.real(np.vdot(grad.numpy(), direction)), (after - before) / (2 * step), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [tf.float64, tf.complex128], ids=["float64", "complex128"])
@pytest.mark.parametrize("function", [of_svd, of_qr])
def test_eager(function, dtype, shape):
    check(with_gradient(function), dtype, shape)


@pytest.mark.parametrize("dtype", [tf.float64, tf.complex128], ids=["float64", "complex128"])
@pytest.mark.parametrize("function", [of_svd, of_qr])
def test_unknown_shapes(function, dtype):
    traced = tf.function(with_gradient(function), input_signature=[tf.TensorSpec(None, dtype)])
    for shape in SHAPES:
        check(traced, dtype, shape)


def test_arbitrary_vectors_have_no_gradient():
    x = tf.reshape(tf.range(12.0), (4, 3)) + tf.eye(4, 3)
    with pytest.raises(NotImplementedError, match=r"last columns of Q are arbitrary.*\(4, 3\)"):
        with_gradient(lambda x: tf.reduce_sum(tf.linalg.qr(x, full_matrices=True)[0]))(x)
    with pytest.raises(NotImplementedError, match=r"some vectors are arbitrary.*\(4, 2\)"):
        with_gradient(lambda x: tf.reduce_sum(tf.linalg.svd(x, full_matrices=True)[1]))(x[:, :2])
