"""Filters lie in memory as their kernels read them; nothing else about them changes."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.kernels.devices.cpu import Cpu
from penstock._src.ops.state.state import VariableResource
from tests.step.place.fake_gpu import FakeGpu


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_filter_variable_is_arranged_and_keeps_its_values(use_resource, monkeypatch):
    monkeypatch.setattr("penstock._src.session.local.local_devices", lambda config=None: [Cpu(0, 0, 1), FakeGpu(0, 0, 1)])
    draw = np.random.RandomState(0)
    x, w = draw.randn(2, 6, 6, 3).astype(np.float32), draw.randn(3, 3, 3, 4).astype(np.float32)
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        filters = tf.Variable(w, use_resource=use_resource)
        y = tf.nn.conv2d(x, filters, [1, 1, 1, 1], "SAME")
        again = filters.assign(w * 2)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            first = sess.run(y)
            variable, = [r for _, r in sess._resources.items() if isinstance(r, VariableResource)]
            assert variable.order == (3, 0, 1, 2) and variable.value.stride() == (9, 3, 1, 27)
            np.testing.assert_array_equal(sess.run(filters), w)
            assert sess.run(filters).flags.c_contiguous
            sess.run(again)
            assert variable.value.stride() == (9, 3, 1, 27)
            np.testing.assert_allclose(sess.run(y), first * 2, rtol=1e-5)


@pytest.mark.parametrize("use_resource", [False, True])
def test_what_an_optimizer_keeps_follows_the_filter(use_resource):
    draw = np.random.RandomState(0)
    x, w = draw.randn(2, 6, 6, 3).astype(np.float32), draw.randn(3, 3, 3, 4).astype(np.float32)
    with tf.Graph().as_default():
        filters = tf.Variable(w, use_resource=use_resource)
        loss = tf.reduce_sum(tf.square(tf.nn.conv2d(x, filters, [1, 1, 1, 1], "SAME")))
        gradient, = tf.gradients(loss, [filters])
        optimizer = tf.train.MomentumOptimizer(1e-3, 0.9)
        train = optimizer.apply_gradients([(gradient, filters)])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            first = sess.run(gradient)
            sess.run(train)
            variables = [r for _, r in sess._resources.items() if isinstance(r, VariableResource) and r.value.ndim == 4]
            assert len(variables) == 2 and {v.value.stride() for v in variables} == {(9, 3, 1, 27)}
            np.testing.assert_allclose(sess.run(filters), w - 1e-3 * first, rtol=1e-5)
            np.testing.assert_allclose(sess.run(optimizer.get_slot(filters, "momentum")), first, rtol=1e-6)
            second = sess.run(gradient)
            sess.run(train)
            np.testing.assert_allclose(sess.run(filters), w - 1e-3 * first - 1e-3 * (0.9 * first + second), rtol=1e-5)
            assert sess.run(gradient).flags.c_contiguous


def test_a_filter_of_one_output_stays_where_it_is():
    """Its axes of size one have any order: it counts as contiguous."""
    with tf.Graph().as_default():
        filters = tf.Variable(np.random.RandomState(0).randn(1, 1, 4, 1).astype(np.float32))
        loss = tf.reduce_sum(tf.square(tf.nn.conv2d(tf.ones([2, 6, 6, 4]), filters, [1, 1, 1, 1], "SAME")))
        train = tf.train.AdamOptimizer(1e-3).minimize(loss)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(3):
                sess.run(train)
            variables = [r for _, r in sess._resources.items() if isinstance(r, VariableResource) and r.value.ndim == 4]
            before = [v.value.data_ptr() for v in variables]
            sess.run(train)
            assert len(variables) == 3 and [v.value.data_ptr() for v in variables] == before
