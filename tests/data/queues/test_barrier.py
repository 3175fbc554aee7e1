"""Barriers: elements are taken when all of their components have been inserted."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.ops.state.barrier import Barrier

from .threads import Worker, waits

FIRST = -2 ** 63


def test_elements_come_in_the_order_of_their_first_component(sess):
    b = Barrier((tf.float32, tf.string), shapes=((), ()))
    sess.run(b.insert_many(0, ["a", "b"], [1., 2.]))
    sess.run(b.insert_many(1, ["c"], ["z"]))
    sess.run(b.insert_many(0, ["c"], [3.]))
    assert sess.run([b.ready_size(), b.incomplete_size()]) == [1, 2]
    sess.run(b.insert_many(1, ["b", "a"], ["y", "x"]))
    index, keys, values = sess.run(b.take_many(3))
    assert index.tolist() == [FIRST, FIRST, FIRST + 1]
    assert sorted(zip(keys, *values, strict=True)) == [(b"a", 1., b"x"), (b"b", 2., b"y"), (b"c", 3., b"z")]


def test_a_bad_insertion_inserts_nothing(sess):
    b = Barrier((tf.int32, tf.int32), shapes=((), ()))
    sess.run(b.insert_many(0, ["a"], [1]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="already has a value for component 0"):
        sess.run(b.insert_many(0, ["new", "a"], [2, 3]))
    assert sess.run(b.incomplete_size()) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of range"):
        sess.run(b.insert_many(2, ["x"], [1]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shape mismatch"):
        sess.run(b.insert_many(0, ["x"], [[1, 2]]))


def test_closing(sess):
    b = Barrier((tf.int32, tf.int32), shapes=((), ()))
    sess.run(b.insert_many(0, ["a", "b"], [1, 2]))
    sess.run(b.close())
    with pytest.raises(tf.errors.CancelledError, match="brand new key"):
        sess.run(b.insert_many(0, ["c"], [3]))
    with pytest.raises(tf.errors.OutOfRangeError, match="requested 3, total size 2"):
        sess.run(b.take_many(3))
    sess.run(b.insert_many(1, ["a"], [1]))
    assert sess.run(b.take_many(5, allow_small_batch=True))[1].tolist() == [b"a"]
    sess.run(b.close(cancel_pending_enqueues=True))
    with pytest.raises(tf.errors.CancelledError, match="is closed"):
        sess.run(b.insert_many(1, ["b"], [1]))


def test_the_last_completion_ends_a_waiting_take(sess):
    b = Barrier((tf.int32, tf.int32), shapes=((), ()))
    take = b.take_many(3, allow_small_batch=True)[1]
    sess.run(b.insert_many(0, ["a"], [1]))
    finish, close = b.insert_many(1, ["a"], [2]), b.close()
    taker = Worker(sess.run, take)
    assert waits(taker)
    sess.run(close)
    assert waits(taker)
    sess.run(finish)
    assert taker.result().tolist() == [b"a"]


def test_empty_values_are_refused(sess):
    b = Barrier((tf.float32,))
    with pytest.raises(tf.errors.InvalidArgumentError, match="no elements are not supported"):
        sess.run(b.insert_many(0, ["a", "b"], np.zeros((2, 0), np.float32)))
