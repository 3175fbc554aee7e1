"""Batching across steps: concurrent calls are computed together, and each gets its own rows."""
import threading

import numpy as np
import pytest

import penstock.compat.v1 as tf


def in_threads(count, work):
    """The results of work(0) … work(count - 1), all running at once."""
    results = [None] * count

    def one(i):
        try:
            results[i] = work(i)
        except Exception as e:
            results[i] = e
    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    return results


@pytest.fixture
def graph():
    with tf.Graph().as_default():
        yield


def test_calls_are_computed_together(graph):
    sizes = []

    @tf.nondifferentiable_batch_function(1, 3, 20_000_000)
    def layer(x):
        return x * 2, tf.py_func(lambda v: sizes.append(len(v)) or v, [x], tf.float32)
    x = tf.placeholder(tf.float32, [None, 2])
    doubled, same = layer(x)
    with tf.Session() as sess:
        found = in_threads(3, lambda i: sess.run([doubled, same], {x: [[i, -i]]}))
    assert sizes == [3]                                       # no time-out was waited for: the batch was full
    for i, (twice, once) in enumerate(found):
        assert twice.tolist() == [[2 * i, -2 * i]] and once.tolist() == [[i, -i]]


def test_the_number_of_rows_is_not_that_of_one_call(graph):
    layer = tf.nondifferentiable_batch_function(1, 2, 20_000_000)(lambda x: tf.reshape(x, [-1]) + 1)
    x = tf.placeholder(tf.int32, [1, 1])
    out = layer(x)
    with tf.Session() as sess:
        found = in_threads(2, lambda i: sess.run(out, {x: [[i]]}))
    assert [f.tolist() for f in found] == [[1], [2]]


def test_batches_are_filled_up_and_time_out(graph):
    seen = []

    @tf.nondifferentiable_batch_function(1, 8, 1000, allowed_batch_sizes=[4, 8])
    def layer(x):
        return tf.py_func(lambda v: seen.append(v.tolist()) or v, [x], tf.int32)
    x = tf.placeholder(tf.int32, [None])
    out = layer(x)
    with tf.Session() as sess:
        assert sess.run(out, {x: [5, 6]}).tolist() == [5, 6]
        with pytest.raises(tf.errors.InvalidArgumentError, match="larger than maximum batch size 8"):
            sess.run(out, {x: range(9)})
    assert seen == [[5, 6, 5, 5]]


def test_an_error_reaches_every_call(graph):
    @tf.nondifferentiable_batch_function(1, 2, 20_000_000)
    def layer(x):
        return tf.reduce_sum(x)
    x = tf.placeholder(tf.int32, [1])
    out = layer(x)
    with tf.Session() as sess:
        found = in_threads(2, lambda i: sess.run(out, {x: [i]}))
    assert all(isinstance(e, tf.errors.FailedPreconditionError) and "0 dimensions" in e.message for e in found)


def test_a_call_that_gives_up_leaves_its_batch(graph):
    @tf.nondifferentiable_batch_function(1, 2, 600_000_000)
    def layer(x):
        return x + 1
    x = tf.placeholder(tf.int32, [1])
    out = layer(x)
    with tf.Session() as sess:
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(out, {x: [7]}, options=tf.RunOptions(timeout_in_ms=50))
        found = in_threads(2, lambda i: sess.run(out, {x: [i]}))
    assert sorted(int(v[0]) for v in found) == [1, 2]


def test_unbatch_gives_each_call_its_rows_and_collects_gradients(graph):
    x = tf.placeholder(tf.float32, [None])
    batched, index, call = tf.raw_ops.Batch(in_tensors=[x], num_batch_threads=1, max_batch_size=3,
                                            batch_timeout_micros=20_000_000, grad_timeout_micros=0)
    rows = tf.raw_ops.Unbatch(batched_tensor=batched[0] * 10, batch_index=index, id=call, timeout_micros=20_000_000)
    back = tf.raw_ops.UnbatchGrad(original_input=batched[0], batch_index=index, grad=rows + 1, id=call)
    with tf.Session() as sess:
        found = in_threads(2, lambda i: sess.run([rows, back, batched[0]], {x: [1.0, 2.0][:i + 1]}))
    assert [f[0].tolist() for f in found] == [[10], [10, 20]]
    for _, grads, batch in found:
        np.testing.assert_allclose(grads, batch * 10 + 1, rtol=1e-6)
    assert sorted(len(f[2]) for f in found) == [0, 3]


def test_rows_that_never_come(graph):
    rows = tf.raw_ops.Unbatch(batched_tensor=tf.zeros([0]), batch_index=tf.zeros([0, 3], tf.int64), id=np.int64(1 << 40),
                              timeout_micros=1000)
    with tf.Session() as sess, pytest.raises(tf.errors.DeadlineExceededError, match="did not arrive"):
        sess.run(rows)
