"""The rendezvous: send and receive in either order, aborts, deadlines, cancellation."""
import gc
import threading
import weakref

import pytest
import torch

from penstock._src.base import errors
from penstock._src.execute.context import ResourceManager, StepContext
from penstock._src.execute.rendezvous import LocalRendezvous, parse_key
from penstock._src.ops.comm.sendrecv import edge_key

TASK = "/job:localhost/replica:0/task:0"
KEY = edge_key(f"{TASK}/device:CPU:0", 255, f"{TASK}/device:CPU:1", "edge_1_x:0")


def step(timeout=None):
    return StepContext(ResourceManager(), None, timeout)


def test_keys_are_tensorflows():
    assert KEY == "/job:localhost/replica:0/task:0/device:CPU:0;00000000000000ff;" \
        "/job:localhost/replica:0/task:0/device:CPU:1;edge_1_x:0;0:0"
    assert parse_key(KEY)[1] == 255
    assert parse_key(KEY)[3:] == ("edge_1_x:0", "0:0")
    for bad in ("", "a;b", "a;xyz;b;c;0:0"):
        with pytest.raises(errors.InvalidArgumentError, match="Invalid rendezvous key"):
            parse_key(bad)


def test_send_before_receive_and_after():
    meet = LocalRendezvous()
    meet.send(KEY, 1)
    assert meet.recv(KEY, step()) == 1
    got = []
    meet.recv_async(KEY, lambda value, error: got.append((value, error)))
    assert not got
    assert meet.waiting() == [KEY]
    meet.send(KEY, 2)
    assert got == [(2, None)]
    assert meet.waiting() == []


def test_receive_waits_for_another_thread():
    meet = LocalRendezvous()
    timer = threading.Timer(0.05, meet.send, (KEY, "late"))
    timer.start()
    assert meet.recv(KEY, step(5)) == "late"
    timer.join()


def test_abort_ends_all_who_wait_now_or_later():
    meet = LocalRendezvous()
    got = []
    meet.recv_async(KEY, lambda value, error: got.append(error))
    error = errors.DataLossError(None, None, "lost")
    meet.abort(error)
    meet.abort(errors.CancelledError(None, None, "a second abort does not count"))
    assert got == [error]
    with pytest.raises(errors.DataLossError):
        meet.recv(KEY, step())
    with pytest.raises(errors.DataLossError):
        meet.send(KEY, 1)


def test_values_that_nobody_fetched_are_dropped():
    meet = LocalRendezvous()
    value = torch.zeros(3)
    gone = weakref.ref(value)
    meet.send(KEY, value)
    del value
    meet.abort(errors.CancelledError(None, None, "end"))
    gc.collect()
    assert gone() is None


def test_a_deadline_says_what_was_waited_for():
    with pytest.raises(errors.DeadlineExceededError, match="edge_1_x:0 from .*CPU:0 did not come to .*CPU:1"):
        LocalRendezvous().recv(KEY, step(0.05))


def test_cancellation_ends_a_receive():
    ctx = step()
    timer = threading.Timer(0.05, ctx.cancellation.cancel)
    timer.start()
    with pytest.raises(errors.CancelledError):
        LocalRendezvous().recv(KEY, ctx)
    timer.join()


def test_a_key_is_sent_and_awaited_once():
    meet = LocalRendezvous()
    meet.send(KEY, 1)
    with pytest.raises(errors.AbortedError, match="Duplicate send"):
        meet.send(KEY, 2)
    other = LocalRendezvous()
    other.recv_async(KEY, lambda *a: None)
    with pytest.raises(errors.AbortedError, match="Duplicate recv"):
        other.recv(KEY, step())


def test_many_threads():
    meet = LocalRendezvous()
    keys = [f"a;1;b;edge_{i};0:0" for i in range(200)]
    got = {}

    def receive(part):
        for k in part:
            got[k] = meet.recv(k, step(10))
    readers = [threading.Thread(target=receive, args=(keys[i::4],)) for i in range(4)]
    for r in readers:
        r.start()
    for i, k in enumerate(keys):
        meet.send(k, i)
    for r in readers:
        r.join(60)
    assert got == {k: i for i, k in enumerate(keys)}
