"""Fusions for GPUs, tested on the CPU with a device that claims not to be the host."""
import numpy as np

import penstock.compat.v1 as tf
from penstock._src.step import ir as steps


def test_gradients_of_bias_and_relu_become_one_op(monkeypatch):
    draw = np.random.RandomState(0)
    with tf.Graph().as_default():
        x, w, b = (tf.constant(draw.randn(*s).astype(np.float32)) for s in ((2, 5, 5, 3), (3, 3, 3, 4), (4,)))
        y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), b))
        fetches = [y, *tf.gradients(tf.reduce_sum(y * y), [x, w, b])]
        off = tf.ConfigProto()
        off.graph_options.rewrite_options.disable_meta_optimizer = True
        off.graph_options.rewrite_options.constant_folding = off.graph_options.rewrite_options.OFF
        with tf.Session(config=off) as sess:
            expected = sess.run(fetches)
        on = tf.ConfigProto()
        on.graph_options.rewrite_options.constant_folding = on.graph_options.rewrite_options.OFF
        monkeypatch.setattr(steps.StepGraph, "on_host", lambda self, op: False)
        with tf.Session(config=on) as sess:
            assert "_ReluBiasGrad" in sess.explain(fetches) and "BiasAddGrad" not in sess.explain(fetches)
            for a, b in zip(sess.run(fetches), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
