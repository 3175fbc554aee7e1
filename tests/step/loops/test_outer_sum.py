"""Sums of products over the iterations of a loop: the same as adding them one by one, with bounded memory."""
from unittest import mock

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.step.loops import outer_sum

RNG = np.random.RandomState(1)
X, W = RNG.normal(size=(5, 4, 3)).astype(np.float32), RNG.normal(size=(3, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def graph():
    context.process.v2_control_flow = False
    with tf.Graph().as_default():
        yield


def recurrent(body=lambda x, h, w: tf.tanh(tf.matmul(x + h, w))):
    """The gradient of a loop's result for the matrix that it multiplies by."""
    n, w = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [3, 3])
    xs = tf.TensorArray(tf.float32, 5, clear_after_read=False).unstack(X)
    _, h = tf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, body(xs.read(i % 5), h, w)),
                         [tf.constant(0), tf.zeros([4, 3])])
    return tf.gradients(tf.reduce_sum(h * h), w)[0], n, w


def values(g, n, w, count):
    feeds = {n: count, w: W}
    with tf.Session() as sess:
        source, found = sess.explain(g, feeds), sess.run(g, feeds)
    with mock.patch("penstock._src.step.compiler.write_structured", lambda *_: None), tf.Session() as sess:
        return source, found, sess.run(g, feeds)


@pytest.mark.parametrize("count", [0, 1, 5, 23])
@pytest.mark.parametrize("rows", [4, 9, 2048])
def test_gradients_of_weights(count, rows, monkeypatch):
    monkeypatch.setattr(outer_sum, "_ROWS", rows)
    source, found, expected = values(*recurrent(), count)
    assert "OuterSum" in source
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_product_on_a_branch_is_added_as_written():
    def body(x, h, w):
        return tf.cond(tf.reduce_sum(h) > 0.0, lambda: tf.tanh(tf.matmul(x + h, w)), lambda: x - h)
    source, found, expected = values(*recurrent(body), 7)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert "OuterSum" not in source


def test_two_products_with_one_matrix():
    source, found, expected = values(*recurrent(lambda x, h, w: tf.tanh(tf.matmul(x, w) + tf.matmul(h, w))), 6)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_sum_that_is_looked_at_inside_stays():
    a, b = tf.placeholder(tf.float32, [4, 3]), tf.placeholder(tf.float32, [4, 2])

    def body(i, s, seen):
        return i + 1, s + tf.matmul(a, b, transpose_a=True), seen + tf.reduce_sum(s)
    out = tf.while_loop(lambda i, *_: i < 3, body, [tf.constant(0), tf.zeros([3, 2]), tf.constant(0.0)])
    feeds = {a: X[0], b: X[1][:, :2]}
    with tf.Session() as sess:
        assert "OuterSum" not in sess.explain(out, feeds)
        _, s, seen = sess.run(out, feeds)
    product = X[0].T @ X[1][:, :2]
    np.testing.assert_allclose(s, 3 * product, rtol=1e-5)
    np.testing.assert_allclose(seen, 3 * product.sum(), rtol=1e-4)


def test_what_waits_is_bounded():
    total = outer_sum.OuterSum()
    import torch
    a, b = torch.ones(100, 2), torch.ones(100, 3)
    for _ in range(100):
        total.add(a, b)
        assert total._rows < outer_sum._ROWS
    assert total.total(torch.zeros(2, 3)).eq(10000).all()
