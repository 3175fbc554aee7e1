"""Scalars of loops as Python numbers: the same values as with kernels, at the edges too, and much quicker."""
from unittest import mock

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.graph import context


@pytest.fixture(autouse=True)
def graph():
    context.process.v2_control_flow = False
    with tf.Graph().as_default():
        yield


def both(fetches, feeds):
    """The values by a program and on the executor, which has no numbers; and the program."""
    with tf.Session() as sess:
        program = sess.explain(fetches, feeds)
        first = sess.run(fetches, feeds)
    with mock.patch("penstock._src.step.compiler.write_structured", lambda *_: None), tf.Session() as sess:
        second = sess.run(fetches, feeds)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
    return first, program


def test_counting_makes_no_tensors():
    n = tf.placeholder(tf.int32, [])
    i = tf.while_loop(lambda i: i < n, lambda i: i + 1, [tf.constant(0)])
    (found,), program = both([i], {n: 1000})
    assert found == 1000
    loop = program[program.index("while True"):program.index("return")]
    assert "(n" not in loop.replace("(r := n", "") and "k" not in loop.split("#")[0]


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize("step", [lambda a: a + a, lambda a: a * 3, lambda a: a - 2000000000, lambda a: tf.maximum(a * 2, a)])
def test_overflow(dtype, step):
    x = tf.placeholder(dtype, [])
    out = tf.while_loop(lambda i, a: i < 70, lambda i, a: (i + 1, step(a)), [tf.constant(0), x])
    for value in (1, -1, dtype.max, dtype.min, 12345):
        both(out, {x: value})


def test_numbers_and_tensors_mix():
    x, p = tf.placeholder(tf.float32, [4]), tf.placeholder(tf.bool, [])

    def body(i, going, acc):
        acc = acc + x[i % 4] * tf.cast(i, tf.float32)
        going = tf.cond(tf.logical_and(i > 3, p), lambda: tf.logical_not(going), lambda: going)
        return i + tf.cond(p, lambda: 2, lambda: 1), going, tf.stack([acc[0], tf.cast(i * 2, tf.float32)])
    out = tf.while_loop(lambda i, going, acc: tf.logical_and(i < 10, going), body,
                        [tf.constant(0), tf.constant(True), tf.zeros([2])])
    for value in (True, False):
        both(out, {x: np.arange(4), p: value})


def test_nested_loops_and_arrays():
    n = tf.placeholder(tf.int32, [])

    def outer(i, array):
        j, s = tf.while_loop(lambda j, s: j < i, lambda j, s: (j + 1, s + j * i), [tf.constant(0), tf.constant(0)])
        return i + 1, array.write(i, s + j)
    _, array = tf.while_loop(lambda i, _: i < n, outer, [tf.constant(0), tf.TensorArray(tf.int32, n)])
    (found,), _ = both([array.stack()], {n: 6})
    assert found.tolist() == [sum(range(i)) * i + i for i in range(6)]


def test_a_fed_or_fetched_number():
    n = tf.placeholder(tf.int32, [])
    i, double = tf.while_loop(lambda i, d: i < n, lambda i, d: (i + 1, i * 2), [tf.constant(0), tf.constant(0)])
    (a, b, c), _ = both([i, double, i + double], {n: 5})
    assert (a, b, c) == (5, 8, 13)


def test_gradients_use_numbers_too():
    x, n = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [])
    _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), [tf.constant(0), tf.constant(1.0)])
    (_, g), program = both([y, tf.gradients(y, x)[0]], {x: 2.0, n: 4})
    assert g == 32 and program.count("while True") == 2
