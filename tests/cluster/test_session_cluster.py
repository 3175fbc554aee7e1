"""ConfigProto.cluster_def: a session defines the cluster, and independent servers serve under its names."""
import pytest

import penstock.compat.v1 as tf
from penstock._src.cluster import view
from tests.checks import eventually

pytestmark = pytest.mark.distributed


@pytest.fixture
def servers():
    made = [tf.train.Server.create_local_server() for _ in range(3)]
    with tf.Graph().as_default():
        yield made
    for server in made:
        server.stop()


def config(servers, job="worker", share=False):
    made = tf.ConfigProto()
    added = made.cluster_def.job.add(name=job)
    for i, server in enumerate(servers):
        added.tasks[i] = server.target.removeprefix("grpc://")
    made.experimental.share_session_state_in_clusterspec_propagation = share
    return made


def on(job, i):
    return tf.device(f"/job:{job}/task:{i}")


def test_a_step_crosses_servers_under_the_names_of_the_session(servers):
    with on("party", 0):
        a = tf.constant(2.0) * 3.0
    with on("party", 2):
        b = tf.reduce_sum(a + [1.0, 2.0], name="b")
    with on("party", 1):
        c = b * 2.0
    for master in (0, 2):                                  # the same servers, in another order
        order = servers[master:] + servers[:master]
        with tf.Session(order[0].target, config=config(order, "party")) as sess:
            assert {d.name for d in sess.list_devices()} == {f"/job:party/replica:0/task:{i}/device:CPU:0" for i in range(3)}
            for _ in range(3):
                assert sess.run(c) == 30.0
    with tf.Session(servers[0].target) as sess:            # the server's own cluster is what it was
        assert [d.name for d in sess.list_devices()] == ["/job:localhost/replica:0/task:0/device:CPU:0"]


def test_state_is_a_sessions_own_unless_it_is_shared(servers):
    with on("worker", 1):
        v = tf.get_variable("v", initializer=1.0, use_resource=False)
    up = v.assign_add(1.0)
    for share, seen in ((False, None), (True, 2.0)):
        with tf.Session(servers[0].target, config=config(servers, share=share)) as one, \
                tf.Session(servers[0].target, config=config(servers, share=share)) as two:
            one.run(v.initializer)
            one.run(up)
            if seen is None:
                with pytest.raises(tf.errors.FailedPreconditionError):
                    two.run(v)
            else:
                assert two.run(v) == seen


def test_a_cluster_that_nobody_uses_is_given_up(servers, monkeypatch):
    monkeypatch.setattr(view, "_IDLE", 2.0)
    for i in range(3):
        with tf.Graph().as_default(), on(f"worker{i}", 1):
            x = tf.constant(1.0) + float(i)
        with tf.Session(servers[0].target, graph=x.graph, config=config(servers[:2], f"worker{i}")) as sess:
            assert sess.run(x) == 1.0 + i and len(servers[1]._views.all()) > 1
    assert eventually(lambda: all(len(s._views.all()) == 1 for s in servers))


def test_a_cluster_without_its_master_is_refused(servers):
    with pytest.raises(tf.errors.InvalidArgumentError, match="which is its master"):
        tf.Session(servers[0].target, graph=tf.Graph(), config=config(servers[1:]))
