"""Training over parameter servers: shards, lookups and sparse updates where the shard is, between-graph workers."""
import json
import subprocess
import sys

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.graph import context
from tests.cluster.conftest import Processes, addresses

pytestmark = pytest.mark.distributed


@pytest.fixture(autouse=True)
def graph():
    context.process.v2_control_flow = False
    with tf.Graph().as_default() as g:
        yield g


def spec_of(tasks):
    return tf.train.ClusterSpec(next(iter(tasks.values())).server_def.cluster)


def setter(tasks, task=0):
    return tf.device(tf.train.replica_device_setter(cluster=spec_of(tasks), worker_device=f"/job:worker/task:{task}"))


def device_of(op, sess):
    """The task that an op runs on."""
    metadata = tf.RunMetadata()
    sess.run(op, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    return {n.node_name: d.device.split("/device")[0] for d in metadata.step_stats.dev_stats for n in d.node_stats}


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("optimizer", [lambda: tf.train.GradientDescentOptimizer(0.5), lambda: tf.train.AdagradOptimizer(0.5),
                                       lambda: tf.train.AdamOptimizer(0.1)], ids=["sgd", "adagrad", "adam"])
def test_shards_on_two_tasks_train_as_one_table_does(cluster, resource, optimizer):
    tasks = cluster(ps=2, worker=1)
    table = np.random.RandomState(0).rand(10, 4).astype(np.float32)
    ids = np.array([[1, 7], [7, 2]])

    def rows(shape, dtype=None, partition_info=None):
        first = partition_info.var_offset[0] if partition_info is not None else 0
        return tf.constant(table[first:first + shape[0]])

    def model(sharded):
        with tf.variable_scope("sharded" if sharded else "whole"):
            v = tf.get_variable("table", [10, 4], initializer=rows, use_resource=resource,
                                partitioner=tf.fixed_size_partitioner(2) if sharded else None)
            x = tf.placeholder(tf.int64, [None, None])
            loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(v, x, partition_strategy="div") - 1.0))
            return v, x, loss, optimizer().minimize(loss)
    with setter(tasks):
        v, x, loss, train = model(True)
    shards = list(v)
    assert [s.device for s in shards] == ["/job:ps/task:0", "/job:ps/task:1"]
    with tf.Session(tasks["worker", 0].target) as sess:
        sess.run(tf.global_variables_initializer())
        got = [sess.run([loss, train], {x: ids})[0] for _ in range(5)]
        final = sess.run(v.as_tensor())
        where = device_of(loss, _Fed(sess, {x: ids}))
    for i in (0, 1):                                                        # the rows are gathered at the shard
        assert any("Gather" in name and task == f"/job:ps/replica:0/task:{i}" for name, task in where.items()), where
    with tf.Graph().as_default():
        v, x, loss, train = model(False)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            want = [sess.run([loss, train], {x: ids})[0] for _ in range(5)]
            np.testing.assert_allclose(got, want, rtol=1e-5)
            np.testing.assert_allclose(final, sess.run(v), rtol=1e-5)


class _Fed:
    """A session that always feeds the same."""

    def __init__(self, sess, feed):
        self._sess, self._feed = sess, feed

    def run(self, fetches, **kwargs):
        return self._sess.run(fetches, self._feed, **kwargs)


def test_a_sparse_update_moves_only_its_rows(cluster):
    """The rows of a step cross, and never the table."""
    tasks = cluster(ps=1, worker=1)
    with setter(tasks):
        v = tf.get_variable("table", [50_000, 8], initializer=tf.zeros_initializer())
        x = tf.placeholder(tf.int64, [4])
        loss = tf.reduce_sum(tf.nn.embedding_lookup(v, x))
        train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    worker = tasks["worker", 0]
    with tf.Session(worker.target) as sess:
        sess.run(v.initializer)
        sess.run(train, {x: [1, 2, 3, 4]})
        sent = [link.sent + link.received for link in worker._peers.links()]
        for _ in range(10):
            sess.run(train, {x: [1, 2, 3, 4]})
        moved = sum(link.sent + link.received for link in worker._peers.links()) - sum(sent)
        assert moved < 10 * 5000
        np.testing.assert_array_equal(sess.run(v[:6])[:, 0], [0, -11, -11, -11, -11, 0])


