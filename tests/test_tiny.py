"""The whole way of a step in under two seconds: run this before every commit."""
import numpy as np
import pytest

import penstock
import penstock.compat.v1 as tf
from penstock._src.graph import context


@pytest.fixture
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_add_two_numbers_in_a_session(graph):
    with tf.Session() as sess:
        assert sess.run(tf.constant(1.0) + tf.constant(2.0)) == 3.0


def test_feed_and_fetch_structures(graph):
    x = tf.placeholder(tf.float32, [None])
    y = x * 2.0
    with tf.Session() as sess:
        out = sess.run({"y": y, "both": (x, [y])}, {x: [1, 2]})
    np.testing.assert_array_equal(out["y"], [2, 4])
    np.testing.assert_array_equal(out["both"][1][0], [2, 4])


def test_gradient_in_a_graph(graph):
    x = tf.placeholder(tf.float32, [])
    (g,) = tf.gradients(x * x * x, [x])
    with tf.Session() as sess:
        assert sess.run(g, {x: 2.0}) == 12.0


def test_eager_and_tape():
    with context.enter(None):
        x = penstock.constant(3.0)
        with penstock.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        assert tape.gradient(y, x).numpy() == 6.0


def test_eager_tensors_print_as_tensorflows_do():
    with context.enter(None):
        t = penstock.constant([[22.0, 28.0], [49.0, 64.0]])
        assert str(t) == "tf.Tensor(\n[[22. 28.]\n [49. 64.]], shape=(2, 2), dtype=float32)"


def test_an_error_names_the_op_and_the_users_line(graph):
    x = tf.placeholder(tf.float32, [], name="forgotten")
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError) as e:
        sess.run(x + 1.0)
    assert "forgotten" in str(e.value) and "test_tiny.py" in str(e.value)


def test_a_program_can_be_read(graph):
    x = tf.placeholder(tf.float32, [])
    y = tf.add(x, 1.0, name="total")
    with tf.Session() as sess:
        assert "total" in sess.explain(y, {x: 0.0})
