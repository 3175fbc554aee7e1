"""Links between tasks at the moment when one of them is lost: a closed link is not used again, and nothing waits for it."""
import ctypes
import errno
import os
import select
import socket
import subprocess
import sys
import threading

import pytest

import penstock.compat.v1 as tf
from penstock._src.cluster.cluster import ClusterSpec
from penstock._src.cluster.link import Link
from penstock._src.cluster.peers import Peers, beat, hear, notice, shut, task_name
from penstock._src.cluster.pump import Pump
from penstock._src.cluster.shared import LEAST, Outgoing
from penstock._src.cluster.worker import Worker
from tests.checks import eventually
from tests.cluster.conftest import SOURCE, addresses

pytestmark = pytest.mark.distributed
PS = task_name("ps", 0)
E = tf.errors


@pytest.fixture
def gate(monkeypatch):
    """Links that end are forgotten when the gate is opened."""
    opened, forget = threading.Event(), Peers._forget
    monkeypatch.setattr(Peers, "_forget", lambda self, link: (opened.wait(60), forget(self, link)))
    yield opened
    opened.set()


def test_a_link_that_has_ended_is_not_found_though_it_is_not_forgotten(cluster, gate):
    servers = cluster(ps=1, worker=1)
    peers = servers["worker", 0]._peers
    link = peers.reach(PS, 20.0)
    ending = threading.Thread(target=link.end)
    ending.start()
    assert eventually(lambda: link.error is not None)
    with pytest.raises(E.UnavailableError, match="no connection"):
        peers.get(PS)
    again = peers.reach(PS, 20.0)
    assert again is not link and again.error is None and again.incarnation == link.incarnation
    gate.set()
    ending.join(60)
    assert peers.get(PS) is again


def test_nobody_waits_longer_than_he_wants_behind_one_who_dials():
    spec = addresses(ps=1, worker=1)
    peers = Peers(task_name("worker", 0), 1, ClusterSpec(spec), lambda *_: None)
    patient = threading.Thread(target=lambda: pytest.raises(E.UnavailableError, peers.reach, PS, 100.0))
    patient.start()
    assert eventually(lambda: any(lock.locked() for lock in list(peers._dialing.values())))
    with pytest.raises(E.UnavailableError, match=PS):
        peers.reach(PS, 0.2)
    assert patient.is_alive()                  # it still dials
    peers.close()
    patient.join(60)
    assert not patient.is_alive()


def test_a_task_that_does_not_answer_is_unavailable_whatever_for(cluster, monkeypatch):
    servers = cluster(ps=1, worker=1)
    peers = servers["worker", 0]._peers
    monkeypatch.setattr("penstock._src.cluster.peers.STALLED", 0.5)
    incarnation = peers.reach(PS, 20.0).incarnation
    peers.addresses[PS] = addresses(nobody=1)["nobody"][0]
    with pytest.raises(E.UnavailableError, match=PS):
        peers.borrow(PS, incarnation)


def test_a_link_for_a_step_is_not_awaited_longer_than_the_heartbeats(cluster):
    """A task that accepts connections and says nothing may be busy; when its heartbeats stop, the attempt ends."""
    servers = cluster(ps=1, worker=1)
    peers = servers["worker", 0]._peers
    link = peers.reach(PS, 20.0)
    failed: list[BaseException] = []

    def borrow():
        try:
            peers.borrow(PS, link.incarnation)
        except E.UnavailableError as e:
            failed.append(e)
    with socket.create_server(("localhost", 0)) as silent:
        peers.addresses[PS] = f"localhost:{silent.getsockname()[1]}"
        thread = threading.Thread(target=borrow)
        thread.start()
        there, _ = silent.accept()
        assert eventually(lambda: peers._opening) and not failed
        peers.lose(PS, link.dial, "it has been silent")
        thread.join(60)
        there.close()
    assert PS in failed[0].message and not peers._opening


def test_a_link_for_a_step_ends_with_what_it_lives_by(cluster, monkeypatch):
    """The shared link may end while one for a step is opened: then its heartbeats do not cover this one."""
    servers = cluster(ps=1, worker=1)
    peers = servers["worker", 0]._peers
    link, opened = peers.reach(PS, 20.0), Peers._open

    def slowly(self, *args):
        made = opened(self, *args)
        link.end()
        return made
    monkeypatch.setattr(Peers, "_open", slowly)
    borrowed = peers.borrow(PS, link.incarnation)
    assert isinstance(borrowed.error, E.UnavailableError)
    borrowed.close()


def test_one_who_closes_joins_no_thread_that_has_not_started(monkeypatch):
    peers = Peers(task_name("worker", 0), 1, ClusterSpec(addresses(worker=1)), lambda *_: None)
    begun, raised = threading.Event(), []

    class Slow(threading.Thread):
        def start(self):
            begun.set()
            peers._ended.wait(60)                   # close() has begun
            super().start()

    def close():
        begun.wait(60)
        try:
            peers.close()
        except RuntimeError as e:
            raised.append(e)
    closing = threading.Thread(target=close)
    closing.start()
    monkeypatch.setattr(threading, "Thread", Slow)
    peers._start(None, lambda: None)
    closing.join(60)
    assert not raised


def test_what_is_posted_to_one_who_has_gone():
    """The first sender detects the end, and all get the same error."""
    here, there = socket.socketpair()
    link, ended = Link(here, PS, 1), []
    link.on_end(ended.append)
    there.close()
    for _ in range(2):
        with pytest.raises(E.UnavailableError, match=PS):
            link.post({"do": "x"})
    answers = []
    link.call({"do": "y"}, None, lambda *answer: answers.append(answer))
    assert ended == [link] and isinstance(answers[0][2], E.UnavailableError)
    link.close()


