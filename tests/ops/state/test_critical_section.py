"""Critical sections: one at a time, also across threads and steps; what fails releases its lock."""
import threading

import pytest

import penstock.compat.v1 as tf
from penstock._src.graph import context


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def _counter():
    v = tf.get_variable("v", initializer=0, use_resource=True)

    def count():
        before = v.read_value()
        with tf.control_dependencies([before]), tf.control_dependencies([v.assign_add(1)]):
            return tf.identity(before)
    return v, count


def test_executions_of_one_step_do_not_overlap():
    v, count = _counter()
    section = tf.CriticalSection()
    results = [section.execute(count) for _ in range(20)]
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert sorted(sess.run(results)) == list(range(20))


def test_executions_of_several_threads_do_not_overlap():
    v, count = _counter()
    result = tf.CriticalSection().execute(count)
    seen = []
    with tf.Session() as sess:
        sess.run(v.initializer)
        threads = [threading.Thread(target=lambda: seen.extend(sess.run(result) for _ in range(25))) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
    assert sorted(seen) == list(range(100))


def test_a_failing_step_gives_the_lock_back():
    x = tf.placeholder(tf.float32)
    out = tf.CriticalSection().execute(lambda: tf.check_numerics(x, "bad"))
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError) as kept:
            sess.run(out, {x: float("nan")})
        assert sess.run(out, {x: 2.0}, options=tf.RunOptions(timeout_in_ms=5000)) == 2.0
        assert kept


def test_waiting_for_a_lock_ends_with_the_deadline():
    lock = tf.raw_ops.MutexLock(mutex=tf.raw_ops.MutexV2(shared_name="m"))
    with tf.control_dependencies([lock]):
        again = tf.raw_ops.MutexLock(mutex=tf.raw_ops.MutexV2(shared_name="m"))
    with tf.control_dependencies([again]):
        done = tf.raw_ops.ConsumeMutexLock(mutex_lock=lock)
    with tf.Session() as sess, pytest.raises(tf.errors.DeadlineExceededError):
        sess.run(done, options=tf.RunOptions(timeout_in_ms=100))


def test_what_would_wait_for_itself_is_refused():
    section = tf.CriticalSection()
    with pytest.raises(ValueError, match="Attempting to lock a CriticalSection"):
        section.execute(lambda: section.execute(lambda: tf.constant(1)))


def test_two_sections_on_one_resource_are_refused_unless_both_allow_it():
    _, count = _counter()
    tf.CriticalSection(name="a").execute(count)
    with pytest.raises(ValueError, match="exclusive_resource_access=False"):
        tf.CriticalSection(name="b").execute(count)


def test_eager():
    with context.enter(None):
        section = tf.CriticalSection()
        with pytest.raises(ZeroDivisionError):
            section.execute(lambda: 1 / 0)
        assert section.execute(lambda: tf.constant(3) + 1).numpy() == 4
