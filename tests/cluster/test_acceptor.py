"""Who gets in, and what strangers, full tables of descriptors and failing threads cannot do."""
import contextlib
import errno
import fcntl
import json
import os
import pathlib
import resource
import socket
import subprocess
import sys
import threading
import time

import pytest

import penstock.compat.v1 as tf
from penstock._src.base import service
from penstock._src.cluster import acceptor, connection, security, user_secret
from penstock._src.cluster import server as server_module
from tests.checks import eventually
from tests.cluster.conftest import SOURCE, addresses

pytestmark = pytest.mark.distributed


@pytest.fixture(autouse=True)
def _over_connections(monkeypatch):
    """Clients use connections, though the server is in this process."""
    monkeypatch.setattr(server_module, "serving", lambda host, port: None)
    with tf.Graph().as_default():
        yield


@pytest.fixture
def server():
    made = tf.train.Server.create_local_server()
    yield made
    made.stop()


def serves(target):
    with tf.Graph().as_default(), tf.Session(target) as sess:
        return sess.run(tf.constant(3.0)) == 3.0


def call_on(server):
    return socket.create_connection((server._host, server._port), timeout=60)


def read_all(sock):
    """What the other side sends until it ends the connection."""
    data = b""
    while True:
        try:
            part = sock.recv(4096)
        except ConnectionResetError:
            return data
        if not part:
            return data
        data += part


# -- the handshake -----------------------------------------------------------------------------------------------------------
GREETING = len(b"penstock2") + 32


def test_a_server_proves_nothing_before_the_client_has(server):
    """Its answer to a challenge depends on the secret: it would allow guesses without the server."""
    with call_on(server) as sock:
        sock.sendall(b"penstock2" + bytes(32))
        sock.shutdown(socket.SHUT_WR)
        assert len(read_all(sock)) == GREETING


def test_a_wrong_proof_gets_the_same_answer_always(server):
    for proof in (bytes(32), b"x" * 32):
        with call_on(server) as sock:
            sock.sendall(b"penstock2" + bytes(32) + proof)
            assert read_all(sock)[GREETING:] == bytes(32)


def test_a_proof_cannot_be_used_twice_or_by_the_other_side():
    key = b"k" * 64
    proofs = {security._proof(key, role, a, b) for role in (b"server", b"client") for a in (b"1" * 32, b"2" * 32)
              for b in (b"1" * 32, b"2" * 32)}
    assert len(proofs) == 8


def test_a_recorded_handshake_lets_nobody_in(server):
    key, mine = security._stretched(security.secret()), b"m" * 32

    def admitted(send):
        with call_on(server) as sock:
            theirs = sock.recv(GREETING, socket.MSG_WAITALL)
            sock.sendall(b"penstock2" + (said := send(theirs[9:])))
            answer = sock.recv(32, socket.MSG_WAITALL)
            return said, answer not in (b"", bytes(32))
    recorded, good = admitted(lambda theirs: mine + security._proof(key, b"client", theirs, mine))
    assert good and not admitted(lambda theirs: recorded)[1]
    assert not admitted(lambda theirs: theirs + bytes(32))[1]                       # its own challenge
    assert not admitted(lambda theirs: mine + security._proof(key, b"server", theirs, mine))[1]


def test_short_secrets_are_stretched():
    assert security._stretched(b"word") != b"word" and len(security._stretched(b"word")) == 64
    assert security._stretched(b"w" * 32) == b"w" * 32


def test_a_handshake_has_one_deadline(server, monkeypatch):
    monkeypatch.setattr(security.Credentials.open, "__defaults__", (0.3,))
    sent = 0
    with call_on(server) as sock:
        try:
            for byte in b"penstock2" + bytes(63):
                time.sleep(0.1)
                sock.sendall(bytes([byte]))
                sent += 1
        except OSError:
            pass
    assert sent < 60                               # with a deadline for each read, it would have been all 72


