"""Fusions for GPUs, tested on the CPU with a device that claims not to be the host."""
import numpy as np

import penstock.compat.v1 as tf
from penstock._src.step import ir as steps
from penstock._src.step.optimize import pipeline


def _both(monkeypatch, build):
    """The fetches of a graph without passes and with those for a GPU, and the program of these."""
    with tf.Graph().as_default():
        fetches = build()
        off = tf.ConfigProto()
        off.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Session(config=off) as sess:
            sess.run(tf.global_variables_initializer())
            expected = sess.run(fetches)
        monkeypatch.setattr(steps.StepGraph, "on_host", lambda self, op: False)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            return sess.run(fetches), expected, sess.explain(fetches)


def test_a_bias_before_batch_norm_moves_the_mean_alone(monkeypatch):
    draw = np.random.RandomState(0)

    def build():
        x, w, b, scale, weight = (tf.Variable(draw.randn(*s).astype(np.float32), use_resource=True)
                                  for s in ((4, 5, 5, 3), (3, 3, 3, 4), (4,), (4,), (4, 5, 5, 4)))
        y = tf.nn.bias_add(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), b)
        y, mean, variance = tf.nn.fused_batch_norm(y, scale, tf.zeros([4]))
        return [y, mean, variance, *tf.gradients(tf.reduce_sum(tf.tanh(y) * weight), [b, x, w, scale])]
    found, expected, program = _both(monkeypatch, build)
    assert ": BiasAdd " not in program and ": BiasAddGrad " not in program
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert not found[3].any()


def test_a_bias_that_others_need_stays(monkeypatch):
    draw = np.random.RandomState(0)

    def build():
        x, b = (tf.Variable(draw.randn(*s).astype(np.float32), use_resource=True) for s in ((4, 5, 5, 3), (3,)))
        biased = tf.nn.bias_add(x, b)
        y, mean, _ = tf.nn.fused_batch_norm(biased, tf.ones([3]), tf.zeros([3]))
        return [mean, *tf.gradients(tf.reduce_sum(y * biased * biased), [b, x])]
    found, expected, program = _both(monkeypatch, build)
    assert "BiasAdd" in program
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)


def test_stacked_tensors_are_transposed_before(monkeypatch):
    draw = np.random.RandomState(0)

    def build():
        parts = [tf.Variable(draw.randn(2, 3, 4, 5).astype(np.float32), use_resource=True) for _ in range(3)]
        found = []
        for axis, perm in ((0, [1, 3, 0, 2, 4]), (2, [4, 3, 2, 1, 0]), (-1, [0, 1, 2, 4, 3])):
            found.append(tf.reshape(tf.transpose(tf.stack([2.0 * p for p in parts], axis), perm), [2, -1]))
        return found
    monkeypatch.setattr(pipeline, "PASSES", tuple(p for p in pipeline.PASSES if p[1] is not pipeline.join_regions))
    found, expected, program = _both(monkeypatch, build)
    assert program.index("= Transpose(") < program.index("= Pack(") and program.count("= Transpose(") == 9
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
