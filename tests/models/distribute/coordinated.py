"""Clusters with a coordinator: servers in this process, a strategy and a ClusterCoordinator over them."""
import threading

import pytest

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.models.distribute import connect
from tests.checks import eventually
from tests.cluster.conftest import addresses


class Cluster:
    """Servers in this process, and a strategy and a coordinator over them."""

    def __init__(self, ps=2, worker=2, partitioner=None):
        self.spec = addresses(ps=ps, worker=worker)
        self.servers = {}
        for job, tasks in self.spec.items():
            for i in range(len(tasks)):
                self.start(job, i)
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(self.spec), rpc_layer="grpc")
        self.strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)

    def variable(self, *args, **kwargs):
        with self.strategy.scope():
            return tf.Variable(*args, **kwargs)

    def stop(self, job, i):
        self.servers.pop((job, i)).stop()

    def start(self, job, i):
        self.servers[job, i] = v1.train.Server(self.spec, job, i)

    def end(self):
        connect.close()
        for server in self.servers.values():
            server.stop()


@pytest.fixture
def made():
    """`made(ps=2, worker=2)`: a Cluster; nothing of it is left after the test."""
    before, clusters = threading.active_count(), []

    def make(**kwargs):
        clusters.append(Cluster(**kwargs))
        return clusters[-1]
    yield make
    for c in clusters:
        c.end()
    assert eventually(lambda: threading.active_count() <= before), threading.enumerate()
