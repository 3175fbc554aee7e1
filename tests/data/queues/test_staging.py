"""Staging areas."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.ops.state.staging import MapStagingArea, StagingArea

from .threads import Worker, waits


def test_first_in_first_out(sess):
    area = StagingArea([tf.int32, tf.string])
    x = tf.placeholder(tf.int32, [])
    put = area.put([x, tf.as_string(x)])
    for i in range(3):
        sess.run(put, {x: i})
    assert sess.run(area.size()) == 3
    assert sess.run(area.peek(2)) == [2, b"2"]
    assert [sess.run(area.get()) for _ in range(2)] == [[0, b"0"], [1, b"1"]]
    sess.run(area.clear())
    assert sess.run(area.size()) == 0


@pytest.mark.parametrize("limit", [{"capacity": 2}, {"memory_limit": 2 * 80}])
def test_a_full_area_holds_back(sess, limit):
    area = StagingArea([tf.float32], **limit)
    put, get = area.put([tf.ones([20])]), area.get()
    sess.run(put)
    sess.run(put)
    third = Worker(sess.run, put)
    assert waits(third)
    sess.run(get)
    third.result()
    assert sess.run(area.size()) == 2


def test_what_can_never_fit_is_refused(sess):
    area = StagingArea([tf.float32], memory_limit=10)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="memory limit"):
        sess.run(area.put([tf.ones([20])]))


def test_waiting_ends_with_the_step(sess):
    area = StagingArea([tf.float32])
    with pytest.raises(tf.errors.DeadlineExceededError):
        sess.run(area.get(), options=tf.RunOptions(timeout_in_ms=30))


@pytest.mark.parametrize("ordered", [False, True])
def test_by_key_and_in_parts(sess, ordered):
    area = MapStagingArea([tf.int32, tf.float32], names=["a", "b"], ordered=ordered)
    key = tf.placeholder(tf.int64, [])
    whole, first, second = area.put(key, {"a": 1, "b": 2.}), area.put(key, {"a": 3}), area.put(key, {"b": 4.})
    sess.run(whole, {key: 9})
    sess.run(first, {key: 7})
    assert sess.run([area.size(), area.incomplete_size()]) == [1, 1]
    sess.run(second, {key: 7})
    assert sess.run(area.peek(key), {key: 7}) == {"a": 3, "b": 4.}
    assert sess.run(area.get(key, ["b"])[1], {key: 7}) == {"b": 4.}
    with pytest.raises(tf.errors.InvalidArgumentError, match="already been removed"):
        sess.run(area.get(key, ["b"])[1], {key: 7})
    assert sess.run(area.get(key, ["a"])[1], {key: 7}) == {"a": 3}
    assert sess.run(area.get())[0] == 9


def test_the_least_key_comes_first_if_ordered(sess):
    area = MapStagingArea([tf.int32], ordered=True)
    key = tf.placeholder(tf.int64, [])
    put, get = area.put(key, [tf.cast(key, tf.int32)], [0]), area.get()
    keys = np.random.RandomState(0).permutation(20)
    for k in keys:
        sess.run(put, {key: k})
    assert [sess.run(get)[0] for _ in keys] == list(range(20))
