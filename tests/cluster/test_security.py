"""Who gets in, and what garbage does."""
import shutil
import subprocess

import pytest

import penstock.compat.v1 as tf
from penstock._src.cluster import server as server_module
from tests.cluster import fuzz

pytestmark = pytest.mark.distributed


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


@pytest.fixture
def authority(tmp_path):
    """`authority(name)` makes an authority with one certificate, and returns its environment variables."""
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made with openssl")

    def make(name):
        def run(*args):
            subprocess.run(["openssl", *args], cwd=tmp_path, check=True, capture_output=True, timeout=60)
        run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
            f"/CN={name}", "-keyout", f"{name}-ca.key", "-out", f"{name}-ca.crt")
        run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name} task",
            "-keyout", f"{name}.key", "-out", f"{name}.csr")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", f"{name}-ca.crt", "-CAkey", f"{name}-ca.key", "-CAcreateserial",
            "-days", "2", "-out", f"{name}.crt")
        return {"PENSTOCK_TLS_CERT": str(tmp_path / f"{name}.crt"), "PENSTOCK_TLS_KEY": str(tmp_path / f"{name}.key"),
                "PENSTOCK_TLS_CA": str(tmp_path / f"{name}-ca.crt")}
    return make


def use(monkeypatch, env):
    for name in ("PENSTOCK_TLS_CERT", "PENSTOCK_TLS_KEY", "PENSTOCK_TLS_CA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)


def test_tasks_and_clients_talk_under_tls(cluster, authority, monkeypatch):
    use(monkeypatch, authority("ours"))
    monkeypatch.setattr(server_module, "serving", lambda host, port: None)      # the client uses a connection
    tasks = cluster(ps=1, worker=1)
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", initializer=tf.fill([300, 1000], 2.0))
    with tf.device("/job:worker/task:0"):
        x = tf.placeholder(tf.float32, [])
        y = v * x
    with tf.Session(tasks["worker", 0].target) as sess:
        sess.run(v.initializer)
        for n in range(5):
            assert sess.run(y, {x: float(n)}).sum() == 600_000 * n
    use(monkeypatch, authority("theirs"))
    with pytest.raises((tf.errors.PermissionDeniedError, tf.errors.UnavailableError)):
        tf.Session(tasks["worker", 0].target)
    use(monkeypatch, {})
    with pytest.raises(tf.errors.OpError):
        tf.Session(tasks["worker", 0].target)


def test_tls_needs_all_of_its_files(monkeypatch):
    use(monkeypatch, {"PENSTOCK_TLS_CERT": "/nowhere"})
    with pytest.raises(tf.errors.FailedPreconditionError, match="PENSTOCK_TLS_KEY"):
        tf.train.Server({"ps": ["0.0.0.0:0"]})


def test_a_task_that_is_not_in_the_cluster_is_refused(cluster):
    server = cluster(ps=1, worker=1)["ps", 0]
    other = tf.train.Server({"ps": [server.target.removeprefix("grpc://")], "intruder": ["127.0.0.1:0"]}, "intruder", 0)
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match="not in the cluster"):
            tf.Session(other.target)
    finally:
        other.stop()


def test_garbage_at_each_port_does_no_harm(processes):
    tasks = processes(ps=1, worker=1)
    grown = []
    for job in ("ps", "worker"):
        host, port = tasks.spec[job][0].split(":")
        for size in (50_000, 200_000):
            before = fuzz.memory(tasks.running[job, 0].pid)
            fuzz.attack(host, int(port), f"/job:{job}/replica:0/task:0", size, seed=size)
            grown.append(fuzz.memory(tasks.running[job, 0].pid) - before)
    assert fuzz.serves(tasks.target("worker"))
    assert fuzz.serves(tasks.target("ps"))
    assert max(grown) < 100 << 20
