"""Random graphs produce the same results with all passes and with none.

The graphs have what passes look for: twins, constants, identities, shapes, biases and activations, pools with gradients,
variables that are read and assigned under control dependencies, branches and loops.
"""
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock.compat.v1 as tf
from penstock._src.step.optimize import pointwise

from .steps import config

ROWS, COLUMNS = 4, 4
UNARY = (tf.negative, tf.tanh, tf.nn.relu, tf.square, tf.identity, tf.stop_gradient, tf.sigmoid, tf.zeros_like,
         lambda x: tf.reshape(x, [-1, COLUMNS]), lambda x: tf.reshape(x, tf.shape(x)), lambda x: tf.transpose(tf.transpose(x)),
         lambda x: x + 0., lambda x: x * 1., lambda x: tf.cast(x, tf.float32), lambda x: tf.nn.bias_add(x, tf.ones([COLUMNS])),
         lambda x: x * tf.cast(tf.size(x), tf.float32), lambda x: tf.nn.softmax(x), lambda x: tf.log1p(tf.abs(x)),
         lambda x: x - tf.reduce_mean(x, 1, keepdims=True), lambda x: x * tf.rsqrt(tf.square(x) + 1.),
         lambda x: tf.log(x * x + 1.),
         lambda x: tf.where(x > 0., tf.exp(-x), tf.minimum(x, 1.)), lambda x: tf.sqrt(tf.abs(x) + 0.5) / (1. + tf.square(x)),
         lambda x: x / (1. + tf.reduce_sum(tf.abs(x))), lambda x: tf.squared_difference(x, 1.))
BINARY = (tf.add, tf.subtract, tf.multiply, tf.maximum, tf.matmul, lambda x, y: tf.matmul(x, y, transpose_b=True),
          lambda x, y: tf.nn.relu(tf.matmul(x, y) + tf.constant([1., 2., 3., 4.])))
CHOICES = ("unary", "binary", "twin", "constant", "branch", "loop", "wait", "assign", "read", "split")


class Builder:
    """A graph that grows by one drawn step at a time."""

    def __init__(self, draw):
        self.draw = draw
        self.x = tf.placeholder(tf.float32, [None, COLUMNS])
        self.values = [self.x, tf.constant(np.arange(16, dtype=np.float32).reshape(4, 4) / 10)]
        self.variable = tf.Variable(np.eye(4, dtype=np.float32), use_resource=draw(st.booleans()))
        self.last = tf.no_op()                       # the last op that touched the variable: the next one waits for it

    def pick(self):
        return self.values[self.draw(st.integers(0, len(self.values) - 1))]

    def grow(self, kind):
        self.values.append(getattr(self, kind)())

    def unary(self):
        return UNARY[self.draw(st.integers(0, len(UNARY) - 1))](self.pick())

    def binary(self):
        return BINARY[self.draw(st.integers(0, len(BINARY) - 1))](self.pick(), self.pick())

    def twin(self):
        x = self.pick()
        return tf.exp(tf.clip_by_value(x, -2., 2.)) + tf.exp(tf.clip_by_value(x, -2., 2.))

    def constant(self):
        return tf.fill([4, 4], self.draw(st.integers(-2, 2)) / 2.) + tf.constant(1.)

    def branch(self):
        a, b = self.pick(), self.pick()
        return tf.cond(tf.reduce_sum(a) > self.draw(st.integers(-3, 3)), lambda: tf.tanh(a) * 2., lambda: tf.zeros_like(a) + b)

    def loop(self):
        a, times = self.pick(), self.draw(st.integers(0, 3))
        shapes = [tf.TensorShape([]), tf.TensorShape([None, None])]
        return tf.while_loop(lambda i, v: i < times, lambda i, v: (i + 1, tf.tanh(v) + tf.zeros([4, 4]) * 3.),
                             [tf.constant(0), tf.identity(a)], shape_invariants=shapes)[1] + tf.zeros([4, 4])

    def wait(self):
        with tf.control_dependencies([tf.exp(self.pick()), self.pick()]):
            return tf.identity(self.pick())

    def read(self):
        with tf.control_dependencies([self.last]):
            value = self.variable.read_value()
        self.last = value.op
        return value

    def assign(self):
        with tf.control_dependencies([self.last]):
            self.last = tf.assign_add(self.variable, tf.tanh(self.pick())).op
        with tf.control_dependencies([self.last]):
            return tf.identity(self.pick())

    def split(self):
        a, b = tf.split(self.pick(), 2, axis=1)
        return tf.concat([b, a], 1)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_passes_do_not_change_results(data):
    if data.draw(st.booleans()):
        tf.disable_control_flow_v2()
    else:
        tf.enable_control_flow_v2()
    large = mock.patch.object(pointwise, "_LARGE", data.draw(st.sampled_from([1, 1 << 14])))     # 1: joined outside of loops
    with large, tf.Graph().as_default():
        builder = Builder(data.draw)
        for kind in data.draw(st.lists(st.sampled_from(CHOICES), min_size=1, max_size=12)):
            builder.grow(kind)
        y = builder.values[-1]
        grads = [g for g in tf.gradients(tf.reduce_sum(y), [builder.x]) if g is not None]
        fetches = [y, *grads, builder.pick()]
        results = []
        for on in (True, False):
            with tf.Session(config=config(all=on)) as sess:
                sess.run(builder.variable.initializer)
                rng = np.random.RandomState(0)
                runs = []
                for _ in range(4):                  # the last runs have programs for the shapes that were fed
                    runs.append(sess.run([*fetches, builder.last], {builder.x: rng.randn(4, 4).astype(np.float32)})[:-1])
                results.append([*runs, [sess.run(builder.variable)]])
    for a, b in zip(*results, strict=True):
        for u, v in zip(a, b, strict=True):
            np.testing.assert_allclose(u, v, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(2, 3), (5, 3)])
def test_programs_for_fed_shapes(shape):
    """Shapes that come back, shapes that change, and shapes that are wrong."""
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, None])
        w = tf.Variable(np.ones((3, 2), np.float32))
        y = tf.nn.relu(tf.matmul(x, w) + tf.constant([1., -1.]))
        g, = tf.gradients(tf.reduce_sum(y), w)
        fetches = [y, tf.shape(y), g]
        sess.run(w.initializer)
        for n in [shape[0]] * 4 + [7, shape[0], 1, 0, 9, 9, 9, 9]:
            a = np.random.RandomState(n).randn(n, 3).astype(np.float32)
            out = sess.run(fetches, {x: a})
            expected = np.maximum(a.sum(1, keepdims=True) + [1., -1.], 0)
            np.testing.assert_allclose(out[0], expected, rtol=1e-5, atol=1e-6)     # sums near zero
            assert out[1].tolist() == [n, 2]
            np.testing.assert_allclose(out[2], a.T @ (expected > 0), rtol=1e-5, atol=1e-6)
        for _ in range(4):
            with pytest.raises(tf.errors.InvalidArgumentError):
                sess.run(fetches, {x: np.ones((2, 4), np.float32)})