def test_a_client_does_not_wait_for_a_server_that_trickles():
    with socket.create_server(("localhost", 0)) as rogue:
        over = threading.Event()

        def trickle():
            sock, _ = rogue.accept()
            with sock:
                while not over.wait(0.05):
                    try:
                        sock.sendall(b"p")
                    except OSError:
                        return
        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            with pytest.raises(tf.errors.OpError):
                connection.connect(f"localhost:{rogue.getsockname()[1]}", 0.5)
        finally:
            over.set()
            thread.join(60)


# -- accepting ----------------------------------------------------------------------------------------------------------------
def test_pending_connections_are_bounded(server, monkeypatch):
    monkeypatch.setattr(acceptor, "MOST_PENDING", 4)
    monkeypatch.setattr(acceptor, "_SLOW", 0.05)
    idle = [call_on(server) for _ in range(20)]
    try:
        assert serves(server.target)
        assert len(server._acceptor._pending) <= 4
        assert eventually(lambda: len(server._acceptor._threads) <= 5)
    finally:
        for sock in idle:
            sock.close()


def test_the_loop_survives_what_the_system_refuses(server, monkeypatch, caplog):
    listener, refused = server._acceptor._listener, []

    class Listener:
        def accept(self):
            if len(refused) < 3:
                refused.append(OSError([errno.EMFILE, errno.ENOMEM, errno.ECONNABORTED][len(refused)], "refused"))
                raise refused[-1]
            return listener.accept()

        def __getattr__(self, name):
            return getattr(listener, name)
    monkeypatch.setattr(server._acceptor, "_listener", Listener())
    start, failed = threading.Thread.start, []

    def failing(thread):
        if thread.name.startswith("penstock connection") and len(failed) < 2:
            failed.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)
    monkeypatch.setattr(threading.Thread, "start", failing)
    for _ in range(3):                             # the first is in `accept` already; two are closed for want of a thread
        with call_on(server) as sock:
            read_all_or_greeting = sock.recv(GREETING)
            assert len(read_all_or_greeting) in (0, GREETING)
    assert eventually(lambda: len(refused) == 3 and len(failed) == 2)
    assert serves(server.target)
    assert not [t for t in server._threads if not t.is_alive()]


FEW = """
import json, resource, sys
import penstock.compat.v1 as tf
server = tf.train.Server(json.loads(sys.argv[1]), "local", 0)
resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))
print("up", flush=True)
server.join()
"""


def test_more_half_open_connections_than_descriptors():
    """Silent ones, and ones that have begun the handshake."""
    spec = addresses(local=1)
    host, port = spec["local"][0].split(":")
    with subprocess.Popen([sys.executable, "-c", FEW, json.dumps(spec)], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}) as process:
        idle = []
        try:
            assert process.stdout.readline() == "up\n"
            for i in range(150):
                idle.append(socket.create_connection((host, int(port)), timeout=60))
                with contextlib.suppress(OSError):               # it was dropped for another one
                    idle[-1].sendall(b"penstock2" + bytes(40) if i % 2 else b"")
            assert serves(f"grpc://{host}:{port}")
        finally:
            for sock in idle:
                sock.close()
            process.kill()


# -- the watcher -------------------------------------------------------------------------------------------------------------
def test_descriptors_above_1024_are_watched():
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < 2000:
        pytest.skip("this process may not have 2,000 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, 2000), most))
    a, b = socket.socketpair()
    high = [socket.socket(fileno=fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, 1500)) for s in (a, b)]
    try:
        assert high[0].fileno() > 1024 and server_module._readable(dict.fromkeys(high)) == []
        a.sendall(b".")
        assert server_module._readable(dict.fromkeys(high)) == [high[1]]
        high[0].close()
        assert server_module._readable(dict.fromkeys(high)) == [high[1]]         # one that was closed meanwhile is left out
    finally:
        for sock in (a, b, *high):
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


