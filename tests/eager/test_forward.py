"""ForwardAccumulator against derivatives written by hand and against jacobians."""
import weakref

import numpy as np
import pytest

import penstock as tf

A = tf.autodiff.ForwardAccumulator


def test_a_direction_through_several_ops():
    x = tf.constant([[0.3, -0.7], [1.1, 0.4]], tf.float64)
    v = tf.constant([[1., 2.], [-0.5, 0.25]], tf.float64)

    def f(x):
        return tf.tanh(tf.matmul(x, x)) + tf.reduce_sum(x ** 3, axis=1, keepdims=True)
    with A(x, v) as acc:
        y = f(x)
    e = 1e-6
    np.testing.assert_allclose(acc.jvp(y), (f(x + e * v) - f(x - e * v)) / (2 * e), rtol=1e-7)


def test_several_primals_and_variables():
    x, w = tf.constant([1., 2.]), tf.Variable([3., 4.])
    with A([x, w], [tf.constant([1., 0.]), tf.constant([0., 1.])]) as acc:
        y = x * w
        z = x + 1.
    np.testing.assert_array_equal(acc.jvp(y), [3., 2.])
    np.testing.assert_array_equal(acc.jvp({"y": y, "z": z})["z"], [1., 0.])


def test_what_does_not_depend_is_none_or_zeros():
    x = tf.constant(2.)
    with A(x, tf.constant(1.)) as acc:
        y = tf.constant(3.) * 2.
    assert acc.jvp(y) is None
    assert float(acc.jvp(y, unconnected_gradients=tf.UnconnectedGradients.ZERO)) == 0.
    assert float(acc.jvp(x)) == 1.


def test_second_derivatives_forward_over_forward_and_over_reverse():
    x, one = tf.constant(2., tf.float64), tf.constant(1., tf.float64)
    with A(x, one) as outer:
        with A(x, one) as inner:
            y = x ** 4
        first = inner.jvp(y)
    np.testing.assert_allclose([first, outer.jvp(first)], [32., 48.], rtol=1e-6)
    p, v = tf.constant([1., 2.], tf.float64), tf.constant([0.5, -1.], tf.float64)
    with A(p, v) as acc:
        with tf.GradientTape() as tape:
            tape.watch(p)
            y = p[0] ** 3 * p[1]
        grad = tape.gradient(y, p)
    hessian = np.array([[12., 3.], [3., 0.]])
    np.testing.assert_allclose(acc.jvp(grad), hessian @ v.numpy(), rtol=1e-6)


def test_in_functions():
    @tf.function
    def product(x, v):
        with A(x, v) as acc:
            y = tf.sin(x) * x
        return acc.jvp(y)
    x, v = np.array([0.1, 2.]), np.array([1., -3.])
    np.testing.assert_allclose(product(tf.constant(x), tf.constant(v)), (np.cos(x) * x + np.sin(x)) * v, rtol=1e-6)


def test_tangents_must_fit():
    with pytest.raises(ValueError, match=r"shape \(3,\).*\(2,\)"):
        A(tf.constant([1., 2.]), tf.constant([1., 2., 3.]))
    with pytest.raises(ValueError, match="float64"):
        A(tf.constant(1.), tf.constant(1., tf.float64))


def test_a_variable_that_a_function_creates_has_its_tangent():
    made = []

    @tf.function
    def products():
        if not made:
            made.append(tf.Variable([1.0, 2.0, 3.0]))
        with tf.autodiff.ForwardAccumulator(made[0], tf.constant([0.5, -2.0, 3.0])) as acc:
            doubled = made[0] * 2.0
        return acc.jvp((made[0], doubled))
    own, doubled = products()
    assert own.numpy().tolist() == [0.5, -2.0, 3.0]
    assert doubled.numpy().tolist() == [1.0, -4.0, 6.0]


def test_an_accumulator_keeps_nothing_alive():
    x, tangent = tf.ones([3]), tf.zeros([3])
    gone = weakref.ref(x), weakref.ref(tangent)
    with A(x, tangent) as acc:
        y = x * 2.
        del tangent, x
        assert gone[0]() is None and gone[1]() is None
        product = weakref.ref(acc.jvp(y))
        assert product() is not None
        del y
        assert product() is None


@pytest.mark.parametrize("decorate", [tf.function, lambda f: f])
def test_nested_products_are_known_after_both_contexts(decorate):
    @decorate
    def cube(x):
        return x ** 3.5
    x, one = tf.constant(1.1, tf.float64), tf.constant(1., tf.float64)
    with A(x, one) as outer, A(x, one) as inner:
        y = cube(x)
    first = inner.jvp(y)
    np.testing.assert_allclose([first, outer.jvp(first)], [3.5 * 1.1 ** 2.5, 3.5 * 2.5 * 1.1 ** 1.5], rtol=1e-6)
    assert inner.jvp(outer.jvp(y)) is None


def test_errors_of_gradient_functions_are_raised_where_they_are_called():
    @tf.custom_gradient
    def f(x):
        def grad(dy):
            raise ValueError("of the gradient")
        return x + 1., grad
    with A(tf.constant(1.), tf.constant(2.)) as acc:
        pass
    x = tf.constant(1.)
    with A(x, tf.constant(2.)) as acc, pytest.raises(ValueError, match="of the gradient"):
        f(x)
    assert acc.jvp(x).numpy() == 2.


def test_custom_gradients_in_functions():
    @tf.custom_gradient
    def triple(x):
        return x * 1., lambda dy: dy * 3.

    @tf.function
    def product(x):
        with A(x, tf.constant(2.)) as acc:
            y = triple(x)
        return acc.jvp(y)
    assert product(tf.constant(1.)).numpy() == 6.


def test_forward_over_reverse_of_a_loop_in_a_function():
    @tf.function
    def product(x, v):
        with A(x, v) as acc:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * tf.sin(s)), [0, x])[1]
            gradient = tape.gradient(y, x)
        return acc.jvp(gradient)

    def gradient(x):
        s, g = x, 1.
        for _ in range(3):
            g, s = g * (np.sin(s) + s * np.cos(s)), s * np.sin(s)
        return g
    e = 1e-6
    expected = (gradient(1.3 + e) - gradient(1.3 - e)) / (2 * e)
    np.testing.assert_allclose(product(tf.constant(1.3, tf.float64), tf.constant(1., tf.float64)), expected, rtol=1e-6)


def test_a_primal_comes_once():
    x = tf.constant(1.)
    with pytest.raises(ValueError, match="multiple times"):
        A([x, x], [tf.constant(1.), tf.constant(2.)])
