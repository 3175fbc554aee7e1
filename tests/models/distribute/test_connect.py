"""Eager ops on other tasks."""
import gc

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.models.distribute import connect
from tests.checks import eventually

pytestmark = pytest.mark.distributed


@pytest.fixture
def servers():
    made = [v1.train.Server.create_local_server() for _ in range(2)]
    tf.config.experimental_connect_to_host([s.target for s in made])
    yield made
    connect.close()
    for server in made:
        server.stop()


def on(i):
    return tf.device(f"/job:worker/task:{i}")


def test_ops_run_where_they_are_told_to(servers):
    before = [s._worker.account.steps + sum(v.worker.account.steps for v in s._views.all()[1:]) for s in servers]
    with on(1):
        x = tf.ones([2, 2])
        y = tf.zeros([2, 2])
        for _ in range(20):
            y = x + y
        parts = tf.split(tf.constant([1.0, 2.0, 3.0]), [1, 2])
        text = tf.strings.join(["a", "b"])
    after = [s._worker.account.steps + sum(v.worker.account.steps for v in s._views.all()[1:]) for s in servers]
    assert y.device == "/job:worker/replica:0/task:1/device:CPU:0" and after[1] - before[1] >= 20 and after[0] == before[0]
    np.testing.assert_array_equal(y.numpy(), np.full((2, 2), 20.0))
    assert [p.numpy().tolist() for p in parts] == [[1.0], [2.0, 3.0]] and text.numpy() == b"ab"
    assert (y + 1.0).numpy().sum() == 84.0 and (y + 1.0).device.endswith("/job:localhost/replica:0/task:0/device:CPU:0")


def test_variables_stay_on_their_task_and_go_with_their_handle(servers):
    def resources():
        return len(servers[0]._resources.items())
    with on(0):
        v = tf.Variable([1.0, 2.0])
    assert resources() == 1 and "task:0" in v.device
    v.assign_add([1.0, 1.0])
    with on(1):
        assert v.numpy().tolist() == [2.0, 3.0]               # where the variable is
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(v * v)
    assert tape.gradient(loss, v).numpy().tolist() == [4.0, 6.0]
    tf.keras.optimizers.SGD(0.5).apply_gradients([(tf.constant([2.0, 2.0]), v)])
    assert v.numpy().tolist() == [1.0, 2.0]
    del v, tape, loss
    gc.collect()

    def forgotten():
        with on(0):
            tf.ones([1]) + 1.0
        return resources() == 0
    assert eventually(forgotten)


def test_functions_run_as_a_whole(servers):
    with on(1):
        v = tf.Variable(3.0)

    @tf.function
    def step(x):
        v.assign_add(x)
        return v * 2.0
    assert step(tf.constant(1.0)).numpy() == 8.0 and step(tf.constant(1.0)).numpy() == 10.0


def test_errors(servers):
    with on(5), pytest.raises(tf.errors.InvalidArgumentError, match="There is no device"):
        tf.ones([1]) + 1.0
    with on(1), pytest.raises(tf.errors.InvalidArgumentError):
        tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))
    with pytest.raises(ValueError, match="at least one"):
        tf.config.experimental_connect_to_host(None)
    connect.close()
    with on(1), pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        tf.ones([1]) + 1.0
