"""Sparse updates by rows that are known to be distinct, and by rows that are not."""
import numpy as np
import pytest

import penstock.compat.v1 as tf


def updated(optimizer, ids, steps=3, unique=True):
    """A table after some steps on rows `ids`; without `unique`, the op gets indices of which nothing is known."""
    with tf.Graph().as_default(), tf.Session() as sess:
        table = tf.Variable(np.arange(12, dtype=np.float32).reshape(6, 2) / 10)
        at = tf.placeholder(tf.int64, [None])
        rows = tf.gather(table, at)
        made = optimizer()
        train = made.minimize(tf.reduce_sum(tf.square(rows)), var_list=[table])
        sess.run(tf.global_variables_initializer())
        feed = {at: ids}
        if not unique:
            found = next(op for op in tf.get_default_graph().get_operations() if op.type == "Unique")
            first = np.array(list(dict.fromkeys(ids)))
            feed.update({found.outputs[0]: first, found.outputs[1]: [first.tolist().index(i) for i in ids]})
        for _ in range(steps):
            sess.run(train, feed)
        return sess.run(table)


@pytest.mark.parametrize("optimizer", [lambda: tf.train.AdagradOptimizer(0.1), lambda: tf.train.MomentumOptimizer(0.1, 0.9),
                                       lambda: tf.train.RMSPropOptimizer(0.1), lambda: tf.train.FtrlOptimizer(0.1)])
@pytest.mark.parametrize("ids", [[1, 4], [3, 3, 0, 3], [5]])
def test_the_same_for_indices_of_which_more_is_known(optimizer, ids):
    np.testing.assert_array_equal(updated(optimizer, ids), updated(optimizer, ids, unique=False))


def test_adagrad_by_hand():
    want, accum = np.arange(12, dtype=np.float32).reshape(6, 2) / 10, np.full((6, 2), 0.1, np.float32)
    ids = [3, 3, 0, 3]
    for _ in range(3):
        grad = np.zeros_like(want)
        for i in ids:
            grad[i] += 2 * want[i]
        touched = sorted(set(ids))
        accum[touched] += grad[touched] ** 2
        want[touched] -= 0.1 * grad[touched] / np.sqrt(accum[touched])
    np.testing.assert_allclose(updated(lambda: tf.train.AdagradOptimizer(0.1), ids), want, rtol=1e-5)


def test_rows_that_occur_twice_are_updated_in_turn():
    with tf.Graph().as_default(), tf.Session() as sess:
        var, accum = tf.Variable(np.ones((3, 1), np.float32)), tf.Variable(np.ones((3, 1), np.float32))
        step = tf.raw_ops.ResourceSparseApplyAdagrad(var=var.handle, accum=accum.handle, lr=1., grad=tf.constant([[1.], [2.]]),
                                                     indices=[1, 1])
        sess.run(tf.global_variables_initializer())
        sess.run(step)
        np.testing.assert_allclose(sess.run(accum)[1], 6., rtol=1e-6)
        np.testing.assert_allclose(sess.run(var)[1], 1 - 1 / np.sqrt(2) - 2 / np.sqrt(6), rtol=1e-6)
