"""tf.GradientTape: recording, gradients, jacobians."""
import gc
import weakref

import numpy as np
import pytest

import penstock as tf


def test_gradients_of_what_was_watched():
    x, y = tf.constant([1.0, 2.0]), tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = tf.reduce_sum(x * x) + y * y
    gradients = tape.gradient(z, {"x": x, "y": y})
    np.testing.assert_allclose(gradients["x"], [2.0, 4.0], rtol=1e-6)
    assert gradients["y"] is None                            # it was not watched


def test_variables_are_watched_unless_told_otherwise():
    v, fixed = tf.Variable(2.0), tf.Variable(3.0, trainable=False)
    with tf.GradientTape() as tape:
        y = v * v * fixed
    assert tape.watched_variables() == (v,)
    assert tape.gradient(y, v).numpy() == 12.0
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(fixed)
        y = v * fixed
    assert tape.gradient(y, [v, fixed])[0] is None


def test_a_tape_serves_one_gradient_unless_it_is_persistent():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x ** 3
    assert tape.gradient(y, x).numpy() == 27.0
    with pytest.raises(RuntimeError, match="non-persistent"):
        tape.gradient(y, x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = x ** 3, x * 2.0
    assert [tape.gradient(t, x).numpy() for t in (y, z, y)] == [27.0, 2.0, 27.0]


def test_nothing_is_recorded_where_recording_is_stopped():
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        with tape.stop_recording():
            hidden = x * x
        seen = x * 2.0
    assert tape.gradient(hidden, x) is None
    assert tape.gradient(seen, x).numpy() == 2.0
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * 2.0
        tape.reset()
        tape.watch(x)
        z = x * 5.0
    assert tape.gradient([y, z], x).numpy() == 5.0


def test_tapes_inside_of_tapes():
    x = tf.constant(2.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x ** 4
        first = inner.gradient(y, x)
    assert first.numpy() == 32.0
    assert outer.gradient(first, x).numpy() == 48.0


def test_seeds_and_unconnected_sources():
    x, other = tf.constant([1.0, 2.0]), tf.constant([5.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, other])
        y = x * x
    np.testing.assert_allclose(tape.gradient(y, x, output_gradients=tf.constant([10.0, 1.0])), [20.0, 4.0], rtol=1e-6)
    zero = tape.gradient(y, other, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert zero.numpy().tolist() == [0.0]


def test_seeds_are_taken_in_the_order_of_the_targets():
    """As in TensorFlow 2.21: structures are flattened, targets without a seed have ones, seeds without a target are unused."""
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = x * x, 3 * x
    a, b = tf.constant([1.0, 10.0]), tf.constant([100.0, 1000.0])
    for target, seeds, expected in ((y, [a, b], [2, 40]), (y, [[a]], [2, 40]), (y, [], [2, 4]), ([y, z], [a], [5, 43]),
                                    ([y, z], a, [5, 43]), ([y, z], [a, b, a], [302, 3040]),
                                    ({"q": z, "p": y}, [a, b], [302, 3040])):
        np.testing.assert_allclose(tape.gradient(target, x, output_gradients=seeds), expected, rtol=1e-6)


def test_jacobians():
    a = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    x = tf.constant([[1.0], [-1.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.matmul(a, x)
    np.testing.assert_allclose(tape.jacobian(y, x).numpy().reshape(3, 2), a, rtol=1e-6)
    rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        tape.watch(rows)
        z = rows * rows
    want = np.stack([np.diag(r) for r in 2 * rows.numpy()])
    np.testing.assert_allclose(tape.batch_jacobian(z, rows), want, rtol=1e-6)


def test_what_was_recorded_goes_with_its_tape():
    x = tf.Variable(tf.ones([4]))
    with tf.GradientTape() as tape:
        y = tf.exp(x)
        recorded = weakref.ref(y)
        z = tf.reduce_sum(y)
    del y
    assert recorded() is not None                            # the gradient of Exp is its result
    tape.gradient(z, x)
    del tape, z
    gc.collect()
    assert recorded() is None


def test_jacobians_with_parallel_iterations_need_a_persistent_tape():
    @tf.function
    def f(persistent):
        x = tf.constant([[3.0]])
        with tf.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = tf.tile(x ** 4, [1, 3])
        return tape.batch_jacobian(y, x, parallel_iterations=2)
    with pytest.raises(RuntimeError, match="persistent=True.*parallel_iterations"):
        f(False)
    np.testing.assert_allclose(f(True), [[[108.]] * 3], rtol=1e-6)


def test_a_tape_that_was_never_entered_has_no_gradients():
    with pytest.raises(RuntimeError, match="one set of gradients"):
        tf.GradientTape().gradient(tf.constant(1.0), tf.constant(1.0))


@pytest.mark.parametrize("value", [lambda x, w: tf.concat([x, w], 0), lambda x, w: tf.tile(w, tf.cast(x[0], tf.int32)),
                                   lambda x, w: tf.pad(w, tf.cast(x, tf.int32)), lambda x, w: tf.matmul(x, w)])
def test_gradient_has_the_static_shape_of_its_variable(value):
    w = tf.Variable(tf.ones([3, 2]))

    @tf.function(input_signature=[tf.TensorSpec(None)])
    def shape(x):
        with tf.GradientTape() as tape:
            y = value(x, w)
        return tf.constant(tape.gradient(y, w).shape.as_list())
    assert shape.get_concrete_function().function_def is not None        # traced: the shape was known


@pytest.mark.parametrize("gradient", ["tape", "gradients"])
def test_gradient_of_a_variable_in_a_loop_has_its_static_shape(gradient):
    w = tf.Variable(tf.ones([3, 2]))

    def loop(n):
        return tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, tf.matmul(x, w, transpose_b=True)[:, :2]),
                             [0, tf.ones([1, 2])])[1]

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def change(n):
        if gradient == "gradients":
            change, = tf.gradients(loop(n), [w])
        else:
            with tf.GradientTape() as tape:
                y = loop(n)
            change = tape.gradient(y, w)
        assert change.shape.as_list() == [3, 2]
        return change
    np.testing.assert_array_equal(change(1), [[1, 1], [1, 1], [0, 0]])


@pytest.mark.parametrize("shape", [[2, 3], [3, 3]])
def test_a_composite_of_variables_as_target(shape):
    v = tf.Variable(tf.ones(shape))
    operator = tf.linalg.LinearOperatorFullMatrix(v)
    with tf.GradientTape() as tape:
        grad, = tape.gradient(operator, [v])
    assert grad.numpy().tolist() == np.ones(shape).tolist()
