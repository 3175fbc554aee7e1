"""Steps across tasks: placement, feeds and fetches anywhere, control flow, queues, functions, state, errors."""
import threading

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.cluster import tf_config
from penstock._src.graph import context
from tests.checks import eventually

pytestmark = pytest.mark.distributed


@pytest.fixture(autouse=True)
def graph():
    context.process.v2_control_flow = False
    with tf.Graph().as_default() as g:
        yield g


def ps(i=0):
    return tf.device(f"/job:ps/task:{i}")


def worker(i=0):
    return tf.device(f"/job:worker/task:{i}")


def test_a_step_crosses_tasks_and_back(cluster):
    tasks = cluster(ps=1, worker=2)
    with ps():
        v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=False)
    with worker(1):
        x = tf.placeholder(tf.float32, [2], name="x")
        y = x * 2.0
    with ps():
        up = tf.assign_add(v, y)
    with worker(0):
        total = tf.reduce_sum(up)
    for target in [s.target for s in tasks.values()]:            # every server can be the master
        with tf.Session(target) as sess:
            assert {d.name.split("/device")[0] for d in sess.list_devices()} == {
                "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"}
            sess.run(v.initializer)
            for n in range(1, 6):
                got = sess.run([total, up, y], {x: [1.0, 2.0]})
                assert [g.tolist() for g in got] == [3.0 + 6.0 * n, [1.0 + 2 * n, 2.0 + 4 * n], [2.0, 4.0]]
    assert eventually(lambda: all(not s._worker._steps and not s._worker.sessions for s in tasks.values()))


def test_the_graph_grows_between_steps(cluster):
    tasks = cluster(ps=1, worker=1)
    with ps():
        x = tf.constant(2.0)
    with tf.Session(tasks["worker", 0].target) as sess:
        for n in range(4):
            with worker() if n % 2 else ps():
                x = x * 2.0
            assert sess.run(x) == 2.0 ** (n + 2)


def test_conditionals_and_loops_cross_tasks(cluster):
    tasks = cluster(ps=1, worker=1)
    with worker():
        p = tf.placeholder(tf.bool, [])
        n = tf.placeholder(tf.int32, [])
        x = tf.placeholder(tf.float32, [])

        def double():
            with ps():
                return x * 2.0
        chosen = tf.cond(p, double, lambda: tf.negative(x))

        def body(i, y):
            with ps():
                y = y * 2.0
            with worker():
                return i + 1, y + 1.0
        _, looped = tf.while_loop(lambda i, y: i < n, body, [0, 1.0])
    with tf.Session(tasks["worker", 0].target) as sess:
        assert sess.run(chosen, {p: True, x: 3.0}) == 6.0
        assert sess.run(chosen, {p: False, x: 3.0}) == -3.0
        for count, want in ((0, 1.0), (1, 3.0), (5, 63.0)):
            assert sess.run(looped, {n: count}) == want


def test_queues_of_another_task(cluster):
    tasks = cluster(ps=1, worker=2)
    with ps():
        q = tf.FIFOQueue(2, tf.float32, shapes=[[]], shared_name="q")
    with worker(0):
        x = tf.placeholder(tf.float32, [])
        put = q.enqueue(x + 1.0)
    with worker(1):
        got = q.dequeue() * 10.0
    with tf.Session(tasks["worker", 0].target) as one, tf.Session(tasks["worker", 1].target) as two:
        results = []
        thread = threading.Thread(target=lambda: results.extend(two.run(got) for _ in range(5)))
        thread.start()
        for i in range(5):
            one.run(put, {x: float(i)})
        thread.join(60)
    assert results == [10.0, 20.0, 30.0, 40.0, 50.0]


def test_an_error_of_another_task_names_the_op_and_ends_the_step_everywhere(cluster):
    tasks = cluster(ps=1, worker=1)
    with worker():
        x = tf.placeholder(tf.float32, [None], name="x")
        y = x * 2.0
    with ps():
        bad = tf.reshape(y, [3], name="bad")
        fine = tf.negative(y)
    with worker():
        out = tf.reduce_sum(bad) + tf.reduce_sum(fine)
    with tf.Session(tasks["worker", 0].target) as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad") as raised:
            sess.run(out, {x: [1.0, 2.0]})
        assert raised.value.op is bad.op
        assert sess.run(out, {x: [1.0, 2.0, 3.0]}) == 0.0
        assert all(not s._worker._steps and not s._worker._running for s in tasks.values())


