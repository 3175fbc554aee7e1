"""A worker that the cluster was started without: it brings its own cluster, and trains the same variables."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.base import switches
from tests.cluster.conftest import addresses

pytestmark = pytest.mark.distributed


def update(task):
    """A variable on the parameter server, and an update computed by a worker."""
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=False)
        with tf.device(f"/job:worker/task:{task}"):
            new = v.assign_add(tf.constant([10.0, 20.0]) * (task + 1))
        return graph, v, new


def filters(task):
    return tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{task}"], operation_timeout_in_ms=60_000)


def test_a_worker_joins_with_a_cluster_that_the_others_do_not_have(cluster, monkeypatch):
    servers = cluster(ps=1, worker=1)
    known = {job: [servers[job, 0].target.removeprefix("grpc://")] for job in ("ps", "worker")}
    new = addresses(worker=2)["worker"]
    later = {"ps": known["ps"], "worker": [*known["worker"], *new]}
    graph, v, up = update(0)
    with tf.Session(servers["worker", 0].target, graph=graph, config=filters(0)) as first:
        first.run(v.initializer)
        monkeypatch.setenv(switches.JOINS.name, "1")
        joined = [tf.train.Server(later, "worker", i) for i in (1, 2)]
        try:
            for i, server in zip((1, 2), joined, strict=True):
                graph, _, theirs = update(i)
                with tf.Session(server.target, graph=graph, config=filters(i)) as sess:
                    sess.run(theirs)
        finally:
            for server in joined:
                server.stop()
        np.testing.assert_array_equal(first.run(up), [1 + 20 + 30 + 10, 2 + 40 + 60 + 20])


def test_without_the_switch_an_unknown_worker_is_refused(cluster):
    servers = cluster(ps=1, worker=1)
    known = {job: [servers[job, 0].target.removeprefix("grpc://")] for job in ("ps", "worker")}
    server = tf.train.Server({"ps": known["ps"], "worker": known["worker"] + addresses(worker=1)["worker"]}, "worker", 1)
    graph, v, _ = update(1)
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not in the cluster of /job:ps"), \
                tf.Session(server.target, graph=graph, config=filters(1)) as sess:
            sess.run(v.initializer)
    finally:
        server.stop()
