"""Chains of arithmetic on a few numbers."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

from .steps import config


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def exactly(fetches, feed=None, runs=4):
    """Asserts that joining changes no bit, and returns the values."""
    found = []
    for on in (True, False):
        with tf.Session(config=config(remapping=on)) as sess:
            found.append([sess.run(fetches, feed) for _ in range(runs)][-1])
    for a, b in zip(*found, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return found[0]


def source(fetches, feeds=(), **switches):
    with tf.Session(config=config(**switches)) as sess:
        return sess.explain(fetches, dict.fromkeys(feeds))


def chain(x, y, n=12, absolute=tf.abs):
    for i in range(n):
        x = [x + y, x * y, x - y, x / y, -x, absolute(x), y - x][i % 7]
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (0,)])
def test_the_same_to_the_bit(dtype, shape):
    x, y = (tf.placeholder(dtype, shape) for _ in range(2))
    r = np.random.RandomState(1)
    feed = {t: np.asarray(r.randn(*shape) * 10.0 ** r.randint(-3, 4), dtype) for t in (x, y)}
    out = chain(x, y)
    assert "_Small" in source([out], [x, y]) and "_Small" not in source([out], [x, y], remapping=False)
    exactly([out, out * x], feed)


def test_infinite_and_undefined_numbers_give_no_warning():
    x = tf.placeholder(tf.float32, [5])
    y = tf.constant([0., np.inf, np.nan, -0., 3e38])
    value = np.array([1., -np.inf, 2., -0., 3e38], np.float32)
    exactly([chain(x, y, 8), chain(y, x, 8)], {x: value})


def test_scalars_with_arrays():
    x, s = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [])
    t = s * s + s
    out = (x + t) * s - t / (x + s * 0.1)
    exactly([out, t], {x: np.random.RandomState(1).randn(2, 3), s: 0.3})


def test_unknown_shapes_get_a_program_when_they_come_back():
    x, y = tf.placeholder(tf.float32, None), tf.placeholder(tf.float32, None)
    out = chain(x, y, 9)
    assert "_Small" not in source([out], [x, y])
    r = np.random.RandomState(2)
    with tf.Session() as sess:
        for shape in [(4,)] * 5 + [(2, 1)] * 5 + [()] * 5:
            a, b = (np.asarray(r.randn(*shape) + 2, np.float32) for _ in range(2))
            got = sess.run(out, {x: a, y: b})
            np.testing.assert_array_equal(got, chain(a, b, 9, np.abs))


def test_many_numbers_added_to_one_array_and_summed():
    x = tf.placeholder(tf.float32, [16])
    value = np.random.RandomState(3).randn(16).astype(np.float32) * 1e3
    terms = [x + i * 0.37 for i in range(50)]
    total, = exactly([tf.add_n(terms)], {x: value})
    want = value + np.float32(0)
    for i in range(1, 50):
        want = want + (value + np.float32(i * 0.37))
    np.testing.assert_array_equal(total, want)
    exactly([tf.add_n(terms[::-1]), tf.add_n(terms[3:]), terms[7] * terms[8]], {x: value})
    exactly([tf.add_n([0.5 - x for _ in range(3)] + [i - x for i in range(20)])], {x: value})


def test_a_result_that_is_wanted_twice_is_not_written_over():
    x = tf.placeholder(tf.float32, [4])
    a = x + 1.
    b = a + x
    c = b + a
    d = c * b
    e = d - c
    f = e + e
    value = np.arange(4, dtype=np.float32)
    got = exactly([f, b], {x: value})
    np.testing.assert_array_equal(got[1], 2 * value + 1)


def test_a_fed_tensor_in_the_middle():
    x = tf.placeholder(tf.float32, [4])
    a = [x]
    for _ in range(8):
        a.append(a[-1] * 1.5 + x)
    exactly([a[-1]], {x: np.ones(4), a[3]: np.arange(4.)})


def test_reads_and_assignments_keep_their_order():
    v = tf.get_variable("v", initializer=np.arange(4, dtype=np.float32), use_resource=True)
    before = v.read_value()
    total = before
    for _ in range(8):
        total = total + before
    with tf.control_dependencies([total]):
        change = v.assign_add(tf.ones(4))
    with tf.control_dependencies([change]):
        after = v.read_value()
    for _ in range(8):
        after = after + total
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        got = sess.run([total, after])
    np.testing.assert_array_equal(got[0], 9. * np.arange(4))
    np.testing.assert_array_equal(got[1], np.arange(4) + 1. + 72. * np.arange(4))


def test_values_that_are_fetched_can_be_changed():
    x = tf.placeholder(tf.float32, [3])
    a = x + 1.
    outs = [a]
    for _ in range(9):
        outs.append(outs[-1] + a)
    fetched = [outs[3], outs[-1]]
    feed = np.zeros(3, np.float32)
    with tf.Session() as sess:
        for _ in range(4):
            first, last = sess.run(fetched, {x: feed})
            first[:] = 100
            last[:] = 100
            np.testing.assert_array_equal(feed, 0)
        np.testing.assert_array_equal(sess.run(fetched, {x: feed})[1], np.full(3, 10.))


@pytest.mark.parametrize("simplify", [True, False])
def test_an_op_that_others_wait_for_stays(simplify):
    x = tf.placeholder(tf.float32, [4])
    y = chain(x, x + 1., 8)
    with tf.control_dependencies([y.op.inputs[0].op]):
        z = tf.exp(x)
    with tf.Session(config=config(dependency_optimization=simplify)) as sess:
        for _ in range(4):
            got = sess.run([y, z], {x: np.ones(4)})
    np.testing.assert_allclose(got[1], np.exp(np.ones(4)), rtol=1e-6)
