"""Functional loops as one program: functions and branches in place, lists changed in place, errors that name their op."""
from unittest import mock

import numpy as np
import pytest

import penstock as tf
from penstock._src.execute.context import eager_context
from penstock._src.ops.state.list_values import TensorList

C = tf.constant


def source(f, *args):
    """The program of the first loop in a traced function."""
    graph = f.get_concrete_function(*args).graph
    loop = next(op for op in graph.get_operations() if "cond" in op.attrs and "body" in op.attrs)
    return loop.attrs["body"].loop(loop.attrs["cond"], eager_context()).source


def test_branches_and_calls_are_in_place():
    @tf.function
    def inner(x):
        return x * 2.0

    @tf.function
    def f(n, x):
        for i in tf.range(n):
            if i % 3 == 0:
                x = inner(x)
            else:
                x = x - 1.0
        return x
    x = 1.0
    for i in range(10):
        x = x * 2 if i % 3 == 0 else x - 1
    assert f(C(10), C(1.0)).numpy() == x
    text = source(f, C(10), C(1.0))
    assert "If" in text and "(t" not in text.split("if n")[0] and "ctx=ctx" not in text and text.count("else:") == 1


def test_division_by_zero_in_a_loop_names_the_op():
    @tf.function
    def f(n):
        s = 0
        for i in tf.range(n):
            s += 10 // (i - 3)
        return s
    assert f(C(3)).numpy() == 10 // -3 + 10 // -2 + 10 // -1
    with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)Integer division by zero.*floordiv"):
        f(C(5))


def test_arrays_are_written_in_place():
    @tf.function
    def squares(n):
        array = tf.TensorArray(tf.int32, size=n)
        for i in tf.range(n):
            array = array.write(i, i).write(i, i * i)
        return array.stack()
    squares(C(3))
    with mock.patch.object(TensorList, "items", autospec=True, side_effect=TensorList.items) as copies:
        assert squares(C(500)).numpy().tolist() == [i * i for i in range(500)]
    assert copies.call_count < 10


def test_a_list_that_others_have_is_not_changed():
    @tf.function
    def f(n):
        array = tf.TensorArray(tf.int32, size=3, clear_after_read=False).unstack([1, 2, 3])
        before = array
        for i in tf.range(n):
            before = array
            array = array.write(i, array.read(i) * 10)
        return before.stack(), array.stack()
    first, second = f(C(3))
    assert first.numpy().tolist() == [10, 20, 3] and second.numpy().tolist() == [10, 20, 30]
    first, second = f(C(1))
    assert first.numpy().tolist() == [1, 2, 3] and second.numpy().tolist() == [10, 2, 3]


def test_saved_values_go_as_the_gradient_takes_them():
    @tf.function
    def f(n, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tf.range(n):
                y = tf.sin(y) * x
        return tape.gradient(y, x)
    copied = []
    like = TensorList.like

    def noted(self, *args):
        copied.append(self.size)
        return like(self, *args)
    with mock.patch.object(TensorList, "like", noted):
        found = f(C(20), C(1.5)).numpy()
    assert not any(copied)                               # only empty lists: a copy would keep all elements

    def value(x):
        y = x
        for _ in range(20):
            y = np.sin(y) * x
        return y
    np.testing.assert_allclose(found, (value(1.5 + 1e-6) - value(1.5 - 1e-6)) / 2e-6, rtol=1e-3)


def test_second_derivatives_of_loops():
    def f(x, n):
        y = x
        for _ in tf.range(n):
            y = y * x
        return y

    @tf.function
    def second(x, n):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = f(x, n)
            g = inner.gradient(y, x)
        return g, outer.gradient(g, x)
    g, h = second(C(2.0), C(3))
    assert (g.numpy(), h.numpy()) == (32, 48)


def test_a_loop_ends_with_its_session():
    import penstock.compat.v1 as tf1
    with tf1.Graph().as_default():
        out = tf.function(lambda n: tf.while_loop(lambda i: i >= 0, lambda i: (i * 1,), (n,)))(tf1.constant(1))
        with tf1.Session() as sess, pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(out, options=tf1.RunOptions(timeout_in_ms=200))


def test_results_of_branches_that_nobody_uses_are_not_computed():
    import penstock.compat.v1 as tf1
    ran = []

    def note(name):
        return lambda: (ran.append(name), np.float32(1))[1]
    with tf1.Graph().as_default():
        p = tf1.placeholder(tf.bool, [])
        tf1.enable_control_flow_v2()
        a, b = tf1.cond(p, lambda: [tf1.py_func(note("a"), [], tf.float32), tf1.py_func(note("b"), [], tf.float32)],
                        lambda: [tf.constant(2.0), tf.constant(3.0)])
        c = tf1.switch_case(tf1.cast(p, tf.int32), [lambda: (tf.constant(5), tf.constant(6)), lambda: (tf.constant(7), 8)])
        with tf1.Session() as sess:
            assert sess.run(b, {p: True}) == 1 and ran == ["b"]
            assert sess.run([b, a], {p: False}) == [3, 2]
            assert sess.run([a, b], {p: True}) == [1, 1] and sorted(ran) == ["a", "b", "b"]
            assert [sess.run(c[1], {p: v}) for v in (True, False)] == [8, 6]