def test_sampled_softmax_over_shards(cluster):
    tasks = cluster(ps=2, worker=1)
    with setter(tasks):
        weights = tf.get_variable("w", [100, 8], partitioner=tf.fixed_size_partitioner(2))
        biases = tf.get_variable("b", [100], partitioner=tf.fixed_size_partitioner(2), initializer=tf.zeros_initializer())
        x = tf.placeholder(tf.float32, [None, 8])
        y = tf.placeholder(tf.int64, [None, 1])
        loss = tf.reduce_mean(tf.nn.sampled_softmax_loss(list(weights), list(biases), y, x, 20, 100, partition_strategy="div"))
        train = tf.train.AdagradOptimizer(0.5).minimize(loss)
    r = np.random.RandomState(0)
    points, labels = r.randn(16, 8).astype(np.float32), r.randint(0, 100, [16, 1])
    with tf.Session(tasks["worker", 0].target) as sess:
        sess.run(tf.global_variables_initializer())
        losses = [sess.run([loss, train], {x: points, y: labels})[0] for _ in range(60)]
    assert np.mean(losses[-10:]) < 0.3 * np.mean(losses[:10])


def test_layers_on_two_jobs(cluster):
    """The program of the lectures: parameters on one job, layers on another."""
    tasks = cluster(ps=1, worker=2)
    with tf.device("/job:ps/task:0/cpu:0"):
        w1 = tf.Variable(tf.truncated_normal([4, 8], stddev=0.5, seed=1))
        w2 = tf.Variable(tf.truncated_normal([8, 1], stddev=0.5, seed=2))
    with tf.device("/job:worker/task:0/cpu:0"):
        x = tf.placeholder(tf.float32, [None, 4])
        h = tf.nn.tanh(tf.matmul(x, w1))
    with tf.device("/job:worker/task:1/cpu:0"):
        y = tf.placeholder(tf.float32, [None, 1])
        loss = tf.reduce_mean(tf.square(tf.matmul(h, w2) - y))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    r = np.random.RandomState(0)
    points = r.randn(32, 4).astype(np.float32)
    feed = {x: points, y: points.sum(1, keepdims=True)}
    with tf.Session(tasks["worker", 1].target) as sess:
        sess.run(tf.global_variables_initializer())
        losses = [sess.run([loss, train], feed)[0] for _ in range(50)]
    assert losses[-1] < 0.2 * losses[0]


WORKER = """
import sys, json
import numpy as np
import penstock.compat.v1 as tf
tf.disable_v2_behavior()
spec, task = tf.train.ClusterSpec(json.loads(sys.argv[1])), int(sys.argv[2])
server = tf.train.Server(spec, "worker", task)
with tf.device(tf.train.replica_device_setter(cluster=spec, worker_device="/job:worker/task:%d" % task)):
    w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
    steps = tf.train.get_or_create_global_step()
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=steps)
config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % task])
r = np.random.RandomState(task)
with tf.train.MonitoredTrainingSession(server.target, is_chief=task == 0, config=config, hooks=[
        tf.train.StopAtStepHook(last_step=120)]) as sess:
    while not sess.should_stop():
        points = r.randn(20, 3).astype("float32")
        value = sess.run([train, loss], {x: points, y: points @ np.array([[1.0], [2.0], [3.0]], "float32")})[1]
print(value)
"""


@pytest.mark.slow
def test_between_graph_workers_train_together():
    tasks = Processes(addresses(ps=2, worker=2))
    try:
        tasks.start(("ps", 0), ("ps", 1))
        workers = [subprocess.Popen([sys.executable, "-c", WORKER, json.dumps(tasks.spec), str(i)], env=tasks.env,
                                    stdout=subprocess.PIPE, text=True) for i in range(2)]
        for i, w in enumerate(workers):
            tasks.running["worker", i] = w
        for w in workers:
            assert w.wait(160) == 0
            assert float(w.stdout.read()) < 0.01
    finally:
        tasks.end()


def test_a_local_cluster():
    workers, ps = tf.test.create_local_cluster(num_workers=2, num_ps=1)
    try:
        with tf.device("/job:ps/task:0"):
            v = tf.get_variable("v", initializer=3.0)
        with tf.device("/job:worker/task:1"):
            y = v * 2.0
        with tf.Session(workers[0].target) as sess:
            sess.run(v.initializer)
            assert sess.run(y) == 6.0
    finally:
        for server in (*workers, *ps):
            server.stop()


def test_constants_are_not_sent(cluster):
    tasks = cluster(ps=1, worker=1)
    with setter(tasks):
        v = tf.get_variable("v", [4], initializer=tf.ones_initializer())
        train = tf.train.AdamOptimizer(0.5).minimize(tf.reduce_sum(tf.square(v)))
        lonely = tf.constant(7.0)
    metadata = tf.RunMetadata()
    with tf.Session(tasks["worker", 0].target) as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
        sends = [n.timeline_label for d in metadata.step_stats.dev_stats for n in d.node_stats if "Send(" in n.timeline_label]
        assert len(sends) <= 3, sends                                       # the variable, its gradient, and that all is done
        np.testing.assert_allclose(sess.run(v), [0.5] * 4, rtol=1e-5)
        assert sess.run([lonely, v.op])[0] == 7.0
