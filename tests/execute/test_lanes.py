"""Steps on several threads: errors, time-outs, cancellation, queues, concurrent steps, threads that end."""
import threading
import time

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.graph import context
from tests.checks import eventually


@pytest.fixture(autouse=True)
def graph():
    context.process.v2_control_flow = False
    with tf.Graph().as_default() as g:
        yield g


def session(cpus=3, **more):
    return tf.Session(config=tf.ConfigProto(device_count={"CPU": cpus, "GPU": 0}, **more))


def lanes():
    return {t for t in threading.enumerate() if t.name == "penstock lane"}


def test_lanes_run_side_by_side():
    """Two lanes that meet in a barrier of Python: in sequence, they would wait forever."""
    meet = threading.Barrier(2, timeout=60)
    for d in (0, 1):
        with tf.device(f"/cpu:{d}"):
            tf.py_func(lambda: np.float32(meet.wait() >= 0), [], tf.float32, name=f"f{d}")
    with session() as sess:
        assert sess.run(["f0:0", "f1:0"]) == [1, 1]


def test_the_first_error_ends_the_other_lanes():
    """CPU:1 waits for what CPU:0 never sends, because its op fails."""
    with tf.device("/cpu:0"):
        x = tf.placeholder(tf.float32, name="x")
        bad = tf.reshape(x, [7], name="bad")
    with tf.device("/cpu:1"):
        y = tf.negative(bad, name="y")
    with tf.device("/cpu:2"):
        z = tf.exp(y)
    with session() as sess:
        for fetch in (z, [z, bad], y):
            with pytest.raises(errors.InvalidArgumentError, match="bad") as e:
                sess.run(fetch, {x: [1.0, 2.0]})
            assert e.value.op is bad.op
        np.testing.assert_allclose(sess.run(y, {x: np.ones(7)}), -np.ones(7), rtol=1e-6)


def test_an_error_cancels_what_blocks_elsewhere():
    with tf.device("/cpu:0"):
        q = tf.FIFOQueue(1, tf.float32)
        item = q.dequeue()
    with tf.device("/cpu:1"):
        x = tf.placeholder(tf.float32)
        bad = tf.reshape(x, [7], name="bad")
    with session() as sess:
        with pytest.raises(errors.InvalidArgumentError, match="bad"):
            sess.run([item, bad], {x: 1.0})
        sess.run(q.enqueue(3.0))
        assert sess.run(item) == 3


def test_queues_across_devices_make_progress():
    """An enqueue and the dequeue that waits for it, in one step, each on its own device."""
    with tf.device("/cpu:0"):
        q = tf.FIFOQueue(1, tf.float32)
        a = tf.placeholder(tf.float32)
        got = q.dequeue()
    with tf.device("/cpu:1"):
        b = got * 2.0
    with tf.device("/cpu:2"):
        c = tf.negative(a)
    with tf.device("/cpu:0"):
        put = q.enqueue(c)
        d = b + c
    with session() as sess:
        for _ in range(5):
            assert sess.run([d, put], {a: 1.0})[0] == -3


def test_time_outs():
    with tf.device("/cpu:0"):
        q = tf.FIFOQueue(1, tf.float32)
        item = q.dequeue()
    with tf.device("/cpu:1"):
        out = item + 1.0
    with session() as sess:
        with pytest.raises(errors.DeadlineExceededError):
            sess.run(out, options=tf.RunOptions(timeout_in_ms=50))
        sess.run(q.enqueue(1.0))
        assert sess.run(out) == 2
    with session(operation_timeout_in_ms=50) as sess, pytest.raises(errors.DeadlineExceededError):
        sess.run(out)


@pytest.mark.parametrize("device", [0, 1])
def test_a_step_that_takes_too_long_has_failed(device):
    with tf.device(f"/cpu:{device}"):
        slow = tf.py_func(lambda: (time.sleep(0.5), np.float32(1))[1], [], tf.float32)
    with tf.device("/cpu:0"):
        out = slow + 1.0
    with session() as sess:
        with pytest.raises(errors.DeadlineExceededError):
            sess.run(out, options=tf.RunOptions(timeout_in_ms=20))
        assert sess.run(out) == 2


def test_closing_the_session_cancels_its_steps():
    with tf.device("/cpu:0"):
        item = tf.FIFOQueue(1, tf.float32).dequeue()
    with tf.device("/cpu:1"):
        out = item + 1.0
    sess = session()
    failed = []

    def run():
        try:
            sess.run(out)
        except errors.CancelledError as e:
            failed.append(e)
    thread = threading.Thread(target=run)
    thread.start()
    assert eventually(lambda: sess._engine._running)
    sess.close()
    thread.join(60)
    assert not thread.is_alive()
    assert failed


