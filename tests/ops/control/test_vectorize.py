"""Functions of rows on all rows at once: tf.vectorized_map and the jacobians of tapes."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.ops.control.vectorize import Rows

X = np.arange(24, dtype=np.float32).reshape(4, 2, 3) / 10


def same(function, elems=X, rtol=1e-5):
    """The function vectorized, eagerly and in a graph with open shapes, against a loop."""
    expected = tf.map_fn(function, tf.constant(elems), fn_output_signature=tf.float32)
    np.testing.assert_allclose(tf.vectorized_map(function, tf.constant(elems)), expected, rtol=rtol)
    open_spec = tf.TensorSpec([None] * np.ndim(elems), tf.as_dtype(elems.dtype))
    traced = tf.function(lambda e: tf.vectorized_map(function, e), input_signature=[open_spec])
    np.testing.assert_allclose(traced(tf.constant(elems)), expected, rtol=rtol)


@pytest.mark.parametrize("function", [
    lambda r: tf.nn.softmax(r) * tf.reduce_max(r, axis=0) + r[..., :1],
    lambda r: tf.linalg.inv(tf.matmul(r, r, transpose_b=True) + 3 * tf.eye(2)),
    lambda r: tf.cumsum(tf.reverse(r, [1]), axis=-1)[::-1, tf.newaxis],
    lambda r: tf.cond(tf.reduce_sum(r) > 4.0, lambda: r * 2, lambda: -r),
    lambda r: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 1.5 + r), (0, r))[1],
    lambda r: tf.function(lambda a: tf.sin(a) @ tf.ones([3, 2]))(r),
    lambda r: tf.boolean_mask(tf.abs(r) + 1, [True, False]),
    lambda r: tf.pad(tf.tile(r, [1, 2]), [[0, 1], [2, 0]]),
], ids=["pointwise", "matrices", "axes", "condition", "loop", "call", "mask", "padding"])
def test_functions_of_rows(function):
    same(function)


def test_rows_choose_elements():
    table = tf.reshape(tf.range(12.0), [4, 3])
    same(lambda i: table[i], np.array([3, -1, 0], np.int32))
    same(lambda i: tf.gather(table, i, axis=1), np.array([2, 0], np.int32))
    same(lambda r: tf.gather_nd(r, [[0, 1], [1, 2]]))


def test_gradients_inside_and_outside():
    """Gradients per example, and the gradient of a vectorized function with respect to a variable."""
    w = tf.Variable(np.linspace(-1, 1, 15).reshape(3, 5).astype(np.float32))

    def of_example(r):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.relu(r @ w) ** 2)
        return tape.gradient(loss, w)
    same(of_example)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.vectorized_map(lambda r: tf.tanh(r @ w), tf.constant(X)))
    with tf.GradientTape() as other:
        expected = tf.reduce_sum(tf.tanh(tf.constant(X) @ w))
    np.testing.assert_allclose(tape.gradient(total, w), other.gradient(expected, w), rtol=1e-5)


def test_loops_of_one_length_stay_loops_over_all_rows(monkeypatch):
    """Only the number of iterations has to be the same: variables become stacked by what the body adds to them."""
    def function(r):
        return tf.while_loop(lambda i, a, b: i < 4, lambda i, a, b: (i + 1, b, a + tf.sin(r)), (0, tf.zeros_like(r), r))[2]
    same(function)
    monkeypatch.setattr(Rows, "_loop", lambda self, op, inputs: pytest.fail(f"a loop for {op.type}"))
    tf.vectorized_map(function, tf.constant(X))
    monkeypatch.undo()
    same(lambda r: tf.while_loop(lambda a: tf.reduce_sum(a) < 50, lambda a: (a * 2 + 1,), (r,))[0])


def test_custom_gradients_are_kept():
    @tf.custom_gradient
    def doubled(x):
        return x, lambda upstream: 2 * upstream
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.vectorized_map(lambda r: doubled(r) * 3, x, warn=False)
    np.testing.assert_allclose(tape.gradient(y, x), np.full_like(X, 6), rtol=1e-6)


def test_convolutions_and_their_gradients():
    images = np.linspace(-1, 1, 3 * 2 * 6 * 6 * 2, dtype=np.float32).reshape(3, 2, 6, 6, 2)
    kernel = tf.reshape(tf.range(72.0) / 72, [3, 3, 2, 4])

    def function(image):
        with tf.GradientTape() as tape:
            tape.watch(image)
            y = tf.nn.avg_pool2d(tf.nn.conv2d(image, kernel, 1, "SAME"), 2, 2, "SAME") + tf.nn.l2_loss(image)
        return tape.gradient(y, image)
    same(function, images, rtol=1e-4)


def test_random_numbers_differ_between_rows():
    drawn = tf.vectorized_map(lambda _: tf.random.normal([5]), tf.range(3)).numpy()
    assert drawn.shape == (3, 5) and len(np.unique(drawn)) == 15


def test_side_effects_happen_row_by_row():
    total = tf.Variable(0.0)
    found = tf.vectorized_map(lambda r: total.assign_add(tf.reduce_sum(r)), tf.constant(X), warn=False)
    np.testing.assert_allclose(found, np.cumsum(X.sum((1, 2))), rtol=1e-5)
    with pytest.raises(ValueError, match="has effects"):
        tf.vectorized_map(lambda r: total.assign_add(tf.reduce_sum(r)), tf.constant(X), fallback_to_while_loop=False)


def test_structures_of_rows():
    found = tf.vectorized_map(lambda e: {"sum": e[0] + e[1], "first": e[0][0]}, (tf.constant(X), tf.constant(X * 2)))
    np.testing.assert_allclose(found["sum"], X * 3, rtol=1e-6)
    np.testing.assert_array_equal(found["first"], X[:, 0])


@pytest.mark.parametrize("at_once", [True, False])
def test_jacobians_of_open_shapes(at_once):
    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def both(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = tf.einsum("bi,bj->bij", tf.sin(x), x)
        return (tape.batch_jacobian(y, x, experimental_use_pfor=at_once), tape.jacobian(y, x, experimental_use_pfor=at_once))
    x = X[:, 0]
    by_row, whole = both(x)
    eye = np.eye(3)
    expected = np.einsum("bi,ik,bj->bijk", np.cos(x), eye, x) + np.einsum("bi,jk->bijk", np.sin(x), eye)
    np.testing.assert_allclose(by_row, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.einsum("bijbk->bijk", whole.numpy()), expected, rtol=1e-5, atol=1e-6)
