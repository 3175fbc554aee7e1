"""Joined ops of a part do not wait for what another part sends only after one of them."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

pytestmark = pytest.mark.distributed
LIMIT = tf.RunOptions(timeout_in_ms=60_000)


@pytest.fixture
def target():
    """The address of a worker beside a parameter server."""
    workers, servers = tf.test.create_local_cluster(num_workers=1, num_ps=1)
    yield workers[0].target
    for server in (*workers, *servers):
        server.stop()


def test_updates_that_wait_for_each_other_through_another_task(target):
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            variables = [tf.get_variable(f"v{i}", initializer=np.ones(4, np.float32), use_resource=True) for i in range(2)]
            fed = tf.placeholder(tf.float32, [4])
        optimizer = tf.train.MomentumOptimizer(0.5, 0.9)
        first = optimizer.apply_gradients([(fed, variables[0])])
        with tf.control_dependencies([first]), tf.device("/job:worker/task:0"):
            gradient = tf.reverse(fed, [0])
        second = optimizer.apply_gradients([(gradient, variables[1])])
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            session.run([first, second], {fed: [0, 1, 2, 3]}, options=LIMIT)
            np.testing.assert_allclose(session.run(variables), [[1, 0.5, 0, -0.5], [-0.5, 0, 0.5, 1]], rtol=1e-6)


def test_elementwise_ops_around_a_round_trip(target):
    """`late` needs what the other task computes from `early`, and both are added up."""
    with tf.Graph().as_default():
        with tf.device("/job:worker/task:0"):
            x = tf.placeholder(tf.float32, [128, 256])
            early = x * 2 + 1
        with tf.device("/job:ps/task:0"):
            away = tf.reverse(early, [0])
        with tf.device("/job:worker/task:0"):
            late = away * 3 - 1
            total = tf.reduce_sum(early + late)
        value = np.linspace(0, 1, 128 * 256, dtype=np.float32).reshape(128, 256)
        with tf.Session(target) as session:
            for _ in range(3):
                found = session.run(total, {x: value}, options=LIMIT)
        wanted = (value * 2 + 1).astype(np.float64)
        np.testing.assert_allclose(found, np.sum(wanted + (wanted[::-1] * 3 - 1)), rtol=1e-5, atol=1e-6)


def test_small_ops_around_a_round_trip(target):
    """The same with arrays so small that all ops of a part would be one region."""
    with tf.Graph().as_default():
        with tf.device("/job:worker/task:0"):
            x = tf.placeholder(tf.float32, [4, 4])
            early = tf.matmul(x, x) * 2 + 1
            for _ in range(4):
                early = tf.tanh(tf.matmul(early, x))
        with tf.device("/job:ps/task:0"):
            away = tf.reverse(early, [0])
        with tf.device("/job:worker/task:0"):
            late = away * 3 - 1
            for _ in range(4):
                late = tf.tanh(tf.matmul(late, x))
            total = tf.reduce_sum(tf.matmul(early, late))
        value = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
        with tf.Session(target) as session:
            for _ in range(3):
                found = session.run(total, {x: value}, options=LIMIT)
        first = value @ value * 2 + 1
        for _ in range(4):
            first = np.tanh(first @ value)
        second = first[::-1] * 3 - 1
        for _ in range(4):
            second = np.tanh(second @ value)
        np.testing.assert_allclose(found, np.sum(first @ second), rtol=1e-4)
