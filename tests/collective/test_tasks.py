"""Collective ops across tasks: each task runs its own graph, or one graph spans them."""
import concurrent.futures

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.collective.algorithms import ALGORITHMS
from penstock._src.ops.comm import collective
from tests.checks import eventually

pytestmark = pytest.mark.distributed


def own_graph(task, n, value, hint="auto", key=1, instance=1, kind="reduce", timeout=60.0):
    """A task's own graph, with one collective op."""
    with tf.Graph().as_default() as graph, tf.device(f"/job:worker/task:{task}/device:CPU:0"):
        x = tf.constant(value)
        if kind == "reduce":
            out = tf.raw_ops.CollectiveReduce(input=x, group_size=n, group_key=key, instance_key=instance, merge_op="Add",
                                              final_op="Id", subdiv_offsets=[0], communication_hint=hint,
                                              timeout_seconds=timeout)
        elif kind == "gather":
            out = collective.all_gather(x, n, key, instance)
        elif kind == "send":
            out = collective.broadcast_send(x, x.shape, x.dtype, n, key, instance)
        else:
            out = collective.broadcast_recv(x.shape, x.dtype, n, key, instance)
    return graph, out


def run_all(servers, made, steps=1):
    """Runs each task's graph on its server, all at once; results, or errors, by task."""
    def one(server, graph, out):
        try:
            with tf.Session(server.target, graph=graph) as sess:
                return [sess.run(out) for _ in range(steps)][-1]
        except tf.errors.OpError as e:
            return e
    with concurrent.futures.ThreadPoolExecutor(len(made)) as pool:
        return list(pool.map(one, servers, *zip(*made, strict=True)))


def workers(cluster, n):
    servers = cluster(worker=n)
    return [servers["worker", i] for i in range(n)]


@pytest.mark.parametrize("hint", ["auto", "gloo", *sorted(ALGORITHMS)])
def test_each_task_with_its_own_graph(cluster, hint):
    servers = workers(cluster, 3)
    values = [np.arange(1000, dtype=np.float32) * (i + 1) for i in range(3)]
    for result in run_all(servers, [own_graph(i, 3, values[i], hint) for i in range(3)], steps=3):
        np.testing.assert_array_equal(result, np.sum(values, axis=0))


def test_gather_and_broadcast(cluster):
    servers = workers(cluster, 3)
    results = run_all(servers, [own_graph(i, 3, [[i, i + 1]], kind="gather") for i in range(3)])
    assert all(np.array_equal(r, [[0, 1], [1, 2], [2, 3]]) for r in results)
    kinds = ["recv", "send", "recv"]
    results = run_all(servers, [own_graph(i, 3, [i, 7], kind=kinds[i], instance=2) for i in range(3)], steps=2)
    assert all(np.array_equal(r, [1, 7]) for r in results)


def test_one_graph_over_all_tasks(cluster):
    servers = workers(cluster, 2)
    with tf.Graph().as_default() as graph:
        out = []
        for i in range(2):
            with tf.device(f"/job:worker/task:{i}/device:CPU:0"):
                x = tf.constant([1.0 + i, 10.0])
                out += [collective.all_reduce(x * float(k), 2, 1, k, "Add", "Div") for k in (1, 2)]
    with tf.Session(servers[0].target, graph=graph) as sess:
        for _ in range(3):
            results = sess.run(out)
    np.testing.assert_array_equal(results, [[1.5, 10.0], [3.0, 20.0]] * 2)


@pytest.mark.parametrize("hint", ["auto", "ring"])
def test_different_shapes_on_different_workers(cluster, hint):
    servers = workers(cluster, 3)
    values = [np.zeros(n, np.float32) for n in (4, 4, 5000)]
    for error in run_all(servers, [own_graph(i, 3, values[i], hint) for i in range(3)]):
        assert isinstance(error, tf.errors.InvalidArgumentError)
        for word in ("Shape mismatch", "CollectiveReduce", "[4]", "[5000]", "task:2"):
            assert word in error.message
    good = [np.ones(4, np.float32)] * 3
    for result in run_all(servers, [own_graph(i, 3, good[i], hint) for i in range(3)]):
        np.testing.assert_array_equal(result, [3.0] * 4)


def test_a_worker_that_does_not_enter_is_named(cluster):
    servers = workers(cluster, 2)
    made = [own_graph(i, 2, [1.0, 2.0], "ring", timeout=1.0) for i in range(2)]
    first = run_all(servers[:1], made[:1])[0]
    assert isinstance(first, tf.errors.DeadlineExceededError)
    assert "group 1 needs 2 members" in first.message and "task:0" in first.message
    made = [own_graph(i, 2, [1.0, 2.0], "ring", timeout=60) for i in range(2)]
    for result in run_all(servers, made):
        np.testing.assert_array_equal(result, [2.0, 4.0])
    late = own_graph(0, 2, [1.0, 2.0], "ring", timeout=1.0)
    error = run_all(servers[:1], [late])[0]
    assert isinstance(error, tf.errors.DeadlineExceededError)
    assert "task:1/device:CPU:0 did not enter it" in error.message


def test_a_step_that_is_cancelled_ends_for_the_others(cluster):
    servers = workers(cluster, 2)
    run_all(servers, [own_graph(i, 2, [1.0]) for i in range(2)])            # the group is there
    graph, out = own_graph(0, 2, [1.0])
    with tf.Session(servers[0].target, graph=graph) as sess:
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(out, options=tf.RunOptions(timeout_in_ms=500))
    error = run_all(servers[1:], [own_graph(1, 2, [1.0])])[0]
    assert isinstance(error, tf.errors.OpError) and "task:0/device:CPU:0, with" in error.message      # the other's error


def test_a_server_that_stops_ends_what_waits_for_it_and_one_that_comes_back_is_a_member_again(cluster):
    servers = workers(cluster, 2)
    made = [own_graph(i, 2, [1.0, 2.0], "ring") for i in range(2)]
    run_all(servers, made)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run_all, servers[:1], made[:1])
        assert eventually(lambda: any(s.running_steps() for s, *_ in list(servers[0]._sessions.values())))
        servers[1].stop()
        error = waiting.result(30)[0]
    assert isinstance(error, tf.errors.OpError)
    assert "task:1" in error.message
    spec = servers[0].server_def
    spec.task_index = 1
    again = tf.train.Server(spec)
    try:
        for result in run_all([servers[0], again], made):
            np.testing.assert_array_equal(result, [2.0, 4.0])
    finally:
        again.stop()
