"""Every wait has a limit or a diagnosis: long waits are logged with the task that should end them."""
import logging
import socket
import threading
from concurrent.futures import Future

import pytest
import torch

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.base import waits
from penstock._src.cluster import connection
from penstock._src.cluster.link import Link
from penstock._src.cluster.ports import free_addresses
from penstock._src.collective.group import Limit
from penstock._src.collective.hub import Hub
from penstock._src.models.distribute.coordinator.closures import ClosureQueue
from penstock._src.ops.registry import get

pytestmark = pytest.mark.distributed


@pytest.fixture
def said(monkeypatch, caplog):
    """What is logged, after a tenth of a second in place of ten."""
    monkeypatch.setattr(waits, "PATIENCE", 0.1)
    waits._said.clear()
    with caplog.at_level(logging.WARNING, "penstock"):
        yield lambda: [r.getMessage() for r in caplog.records if r.name == "penstock"]


def test_a_wait_that_lasts_is_reported_once(said):
    there = threading.Event()
    threading.Timer(0.5, there.set).start()
    assert waits.waited_for(there, lambda: "the end", None)
    assert [line.split(":")[0] for line in said()] == ["Waits for the end"]
    waits.waited_for(threading.Event(), lambda: "the end", 0.3)
    assert len(said()) == 1                             # the same text is not logged again so soon


def test_a_wait_that_ends_soon_is_not_reported(said, monkeypatch):
    monkeypatch.setattr(waits, "PATIENCE", 60.0)
    there = threading.Event()
    there.set()
    assert waits.waited_for(there, lambda: "nothing", 5.0) and not waits.waited_for(threading.Event(), lambda: "it", 0.01)
    assert said() == []


def test_a_condition_has_a_limit_and_a_report(said):
    condition, left = threading.Condition(), iter([1.0, 0.2, 0.0])
    with condition:
        assert not waits.wait_for(condition, lambda: False, lambda: "a turn", lambda: next(left))
    assert len(said()) == 1 and "a turn" in said()[0]


def test_a_thread_that_does_not_end_is_reported(said):
    """The thread ends when the report was logged; without one, after a minute, and the test fails."""
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, args=(60,))
    thread.start()

    class Handler(logging.Handler):
        def emit(self, record):
            ended.set()
    handler = Handler()
    logging.getLogger("penstock").addHandler(handler)
    try:
        waits.joined(thread, lambda: "a thread of this test")
    finally:
        logging.getLogger("penstock").removeHandler(handler)
    assert not thread.is_alive() and ended.is_set() and "a thread of this test" in said()[0]


def test_a_result_that_does_not_come_is_reported(said):
    made = Future()
    threading.Timer(0.5, made.set_result, [7]).start()
    assert waits.result_of(made, lambda: "a batch") == 7
    assert len(said()) == 1 and "a batch" in said()[0]
    late = Future()
    late.set_exception(TimeoutError("its own"))
    with pytest.raises(TimeoutError, match="its own"):
        waits.result_of(late, lambda: "a batch")


def test_a_group_that_is_not_complete_names_the_task_that_is_missing(said, cluster):
    """The leading task reports the missing tasks; the others name the leading task."""
    tasks = cluster(worker=2)
    for i, other in ((0, "/job:worker/replica:0/task:1 did not"), (1, "/job:worker/replica:0/task:0 knows all")):
        with tf.Graph().as_default(), tf.device(f"/job:worker/task:{i}/cpu:0"):
            x = get("CollectiveReduce")(tf.ones([2]), group_size=2, group_key=7 + i, instance_key=1, merge_op="Add",
                                        final_op="Id", subdiv_offsets=[0])
            with tf.Session(tasks["worker", i].target) as sess, pytest.raises(tf.errors.DeadlineExceededError):
                sess.run(x, options=tf.RunOptions(timeout_in_ms=1500))
        assert any(f"group {7 + i} needs 2 members" in line and other in line for line in said()), said()


def test_a_member_that_does_not_come_is_named(said):
    hub = Hub()
    limit = Limit(None, 20.0)
    groups = []
    threads = [threading.Thread(target=lambda m=m: groups.append(hub.join(3, 2, m, limit))) for m in ("/a/device:CPU:0",
                                                                                                    "/b/device:CPU:0")]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    with pytest.raises(tf.errors.DeadlineExceededError, match="/b/device:CPU:0 did not enter it"):
        groups[0].all_reduce(0, "x", torch.ones(2), how="ring", limit=Limit(None, 1.0), about="the sum of x")
    assert any("/b/device:CPU:0 in the sum of x" in line for line in said()), said()


def test_a_step_names_the_task_whose_part_does_not_end(said, cluster):
    tasks = cluster(ps=1, worker=1)
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            x = tf.FIFOQueue(1, tf.float32, name="empty").dequeue(name="taker")
        with tf.device("/job:worker/task:0"):
            y = x + 1.0
        with tf.Session(tasks["worker", 0].target) as sess, pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(y, options=tf.RunOptions(timeout_in_ms=1500))
    lines = "\n".join(said())
    assert "from /job:ps/replica:0/task:0/device:CPU:0" in lines         # at the worker
    assert "queue 'empty'" in lines                                       # at the parameter server


def test_eager_waits_are_reported(said):
    queue = tf2.queue.FIFOQueue(1, [tf2.float32], shapes=[[]], name="waited_for")
    threading.Timer(1.0, lambda: queue.enqueue(2.0)).start()
    assert float(queue.dequeue()) == 2.0
    assert any("with 0 of at most 1 elements" in line for line in said()), said()


def test_a_server_that_does_not_come_is_named(said):
    address = free_addresses(1)[0]
    with pytest.raises(tf.errors.DeadlineExceededError):
        connection.connect(address, 1.5, task="/job:ps/replica:0/task:3")
    assert any("/job:ps/replica:0/task:3" in line and address in line and "refused" in line for line in said()), said()


def test_a_silent_server_is_reported(said):
    with socket.create_server(("localhost", 0)) as silent:
        address = f"localhost:{silent.getsockname()[1]}"
        with pytest.raises(tf.errors.UnavailableError, match="handshake"):
            connection.connect(address, 1.0)
    assert any("handshake" in line for line in said()), said()


def test_a_call_that_is_not_answered_is_reported(said):
    a, b = socket.socketpair()
    link = Link(a, "/job:ps/replica:0/task:0", 1)
    with b, pytest.raises(tf.errors.UnavailableError):
        link.ask({"do": "devices"}, timeout=1.0)
    link.close()
    assert any("/job:ps/replica:0/task:0" in line and "devices" in line for line in said()), said()


def test_a_coordinator_whose_workers_do_nothing_says_so(said):
    queue = ClosureQueue()
    queue._waiting.append(object())
    with pytest.raises(tf.errors.DeadlineExceededError, match="1 scheduled functions that have not begun"):
        queue.wait(1.0)
    assert any("1 scheduled functions" in line for line in said())