def test_a_step_that_takes_too_long_ends_everywhere(cluster):
    tasks = cluster(ps=1, worker=1)
    with ps():
        q = tf.FIFOQueue(2, tf.float32, shapes=[[]])
        got = q.dequeue()
    with worker():
        out = got * 2.0
    with tf.Session(tasks["worker", 0].target) as sess:
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(out, options=tf.RunOptions(timeout_in_ms=200))
        assert all(not s._worker._steps and not s._worker._running for s in tasks.values())
        sess.run(q.enqueue(4.0))
        assert sess.run(out) == 8.0


def test_state_is_shared_by_masters_or_not(cluster):
    tasks = cluster(ps=1, worker=2)
    with ps():
        v = tf.get_variable("v", initializer=1.0)
    with tf.Session(tasks["worker", 0].target) as one, tf.Session(tasks["worker", 1].target) as two:
        one.run(v.initializer)
        one.run(v.assign_add(1.0))
        assert two.run(v) == 2.0
        with tf.Session(tasks["worker", 1].target, config=tf.ConfigProto(isolate_session_state=True)) as alone:
            with pytest.raises(tf.errors.FailedPreconditionError):
                alone.run(v)
            alone.run(v.initializer)
            assert alone.run(v) == 1.0
        assert two.run(v) == 2.0
    tf.Session.reset(tasks["worker", 0].target)
    with tf.Session(tasks["worker", 0].target) as later, pytest.raises(tf.errors.FailedPreconditionError):
        later.run(v)


def test_containers_are_reset_by_name(cluster):
    tasks = cluster(ps=1, worker=1)
    with ps():
        with tf.container("mine"):
            v = tf.get_variable("v", initializer=1.0)
        w = tf.get_variable("w", initializer=2.0)
    with tf.Session(tasks["worker", 0].target) as sess:
        sess.run([v.initializer, w.initializer])
    tf.Session.reset(tasks["worker", 0].target, ["mine"])
    with tf.Session(tasks["worker", 0].target) as sess:
        assert sess.run(w) == 2.0
        with pytest.raises(tf.errors.FailedPreconditionError):
            sess.run(v)


def test_all_kinds_of_values_cross(cluster):
    tasks = cluster(ps=1, worker=1)
    arrays = [np.arange(6, dtype=d).reshape(2, 3) for d in (np.float32, np.float64, np.int32, np.int64, np.uint8, np.complex64)]
    arrays += [np.array([True, False]), np.zeros((0, 3), np.float32), np.array([b"", b"text"], object),
               np.random.rand(700, 1000).astype(np.float32)]
    with worker():
        feeds = [tf.placeholder(tf.as_dtype(a.dtype) if a.dtype != object else tf.string) for a in arrays]
        there = [tf.identity(f) for f in feeds]
    with ps():
        back = [tf.identity(t) for t in there]
    with tf.Session(tasks["worker", 0].target) as sess:
        for a, b in zip(arrays, sess.run(back, dict(zip(feeds, arrays, strict=True))), strict=True):
            assert a.shape == b.shape and np.array_equal(a, b)


def test_functions_run_where_they_are_called(cluster):
    tasks = cluster(ps=1, worker=1)

    @tf.function
    def f(x):
        return x * x + 1.0
    with worker():
        x = tf.placeholder(tf.float32, [])
    with ps():
        y = f(x)
    with worker():
        z = f(y)
    with tf.Session(tasks["worker", 0].target) as sess:
        assert sess.run(z, {x: 2.0}) == 26.0


def test_what_asks_for_a_task_that_is_not_there(cluster):
    tasks = cluster(ps=1, worker=1)
    with tf.device("/job:ps/task:7"):
        x = tf.constant(1.0, name="lonely")
    with tf.Session(tasks["worker", 0].target) as sess, pytest.raises(tf.errors.InvalidArgumentError, match="task:7"):
        sess.run(x)


