"""Sessions on a server: graphs, steps, state, errors, strangers."""
import json
import os
import random
import resource
import socket
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import penstock.compat.v1 as tf
from penstock._src.cluster import connection, security, wire
from penstock._src.cluster import server as server_module
from penstock._src.cluster.ports import free_addresses
from tests.checks import eventually
from tests.cluster.conftest import SOURCE

pytestmark = pytest.mark.distributed


@pytest.fixture
def server():
    made = tf.train.Server.create_local_server()
    before = threading.active_count()
    yield made
    made.stop()
    assert threading.active_count() <= before, "threads are left over"


@pytest.fixture(autouse=True)
def as_from_elsewhere(monkeypatch):
    """Clients use connections, as if the server were another process."""
    monkeypatch.setattr(server_module, "serving", lambda host, port: None)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def test_two_clients_share_one_variable_by_name(server):
    v = tf.get_variable("v", initializer=[1.0, 2.0])
    with tf.Session(server.target) as one, tf.Session(server.target) as two:
        one.run(v.initializer)
        one.run(tf.assign_add(v, [1.0, 1.0]))
        assert two.run(v).tolist() == [2.0, 3.0]
    with tf.Session(server.target) as later:
        assert later.run(v).tolist() == [2.0, 3.0]
    tf.Session.reset(server.target)
    with tf.Session(server.target) as later, pytest.raises(tf.errors.FailedPreconditionError):
        later.run(v)


def test_values_of_all_kinds_go_there_and_back(server):
    arrays = [np.arange(6, dtype=d).reshape(2, 3) for d in (np.float32, np.float64, np.int32, np.int64, np.uint8, np.complex64)]
    arrays += [np.array([True, False]), np.zeros((0, 3), np.float32), np.array([b"", b"text", "\u00e9".encode()], object)]
    feeds = [tf.placeholder(tf.as_dtype(a.dtype) if a.dtype != object else tf.string) for a in arrays]
    half = tf.cast(feeds[0], tf.bfloat16)
    with tf.Session(server.target) as sess:
        *back, halves = sess.run([*[tf.identity(f) for f in feeds], half], dict(zip(feeds, arrays, strict=True)))
    for a, b in zip(arrays, back, strict=True):
        assert a.shape == b.shape and np.array_equal(a, b)
    assert halves.astype(np.float32).tolist() == arrays[0].tolist()


def test_the_graph_is_sent_in_parts(server):
    x = tf.constant(2.0)
    with tf.Session(server.target) as sess:
        for n in range(5):
            x = x * 2.0
            assert sess.run(x) == 2.0 ** (n + 2)


def test_an_error_names_the_op_and_leaves_the_session_usable(server):
    x = tf.placeholder(tf.float32, name="x")
    y = tf.matmul(x, [[1.0], [2.0]], name="product")
    with tf.Session(server.target) as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="product") as raised:
            sess.run(y, {x: [[1.0, 2.0, 3.0]]})
        assert raised.value.op is y.op
        assert sess.run(y, {x: [[1.0, 2.0]]}).tolist() == [[5.0]]


