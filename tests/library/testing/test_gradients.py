"""The gradient checker: that it finds right gradients right, and wrong ones wrong."""
import numpy as np
import pytest

import penstock
import penstock.compat.v1 as tf


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as sess:
        yield sess


def test_known_jacobian(session):
    """Rows are inputs, columns outputs."""
    x = tf.placeholder(tf.float64, [2])
    y = tf.stack([x[0] * x[1], 3 * x[0], x[1] ** 2])
    by_gradients, by_differences = tf.test.compute_gradient(x, [2], y, [3], x_init_value=np.array([2.0, 5.0]))
    np.testing.assert_allclose(by_gradients, [[5, 3, 0], [2, 0, 10]], rtol=1e-6)
    np.testing.assert_allclose(by_differences, by_gradients, atol=1e-8)


def test_several_inputs(session):
    """A list of inputs returns a list of pairs, and one error for all."""
    a, b = tf.constant([[1.0, 2.0]]), tf.constant([[3.0], [4.0]])
    y = tf.matmul(a, b)
    starts = [np.array([[1.0, 2.0]], np.float32), np.array([[3.0], [4.0]], np.float32)]
    pairs = tf.test.compute_gradient([a, b], [[1, 2], [2, 1]], y, [1, 1], x_init_value=starts)
    np.testing.assert_allclose(pairs[0][0], [[3], [4]], rtol=1e-6)
    np.testing.assert_allclose(pairs[1][0], [[1], [2]], rtol=1e-6)
    assert tf.test.compute_gradient_error([a, b], [[1, 2], [2, 1]], y, [1, 1], x_init_value=starts) < 1e-2


def test_wrong_gradient_is_found(session):
    """An op with a wrong gradient has a large error, the same op with the right one a small error."""
    @tf.custom_gradient
    def wrong(x):
        return tf.square(x), lambda dy: dy * 3 * x
    x = tf.constant([1.0, 2.0])
    assert tf.test.compute_gradient_error(x, [2], tf.square(x), [2]) < 1e-3
    assert tf.test.compute_gradient_error(x, [2], wrong(x), [2], x_init_value=np.array([1.0, 2.0])) > 0.5


def test_variables_sparse_and_complex(session):
    """Variables through init_targets, slices as gradients, and complex numbers by their parts."""
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]], use_resource=False)
    y = tf.gather(tf.identity(v), [1, 1, 0])
    assert tf.test.compute_gradient_error(v, [2, 2], y, [3, 2], init_targets=[v.initializer]) < 1e-3
    table = tf.placeholder(tf.float64, [3, 2])
    assert tf.test.compute_gradient_error(table, [3, 2], tf.gather(table, [2, 0, 2]), [3, 2]) < 1e-8
    z = tf.placeholder(tf.complex128, [2])
    by_gradients, by_differences = tf.test.compute_gradient(z, [2], tf.square(z), [2])
    assert by_gradients.shape == (4, 4)
    np.testing.assert_allclose(by_gradients, by_differences, atol=1e-6)


def test_extra_feeds_and_mistakes(session):
    """Other placeholders are fed; a missing session, a start of another shape or a missing gradient is an error."""
    x, scale = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [])
    by_gradients, _ = tf.test.compute_gradient(x, [2], x * scale, [2], extra_feed_dict={scale: 7.0})
    np.testing.assert_allclose(by_gradients, 7 * np.eye(2), rtol=1e-6)
    with pytest.raises(ValueError, match="x_shape is"):
        tf.test.compute_gradient(x, [2], x * 1, [2], x_init_value=np.zeros(3))
    with pytest.raises(ValueError, match="no gradient"):
        tf.test.compute_gradient(x, [2], tf.constant([1.0]), [1])
    empty = tf.placeholder(tf.float32, [0, 3])
    assert tf.test.compute_gradient_error(empty, [0, 3], empty * 2, [0, 3]) == 0


def test_needs_a_session():
    """Outside of a session there is an error that says what to do."""
    with tf.Graph().as_default():
        x = tf.constant([1.0])
        with pytest.raises(ValueError, match="with tf.Session"):
            tf.test.compute_gradient(x, [1], x * x, [1])


@pytest.mark.parametrize("graph", [False, True])
def test_functions(graph):
    """The v2 function: a row per output, inputs that are not used, and slices."""
    def check():
        def f(a, b):
            return penstock.reduce_sum(a, axis=1) * penstock.gather(b, [1, 1])
        given = [np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([7.0, 8.0]), np.array([1.0])]
        by_gradients, by_differences = penstock.test.compute_gradient(lambda a, b, c: f(a, b), given)
        assert [j.shape for j in by_gradients] == [(2, 6), (2, 2), (2, 1)]
        np.testing.assert_allclose(by_gradients[1], [[0, 6], [0, 15]], rtol=1e-6)
        assert not by_gradients[2].any()
        for a, b in zip(by_gradients, by_differences):
            np.testing.assert_allclose(a, b, atol=1e-6)
        with pytest.raises(ValueError, match="must be a list"):
            penstock.test.compute_gradient(penstock.square, np.zeros(2))
    if graph:
        with tf.Graph().as_default(), tf.Session():
            check()
    else:
        check()
