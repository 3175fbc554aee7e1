"""Tasks and clients that die, stop, return or never start."""
import signal
import subprocess
import sys
import threading

import pytest

import penstock.compat.v1 as tf
from penstock._src.cluster import peers, remote
from penstock._src.cluster.link import Link
from penstock._src.graph import context
from tests.checks import eventually
from tests.cluster.conftest import Processes, addresses

pytestmark = pytest.mark.distributed
LOST = (tf.errors.UnavailableError, tf.errors.AbortedError)
QUICK = {"PENSTOCK_HEARTBEAT_SECONDS": "0.5", "PENSTOCK_STALL_SECONDS": "2"}


@pytest.fixture(autouse=True)
def graph(monkeypatch):
    context.process.v2_control_flow = False
    monkeypatch.setattr(peers, "BEAT", 0.5)
    monkeypatch.setattr(peers, "LOST", 2.0)
    monkeypatch.setattr(peers, "STALLED", 2.0)
    with tf.Graph().as_default() as g:
        yield g


@pytest.fixture
def with_ps():
    """A worker in this process, and a parameter server in another one."""
    tasks = Processes(addresses(ps=1, worker=1), QUICK)
    before = threading.active_count()
    server = tf.train.Server(tasks.spec, "worker", 0)
    tasks.start(("ps", 0))
    yield server, tasks
    server.stop()
    tasks.end()
    assert eventually(lambda: threading.active_count() <= before), threading.enumerate()


def variable_on_ps():
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", initializer=1.0)
        q = tf.FIFOQueue(1, tf.float32, shapes=[[]])
        taken = q.dequeue()
    with tf.device("/job:worker/task:0"):
        return v, tf.identity(v) + 1.0, taken * 2.0


def fails_soon(sess, fetch, begun, then):
    """Starts a step that waits forever, does something when it has `begun()`; returns its error."""
    found = []

    def run():
        try:
            sess.run(fetch)
        except Exception as e:
            found.append(e)
    thread = threading.Thread(target=run)
    thread.start()
    assert eventually(begun), "the step has not begun"
    then()
    thread.join(60)
    assert found, "the step hangs"
    return found[0]


def nothing_left(server):
    return not server._worker._steps and not server._worker._running


def test_a_step_that_loses_a_task_fails_and_the_task_can_come_back(with_ps):
    server, tasks = with_ps
    v, out, waits = variable_on_ps()
    sess = tf.Session(server.target)
    sess.run(v.initializer)
    assert sess.run(out) == 2.0
    error = fails_soon(sess, waits, lambda: server._worker._running, lambda: tasks.kill(("ps", 0)))
    assert isinstance(error, LOST) and "ps" in str(error)
    assert nothing_left(server)
    with pytest.raises(LOST, match="ps"):
        sess.run(out)
    tasks.start(("ps", 0))
    with pytest.raises(tf.errors.AbortedError, match="new session"):
        sess.run(out)
    sess.close()
    with tf.Session(server.target) as again:
        with pytest.raises(tf.errors.FailedPreconditionError):              # its state is lost
            again.run(out)
        again.run(v.initializer)
        assert again.run(out) == 2.0


def test_a_task_that_is_stopped_counts_as_lost(with_ps):
    server, tasks = with_ps
    v, out, waits = variable_on_ps()
    sess = tf.Session(server.target)
    sess.run(v.initializer)
    error = fails_soon(sess, waits, lambda: server._worker._running, lambda: tasks.signal(("ps", 0), signal.SIGSTOP))
    assert isinstance(error, LOST)
    assert nothing_left(server)
    tasks.signal(("ps", 0), signal.SIGCONT)
    sess.close()
    with tf.Session(server.target) as again:                                # it is the same life: its state is there
        assert again.run(out) == 2.0


