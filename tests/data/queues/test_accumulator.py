"""Conditional accumulators."""
import numpy as np
import pytest
import torch

import penstock.compat.v1 as tf
from penstock._src.data.queues.accumulator import DenseAccumulator
from penstock._src.execute.context import ResourceManager, StepContext

from .threads import Worker, waits


@pytest.mark.parametrize("kind, expected", [("MEAN", [4., 6.]), ("SUM", [12., 18.])])
def test_dense(sess, kind, expected):
    a = tf.ConditionalAccumulator(tf.float32, shape=[2], reduction_type=kind)
    x = tf.placeholder(tf.float32, [2])
    add, taken = a.apply_grad(x), a.take_grad(3)
    fed = np.zeros(2, np.float32)
    for v in ([1, 2], [3, 4], [8, 12]):
        fed[:] = v
        sess.run(add, {x: fed})
    fed[:] = 100                                   # what was added is not the caller's array
    assert sess.run(a.num_accumulated()) == 3
    assert sess.run(taken).tolist() == expected
    assert sess.run(a.num_accumulated()) == 0


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "uint8", "uint16", "complex64"])
def test_means_of_types(sess, dtype):
    a = tf.ConditionalAccumulator(dtype, shape=[])
    for v in (1, 2, 6):
        sess.run(a.apply_grad(np.array(v, dtype)))
    assert sess.run(a.take_grad(1)) == np.array(9, dtype) / 3


def test_stale_gradients_are_dropped(sess):
    a = tf.ConditionalAccumulator(tf.float32, shape=[])
    sess.run(a.set_global_step(2))
    sess.run(a.apply_grad(1., local_step=1))
    assert sess.run(a.num_accumulated()) == 0
    sess.run(a.apply_grad(1., local_step=2))
    sess.run(a.take_grad(1))                       # moves the step on
    sess.run(a.apply_grad(1., local_step=2))
    assert sess.run(a.num_accumulated()) == 0


def test_taking_waits_and_can_be_ended(sess):
    a = tf.ConditionalAccumulator(tf.float32, shape=[])
    add, taken = a.apply_grad(2.), a.take_grad(2)
    with pytest.raises(tf.errors.DeadlineExceededError):
        sess.run(taken, options=tf.RunOptions(timeout_in_ms=30))
    taker = Worker(sess.run, taken)
    sess.run(add)
    assert waits(taker)
    sess.run(add)
    assert taker.result() == 2.
    with pytest.raises(tf.errors.InvalidArgumentError, match="num_required must be positive"):
        sess.run(a.take_grad(0))


def test_eager():
    a = tf.ConditionalAccumulator(tf.float32, shape=[2])
    a.apply_grad([1., 2.])
    a.apply_grad([3., 2.])
    assert a.take_grad(2).numpy().tolist() == [2., 2.]


def test_sparse_means_are_over_the_gradients_that_have_the_row(sess):
    a = tf.SparseConditionalAccumulator(tf.float32, shape=[10, 2])
    sess.run(a.apply_grad([0, 2], [[1., 1.], [2., 2.]]))
    sess.run(a.apply_indexed_slices_grad(tf.IndexedSlices([[4., 4.], [9., 9.]], [2, 5], [10, 2])))
    taken = sess.run(a.take_indexed_slices_grad(2))
    assert taken.indices.tolist() == [0, 2, 5] and taken.dense_shape.tolist() == [10, 2]
    assert taken.values.tolist() == [[1., 1.], [3., 3.], [9., 9.]]


@pytest.mark.parametrize("indices, values, shape, message", [
    ([10], [[1., 1.]], None, "exceeded limits of shape"), ([-1], [[1., 1.]], None, "exceeded limits"),
    ([0], [[1.]], None, "values dim 1"), ([0, 1], [[1., 1.]], None, "non-empty input values"),
    ([0], [[1., 1.]], [9, 2], "shape dim 0 to be 10, got 9"), ([[0]], [[1., 1.]], None, "should be vector")])
def test_sparse_gradients_that_do_not_fit(sess, indices, values, shape, message):
    a = tf.SparseConditionalAccumulator(tf.float32, shape=[10, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        sess.run(a.apply_grad(indices, values, shape))
    assert sess.run(a.num_accumulated()) == 0


def test_a_worker_counts_once_in_a_mean_if_it_should():
    """The second gradient of a worker that was started again is dropped, until the mean was taken."""
    made = DenseAccumulator("a", tf.float32, (1,), "MEAN")
    for worker, value in (("w0", 1.0), ("w0", 5.0), ("w1", 3.0)):
        made.apply(0, torch.tensor([value]), worker, once=True)
    assert made.count == 2 and made.tallies == {"w0": [1, 1], "w1": [1, 0]}
    ctx = StepContext(ResourceManager())
    assert made.take(2, ctx).tolist() == [2.0]
    made.apply(1, torch.tensor([7.0]), "w0", once=True)
    made.apply(1, torch.tensor([9.0]), "w0")                  # several gradients of a worker may be wanted
    assert made.take(2, ctx).tolist() == [8.0]