@pytest.fixture
def crowded(request):
    """The descriptors below a number are in use."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < 2000:
        pytest.skip("this process may not have 2,000 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, 2000), most))
    held = [os.open(os.devnull, os.O_RDONLY)]
    while held[-1] < request.param:
        held.append(os.dup(held[0]))
    yield
    for descriptor in held:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


@pytest.mark.parametrize("crowded", [0, 1100], indirect=True)
def test_a_client_that_goes_away_takes_its_step_with_it(crowded, server):
    """Also where `select` could not watch its connection."""
    q = tf.FIFOQueue(1, tf.float32, shared_name="q")
    x = q.dequeue()
    sess = tf.Session(server.target)
    failed = []

    def wait():
        try:
            sess.run(x)
        except tf.errors.OpError as e:
            failed.append(e)
    thread = threading.Thread(target=wait)
    thread.start()
    assert eventually(lambda: server._busy and server._sessions[1][0].running_steps())
    sess._engine._connections.close()                # as if the process had ended
    thread.join(60)
    assert len(failed) == 1 and eventually(lambda: not server._busy)


def test_nobody_to_talk_to():
    with socket.create_server(("localhost", 0)) as silent:
        port = silent.getsockname()[1]
    config = tf.ConfigProto(operation_timeout_in_ms=300)
    with pytest.raises(tf.errors.DeadlineExceededError, match=str(port)):
        tf.Session(f"grpc://localhost:{port}", config=config)
    with pytest.raises(tf.errors.NotFoundError, match="grpc://"):
        tf.Session("tpu://somewhere")


# -- strangers -----------------------------------------------------------------------------------------------------------
def test_a_server_for_other_machines_needs_a_secret(monkeypatch):
    monkeypatch.delenv("PENSTOCK_SECRET", raising=False)
    with pytest.raises(tf.errors.FailedPreconditionError, match="PENSTOCK_SECRET"):
        tf.train.Server({"local": ["0.0.0.0:0"]})


def test_who_does_not_know_the_secret_gets_nowhere(monkeypatch):
    monkeypatch.setenv("PENSTOCK_SECRET", "right")
    server = tf.train.Server.create_local_server()
    try:
        x = tf.constant(1.0)
        with tf.Session(server.target) as sess:
            assert sess.run(x) == 1.0
        monkeypatch.setenv("PENSTOCK_SECRET", "wrong")
        with pytest.raises((tf.errors.PermissionDeniedError, tf.errors.UnavailableError)):
            tf.Session(server.target)
    finally:
        server.stop()


def test_garbage_on_the_port_does_no_harm(server):
    draw = random.Random(0)
    x = tf.constant(3.0)
    for i in range(60):
        with socket.create_connection((server._host, server._port), timeout=60) as sock:
            if i % 2:                                                  # past the greeting
                security.authenticate(sock, security.secret(), serving=False)
            try:
                sock.sendall(_garbage(draw, i))
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(4096):
                    pass
            except OSError:
                pass
    with tf.Session(server.target) as sess:
        assert sess.run(x) == 3.0


def _garbage(draw, i):
    if i % 3 == 0:
        return draw.randbytes(draw.randrange(1, 2000))
    header = draw.choice([{"do": "run"}, {"do": "__init__", "session": 1}, {"values": [["tensor", "float32", [1 << 40]]]},
                          {"do": "create", "values": [["bytes", 3]]}, [], {"do": "run", "session": [], "values": []}])
    text = json.dumps(header).encode()
    return struct.pack("<4sIQQ", b"PNS2", len(text), draw.choice([0, 3, 1 << 62]), 0) + text + draw.randbytes(3)


def test_sizes_are_checked_before_anything_is_allocated():
    for kind in (["tensor", "float32", [1 << 30, 1 << 30]], ["tensor", "object", [1]], ["strings", [-1], 0], ["bytes", "x"],
                 ["tensor", "float32", [1] * 300], ["pickle", 3]):
        a, b = socket.socketpair()
        with a, b:
            text = json.dumps({"values": [kind]}).encode()
            a.sendall(struct.pack("<4sIQQ", b"PNS2", len(text), 8, 0) + text)
            with pytest.raises(tf.errors.InvalidArgumentError):
                wire.receive(b)


def test_messages_come_out_as_they_went_in():
    a, b = socket.socketpair()
    values = [torch.arange(6.0).reshape(2, 3).t(), None, b"raw", np.array([[b"x"], [b""]], object), torch.tensor(True)]
    with a, b:
        sender = threading.Thread(target=wire.send, args=(a, {"n": 7}, values))
        sender.start()
        header, back = wire.receive(b)
        sender.join(60)
    assert header == {"n": 7} and torch.equal(back[0], values[0]) and back[1] is None and back[2] == b"raw"
    assert back[3].tolist() == values[3].tolist() and back[4].item() is True


def test_addresses():
    assert connection.split_address("[::1]:80") == ("::1", 80)
    with pytest.raises(tf.errors.InvalidArgumentError, match="port"):
        connection.split_address("host")


def test_the_name_of_a_service_stands_for_all_addresses(monkeypatch):
    """As in Kubernetes, where a task's address is not one of its machine's."""
    cluster = {"local": ["198.51.100.7:0"]}                     # an unused address
    monkeypatch.setenv("PENSTOCK_SECRET", "word")
    server = tf.train.Server(cluster)
    try:
        with tf.Session(f"grpc://127.0.0.1:{server._port}") as sess:
            assert sess.run(tf.constant(2.0)) == 2.0
    finally:
        server.stop()
    monkeypatch.delenv("PENSTOCK_SECRET")
    with pytest.raises(tf.errors.FailedPreconditionError):
        tf.train.Server(cluster)


FORK = """
import os, sys
import penstock.compat.v1 as tf
from penstock._src.cluster import server as server_module
from penstock._src.cluster.ports import free_addresses
server = tf.train.Server.create_local_server()
server_module.serving = lambda host, port: None
pid = os.fork()
if not pid:
    sys.exit()                            # with what is registered by atexit
assert os.waitpid(pid, 0)[1] == 0
with tf.Graph().as_default(), tf.Session(server.target) as sess:
    print(sess.run(tf.constant(3.0)))
"""


def test_a_fork_that_exits_does_not_stop_the_server():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=200,
                          env={**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"})
    assert done.stdout == "3.0\n", done.stderr


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_server_that_cannot_start_its_threads_leaves_nothing(monkeypatch, allowed):
    left, start, before = [allowed], threading.Thread.start, threading.active_count()

    def limited(thread):
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("can't start new thread")
        start(thread)
    monkeypatch.setattr(threading.Thread, "start", limited)
    address = free_addresses(1)[0]
    with pytest.raises(tf.errors.ResourceExhaustedError, match="can't start new thread"):
        tf.train.Server({"local": [address]})
    monkeypatch.undo()
    assert eventually(lambda: threading.active_count() <= before)
    tf.train.Server({"local": [address]}).stop()