def test_beats_that_end_late_do_not_take_the_next_links_with_them(cluster):
    servers = cluster(ps=1, worker=1)
    ps, worker = servers["ps", 0], servers["worker", 0]
    v, out, _ = variable_on_ps()
    with tf.Session(worker.target) as sess:
        sess.run(v.initializer)
        first = worker._peers.get("/job:ps/replica:0/task:0")
    first.end()
    assert eventually(lambda: not ps._peers.links())
    with tf.Session(worker.target) as again:
        assert again.run(out) == 2.0
        ps._peers.lose("/job:worker/replica:0/task:0", first.dial, "a thread that was slow to notice")
        assert again.run(out) == 2.0
        second = worker._peers.get("/job:ps/replica:0/task:0")
        ps._peers.lose("/job:worker/replica:0/task:0", second.dial, "now it is")
        with pytest.raises(LOST):
            again.run(out)


def test_a_value_that_is_lost_between_two_other_tasks_fails_the_step(cluster, monkeypatch):
    """One task has sent it over a connection that the other has given up, and has ended its part: the master knows both."""
    tasks = cluster(a=1, b=1, c=1)
    with tf.device("/job:b/task:0"):
        sent = tf.identity(tf.random_uniform([]))
    with tf.device("/job:c/task:0"):
        received = sent + 1.0
    sess = tf.Session(tasks["a", 0].target, config=tf.ConfigProto(operation_timeout_in_ms=60000))
    assert 1.0 <= sess.run(received) < 2.0
    to_c = tasks["b", 0]._peers.get("/job:c/replica:0/task:0")
    post, swallowed = Link.post, []

    def swallow(link, header, values=None, number=0):
        if link is to_c and link.error is None:
            swallowed.append(values)
            return
        post(link, header, values, number)
    monkeypatch.setattr(Link, "post", swallow)
    error = fails_soon(sess, received, lambda: swallowed and tasks["c", 0]._worker._running, to_c.end)
    assert isinstance(error, LOST) and "/job:b" in error.message and "/job:c" in error.message
    assert eventually(lambda: all(nothing_left(t) for t in tasks.values()))
    sess.close()
    with tf.Session(tasks["a", 0].target) as again:
        assert 1.0 <= again.run(received) < 2.0


def test_a_session_asks_a_task_again_that_was_lost_on_the_way(cluster, monkeypatch):
    worker = cluster(ps=1, worker=1)["worker", 0]
    ask, asked = Link.ask, []

    def lost_at_first(link, *args, **kwargs):
        asked.append(link)
        if len(asked) < 3:
            link.end(tf.errors.UnavailableError(None, None, "it has said nothing"))
        return ask(link, *args, **kwargs)
    monkeypatch.setattr(Link, "ask", lost_at_first)
    v, out, _ = variable_on_ps()
    with tf.Session(worker.target) as sess:
        sess.run(v.initializer)
        assert sess.run(out) == 2.0
    assert len({*asked}) == 3