def test_shared_memory_that_was_given_up():
    import torch
    blocks, value = Outgoing(), torch.zeros(LEAST)
    assert blocks.put(value) is not None
    blocks.close()
    assert blocks.put(value) is None


def test_a_waker_that_was_set_halfway():
    """`set` may be between its two steps when the pump wakes: no byte is left, which would keep the pump awake forever."""
    pump = Pump([], lambda *_: None, lambda *_: None)
    os.write(pump._waker._in, b".")
    pump.once(10.0)
    assert not select.select([pump._waker.fd], [], [], 0)[0]
    threading.Timer(0.05, pump.wake).start()
    pump.once(30.0)


def test_a_task_that_is_lost_while_parts_are_registered(cluster, monkeypatch):
    """A task does not wait for the others, which may be trying to reach it."""
    register, on, gate, opened = Worker._register, [], threading.Event(), []

    def slowly(self, link, header, values):
        if not on or self.peers.task != PS:
            return register(self, link, header, values)
        for other in on[0].links():
            if other.peer == task_name("worker", 1):
                other.end()
        opened.append(gate.wait(60))
        return register(self, link, header, values)
    monkeypatch.setattr(Worker, "_register", slowly)
    servers = cluster(ps=1, worker=2)
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            x = tf.random_uniform([])
        with tf.device("/job:worker/task:1"):
            y = x + 1.0
        with tf.Session(servers["worker", 0].target) as sess:
            sess.run(y)
            on.append(servers["worker", 0]._peers)
            with pytest.raises((E.UnavailableError, E.AbortedError)):
                sess.run(y + x)
            assert not opened                          # the parameter server has not answered yet
            gate.set()


def _hold_the_lock(seconds):
    """Keeps all other threads of this process from running, as a long collection or a call of a C library does."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def test_a_process_that_could_not_run_does_not_take_its_peers_for_lost(monkeypatch):
    monkeypatch.setattr("penstock._src.cluster.peers.BEAT", 0.05)
    monkeypatch.setattr("penstock._src.cluster.peers.STALLED", 0.4)
    ours, theirs = socket.socketpair()
    over, why = threading.Event(), {}
    with ours, theirs:
        both = [threading.Thread(target=lambda: why.setdefault(beat, beat(ours, over))),
                threading.Thread(target=lambda: why.setdefault(hear, hear(theirs, 0.4)))]
        for thread in both:
            thread.start()
        for _ in range(2):
            _hold_the_lock(0.8)
            assert not over.wait(0.1) and not why
        over.set()
        shut(ours)
        for thread in both:
            thread.join(60)
    assert not why[beat] and why[hear] == "it has ended the connection"


BUSY = """
import ctypes, sys
import penstock.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.Variable(1.0)
sess = tf.Session(sys.argv[1])
sess.run(x.initializer)
print("up", flush=True)
ctypes.PyDLL(None).usleep(1_500_000)            # holds the interpreter's lock
print(sess.run(x + 1.0), flush=True)
sess.close()
"""


def test_a_client_that_is_busy_keeps_its_session(cluster):
    """A call that holds the interpreter's lock for longer than heartbeats may be missing, as parsing a large file does."""
    server = cluster(worker=1)["worker", 0]
    quick = {"PENSTOCK_HEARTBEAT_SECONDS": "0.1"}
    client = subprocess.run([sys.executable, "-c", BUSY, server.target], text=True, capture_output=True, check=False,
                            env={**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", **quick}, timeout=200)
    assert client.stdout.split() == ["up", "2.0"], client.stderr[-2000:]
    assert eventually(lambda: not server._sessions)


def test_the_system_ends_the_heartbeats_of_a_machine_that_does_not_answer(monkeypatch):
    monkeypatch.setattr("penstock._src.cluster.peers.LOST", 0.4)
    with socket.create_server(("localhost", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        notice(ours)
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 400
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 1

    class Ended:
        """A connection that the system has ended."""

        def recv(self, size):
            raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

        def settimeout(self, seconds):
            pass
    assert hear(Ended(), 30.0) == "its machine has not answered for 0.4 seconds"


def test_a_peer_that_does_not_answer_is_lost(monkeypatch):
    monkeypatch.setattr("penstock._src.cluster.peers.BEAT", 0.01)
    monkeypatch.setattr("penstock._src.cluster.peers.STALLED", 0.1)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert beat(ours, threading.Event()) == "it has been silent for 0.1 seconds"
        assert hear(theirs, 0.1) == "it has been silent for 0.1 seconds"       # the beats that are there are answered first


def test_the_error_of_a_step_says_why_the_connection_was_lost(cluster):
    servers = cluster(ps=1, worker=1)
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        x = tf.constant(1.0) + 1.0
    with tf.Session(servers["worker", 0].target, graph=x.graph) as sess:
        assert sess.run(x) == 2.0
        peers = servers["worker", 0]._peers
        peers.lose(PS, peers.get(PS).dial, "it has been silent for 4 seconds")
        with pytest.raises(E.AbortedError, match="it has been silent for 4 seconds. Create a new session"):
            sess.run(x)


@pytest.mark.parametrize("answer", [b"", OSError("closed")])
def test_a_connection_that_is_closed_in_the_middle_of_a_beat_is_not_lost(monkeypatch, answer):
    monkeypatch.setattr("penstock._src.cluster.peers.BEAT", 0.01)
    over = threading.Event()

    class Closing:
        def settimeout(self, seconds):
            pass

        def sendall(self, data):
            over.set()

        def recv(self, size):
            if isinstance(answer, Exception):
                raise answer
            return answer
    assert beat(Closing(), over) == ""
