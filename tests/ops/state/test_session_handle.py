"""Values that stay in a session under handles."""
import numpy as np
import pytest

import penstock.compat.v1 as tf


@pytest.fixture
def sess():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_a_handle_stands_for_its_value(sess):
    c = tf.constant([1.0, 2.0]) * 3.0
    h = sess.run(tf.get_session_handle(c))
    np.testing.assert_array_equal(h.eval(), [3, 6])
    np.testing.assert_array_equal(sess.run(c + 1.0, {c: h}), [4, 7])
    p, x = tf.get_session_tensor(h.handle, tf.float32)
    np.testing.assert_array_equal(sess.run(x * 10.0, {p: h.handle}), [30, 60])


def test_the_value_goes_with_its_handle(sess):
    count = lambda: sum(k[0] == "session tensors" for k, _ in sess._resources.items())  # noqa: E731
    op = tf.get_session_handle(tf.constant(1))
    h = sess.run(op)
    for _ in range(5):
        h = sess.run(op)
    assert count() == 1
    raw = h.get_raw_handle()
    del h
    assert count() == 1
    p, delete = tf.delete_session_tensor(raw)
    sess.run(delete, {p: raw})
    assert count() == 0


def test_a_kept_value_does_not_change_with_its_variable(sess):
    v = tf.Variable([1.0, 2.0])
    sess.run(v.initializer)
    h = sess.run(tf.get_session_handle(v.read_value()))
    sess.run(tf.assign_add(v, [1.0, 1.0]))
    np.testing.assert_array_equal(h.eval(), [1, 2])


def test_bad_handles(sess):
    h = sess.run(tf.get_session_handle(tf.constant(1)))
    p, x = tf.get_session_tensor(h.handle, tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="has type int32, but float32 was requested"):
        sess.run(x, {p: h.handle})
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in the session store"):
        sess.run(x, {p: "nobody;1;"})
    with pytest.raises(tf.errors.InvalidArgumentError, match="Type mismatch"):
        sess.run(x, {x: h})
    h.delete()
    with pytest.raises(TypeError, match="already been deleted"):
        h.eval()
