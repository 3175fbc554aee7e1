"""Embedding variables on parameter servers: keys are cut over the servers, workers train them together."""
import threading

import numpy as np
import pytest

import penstock as tf
from penstock.compat import v1

pytestmark = pytest.mark.distributed


@pytest.fixture
def cluster():
    workers, servers = v1.test.create_local_cluster(2, 2)
    yield workers, servers
    for server in (*workers, *servers):
        server.stop()


def _model(dtype, name):
    with v1.device(v1.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")):
        table = v1.get_embedding_variable(name, 4, key_dtype=dtype, partitioner=v1.fixed_size_partitioner(2),
                                          initializer=v1.constant_initializer(1.0))
        keys = v1.placeholder(dtype, [None])
        loss = tf.reduce_sum(v1.nn.embedding_lookup(table, keys))
        train = v1.train.GradientDescentOptimizer(1.0).minimize(loss, v1.train.get_or_create_global_step())
    return table, keys, train


@pytest.mark.parametrize("dtype", ["int64", "string"])
def test_workers_train_a_table_that_two_servers_hold(cluster, dtype):
    workers, _ = cluster
    name = f"shared_{dtype}"
    ids = np.array([f"k{i}" for i in range(10)], object) if dtype == "string" else np.arange(10)
    ready = threading.Event()
    failed = []

    def work(task):
        try:
            with v1.Graph().as_default(), v1.Session(workers[task].target) as sess:
                _, keys, train = _model(dtype, name)
                if task == 0:
                    sess.run(v1.global_variables_initializer())
                    ready.set()
                assert ready.wait(60)
                for _ in range(20):
                    sess.run(train, {keys: ids})
        except BaseException as e:      # noqa: BLE001
            failed.append(e)
            ready.set()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    with v1.Graph().as_default(), v1.Session(workers[0].target) as sess:
        table, keys, _ = _model(dtype, name)
        assert [p.device for p in table] == ["/job:ps/task:0", "/job:ps/task:1"]
        found_keys, values = sess.run(table.export())
        sizes = sess.run([p.size() for p in table])
    assert sorted(found_keys.tolist()) == sorted(k.encode() if dtype == "string" else k for k in ids)
    np.testing.assert_array_equal(values, np.full((10, 4), 1.0 - 40))
    assert sum(sizes) == 10 and (dtype == "string" or sizes == [5, 5])


def test_synchronous_training_sums_the_gradients_of_a_key(cluster):
    workers, _ = cluster
    with v1.Graph().as_default():
        table, keys, _ = _model("int64", "synchronous")
        rows = v1.nn.embedding_lookup(table, keys)
        optimizer = v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(1.0), replicas_to_aggregate=1)
        train = optimizer.minimize(tf.reduce_sum(rows), v1.train.get_global_step())
        hook = optimizer.make_session_run_hook(True, num_tokens=0)
        with v1.train.MonitoredTrainingSession(workers[0].target, hooks=[hook]) as sess:
            sess.run(train, {keys: [3, 3, 4]})
            sess.run(train, {keys: [3]})
            sess.run(train, {keys: [9]})       # its token comes after the update of the step before
            found = sess.run(rows, {keys: [3, 4]})
    np.testing.assert_array_equal(found[:, 0], [1.0 - 3, 1.0 - 1])
