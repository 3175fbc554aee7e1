"""A system that refuses a thread: a typed error in time, no wait for what has not begun, and everything works afterwards."""
import socket
import threading

import numpy as np
import pytest

import penstock as tf
from penstock._src.base import errors
from penstock._src.base.service import started
from penstock._src.cluster.link import Link
from penstock._src.cluster.ports import free_addresses

v1 = tf.compat.v1


@pytest.fixture
def refused(monkeypatch):
    """`refused(n)`: after n more threads of this library, the system has no others."""
    start, left = threading.Thread.start, []

    def limited(thread):
        if left and not left[0]:
            raise RuntimeError("can't start new thread")
        if left:
            left[0] -= 1
        start(thread)
    monkeypatch.setattr(threading.Thread, "start", limited)

    def after(count):
        left[:] = [] if count is None else [count]
    return after


def test_the_error_names_the_thread(refused):
    refused(0)
    with pytest.raises(errors.ResourceExhaustedError, match="'the thread' cannot be started: can't start new thread"):
        started(threading.Thread(name="the thread"))


@pytest.mark.parametrize("made", [
    lambda d: d.prefetch(2), lambda d: d.map(lambda x: tf.numpy_function(lambda y: y, [x], tf.int64), num_parallel_calls=2),
    lambda d: d.interleave(lambda x: tf.data.Dataset.from_tensors(x), cycle_length=2, num_parallel_calls=2)],
    ids=["prefetch", "map", "interleave"])
def test_pipelines(refused, made):
    dataset = made(tf.data.Dataset.range(8).map(lambda x: tf.numpy_function(lambda y: y, [x], tf.int64)))
    refused(0)
    iterator = iter(dataset)
    for _ in range(2):                               # the second call does not wait for a thread that was not started
        with pytest.raises(errors.ResourceExhaustedError, match="ulimit"):
            next(iterator)
    refused(None)
    assert sorted(int(x) for x in dataset) == list(range(8))


def test_a_pipeline_uses_the_threads_that_there_are(refused):
    dataset = tf.data.Dataset.range(64).map(lambda x: tf.numpy_function(lambda y: y, [x], tf.int64), num_parallel_calls=4)
    refused(1)
    assert [int(x) for x in dataset] == list(range(64))


def test_steps_whose_ops_may_block(refused):
    with tf.Graph().as_default(), v1.Session() as sess:
        queues = [v1.FIFOQueue(2, tf.float32, shapes=[[]]) for _ in range(3)]
        fill, taken = [q.enqueue(1.0) for q in queues], [q.dequeue() for q in queues]
        sess.run(fill)
        refused(1)
        with pytest.raises(errors.ResourceExhaustedError, match="cannot be started"):
            sess.run(taken)
        refused(None)
        sess.run(fill)
        assert sess.run(taken) == [1.0, 1.0, 1.0]


def test_steps_of_several_devices(refused):
    """A lane that has begun does not wait for one that has not."""
    with tf.Graph().as_default():
        parts = []
        for i in range(3):
            with tf.device(f"/cpu:{i}"):
                parts.append(v1.py_func(lambda: np.float32(1.0), [], tf.float32, stateful=True))
        with tf.device("/cpu:0"):
            total = tf.add_n(parts)
        with tf.device("/cpu:1"):
            back = total * 2.0
        with v1.Session(config=v1.ConfigProto(device_count={"CPU": 3})) as sess:
            for count in (0, 1):
                refused(count)
                with pytest.raises(errors.ResourceExhaustedError, match="penstock lane"):
                    sess.run(back)
            refused(None)
            assert sess.run(back) == 6.0


def test_a_server_and_its_port(refused):
    spec = {"worker": free_addresses(1, "127.0.0.1")}
    refused(1)
    with pytest.raises(errors.ResourceExhaustedError):
        v1.train.Server(spec, "worker", 0)
    refused(None)
    v1.train.Server(spec, "worker", 0).stop()


def test_a_link_that_cannot_send_has_ended(refused):
    here, there = socket.socketpair()
    link = Link(here, "/job:ps/task:0", 1)
    refused(0)
    with pytest.raises(errors.UnavailableError, match="cannot be started"):
        link.post({"do": "x"}, [b"x" * (8 << 20)])
    assert link.error is not None
    link.close()
    there.close()
