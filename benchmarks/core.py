"""Side by side with TensorFlow: graph construction, tf.gradients, a null step, the first run of a large step, loops.

    python -m benchmarks.core --tf PYTHON_OF_AN_ENVIRONMENT_WITH_TENSORFLOW

One worker process per framework; their rounds are interleaved, and each figure is the ratio of the medians (time of
penstock over time of TensorFlow: below 1 is faster), with the best times beside it.
"""
from __future__ import annotations

import statistics
import time

import numpy as np
import turns

LAYERS = 2000


def build(tf, layers=LAYERS):
    """A deep chain of dense layers: 5 ops each."""
    x = tf.placeholder(tf.float32, [4, 8])
    h, weights = x, []
    for _ in range(layers):
        w = tf.constant(0.1, shape=[8, 8])
        h = tf.nn.relu(tf.nn.bias_add(tf.matmul(h, w), tf.constant(0.0, shape=[8])))
        weights.append(w)
    return h, weights


def construction(tf):
    """Seconds to build about 10,000 ops."""
    with tf.Graph().as_default():
        t = time.perf_counter()
        build(tf)
        return time.perf_counter() - t


def gradients(tf):
    """Seconds for tf.gradients over those ops."""
    with tf.Graph().as_default():
        h, weights = build(tf)
        loss = tf.reduce_sum(h)
        t = time.perf_counter()
        tf.gradients(loss, weights)
        return time.perf_counter() - t


class NullStep:
    """Seconds of one session.run of x + 1."""

    def __init__(self):
        self.sess = None

    def __call__(self, tf):
        if self.sess is None:
            graph = tf.Graph()
            with graph.as_default():
                x = tf.placeholder(tf.float32, [])
                self.fetch, self.feed = [x + 1.0], {x: 1.0}
            self.sess = tf.Session(graph=graph)
            self.sess.run(self.fetch, self.feed)
        n = 2000
        t = time.perf_counter()
        for _ in range(n):
            self.sess.run(self.fetch, self.feed)
        return (time.perf_counter() - t) / n


class FirstRun:
    """Seconds of the first run of a deep network with its gradients, in a new session."""

    def __init__(self):
        self.graph = None

    def __call__(self, tf):
        if self.graph is None:
            self.graph = tf.Graph()
            with self.graph.as_default():
                h, weights = build(tf)
                self.fetch = [h, tf.gradients(tf.reduce_sum(h), weights)[0]]
                self.feed = {self.graph.get_operations()[0].outputs[0]: [[1.0] * 8] * 4}
        with tf.Session(graph=self.graph) as sess:
            t = time.perf_counter()
            sess.run(self.fetch, self.feed)
            return time.perf_counter() - t


class CountingLoop:
    """Seconds of one iteration of a tf.while_loop that counts."""

    def __init__(self):
        self.sess = None

    def __call__(self, tf):
        if self.sess is None:
            graph = tf.Graph()
            with graph.as_default():
                self.n = tf.placeholder(tf.int32, [])
                self.fetch = tf.while_loop(lambda i: i < self.n, lambda i: i + 1, [tf.constant(0)])
            self.sess = tf.Session(graph=graph)
            self.sess.run(self.fetch, {self.n: 10})
        t = time.perf_counter()
        self.sess.run(self.fetch, {self.n: 20000})
        return (time.perf_counter() - t) / 20000


class Cell:
    """An LSTM with 64 units, as dynamic_rnn takes it."""

    state_size, output_size = (64, 64), 64

    def __init__(self, tf):
        self.tf = tf

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        """Zeros."""
        return tuple(self.tf.zeros(self.tf.stack([batch_size, n]), dtype) for n in self.state_size)

    def zero_state(self, batch_size, dtype):
        """The same."""
        return self.get_initial_state(None, batch_size, dtype)

    def __call__(self, x, state, scope=None):
        tf, (c, h) = self.tf, state
        w, b = tf.get_variable("w", [32 + 64, 4 * 64]), tf.get_variable("b", [4 * 64])
        i, j, f, o = tf.split(tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), w), b), 4, axis=1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        return h, (c, h)


class OpenLoop:
    """Seconds of a training step of dynamic_rnn, where the graph leaves batch size (16) and time (20) open."""

    def __init__(self):
        self.sess = None

    def __call__(self, tf):
        if self.sess is None:
            graph = tf.Graph()
            with graph.as_default():
                x = tf.placeholder(tf.float32, [None, None, 32])
                loss = tf.reduce_mean(tf.square(tf.nn.dynamic_rnn(Cell(tf), x, dtype=tf.float32)[0] - 0.5))
                self.fetch = [tf.train.GradientDescentOptimizer(0.1).minimize(loss), loss]
                self.feed = {x: np.random.RandomState(0).randn(16, 20, 32)}
                init = tf.global_variables_initializer()
            self.sess = tf.Session(graph=graph)
            self.sess.run(init)
            for _ in range(5):
                self.sess.run(self.fetch, self.feed)
        t = time.perf_counter()
        for _ in range(20):
            self.sess.run(self.fetch, self.feed)
        return (time.perf_counter() - t) / 20


WORK = {"construction": construction, "gradients": gradients, "null step": NullStep(), "first run": FirstRun(),
        "counting loop": CountingLoop(), "open loop": OpenLoop()}


def report(item, seen):
    """One line: the best times, and the ratio of the medians."""
    ratio = statistics.median(seen["penstock"]) / statistics.median(seen["tensorflow"])
    return f"{item:14}{min(seen['penstock']) * 1e3:9.5f} ms{min(seen['tensorflow']) * 1e3:9.5f} ms{ratio:8.3f}"


def in_graphs(function):
    """The same work under TensorFlow 1's behaviour."""
    def run(tf):
        tf.disable_v2_behavior()
        return function(tf)
    return run


if __name__ == "__main__":
    turns.main(__doc__, ("penstock.compat.v1", "tensorflow.compat.v1"), {k: in_graphs(w) for k, w in WORK.items()}, report,
               f"{'':14}{'penstock':>12}{'tensorflow':>12}{'ratio':>8}")