def test_threads_are_kept_between_steps_and_end_with_the_session():
    before = lanes()                # of sessions of other tests, which may end meanwhile
    with tf.device("/cpu:0"):
        a = tf.placeholder(tf.float32)
    with tf.device("/cpu:1"):
        b = tf.negative(a)
    with tf.device("/cpu:2"):
        c = tf.exp(b)
    with session() as sess:
        for _ in range(20):
            sess.run(c, {a: 0.0})
        assert len(lanes() - before) <= 3
    assert eventually(lambda: lanes() <= before)


def test_threads_of_a_session_that_was_left_open_end(monkeypatch):
    monkeypatch.setattr("penstock._src.execute.lanes.IDLE_SECONDS", 0.05)
    before = lanes()                # of sessions of other tests, which may end meanwhile
    with tf.device("/cpu:0"):
        a = tf.placeholder(tf.float32)
    with tf.device("/cpu:1"):
        b = tf.negative(a)
    with tf.device("/cpu:0"):
        c = tf.exp(b)
    sess = session()
    for pause in (0, 0.1, 0.05, 0):
        time.sleep(pause)
        assert sess.run(c, {a: 0.0}) == 1
    assert eventually(lambda: lanes() <= before)
    sess.close()


def test_one_thread_is_enough():
    """inter_op_parallelism_threads=1: everything on the caller's thread."""
    names = set()

    def note():
        names.add(threading.current_thread().name)
        return np.float32(1)
    with tf.device("/cpu:0"):
        a = tf.py_func(note, [], tf.float32)
    with tf.device("/cpu:1"):
        b = a + tf.py_func(note, [], tf.float32)
    with session(inter_op_parallelism_threads=1) as sess:
        assert sess.run(b) == 2
    assert "penstock lane" not in names


def test_concurrent_steps():
    with tf.device("/cpu:0"):
        x = tf.placeholder(tf.float32)
        a = x * 2.0
    with tf.device("/cpu:1"):
        b = a + 1.0
    with tf.device("/cpu:0"):
        c = b * a
    wrong = []
    with session() as sess:
        def many(i):
            for k in range(30):
                v = i * 100 + k
                if sess.run(c, {x: v}) != (2 * v + 1) * 2 * v:
                    wrong.append(v)
        threads = [threading.Thread(target=many, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
    assert wrong == []


def test_control_flow_over_several_devices():
    """A loop and a conditional whose bodies are on other devices than what goes in and out."""
    with tf.device("/cpu:0"):
        n = tf.placeholder(tf.int32)

    def body(i, x):
        with tf.device("/cpu:1"):
            y = x * 2.0
        with tf.device("/cpu:2"):
            return i + 1, tf.cond(i > 2, lambda: y + 1.0, lambda: y)
    with tf.device("/cpu:0"):
        _, out = tf.while_loop(lambda i, x: i < n, body, [0, 1.0])
        out = tf.negative(out)
    with session() as sess:
        for count in (0, 1, 5):
            x = 1.0
            for i in range(count):
                x = x * 2 + (i > 2)
            assert sess.run(out, {n: count}) == -x


def test_loops_and_queues_are_traced():
    q = tf.FIFOQueue(3, tf.float32, shapes=[])
    put = q.enqueue_many([[1.0, 2.0, 3.0]])
    with tf.device("/cpu:1"):
        _, out = tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x + q.dequeue()), [0, 0.0])
    with session() as sess:
        sess.run(put)
        metadata = tf.RunMetadata()
        assert sess.run(out, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata) == 6
    names = [n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats]
    assert sum("dequeue" in n.lower() for n in names) == 3


def test_errors_of_a_traced_step_have_their_op():
    x = tf.placeholder(tf.float32)
    bad = tf.reshape(x, [7], name="bad")
    with session() as sess, pytest.raises(errors.InvalidArgumentError) as e:
        sess.run(bad, {x: 1.0}, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata())
    assert e.value.op is bad.op


def test_partial_runs_and_traces_know_devices():
    with tf.device("/cpu:1"):
        a = tf.placeholder(tf.float32, name="a")
        b = tf.negative(a, name="b")
    with tf.device("/cpu:2"):
        c = tf.exp(b, name="c")
    with session() as sess:
        metadata = tf.RunMetadata()
        sess.run(c, {a: 0.0}, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
        names = {d.device[-5:]: [n.node_name for n in d.node_stats] for d in metadata.step_stats.dev_stats}
        assert names == {"CPU:1": ["b"], "CPU:2": ["c"]}
        assert metadata.step_stats.dev_stats[0].node_stats[0].memory[0].total_bytes == 4
        handle = sess.partial_run_setup([b, c], [a])
        assert sess.partial_run(handle, b, {a: 0.0}) == 0
        assert sess.partial_run(handle, c) == 1
