"""Values die at their last use: the memory of a step does not grow with its length, nor with the number of steps."""
import gc
import resource

import numpy as np
import torch

import penstock.compat.v1 as tf
from penstock._src.kernels import reuse
from penstock._src.step.optimize import variants

MEGABYTE = 1 << 20


class Peak:
    """The most bytes of tensors that were alive at once, inspected after every call of a probing op."""

    def __init__(self):
        self.most = 0

    def __call__(self, x):
        alive = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in gc.get_objects()
                 if type(t) is torch.Tensor}
        self.most = max(self.most, sum(alive.values()))
        return x


def peak_of_chain(length):
    peak = Peak()
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [MEGABYTE // 4])
        y = x
        for i in range(length):
            y = tf.tanh(y) if i % 2 else tf.sqrt(tf.square(y) + 1.)
        y = tf.reduce_sum(tf.py_func(peak, [y], tf.float32))
        base = sum(t.untyped_storage().nbytes() for t in gc.get_objects() if type(t) is torch.Tensor)
        sess.run(y, {x: np.ones(MEGABYTE // 4, np.float32)})
        return peak.most - base


def test_a_deep_chain_needs_no_more_than_a_short_one():
    assert peak_of_chain(40) <= peak_of_chain(4) + MEGABYTE


def test_a_long_loop_of_steps_keeps_nothing(monkeypatch):
    monkeypatch.setattr(variants, "_MOST", 3)
    monkeypatch.setattr(variants, "_REMEMBERED", 5)
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 64])
        v = tf.Variable(np.ones((64, 64), np.float32))
        train = tf.train.AdamOptimizer(0.01).minimize(tf.reduce_mean(tf.square(tf.matmul(x, v))))
        sess.run(tf.global_variables_initializer())

        def steps(n):
            for i in range(n):
                sess.run(train, {x: np.ones((32 + i % 40, 64), np.float32)})
            gc.collect()
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        before = steps(200)
        assert steps(800) - before < 24 * MEGABYTE
        step, = [s for s in sess._engine._programs.values() if isinstance(s.runnable, variants.Variants)]
        assert len(step.runnable._made) <= 3 and len(step.runnable._seen) <= 5


def test_a_dying_temporary_is_written_over_and_others_are_not():
    n = reuse.LEAST // 4
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [n])
        a = tf.exp(x)
        kept = tf.reshape(a, [2, -1])
        y, z = tf.tanh(a), tf.nn.relu(-tf.sqrt(tf.square(x) + 1.)) + a
        fed = np.linspace(-1, 1, n).astype(np.float32)
        given = fed.copy()
        for _ in range(3):
            out = sess.run([y, z, kept, a], {x: fed})
            np.testing.assert_array_equal(fed, given)
            np.testing.assert_allclose(out[0], np.tanh(np.exp(given)), rtol=1e-5)
            np.testing.assert_allclose(out[1], np.exp(given), rtol=1e-5)
            np.testing.assert_allclose(out[2].reshape(-1), np.exp(given), rtol=1e-5)
            np.testing.assert_allclose(out[3], np.exp(given), rtol=1e-5)


def test_arrays_of_python_functions_are_not_written_over():
    n = reuse.LEAST // 4
    held = np.ones(n, np.float32)
    with tf.Graph().as_default(), tf.Session() as sess:
        y = tf.exp(tf.reshape(tf.py_func(lambda: held, [], tf.float32), [n])) + 1.
        sess.run(y)
        sess.run(y)
    np.testing.assert_array_equal(held, np.ones(n))


def test_reuse_counts_holders():
    doubled = reuse.reusing(lambda a: a + 1, lambda a: a.add_(1))
    scope = {"k": doubled, "zeros": torch.zeros}
    exec("def alone():\n    t = zeros(100000)\n    p = t.data_ptr()\n    return k(t).data_ptr() == p\n"
         "def viewed():\n    t = zeros(100000)\n    v = t[1:]\n    p = t.data_ptr()\n    return k(t).data_ptr() == p\n", scope)
    assert scope["alone"]() and not scope["viewed"]()
    assert doubled(torch.from_numpy(np.zeros(100000, np.float32))).sum() == 100000
