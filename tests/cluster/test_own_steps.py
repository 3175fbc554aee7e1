"""The status of a task whose process trains by itself: functions, `fit`, sessions without a target."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.base import progress
from penstock._src.cluster import status

pytestmark = pytest.mark.distributed


def test_steps_that_the_process_of_a_task_runs_itself(cluster):
    server = cluster(worker=1)["worker", 0]
    with tf.Graph().as_default() as graph:
        doubled = tf.constant(2.0) * 2.0

    @tf.function
    def inner(x):
        return x + 1.0

    @tf.function
    def outer(x):
        return tf.py_function(inner, [x], tf.float32) * 2.0

    def own():
        return status.ask(server.target)["tasks"][0]
    before = own()
    inner(tf.constant(1.0))
    outer(tf.constant(1.0))                          # one step, although it calls another function
    with tf.compat.v1.Session(graph=graph) as sess:
        sess.run(doubled)
    after = own()
    assert after["steps"] == before["steps"] + 3 and after["spent"][0] > before["spent"][0]
    server.stop()
    counted = progress.process.account.steps
    inner(tf.constant(1.0))
    assert progress.process.reporters == 0 and progress.process.account.steps == counted


@pytest.mark.usefixtures("nothing_noted")
def test_the_losses_of_fit_reach_the_status(cluster):
    server = cluster(worker=1)["worker", 0]
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit(np.ones((4, 2), np.float32), np.ones((4, 1), np.float32), epochs=2, verbose=0)
    task, = status.ask(server.target)["tasks"]
    assert task["scalars"] == {"loss": [1, pytest.approx(history.history["loss"][1])]} and task["steps"] >= 2