def test_device_filters_leave_tasks_out(cluster):
    tasks = cluster(ps=1, worker=2)
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:0"])
    with tf.Session(tasks["worker", 0].target, config=config) as sess:
        assert sorted(d.name.split("/device")[0] for d in sess.list_devices()) == [
            "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"]


def test_traces_have_the_ops_of_all_tasks(cluster):
    tasks = cluster(ps=1, worker=1)
    with ps():
        x = tf.placeholder(tf.float32, [])
        y = tf.multiply(x, 2.0, name="there")
    with worker():
        z = tf.negative(y, name="here")
    metadata = tf.RunMetadata()
    with tf.Session(tasks["worker", 0].target) as sess:
        assert sess.run(z, {x: 3.0}, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata) == -6.0
    ran = {(d.device.split("/")[1], n.node_name) for d in metadata.step_stats.dev_stats for n in d.node_stats}
    assert {("job:ps", "there"), ("job:worker", "here")} <= ran


def test_a_step_in_pieces_crosses_tasks_and_runs_nothing_twice(cluster):
    tasks = cluster(ps=1, worker=1)
    with ps():
        v = tf.get_variable("v", initializer=10.0, use_resource=False)
        count = tf.get_variable("count", initializer=0.0)
        a = tf.placeholder(tf.float32, [], name="a")
        with tf.control_dependencies([count.assign_add(1.0)]):
            first = a * v
    with worker():
        b = tf.placeholder(tf.float32, [], name="b")
        second = first + b
        third = second * first
    with tf.Session(tasks["worker", 0].target) as sess:
        sess.run([v.initializer, count.initializer])
        handle = sess.partial_run_setup([first, second, third], [a, b])
        assert sess.partial_run(handle, first, {a: 2.0}) == 20.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="Must feed b"):
            sess.partial_run(handle, second)
        assert sess.partial_run(handle, second, {b: 1.0}) == 21.0
        assert sess.partial_run(handle, third) == 420.0
        assert sess.run(count) == 1.0


@pytest.mark.parametrize("how, error", [("", 0.0), ("bfloat16", 2 ** -8), ("float16", 2 ** -11), ("int8", 0.5 / 255)])
def test_tensors_may_cross_with_fewer_bits(cluster, monkeypatch, how, error):
    monkeypatch.setenv("PENSTOCK_WIRE_FORMAT", how)
    tasks = cluster(ps=1, worker=1)
    numbers = np.random.RandomState(0).rand(100, 10).astype(np.float32)
    with ps():
        x = tf.placeholder(tf.float32, [100, 10])
        there, count = tf.identity(x), tf.reduce_sum(x)
    with worker():
        back, whole = tf.identity(there), tf.identity(count)
    with tf.Session(tasks["worker", 0].target) as sess:
        for _ in range(4):
            got, total = sess.run([back, whole], {x: numbers})
            assert np.abs(got - numbers).max() <= error * 1.001
            assert (np.abs(got - numbers).max() > 0) == bool(how)
            np.testing.assert_allclose(total, numbers.sum(), rtol=1e-6, atol=1e-6)              # a scalar keeps its bits
        odd = numbers.copy()
        odd[3, 4] = np.nan
        assert np.isnan(sess.run(back, {x: odd})[3, 4])
    monkeypatch.setenv("PENSTOCK_WIRE_FORMAT", "")
    config = tf.ConfigProto(graph_options=tf.GraphOptions(enable_bfloat16_sendrecv=True))
    with tf.Session(tasks["worker", 0].target, config=config) as sess:
        assert 0 < np.abs(sess.run(back, {x: numbers}) - numbers).max() <= 2 ** -8


@pytest.mark.parametrize("text", ['{"cluster": {"worker": ["h:1"]}, "task": {"type": "worker", "index": 1e999}}', "[]", "7",
                                  '{"cluster": {"worker": {"1e9": "h:1"}}, "task": []}', '{"cluster": 3, "task": {}}',
                                  "[" * 100_000], ids=["infinite", "list", "number", "index", "type", "deep"])
def test_a_configuration_that_is_none(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(errors.InvalidArgumentError, match="cannot be read"):
        tf_config.from_environment()