MASTER = """
import sys, json, threading, time
import penstock.compat.v1 as tf
tf.disable_v2_behavior()
server = tf.train.Server(json.loads(sys.argv[1]), "worker", 0)
with tf.device("/job:ps/task:0"):
    taken = tf.FIFOQueue(1, tf.float32, shapes=[[]], shared_name="q").dequeue()
with tf.device("/job:worker/task:0"):
    out = taken * 2.0
sess = tf.Session(server.target)
print("up", flush=True)
sess.run(out)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_sessions_and_steps_of_a_lost_master_end(how):
    tasks = Processes(addresses(ps=1, worker=1), QUICK)
    server = tf.train.Server(tasks.spec, "ps", 0)
    try:
        master = subprocess.Popen([sys.executable, "-c", MASTER, __import__("json").dumps(tasks.spec)], env=tasks.env,
                                  stdout=subprocess.PIPE, text=True)
        tasks.running["worker", 0] = master
        assert master.stdout.readline() == "up\n"
        assert eventually(lambda: server._worker._running)
        assert server._worker.sessions
        master.send_signal(how)
        assert eventually(lambda: nothing_left(server) and not server._worker.sessions)
    finally:
        tasks.end()
        server.stop()


CLIENT = """
import sys, time
import penstock.compat.v1 as tf
tf.disable_v2_behavior()
sess = tf.Session(sys.argv[1])
sess.run(tf.constant(1.0))
print("up", flush=True)
time.sleep(60)
"""


def test_the_sessions_of_a_dead_client_are_collected(cluster):
    server = cluster(worker=1)["worker", 0]
    tasks = Processes({}, QUICK)
    client = subprocess.Popen([sys.executable, "-c", CLIENT, server.target], env=tasks.env, stdout=subprocess.PIPE, text=True)
    tasks.running["client", 0] = client
    try:
        assert client.stdout.readline() == "up\n"
        assert len(server._sessions) == 1 and server._worker.sessions
    finally:
        tasks.end()
    assert eventually(lambda: not server._sessions and not server._worker.sessions)


def test_a_client_whose_server_is_stopped_gets_an_error():
    tasks = Processes(addresses(worker=1), QUICK)
    try:
        tasks.start(("worker", 0))
        x = tf.FIFOQueue(1, tf.float32).dequeue()
        sess = tf.Session(tasks.target("worker"))
        error = fails_soon(sess, x, lambda: sess._engine._steps, lambda: tasks.signal(("worker", 0), signal.SIGSTOP))
        assert isinstance(error, tf.errors.UnavailableError)
        tasks.kill(("worker", 0))
        sess.close()
    finally:
        tasks.end()


def test_a_task_that_does_not_come_up_is_named(cluster):
    spec = {**addresses(ps=1), **addresses(worker=1)}
    server = tf.train.Server(spec, "worker", 0)
    try:
        with pytest.raises(tf.errors.UnavailableError, match="/job:ps/replica:0/task:0"):
            tf.Session(server.target, config=tf.ConfigProto(operation_timeout_in_ms=500))
    finally:
        server.stop()


def test_cluster_specifications_that_differ_are_noticed(cluster):
    first = addresses(ps=1, worker=1)
    wrong = {"ps": first["worker"], "worker": addresses(worker=1)["worker"]}
    one, two = tf.train.Server(first, "worker", 0), tf.train.Server(wrong, "worker", 0)
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match="cluster specifications differ"):
            tf.Session(two.target)
    finally:
        one.stop()
        two.stop()


def test_two_tasks_with_one_address_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="same address"):
        tf.train.Server({"ps": ["localhost:2222"], "worker": ["localhost:2222"]}, "ps", 0)


def test_a_graph_over_the_limit_is_refused(cluster, monkeypatch):
    server = cluster(worker=1)["worker", 0]
    monkeypatch.setattr(remote, "MOST_GRAPH", 10_000)
    small, large = tf.constant(1.0), tf.zeros([1])
    with tf.Session(server.target) as sess:
        assert sess.run(small) == 1.0
        large = tf.constant([float(i) for i in range(10_000)])
        with pytest.raises(tf.errors.InvalidArgumentError, match="the limit is 10000"):
            sess.run(large)


def test_python_functions_are_refused_on_other_tasks(with_ps):
    server, _ = with_ps
    with tf.device("/job:ps/task:0"):
        there = tf.py_func(lambda: 1.0, [], tf.float32)
    with tf.device("/job:worker/task:0"):
        out = there + 1.0
    with tf.Session(server.target) as sess, pytest.raises(tf.errors.FailedPreconditionError, match="Python function"):
        sess.run(out)


def test_python_functions_of_a_pipeline_stay_on_their_task(with_ps):
    server, _ = with_ps
    with tf.device("/job:worker/task:0"):
        pipeline = tf.data.Dataset.range(3).map(lambda i: tf.numpy_function(lambda x: x + 40, [i], tf.int64))
        here = tf.data.make_one_shot_iterator(pipeline).get_next()
    with tf.device("/job:ps/task:0"):
        there = tf.Variable(2, dtype=tf.int64, use_resource=True)
    with tf.Session(server.target) as sess:
        sess.run(there.initializer)
        assert sess.run([here + there, here])[0] == 42