def test_a_watcher_that_fails_is_restarted_and_reported(monkeypatch, caplog):
    ticks = []

    def tick(board):
        ticks.append(1)
        if len(ticks) == 2:
            raise ValueError("descriptor out of range")
    monkeypatch.setattr(server_module.StatusBoard, "tick", tick)
    monkeypatch.setattr(server_module.slow_ops, "SECONDS", 0.002)
    made = tf.train.Server.create_local_server()
    try:
        assert eventually(lambda: len(ticks) > 4)
        assert any("watcher" in r.getMessage() and "descriptor out of range" in r.getMessage() for r in caplog.records)
    finally:
        made.stop()


def test_a_service_that_ends_is_not_restarted():
    runs, ended = [], threading.Event()
    service.supervise("once", lambda: runs.append(1), ended).join(60)
    assert runs == [1]


def test_a_link_ends_when_one_of_its_threads_fails(cluster, monkeypatch, caplog):
    from penstock._src.cluster import peers
    tasks = cluster(a=1, b=1)
    monkeypatch.setattr(peers, "beat", lambda sock, over: 1 / 0)
    link = tasks["a", 0]._peers.reach("/job:b/replica:0/task:0", 10.0)
    assert eventually(lambda: link.error is not None)
    assert any("ZeroDivisionError" in r.getMessage() for r in caplog.records)


# -- the user's secret -------------------------------------------------------------------------------------------------------
@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """No secret is set, and the user's own is in a folder of this test's."""
    for name in ("PENSTOCK_SECRET", "PENSTOCK_SECRET_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "penstock"


def test_a_user_has_a_secret_by_default(own_folder, server):
    found = user_secret.user_secret()
    path = own_folder / "secret"
    assert path.read_bytes() == found and len(found) == 64 and path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(own_folder) == ["secret"]
    assert security.secret() == found


def test_another_user_of_this_machine_gets_nowhere(own_folder, monkeypatch, tmp_path):
    made = tf.train.Server.create_local_server()
    try:
        assert serves(made.target)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))       # who cannot read the file has another secret
        with pytest.raises(tf.errors.PermissionDeniedError, match="PENSTOCK_SECRET"):
            tf.Session(made.target)
    finally:
        made.stop()


def test_processes_that_start_together_have_one_secret(own_folder):
    program = "from penstock._src.cluster import user_secret; print(user_secret.user_secret().decode())"
    started = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": SOURCE}) for _ in range(2)]
    assert len({p.communicate(timeout=250)[0] for p in started}) == 1


def test_threads_that_start_together_have_one_secret(tmp_path):
    for i in range(20):
        found, together = set(), threading.Barrier(4)

        def read(folder=tmp_path / str(i), found=found, together=together):
            together.wait(60)
            found.add(user_secret._read_or_make(folder))
        threads = [threading.Thread(target=read) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        assert len(found) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_secret_that_others_can_read_is_refused(own_folder, mode):
    own_folder.mkdir(mode=0o700)
    (own_folder / "secret").write_text("known")
    (own_folder / "secret").chmod(mode)
    with pytest.raises(tf.errors.FailedPreconditionError, match="accessible to other users"):
        tf.train.Server.create_local_server()


def test_a_link_in_place_of_the_secret_is_not_followed(own_folder, tmp_path):
    own_folder.mkdir(mode=0o700)
    (tmp_path / "theirs").write_text("known")
    (own_folder / "secret").symlink_to(tmp_path / "theirs")
    assert user_secret.user_secret() != b"known"


def test_without_a_home_the_secret_is_among_the_temporary_files(monkeypatch, tmp_path):
    monkeypatch.setattr(user_secret.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/nowhere")
    found = user_secret.user_secret()
    assert pathlib.Path(tmp_path, f"penstock-{os.getuid()}", "secret").read_bytes() == found


def test_the_users_secret_is_not_for_other_machines(own_folder):
    with pytest.raises(tf.errors.FailedPreconditionError, match="PENSTOCK_SECRET"):
        tf.train.Server({"local": ["0.0.0.0:0"]})
